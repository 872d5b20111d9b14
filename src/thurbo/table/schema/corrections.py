"""Corrections of a schema by hand: another type, order, missing codes, or group of one question.

Idea: each is a function of the columns that gives new columns; a table, where there is one, tells the answers that the
schema does not know, and proves that the corrected question can be read.
Guarantees that all other questions stay as they are, and that errors name the column, the answer and a remedy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from os.path import commonprefix
from typing import Any

from thurbo.errors import SchemaError
from thurbo.table.columns.cells import Cells
from thurbo.table.columns.column import Column, check_column, column_type
from thurbo.table.columns.ignore import Ignore
from thurbo.table.columns.labels import in_order
from thurbo.table.columns.numbers import NOTATIONS
from thurbo.table.columns.values import is_label, is_negative, is_word, listing, plain, show, spellings, suggestion
from thurbo.table.io.frames import Table
from thurbo.table.schema.routing import meanings

MOST_LABELS = 100  # of a question whose answers are taken from the table
LEAST_READ = 0.5  # share of the texts of a column that are numbers, if it is to be read as numbers


@contextmanager
def about(name: str) -> Iterator[None]:
    """An error inside is about this column, if it does not name another one."""
    try:
        yield
    except SchemaError as error:
        if error.column is not None:
            raise
        raise SchemaError(error.problem, row=error.row, column=name, remedy=error.remedy) from None


def retyped(old: Column, name: str, table: Table | None, kind: Any, settings: Mapping[str, Any]) -> Column:
    """A column of another type for a question; its answers and missing codes stay where the types allow it."""
    if not isinstance(kind, str | type):
        check_column(name, kind)
        if settings:
            problem = f"settings are given beside a column, {listing(settings)}"
            raise SchemaError(problem, column=name, remedy="give them to the column")
        found: Column = kind
        return found
    from thurbo.table.guess.words import arranged  # only where something is detected

    made = column_type(kind)
    if table is not None:
        old = _with_labels(old, name, table)
        if not old.is_named.all() and "other" not in {item.name for item in fields(made)}:  # rare answers are joined
            old = old.with_answers(_answers_in(old, table.cells(name)) or old.labels, other=None)
    with about(name):
        if "bands" in made.mappings and "bands" not in settings:
            settings = {**settings, "bands": _bands(old.labels, old.texts)}
        column = old.as_type(made, **settings)
    if table is None or name not in table or column.source_columns(name) != (name,):
        return column
    if "parse" in {item.name for item in fields(made)} and "parse" not in settings and not column.labels:
        return _in_notation(column, table.cells(name))
    if column.is_one_label and not column.labels:
        column = column.with_answers(_answers_in(column, table.cells(name)))
    order = arranged(column.labels, column.texts) if column.has_order and not old.has_order and column.labels else None
    return column.ordered_as(order[0]) if order and column.kind != "banded" else column


def _with_labels(column: Column, name: str, table: Table) -> Column:
    """The column with the answers of the table, as far as they can be read."""
    try:
        return column if column.labels or not column.is_one_label else column.fit(table.answers({name: column}, name))
    except SchemaError:
        return column


def _bands(labels: Sequence[Any], texts: Sequence[str]) -> dict[Any, Any]:
    """The ends of the bands that the texts of some answers say."""
    from thurbo.table.guess.words import bands

    ends = bands(texts)
    if ends is None:
        problem = f"its answers ({listing(map(show, labels), most=6) or 'none are known'}) are not bands of a number"
        raise SchemaError(problem, remedy='declare others missing first, or give tb.Banded({"18-29": (18, 30), ...})')
    return dict(zip(labels, ends, strict=True))


def _in_notation(column: Column, cells: Cells) -> Column:
    """A column of numbers with the notation in which most of its texts can be read."""
    cells = column.answered(cells)
    if cells.values.dtype.kind != "O" or cells.missing.all():
        return column
    n_texts = sum(isinstance(value, str) for value in cells.factorise()[0])
    candidates = [column.with_answers((), parse=notation, unseen="missing") for notation in NOTATIONS]
    read = [each.interpreted(cells).factorise()[0] for each in candidates]
    n_read = [sum(not isinstance(value, str) for value in values) for values in read]
    return candidates[n_read.index(max(n_read))] if n_texts and max(n_read) >= LEAST_READ * n_texts else column


def _answers_in(column: Column, cells: Cells) -> tuple[Any, ...]:
    """The answers that occur in a table; none, if there are too many, or if they are no labels."""
    distinct = Ignore(missing=column.missing, recode=column.recode).answered(cells).hashable().factorise()[0]
    labels = in_order(value for value in distinct if is_label(value))
    return labels if len(labels) == len(distinct) and 2 <= len(labels) <= MOST_LABELS else ()


def reordered(column: Column, name: str, table: Table | None, labels: Iterable[Any]) -> Column:
    """The column of a question with its answers in another order, lowest first."""
    column = column if table is None else _with_labels(column, name, table)
    if isinstance(labels, str):
        raise SchemaError(f"{labels!r} is not a list", column=name, remedy="give all its answers, lowest first")
    given, known = [plain(label) for label in labels], meanings(column)
    for label in given if column.labels else ():
        if label not in known:
            remedy = f"{suggestion(label, column.labels)}its answers are {listing(map(show, column.labels))}"
            raise SchemaError(f"{show(label)} is not one of its answers", column=name, remedy=remedy)
    order = [known.get(label, label) for label in given]
    left = [label for label in column.labels if label not in order]
    if left:
        problem = f"{show(left[0])} has no place in the order"
        raise SchemaError(problem, column=name, remedy="add it, or declare it missing first: with_missing(name, [...])")
    with about(name):
        return column.ordered_as(order)


def with_codes(column: Column, name: str, table: Table | None, codes: Any) -> Column:
    """The column of a question with other codes that mean "no answer"; they are no longer among its answers."""
    column = column if table is None else _with_labels(column, name, table)
    if isinstance(codes, str) or not isinstance(codes, Iterable):
        raise SchemaError(f"{codes!r} is not a list", column=name, remedy='give a list, or {9: "Refused"}')
    before, named = dict(column.declared_missing), dict(getattr(column, "names", ()))
    known = {text: code for code, text in before.items()} | {code: code for code in before} | meanings(column)
    given = dict(codes) if isinstance(codes, Mapping) else dict.fromkeys(codes)
    missing: dict[Any, str] = {}
    for code, text in ((known.get(plain(code), plain(code)), text) for code, text in given.items()):
        missing[code] = text or before.get(code) or named.get(code) or str(code)
    gone = {each for code in missing for each in spellings(code)}
    back = {code: text for code, text in before.items() if code not in gone}
    if table is not None and name in table:
        back = {code: text for code, text in back.items() if code in table.cells(name).factorise()[0]}
    labels = [label for label in column.labels if label not in gone]
    settings: dict[str, Any] = {"missing": missing}
    if "names" in column.words:
        texts = {code: text for code, text in (named | back).items() if code not in missing}
        settings["names"] = {code: text for code, text in texts.items() if text != str(code)}
    answers = [*labels, *back] if labels else []
    is_sorted = tuple(labels) == in_order(labels)  # of a scale of texts by chance only
    is_sorted &= not column.has_order or not any(isinstance(label, str) for label in answers)
    with about(name):
        return column.with_answers(in_order(answers) if is_sorted else answers, **settings)


def options_of(members: Sequence[str], titles: Mapping[str, str], table: Table | None) -> dict[str, str]:
    """{label: column} of one question: the only text of each column, or what its name (or title) has of its own."""
    if table is not None:
        said = [_only_text(table.cells(name)) for name in members]
        if all(said) and len(set(said)) == len(said):
            return dict(zip(map(str, said), members, strict=True))
    return dict(zip(divided(members, titles)[1], members, strict=True))


def divided(members: Sequence[str], titles: Mapping[str, str]) -> tuple[str, list[str]]:
    """The words with which the titles (or names) of some questions begin, and what each has of its own."""
    texts = [" ".join(titles.get(name, name).split()) for name in members]
    texts = texts if len(set(texts)) == len(texts) else list(members)
    stem = _stem(texts) if texts[1:] else ""
    rests = [_bare(text[len(stem) :]) for text in texts]
    return (_bare(stem), rests) if all(rests) and len(set(rests)) == len(rests) else ("", texts)


def _bare(text: str) -> str:
    """A text without punctuation around it, and without brackets that are around it or have no partner in it."""
    text = text.strip(" _-–:.,")
    for opening, closing in ("()", "[]"):
        inner = text.removeprefix(opening).removesuffix(closing)
        is_whole = text.startswith(opening) and text.endswith(closing) and opening not in inner
        text = inner if is_whole or text.count(opening) != text.count(closing) else text
    return text.strip(" _-–:.,")


def _stem(texts: Sequence[str]) -> str:
    """The whole words with which all texts begin."""
    return re.sub(r"[^\W_]+\Z", "", commonprefix(list(texts)))  # noqa: RUF071  (by letters)


def _only_text(cells: Cells) -> str | None:
    """The text of the cells that are not empty and do not say no, if it is always the same."""
    distinct = [value for value in cells.factorise()[0] if not is_negative(value)]
    text = distinct[0] if len(distinct) == 1 and isinstance(distinct[0], str) else ""
    return text.strip() if text.strip() and not is_word(text) else None


def stem_of(members: Sequence[str], titles: Mapping[str, str]) -> str:
    """The words that the texts of some questions begin with; empty if there are none."""
    return _bare(_stem([" ".join(titles.get(name, name).split()) for name in members]))


def grouped(members: Mapping[Any, str], name: str, kind: Any, by: str | None, settings: Mapping[str, Any]) -> Column:
    """Several columns of a table as one question, {label: column}."""
    if not members:
        raise SchemaError("no columns are given", column=name, remedy="give the names of at least two columns")
    made = column_type(kind)
    settings_of = {item.name for item in fields(made)}
    named = [each for each in (by, "columns", *made.mappings) if each in settings_of and each != "bands"]
    if not named or (by is not None and named[0] != by):
        kinds = "multiselect, ranking, ordinal, categorical or banded"
        problem = f"{made.__name__} has no setting {by!r} for columns" if by else f"{made.__name__} reads one column"
        raise SchemaError(problem, column=name, remedy=f"use one of the kinds {kinds}")
    is_list = named[0] not in made.mappings
    given: dict[str, Any] = {named[0]: tuple(members.values()) if is_list else dict(members)}
    with about(name):
        if "bands" in settings_of and "bands" not in settings:
            given["bands"] = _bands(list(members), list(map(str, members)))
        return made(**{**given, **settings})


def ungrouped(column: Column, name: str, table: Table | None) -> tuple[dict[str, Column], dict[str, str]]:
    """The columns that a question consists of as questions of their own, and the reasons of types that are detected."""
    from thurbo.table.guess.infer import infer

    parts, reasons = column.separated(), dict[str, str]()
    if not parts:
        problem = f"{type(column).__name__} reads the column of its own name"
        raise SchemaError(problem, column=name, remedy="only a question of several columns can be divided")
    for each in parts if table is not None else ():
        found, _ = infer((each,), table.cells, False, table.book.notes, (), {})  # type: ignore[union-attr]
        if list(found) == [each]:
            parts[each], reasons[each] = found[each].column, found[each].reason
    return parts, reasons
