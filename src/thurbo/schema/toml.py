"""Schema files: TOML that people can read, edit and load again.

Idea: the standard library reads TOML but does not write it; a schema needs only a few of its value types.
Guarantees that every schema that is written can be read again without loss.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import Any

from thurbo.columns.cells import suggestion
from thurbo.errors import SchemaError
from thurbo.io.files import write_atomically
from thurbo.io.in_toml import in_toml


def write_toml(state: Mapping[str, Any], path: str | PathLike[str]) -> None:
    """Write the dictionary of a schema, one TOML table per column."""
    lines = ["# thurbo schema: one table per column, in order"]
    if "skips" in state and not state["skips"]:
        lines += ["skips = []  # no question depends on the answer to another one"]
    for skip in state.get("skips", ()):
        lines += ["", "[[skips]]", *(f"{key} = {_value(value)}" for key, value in skip.items())]
    for name, entry in state["columns"].items():
        lines += ["", f"[columns.{_value(name)}]"]
        lines += [f"{key} = {_value(in_toml(value) if key == 'why' else value)}" for key, value in entry.items()]
    # Without columns the empty table is needed, so that the file can be read as a schema.
    write_atomically(path, "\n".join(lines if state["columns"] else [*lines, "[columns]"]) + "\n")


def read_toml(path: str | PathLike[str]) -> dict[str, Any]:
    """The dictionary in a TOML file; raises SchemaError if the file cannot be read or is not TOML."""
    try:
        return tomllib.loads(Path(path).read_bytes().decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SchemaError(f'"{path}" is not TOML: {error}', remedy="correct the file") from None
    except OSError as error:
        raise SchemaError(f'cannot read "{path}": {error.strerror or error}', remedy="check the file name") from None


_ORDERED = ("levels", "categories", "options", "items")  # settings that may name a scale


def with_scales(state: Mapping[str, Any]) -> dict[str, Any]:
    """The columns, with the name of a scale in [scales] replaced by its levels, as in levels = "agreement"."""
    scales = state.get("scales", {})
    if not isinstance(scales, Mapping) or not all(isinstance(levels, list) for levels in scales.values()):
        raise SchemaError("scales is not a table of lists", remedy='write [scales] and agreement = ["no", "yes"]')
    columns: dict[str, Any] = dict(state["columns"])
    for name, entry in columns.items():
        if not isinstance(entry, Mapping):
            continue
        for setting in _ORDERED:
            wanted = entry.get(setting)
            if isinstance(wanted, str):
                if wanted not in scales:
                    remedy = f"{suggestion(wanted, scales)}define it under [scales], or give a list"
                    raise SchemaError(f'{setting} = "{wanted}" is not a scale of the file', column=name, remedy=remedy)
                entry = {**entry, setting: scales[wanted]}
        columns[name] = entry
    return columns


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_value(key)} = {_value(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        # TOML escapes text as JSON does, except for the delete character, which JSON does not escape.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return json.dumps(value)
