"""What is asked of a frozen model: each query as plain lists, by name, so that a change shows by name.

Only the public interface is used: whatever moves inside, these calls and their answers stay.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import thurbo as tb

FOLDER = Path(__file__).parent
DIGITS = 10  # of a number in a file
STATISTICS = ("auto", "mode", "median", "mean")


@dataclass(frozen=True)
class Case:
    """The rows that a model is asked about, and what else its queries need."""

    rows: dict[str, list[Any]]
    given: dict[str, Any] = field(default_factory=dict)  # one condition; other columns are asked about
    items: dict[str, list[Any]] = field(default_factory=dict)  # of lists and tasks: the items to ask about
    added: dict[str, list[Any]] = field(default_factory=dict)  # of lists: the items to impute
    pairs: dict[str, list[Any]] = field(default_factory=dict)  # of columns with items: two to compare
    profiles: dict[str, Any] = field(default_factory=dict)  # of items with attributes

    def items_of(self, name: str) -> list[Any] | None:
        return self.items.get(name)


def plain(value: Any) -> Any:
    """Arrays, tables and NumPy numbers as what JSON can hold; floats with `DIGITS` digits."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(each) for each in (value.tolist() if isinstance(value, np.ndarray) else value)]
    if isinstance(value, np.generic):
        value = value.item()
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


PerColumn = Callable[[tb.TBM, Case, str], Any]
Whole = Callable[[tb.TBM, Case], Any]


def _predict(statistic: Any) -> PerColumn:
    def ask(model: tb.TBM, case: Case, name: str) -> Any:
        return model.predict(case.rows, [name], statistic, items=case.items_of(name))

    return ask


def _impute(statistic: Any) -> Whole:
    return lambda model, case: model.impute(case.rows, statistic, items=case.added or None)


def _other(case: Case, name: str) -> str:
    if name in case.given or not case.given:
        raise tb.ThurboError("the condition is about this column")
    return name


# What a cell is predicted to be: one answer for each column that has it.
OF_COLUMNS: dict[str, PerColumn] = {
    "predict_proba": lambda model, case, name: model.predict_proba(case.rows, name, items=case.items_of(name)),
    "predict_proba, given": lambda model, case, name: model.predict_proba(
        case.rows, _other(case, name), given=case.given, items=case.items_of(name)
    ),
    **{f"predict, {each}": _predict(each) for each in STATISTICS},
    "predict_interval": lambda model, case, name: model.predict_interval(case.rows, name, items=case.items_of(name)),
    "predict_interval, given": lambda model, case, name: model.predict_interval(
        case.rows, _other(case, name), 0.5, case.given, items=case.items_of(name)
    ),
}
# The same, of all columns together.
OF_CELLS: dict[str, Whole] = {
    "predict": lambda model, case: model.predict(case.rows),
    "predict, given": lambda model, case: model.predict(
        case.rows,
        [name for name in model.schema_.modelled if name not in case.given],
        "auto",
        given=case.given,
        items=case.items or None,
    ),
    **{f"impute, {each}": _impute(each) for each in STATISTICS},
    "impute, flags": lambda model, case: model.impute(case.rows, flag=True, items=case.added or None),
}
# Queries about items, one answer for each column of items.
OF_ITEMS: dict[str, PerColumn] = {
    "rank": lambda model, case, name: model.rank(case.rows, 3, column=name, exclude_seen=False),
    "rank, unseen": lambda model, case, name: model.rank(case.rows, 3, column=name),
    "prefers": lambda model, case, name: model.prefers(case.rows, *case.pairs[name], column=name),
    "similar_items": lambda model, case, name: model.similar_items(case.pairs[name][0], 3, name, min_ratings=1),
}
# Queries about rows and about the model.
OF_ROWS: dict[str, Whole] = {
    "transform": lambda model, case: model.transform(case.rows),
    "transform, log-odds": lambda model, case: model.transform(case.rows, "log_odds"),
    "score_samples": lambda model, case: model.score_samples(case.rows),
    "log_partition": lambda model, _: model.log_partition()[0],
    "part_worths": lambda model, case: model.part_worths(case.rows),
    "simulate_market": lambda model, case: model.simulate_market(case.profiles, case.rows),
    "simulate_market, nobody": lambda model, case: model.simulate_market(case.profiles),
    "dependence": lambda model, case: model.dependence(case.rows).share,
    "segments": lambda model, case: model.segments(case.rows, n=3, random_state=0).labels,
}
HELD = (*OF_COLUMNS, *OF_CELLS)  # what a cell is predicted to be
OTHERS = (*OF_ITEMS, *OF_ROWS)


def _columns(query: str, model: tb.TBM, case: Case) -> list[str]:
    return list(case.pairs) if query in OF_ITEMS else list(model.schema_.modelled)


def ask(query: str, model: tb.TBM, case: Case, columns: list[str] | None = None) -> Any:
    """The answer in plain form; with `columns`, those of the columns that are named."""
    if query in OF_CELLS or query in OF_ROWS:
        return plain((OF_CELLS | OF_ROWS)[query](model, case))
    own = (OF_COLUMNS | OF_ITEMS)[query]
    return {name: plain(own(model, case, name)) for name in columns or []}


def ask_what_there_is(query: str, model: tb.TBM, case: Case) -> Any:
    """The same of a model that is frozen now; None if the model refuses, and without columns that it refuses."""
    if query in OF_CELLS or query in OF_ROWS:
        needs_profiles = query in ("part_worths", "simulate_market", "simulate_market, nobody")
        if needs_profiles and not case.profiles:
            return None
        try:
            return ask(query, model, case)
        except tb.ThurboError:
            return None
    found = {}
    for name in _columns(query, model, case):
        with suppress(tb.ThurboError):
            found |= ask(query, model, case, [name])
    return found or None


def differences(frozen: Any, now: Any, tolerance: float, path: str = "") -> Iterator[tuple[float, str]]:
    """Where two answers differ: by how much, relative to numbers above 1, and a line that says where."""
    both_numbers = all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in (frozen, now))
    if isinstance(frozen, dict) and isinstance(now, dict) and frozen.keys() == now.keys():
        for key, value in frozen.items():
            yield from differences(value, now[key], tolerance, f"{path}[{key!r}]")
    elif isinstance(frozen, list) and isinstance(now, list) and len(frozen) == len(now):
        for place, value in enumerate(frozen):
            yield from differences(value, now[place], tolerance, f"{path}[{place}]")
    elif both_numbers:
        if math.isnan(frozen) or math.isnan(now) or math.isinf(frozen) or math.isinf(now):
            gap = 0.0 if frozen == now or (math.isnan(frozen) and math.isnan(now)) else math.inf
        else:
            gap = abs(now - frozen) / max(1.0, abs(frozen))
        if gap > tolerance:
            yield gap, f"{path}: {frozen!r} was frozen, {now!r} now"
    elif frozen != now or isinstance(frozen, bool) != isinstance(now, bool):
        yield math.inf, f"{path}: {frozen!r} was frozen, {now!r} now"


def model_file(name: str) -> Path:
    return FOLDER / f"{name}.thurbo"


def answers_file(name: str) -> Path:
    return FOLDER / f"{name}.json"


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def write(name: str, case: Case, outputs: dict[str, Any]) -> None:
    """One line for each query."""
    every = {"case": plain(asdict(case))} | outputs
    lines = [f"{json.dumps(query)}: {json.dumps(answer)}" for query, answer in every.items()]
    answers_file(name).write_text("{\n" + ",\n".join(lines) + "\n}\n")


def read(name: str) -> tuple[Case, dict[str, Any]]:
    """The case of a model, and its frozen answers by query."""
    outputs = json.loads(answers_file(name).read_text())
    return Case(**outputs.pop("case")), outputs


def load(name: str) -> tb.TBM:
    return tb.TBM.load(model_file(name))
