"""How many columns of raw survey exports are read as a careful reader would: questionnaires with a known schema.

    python -m benchmarks.raw_files [--quick] [--files N] [--tool NAME] [--wrong]

Two hundred files by six survey tools (`benchmarks.questionnaires`), read with `tb.read` and nothing else. A column is
right if its question has the expected type, the same columns, the levels in order, the ends of the bands and the
missing answers. `substantive_missing` counts answers on the scale that the schema counts as missing. --quick: 12 files;
--wrong prints every question that is wrong. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import thurbo as tb
from benchmarks.questionnaires import TOOLS, Expected, File, make
from thurbo.errors import SchemaWarning
from thurbo.table.io.frames import as_table

N_FILES, N_QUICK = 200, 12


class Reading(NamedTuple):
    """How a file was read: columns in all and right, answers on a scale that count as missing, and what is wrong."""

    columns: int
    right: int
    lost: int
    wrong: list[str]


def read(file: File, folder: Path) -> Reading:
    """Write a file, read it as a newcomer would, and compare."""
    path = folder / "export.csv"
    path.write_text(file.text(), encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SchemaWarning)
        frame, schema = tb.read(path)
        schema = schema.fit(frame)
    names, right, lost, wrong = [str(name) for name in frame.columns], 0, 0, []
    assert len(names) == len(file.columns)
    for entry in file.expected:
        sources = tuple(names[place] for place in entry.at)
        problem = difference(entry, sources, schema)
        right += 0 if problem else len(entry.at)
        gone = answers_lost(entry, sources, frame, schema)
        lost += gone
        if problem or gone:
            wrong.append(
                f'{file.tool} "{sources[0]}" ({len(sources)}): {problem or "right"}'
                + f"; {gone} answers lost" * bool(gone)
            )
    return Reading(len(names), right, lost, wrong)


def holder(sources: tuple[str, ...], schema: tb.Schema) -> str | None:
    """The question that holds all of these columns, and no others."""
    for name, column in schema.items():
        if set(column.source_columns(name) or (name,)) == set(sources):
            return name
    return None


def difference(entry: Expected, sources: tuple[str, ...], schema: tb.Schema) -> str:
    """What is wrong about a question; empty if it is right."""
    name = holder(sources, schema)
    if name is None:
        held = {
            each: column.kind
            for each, column in schema.items()
            if set(column.source_columns(each) or (each,)) & set(sources)
        }
        return f"not one question of these columns: {dict(list(held.items())[:4])}"
    column: Any = schema[name]
    if column.kind not in entry.kinds:
        return f"{column.kind}, not {' or '.join(entry.kinds)}: {list(map(str, column.labels))}"
    if column.kind in ("ignore", "id", "weight"):
        return ""
    found = [str(label) for label in column.labels]
    if entry.labels is not None and column.kind != "continuous":
        wanted = list(entry.labels)
        kept = [label for label in found if label in wanted] if entry.more else found
        if sorted(kept) != sorted(wanted):
            return f"labels {found}, not {wanted}"
        if entry.has_order and column.has_order and kept != wanted and not (entry.both_ways and kept[::-1] == wanted):
            return f"order {found}"
    if entry.ends is not None and column.kind == "banded":
        ends = [tuple("" if np.isinf(end) else end for end in pair) for _, pair in column.bands]
        if [*entry.ends] != ends:
            return f"bands {ends}"
    missing = {str(value) for value, _ in column.missing}
    if entry.missing is not None and missing != set(entry.missing):
        return f"missing {sorted(missing)}, not {sorted(entry.missing)}"
    return ""


def answers_lost(entry: Expected, sources: tuple[str, ...], frame: Any, schema: tb.Schema) -> int:
    """Answers on a scale, or numbers, that count as missing."""
    name = holder(sources, schema)
    if entry.answers is None or name is None or schema[name].role != "answer":
        return 0
    gone = as_table(frame).answers(schema, name).missing
    return int(sum(own is not None and lost for own, lost in zip(entry.answers, gone, strict=True)))


def run(seeds: range, tool: str | None = None, show: bool = False) -> dict[str, Any]:
    """Read the files of some seeds."""
    columns, right, lost = Counter[str](), Counter[str](), 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            file = make(seed, tool)
            found = read(file, Path(folder))
            columns[file.tool] += found.columns
            right[file.tool] += found.right
            lost += found.lost
            if show:
                print(*(f"{seed} {each}" for each in found.wrong), sep="\n", end="\n" * bool(found.wrong))
    for name in columns:
        print(
            f"{name:14}{right[name]:6} of {columns[name]:6} columns right, {100 * right[name] / columns[name]:5.1f} %"
        )
    total, share = columns.total(), right.total() / columns.total()
    print(
        f"{'all':14}{right.total():6} of {total:6} columns right, {100 * share:5.1f} %; {lost} answers count as missing"
    )
    tools = {name: right[name] / columns[name] for name in columns}
    return {"files": len(seeds), "columns": total, "right": share, "substantive_missing": lost, "tools": tools}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--files", type=int, default=N_FILES)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--tool", choices=TOOLS)
    parser.add_argument("--wrong", action="store_true")
    given = parser.parse_args()
    seeds = range(given.first, given.first + (N_QUICK if given.quick else given.files))
    print(json.dumps(run(seeds, given.tool, given.wrong)))


if __name__ == "__main__":
    main()
