"""Output of the command line: results per row or per item as tables, and the summary of `thurbo check`.

Idea: the row identifier comes first; of a check, what should be checked, with columns of one reason on one line.
Guarantees at most 40 lines for the summary, whatever the number of columns.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
import typer

from thurbo.app.cli.app import counted, one_line
from thurbo.app.cli.tables import columns_of
from thurbo.errors import ThurboError, in_toml
from thurbo.table.columns.listed import read_lists, tiers
from thurbo.table.columns.values import blanked
from thurbo.table.io import frames, read_write
from thurbo.table.io.frames import Table, as_table, library_of
from thurbo.table.schema.descriptions import doubts, left_out
from thurbo.table.schema.naming import by_code
from thurbo.table.schema.routing import when
from thurbo.table.schema.schema import Schema

Columns = dict[str, np.ndarray]


def identity(schema: Any, frame: Any) -> Columns:
    """The columns with row identifiers."""
    source, found = as_table(frame), {}
    names = [name for name, column in schema.items() if column.role == "id"]
    for name in names if source.owner is None else [source.owner]:
        if name in source:
            cells = source.cells(name)
            found[name] = blanked(cells.values.astype(object), cells.missing) if cells.missing.any() else cells.values
    return found


def about(schema: Any, frame: Any, columns: Mapping[str, np.ndarray]) -> Any:
    """A table of results in the library of the input, with row identifiers in front."""
    return frames.frame(library_of(frame), {**identity(schema, frame), **columns})


def items_to_rank(schema: Any, frame: Any, path: Path | None, text: str | None) -> Any:
    """The items of a table, or of a text with commas, in their own type; unknown items stay text. None for all."""
    known = {str(label): label for each in schema.values() if each.has_items for label in each.labels}
    if text is not None:
        return [known.get(part, part) for part in map(str.strip, text.split(",")) if part]
    if path is None:
        return None
    table, source = read_write.read_frame(path), as_table(frame)
    own = as_table(table).names
    if len(own) == 1 and own[0] in known:  # one column without a header: the first line is an item too
        return [known[own[0]], *as_table(table).cells(own[0]).values.tolist()]
    # A table of rows and items has the texts of its rows if the ranked table has texts ("007").
    names = [name for name, column in schema.items() if column.role == "id" and name in source]
    is_text = any(source.cells(name).values.dtype.kind == "O" for name in names)
    if read_write.format_of(path) not in read_write.TEXT or not is_text or len(own) < 2:
        return table
    held = [name for name in names if name in own] or [own[0]]
    return read_write.with_texts(table, path, held, always=True)[0]


def probabilities(model: Any, frame: Any, column: str, given: Sequence[str] | None) -> Columns:
    """The most probable answer (of options, all with p ≥ 0.5), then the probability of each answer by its text."""
    asked = model.schema_[column]
    texts = [str(text) for text in getattr(asked, "texts", asked.labels)]
    found = np.asarray(model.predict_proba(frame, column, given=given), float)
    if asked.kind == "multiselect":
        best = ["; ".join(text for text, p in zip(texts, row, strict=True) if p >= 0.5) for row in found]
    else:
        best = [texts[place] for place in np.where(asked.is_named, found, -1.0).argmax(axis=1)]
    taken = {column, *identity(model.schema_, frame)}
    headers = [f"{column}: {text}" if text in taken else text for text in texts]
    return {column: np.asarray(best, object), **dict(zip(headers, found.T, strict=True))}


def interval(model: Any, frame: Any, column: str, given: Sequence[str] | None, level: float) -> Columns:
    """The median of a number, and the ends of its central interval."""
    if not 0 < level < 1:
        raise ThurboError(f"--level {level:g} is not a probability; give a number above 0 and below 1")
    ends = model.predict_interval(frame, column, level=level, given=given)
    # A very narrow interval gives the median, also for numbers stored in two columns.
    middle = model.predict_interval(frame, column, level=1e-6, given=given).mean(axis=1)
    middle = model.schema_[column].limited(middle)
    return {column: middle, f"{column} lower": ends[:, 0], f"{column} upper": ends[:, 1]}


def predicted(model: Any, frame: Any, name: str, given: Sequence[str] | None, items: Any) -> Any:
    """Predicted scores of the items asked about; by default of those that each row lists."""
    found = model.predict(frame, name, "auto", given=given, items=items)
    lines = _lines_of(model.schema_, name, as_table(found).cells(name), items)
    names = identity(model.schema_, frame) or {"row": model.schema_.row_names(frame)}
    return _table(model.schema_, name, lines, names)


def sampled(schema: Any, drawn: Any, items: Any) -> Any:
    """New rows, numbered from 0, as a long table if the schema has one column of lists; otherwise unchanged."""
    lists = columns_of(schema)
    if len(lists) != 1:
        return drawn
    name, source = lists[0], as_table(drawn)
    lines = _lines_of(schema, name, source.cells(name), items)
    row = next((each for each, column in schema.items() if column.role == "id"), "row")
    return _table(schema, name, lines, {row: np.arange(source.n_rows)}, _others(drawn, name))


def imputed(model: Any, frame: Any, items: Any, fill: Sequence[str], n_draws: int, seed: int) -> Any:
    """A long table with items added and other missing cells filled; column "filled" marks the lines that are new.

    Multiple imputations are stacked below the incomplete table; items of a row are in one order in all.
    """
    schema, name = model.schema_, next(iter(as_table(frame).lists))
    if not n_draws:
        return _completed(schema, frame, name, model.impute(frame, items=items, fill=fill))
    import thurbo

    draws = model.impute_draws(frame, n_draws, random_state=seed, items=items, fill=fill)
    completed = [_completed(schema, frame, name, draw, by_item=True) for draw in draws]
    native = as_table(frame).native
    before = _completed(schema, frame, name, draws[0], others=native, by_item=True)
    others = _others(native, *identity(schema, frame))
    score, filled = (_free(each, others) for each in (_value_name(schema[name]), "filled"))
    before[score] = before[score].mask(before[filled])
    return thurbo.stack(completed, before)


def ordinary(schema: Any) -> Any:
    """The columns of a schema without lists of items, for their labels: a long table repeats their cells."""
    lists = columns_of(schema)
    return {name: column for name, column in schema.items() if name not in lists} if lists else schema


def _completed(schema: Any, frame: Any, name: str, done: Any, others: Any = None, by_item: bool = False) -> Any:
    full, column, names = as_table(done), schema[name], identity(schema, frame)
    old = _lines(column, as_table(frame).cells(name))
    lines = _lines(column, full.cells(name)) if name in full else old
    if by_item:
        place = {item: at for at, item in enumerate(column.labels)}
        number = [place.get(item, len(place)) for item in lines["item"]]
        lines = lines.iloc[np.lexsort((number, lines["row"]))]
    known = set(zip(old["row"], old["item"], strict=True))
    filled = np.asarray([pair not in known for pair in zip(lines["row"], lines["item"], strict=True)], bool)
    return _table(schema, name, lines, names, _others(done if others is None else others, name, *names), filled)


def _lines(column: Any, cells: Any) -> Any:
    """Entries of lists, one line each: the position of the row, the item, and its score or its place in an order."""
    import pandas as pd

    found = read_lists(cells)
    row = np.repeat(np.arange(len(cells)), np.diff(found.start))
    items, value = np.asarray(found.items, object), np.asarray(found.score)
    are_whole = all(isinstance(each, (int, np.integer)) and not isinstance(each, bool) for each in items.tolist())
    lines = pd.DataFrame(
        {"row": row, "item": (items.astype(np.int64) if are_whole and len(items) else items)[found.which]}
    )
    if column.by == "order":
        tier = pd.Series(tiers(row, value), dtype=np.int64)
        lines["value"] = tier.groupby(row).transform("max") - tier + 1
        return lines.sort_values(["row", "value"], kind="stable")
    whole = column.by == "levels" and value.dtype.kind == "f" and bool(np.all(value == np.floor(value)))
    return lines.assign(value=value.astype(np.int64) if whole else value)


def _lines_of(schema: Any, name: str, cells: Any, items: Mapping[str, list[Any]] | None) -> Any:
    """The entries of the items asked about; orders of few items are predicted and drawn with all of them."""
    lines = _lines(schema[name], cells)
    if items is None or name not in items:
        return lines
    lines = lines[lines["item"].isin(items[name])]
    is_order = schema[name].by == "order"
    return lines.assign(value=tiers(lines["row"].to_numpy(), lines["value"].to_numpy()) + 1) if is_order else lines


def _value_name(column: Any) -> str:
    return "place" if column.by == "order" else column.score or "score"


def _others(frame: Any, *names: str) -> Any:
    """The other columns of a table as a pandas frame."""
    import narwhals as nw

    return nw.from_native(frame, eager_only=True).to_pandas().drop(columns=list(names), errors="ignore")


def _free(name: str, others: Any) -> str:
    return name if others is None or name not in others else f"item {name}"


def _table(
    schema: Any, name: str, lines: Any, names: Columns, others: Any = None, filled: np.ndarray | None = None
) -> Any:
    """A long table: who the rows are, their items with the values, and the other columns repeated."""
    import pandas as pd

    row = lines["row"].to_numpy()
    data: dict[str, Any] = {each: np.asarray(values)[row] for each, values in names.items()}
    data |= {name: lines["item"].to_numpy(), _free(_value_name(schema[name]), others): lines["value"].to_numpy()}
    if filled is not None:
        data[_free("filled", others)] = filled
    table = pd.DataFrame(data)
    if others is None or not len(others.columns):
        return table
    return pd.concat([table, others.take(row).reset_index(drop=True)], axis=1)


MOST = 20  # problems per column


def problems(schema: Schema, frame: Any) -> dict[str, list[ThurboError]]:
    """Errors by question, at most `MOST` of each."""
    source = as_table(frame)
    names = schema.row_names(source)
    if len(set(names.tolist())) == source.n_rows:
        source = replace(source, rows=names)
    # Inequalities refer to sites of other columns, so they need the whole schema.
    alone = [name for name, column in schema.items() if column.kind != "inequality"]
    found = {name: each for name in alone if (each := _of_one(Schema({name: schema[name]}), source))}
    if not found and len(alone) < len(schema):
        for error in _of_one(schema, source):
            found.setdefault(str(getattr(error, "column", None)), []).append(error)
    return found


def _of_one(schema: Schema, source: Table) -> list[ThurboError]:
    """The errors of a schema, one after another: a row with an error is left out of the next attempt."""
    place = {row: position for position, row in enumerate(source.rows.tolist())}
    found: list[ThurboError] = []
    kept = np.ones(source.n_rows, bool)
    while len(found) < MOST and kept.any():
        remaining = source if kept.all() else source.take(np.flatnonzero(kept))
        try:
            schema.fit(remaining).compile(remaining)
            schema.weights(remaining)
            break
        except ThurboError as error:
            found.append(error)
            position = place.get(getattr(error, "row", None))
            if position is None:  # the error is not about a single row
                break
            kept[position] = False
    return found


MOST_SHOWN = 50  # problems to print with the details
_MOST_DOUBTS, _MOST_LEFT_OUT, _MOST_PROBLEMS = 10, 7, 6  # lines of each part
_MOST_CODES, _MOST_SKIPS, _MOST_RULES = 4, 3, 4


def show_summary(schema: Any, frame: Any, data: Path, errors: Mapping[str, list[Any]]) -> None:
    """Print what is modelled, what to check and why, what is left out, and the problems: one line a column."""
    from thurbo.app.report.wording import codes_by_kind, followers, missing_kinds

    source, width = as_table(frame), _width()
    sizes = f"{counted(source.n_rows, 'row')}, {counted(len(source.names), 'column')}"
    lines = [f"{data}: {sizes}", "", _modelled(schema)]
    codes = codes_by_kind(schema, missing_kinds(schema.with_skips([]), source))  # what was not asked has no code
    ranked = sorted(codes.items(), key=lambda item: -len(item[1]))
    in_columns = [f'"{text}" in {counted(len(own), "column")}' for text, own in ranked]
    lines += _part("Counted as missing", in_columns, _MOST_CODES, ", ")
    skips = [
        f"{_names(schema, skip.columns)}: asked only if {schema.display_names[skip.asked_if]} {when(schema, skip)}"
        for skip in schema.skips
    ]
    lines += _part("Not asked of everyone; not imputed where not asked", skips, _MOST_SKIPS)
    rules = [f"{_names(schema, own, 6)} with {schema.display_names[shown]}" for shown, own in followers(schema).items()]
    lines += _part("Belong together, because one follows from the other; no findings of a report", rules, _MOST_RULES)
    guesses = [f"{each.kind}: {in_toml(each.why)} ({_names(schema, each.names)})" for each in doubts(schema)]
    lines += _part("To check", guesses, _MOST_DOUBTS)
    advice = 'Categories without a known order; if one has an order, write kind = "ordinal" and levels = [...]'
    unordered = [name for name, column in schema.items() if column.kind == "categorical" and not column.has_order]
    lines += _part(advice, [_names(schema, unordered, 6)] if schema.reasons else [], 1)
    coded = by_code(schema.modelled, schema.titles)
    advice = (
        "Called by codes, also in reports; give the texts of these questions with --edit, or title = ... in the file"
    )
    lines += _part(advice, [_names(schema, coded, 6)] if coded else [], 1)
    outside = [f"{why} ({len(names)}): {_names(schema, names, 3)}" for why, names in left_out(schema, source).items()]
    lines += _part("Left out", outside, _MOST_LEFT_OUT)
    if errors:
        firsts = [_problem(schema, *each) for each in errors.items()]
        lines += _part(f"Problems ({count_problems(errors)})", firsts, _MOST_PROBLEMS)
    for line in lines:
        indent = "  " if line.startswith("  ") else ""
        parts = wrap(
            line.strip(), width, initial_indent=indent, subsequent_indent=f"{indent}  ", max_lines=3, placeholder=" ..."
        )
        typer.echo("\n".join(parts))
    typer.echo("\n--details shows every column; --edit corrects types, orders and names in the browser.")


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
    names = [name for name, column in schema.items() if column.role == "answer"]
    kinds = Counter(type(schema[name]).__name__ for name in names)
    columns = sum(len(schema.source_columns.get(name, (name,))) for name in names)
    spread = f" ({counted(columns, 'column')})" if columns != len(names) else ""
    types = ", ".join(f"{n} {kind}" for kind, n in kinds.most_common())
    return f"{counted(len(names), 'question')}{spread} modelled: {types}" if names else "No column can be modelled."


def _names(schema: Any, names: Sequence[str], most: int = 2) -> str:
    """Display names, and how many more there are."""
    shown = [schema.display_names.get(name, name) for name in names[:most]]
    return ", ".join(shown) + (f" and {len(names) - most} more" if len(names) > most else "")


def _problem(schema: Any, name: str, errors: list[Any]) -> str:
    count = f"{len(errors)}{' or more' if len(errors) >= MOST else ''}"
    return f"{_names(schema, [name])} ({count}): {one_line(errors[0])}"


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
    from rich.text import Text

    from thurbo.app.report.wording import missing_kinds, missing_words

    missing = missing_kinds(schema, as_table(frame))
    console = Console(highlight=False, width=None if Console().is_terminal else _width())
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("column", "detected type" if is_inferred else "type", "meaning of a cell", "missing", "reason"):
        grid.add_column(heading, overflow="fold", max_width=60)
    for name, column in schema.items():
        title = schema.titles.get(name, name)
        words = (name if title == name else f"{name}: {title}", type(column).__name__, column.describe())
        reason = in_toml(schema.reasons.get(name, ""))
        texts = (*words, missing_words(missing.get(name, {})), reason)
        grid.add_row(*(Text(" ".join(text.split())) for text in texts))
    console.print(grid)
    listed = [error for each in errors.values() for error in each]
    if listed:
        typer.echo(f"All problems ({count_problems(errors)}):")
    for error in listed[:MOST_SHOWN]:
        typer.echo(f"  {one_line(error)}")
    if len(listed) > MOST_SHOWN:
        typer.echo(f"  ... and {len(listed) - MOST_SHOWN} more")
