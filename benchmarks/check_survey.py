"""How well a survey is read untouched: the types that `read` infers, against a schema that people wrote.

    python -m benchmarks.check_survey [--blind | --bare] [--quick]

Afrobarometer round 4 as its .zsav file came (27,713 respondents, 294 variables) and the 227 questions of the schema
beside it, in $THURBO_DATA/afrobarometer-r4. A question is right where its type is; "order" is the share of ordinal ones
with all levels in the right order, "missing" the share of all with exactly the right codes counted as missing. With
--blind the file's own measure levels are taken away first, so that names of codes and cells must tell everything.
With --bare all labels are taken away, so that missing codes must be found by gaps and by sharing: only "missing" is of
interest then. --quick changes nothing. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import thurbo as tb
from thurbo.table.io.codebook import KEY, Codebook

KINDS = {
    "ordinal": {"ordinal", "banded"},
    "categorical": {"categorical"},
    "binary": {"binary"},
    "continuous": {"continuous"},
    "rank_mention": {"categorical", "multiselect", "ranking"},
}


def without_measures(frame: Any) -> tb.Schema:
    """The schema inferred where the file says nothing of measure levels."""
    book = Codebook.of(frame)
    notes = {name: replace(note, measure="") for name, note in book.notes.items()}
    frame.attrs[KEY] = Codebook(notes, book.groups, book.title).to_text()
    return tb.Schema.infer(frame)


def without_labels(frame: Any) -> tb.Schema:
    """The schema inferred from the numbers alone."""
    frame.attrs[KEY] = Codebook().to_text()
    return tb.Schema.infer(frame)


def compare(frame: Any, schema: tb.Schema, wanted: list[dict[str, Any]]) -> list[tuple[dict[str, Any], str, set[str]]]:
    """Each question with what it was taken for, and which of type, order and missing are wrong."""
    home = {source: name for name, sources in schema.source_columns.items() for source in sources}
    names = Codebook.of(frame)
    found = []
    for question in wanted:
        name = question["name"]
        column = schema[home.get(name, name)]
        wrong = set()
        if column.kind not in KINDS[question["type"]]:
            wrong.add("type")
        occurring = {*frame[name].dropna().unique(), *(code for code, _ in names.note(name).names)}
        if question["type"] == "ordinal":
            levels = [level for level in column.labels if level in question["levels"] or level in set(frame[name])]
            if "type" in wrong or levels != question["levels"]:
                wrong.add("order")
        taken = {code for code, _ in column.missing} & occurring  # type: ignore[misc, str-unpack]
        if taken != set(question["missing"]) & occurring:
            wrong.add("missing")
        found.append((question, column.kind, wrong))
    return found


def main() -> None:
    """Print the misses for people and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the same: it takes seconds")
    parser.add_argument("--blind", action="store_true", help="without the file's own measure levels")
    parser.add_argument("--bare", action="store_true", help="without any labels, to find missing codes by their values")
    arguments = parser.parse_args()
    if "THURBO_DATA" not in os.environ:
        parser.error("set THURBO_DATA to the folder that holds afrobarometer-r4")
    folder = Path(os.environ["THURBO_DATA"]) / "afrobarometer-r4"
    wanted = tomllib.loads((folder / "schema.toml").read_text(encoding="utf-8"))["question"]
    started, working = time.perf_counter(), time.process_time()
    frame, schema = tb.read(folder / "afrobarometer_r4.zsav")
    seconds, working = time.perf_counter() - started, time.process_time() - working
    print(
        f"{len(frame):,} rows, {frame.shape[1]} columns read and inferred in {seconds:.1f} s, {working:.1f} s of work"
    )
    if arguments.blind:
        schema = without_measures(frame)
    if arguments.bare:
        schema = without_labels(frame)
    found = compare(frame, schema, wanted)
    for question, kind, wrong in found:
        if wrong:
            taken = f"{question['type']:<13} taken for {kind:<13}"
            print(f"{question['name']:<10} {taken} wrong: {', '.join(sorted(wrong))}")
    ordinal = [wrong for question, _, wrong in found if question["type"] == "ordinal"]
    summary = {
        "share": 1 - sum("type" in wrong for *_, wrong in found) / len(found),
        "order": 1 - sum("order" in wrong for wrong in ordinal) / len(ordinal),
        "missing": 1 - sum("missing" in wrong for *_, wrong in found) / len(found),
        "questions": len(found),
        "seconds": round(seconds, 2),
        "cpu_seconds": round(working, 2),
    }
    shares = (f"{name} {summary[name]:.1%}" for name in ("share", "order", "missing"))
    print(f"right of {len(found)}: {', '.join(shares)}")
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
