"""`thurbo evaluate DATA`: fit a model anew for each part of the answers, which are hidden before fitting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from thurbo.cli.learn import _schema
from thurbo.cli.lists import LongNames
from thurbo.errors import ThurboError


def read(data: Path, schema: Path | None, missing: str | None, names: LongNames) -> tuple[Any, Any]:
    """The table and its schema; a model file in its place is an error."""
    if data.suffix.lower() == ".thurbo":
        raise ThurboError(f'"{data}" is a model; give a table too: thurbo evaluate {data} DATA')
    return _schema(data, schema, names, missing)


def evaluate(frame: Any, schema: Any, seed: int, quiet: bool, chosen: dict[str, Any]) -> Any:
    """The result of `tb.evaluate` with every setting of the model left alone."""
    import thurbo

    if chosen["hide"] is not None and chosen["folds"] is not None:
        raise ThurboError("--folds and --hide cannot be combined; give one of them")
    if chosen["hide"] is None and chosen["repeats"] != 1:
        raise ThurboError("--repeats needs --hide; give for example --hide 0.1 --repeats 3")
    settings = {name: value for name, value in chosen.items() if value is not None}
    return thurbo.evaluate(
        thurbo.TBM(schema, random_state=seed), frame, random_state=seed, verbose=not quiet, **settings
    )
