"""The output of `thurbo check`: a summary that fits one screen, and every column below it if asked for.

Idea: what should be checked comes first, with columns of one reason on one line; remedies are in the words of TOML.
Guarantees at most 40 lines for the summary, whatever the number of columns.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import typer

from thurbo.cli.app import counted
from thurbo.cli.problems import MOST
from thurbo.io.in_toml import in_toml
from thurbo.schema.doubts import doubts, left_out

MOST_SHOWN = 50  # problems to print with the details
_MOST_DOUBTS, _MOST_LEFT_OUT, _MOST_PROBLEMS, _MOST_CODES, _MOST_SKIPS = 10, 7, 7, 4, 3  # lines of each part
_NAME, _ONE_OF_MANY = 44, 28  # characters of a name, alone and beside others


def show_summary(schema: Any, frame: Any, data: Path, errors: Mapping[str, list[Any]]) -> None:
    """Print what is modelled, what to check and why, what is left out, and the problems: one line a column."""
    from thurbo.io.table import as_table

    source, width = as_table(frame), _width()
    sizes = f"{counted(source.n_rows, 'row')}, {counted(len(source.names), 'column')}"
    lines = [f"{data}: {sizes}", "", _modelled(schema)]
    codes = [f'"{text}" in {counted(n, "column")}' for text, n in _codes(schema, source)]
    lines += _part("Counted as missing", codes, _MOST_CODES, ", ")
    lines += _part("Not asked of everyone; not imputed where not asked", _skips(schema), _MOST_SKIPS)
    lines += _part("To check", _doubts(schema), _MOST_DOUBTS)
    advice = 'Categories without a known order; if one has an order, write kind = "ordinal" and levels = [...]'
    lines += _part(advice, [_unordered(schema)], 1)
    lines += _part("Left out", _left_out(schema, source), _MOST_LEFT_OUT)
    if errors:
        lines += _part(
            f"Problems ({count_problems(errors)})", [_problem(*each) for each in errors.items()], _MOST_PROBLEMS
        )
    for line in lines:
        flat = " ".join(line.split()) if not line.startswith("  ") else f"  {' '.join(line.split())}"
        typer.echo(flat if len(flat) <= width else f"{flat[: width - 3]}...")
    typer.echo("\n--details shows every column. To change a type: -o schema.toml, edit the file, then -s schema.toml.")


def _width() -> int:
    """Characters in a line; output to a file has no terminal width."""
    from rich.console import Console

    console = Console()
    return console.width if console.is_terminal or "COLUMNS" in os.environ else 160


def _part(title: str, entries: Iterable[str], most: int, separator: str = "") -> list[str]:
    """A title and its lines, or one line with a separator; nothing if there are no entries."""
    found = [entry for entry in entries if entry]
    if not found:
        return []
    more = len(found) - most
    shown = found[:most] + ([f"and {more} more"] if more > 0 else [])
    return [f"{title}: {separator.join(shown)}"] if separator else ["", f"{title}:", *(f"  {entry}" for entry in shown)]


def _modelled(schema: Any) -> str:
    """How many questions of which types are modelled."""
    names = [name for name, column in schema.items() if column.role == "answer"]
    kinds = Counter(type(schema[name]).__name__ for name in names)
    columns = sum(len(schema.source_columns.get(name, (name,))) for name in names)
    spread = f" ({counted(columns, 'column')})" if columns != len(names) else ""
    types = ", ".join(f"{n} {kind}" for kind, n in kinds.most_common())
    return f"{counted(len(names), 'question')}{spread} modelled: {types}" if names else "No column can be modelled."


def _codes(schema: Any, source: Any) -> list[tuple[str, int]]:
    """Values that count as missing and occur, with the number of columns that have them."""
    from thurbo.report.missing import NOTHING, missing_kinds

    kinds = missing_kinds(schema.with_skips([]), source)  # what was not asked has no code
    names = (kind for name, each in kinds.items() if schema[name].role == "answer" for kind in each if kind != NOTHING)
    return Counter(names).most_common()


def _skips(schema: Any) -> list[str]:
    """Blocks of questions that are not asked of everyone."""
    return [
        f"{_names(list(skip.columns))}: {skip.condition.replace(skip.asked_if, _shortened(skip.asked_if, _NAME))}"
        for skip in schema.skips
    ]


def _doubts(schema: Any) -> list[str]:
    """Columns whose type or reading is a guess, those with the same reason on one line."""
    return [f"{_names(each.names)} -> {each.kind}: {in_toml(each.why)}" for each in doubts(schema)]


def _unordered(schema: Any) -> str:
    names = [name for name, column in schema.items() if column.kind == "categorical" and not column.has_order]
    return _names(names, 6) if schema.reasons else ""


def _left_out(schema: Any, source: Any) -> list[str]:
    """Columns outside the model, those with the same reason on one line."""
    return [f"{why} ({len(names)}): {_names(names, 3)}" for why, names in left_out(schema, source).items()]


def _names(names: list[str], most: int = 2) -> str:
    """Names in quotes where they are long, shortened, and counted if there are many."""
    shown = [_shortened(name, _NAME if len(names) == 1 else _ONE_OF_MANY) for name in names[:most]]
    return ", ".join(shown) + (f" and {len(names) - most} more" if len(names) > most else "")


def _shortened(name: str, most: int) -> str:
    flat = " ".join(name.split())
    return flat if len(flat) <= most else f"{flat[: most // 2]}...{flat[3 - most // 2 :]}"


def _problem(name: str, errors: list[Any]) -> str:
    """How many problems a column has, and the first of them."""
    count = f"{len(errors)}{' or more' if len(errors) >= MOST else ''}"
    return f"{_shortened(name, _ONE_OF_MANY)} ({count}): {in_toml(' '.join(str(errors[0]).split()))}"


def count_problems(errors: Mapping[str, list[Any]]) -> str:
    """The number of problems and of columns that have them."""
    count = sum(map(len, errors.values()))
    more = "at least " if any(len(each) >= MOST for each in errors.values()) else ""
    return f"{more}{counted(count, 'problem')} in {counted(len(errors), 'column')}"


def show_details(schema: Any, frame: Any, errors: Mapping[str, list[Any]], is_inferred: bool) -> None:
    """Print the schema as a table with the share of missing cells by kind, and all problems."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from thurbo.io.table import as_table
    from thurbo.report.missing import missing_kinds, missing_words

    missing = missing_kinds(schema, as_table(frame))
    console = Console(highlight=False, width=None if Console().is_terminal else _width())
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("column", "detected type" if is_inferred else "type", "meaning of a cell", "missing", "reason"):
        grid.add_column(heading, overflow="fold", max_width=60)
    for name, column in schema.items():
        title = schema.titles.get(name, name)
        words = (name if title == name else f"{name}: {title}", type(column).__name__, column.describe())
        reason = in_toml(schema.reasons.get(name, ""))
        grid.add_row(*map(_plain, (*words, missing_words(missing.get(name, {})), reason)))
    console.print(grid)
    listed = [error for each in errors.values() for error in each]
    if listed:
        typer.echo(f"All problems ({count_problems(errors)}):")
    for error in listed[:MOST_SHOWN]:
        typer.echo(f"  {in_toml(' '.join(str(error).split()))}")
    if len(listed) > MOST_SHOWN:
        typer.echo(f"  ... and {len(listed) - MOST_SHOWN} more")


def _plain(text: str) -> Any:
    from rich.text import Text

    return Text(" ".join(text.split()))
