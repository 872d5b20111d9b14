"""Lists in the explorer: ratings of one person are added, and recommendations change.

Each rating is also left out in turn, so that the page can say which of them moved the first recommendation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from thurbo.errors import ThurboError
from thurbo.explorer.pins import number
from thurbo.io.table import as_table

MOST_ITEMS = 5000  # that can be chosen from; the most frequent ones
MOST_RATINGS = 30
TOP = 10


def lists_of(model: Any, texts: Mapping[str, Mapping[str, str]]) -> list[dict[str, Any]]:
    """The lists of a model: their items, the most frequent first, and what a rating can be."""
    found = []
    for name in model.schema_.modelled:
        column = model.schema_[name]
        if not column.is_listed:
            continue
        counts = model.n_ratings_.get(name)
        order = range(len(column.labels)) if counts is None else np.argsort(-np.asarray(counts), kind="stable")
        levels = list(map(str, column.answer_texts)) if column.has_order else []
        found.append(
            {
                "name": name,
                "brief": texts[name]["brief"],
                "items": [str(column.texts[k]) for k in list(order)[:MOST_ITEMS]],
                "n_items": len(column.labels),
                "levels": levels,
                "by": "levels" if levels else "numbers" if column.family == "measured" else "order",
            }
        )
    return found


def recommended(model: Any, nobody: Mapping[str, list[Any]], name: Any, ratings: Any) -> dict[str, Any]:
    """The best items for somebody with these ratings, beside those without them, and what moved the first one.

    `nobody` is a row of a table with the other answers of this person. Ratings are pairs of item and score; of a list
    without scores, the items from best to worst.
    """
    schema = model.schema_
    if not isinstance(name, str) or name not in schema or not schema[name].is_listed:
        raise ThurboError("this is not a list of items; choose one from the page")
    column, given = schema[name], _read(schema[name], ratings)
    by_order = not column.has_order and column.family != "measured"
    without = [[pair for pair in given if pair is not out] for out in given]
    cells = [_cell(each, by_order) for each in (given, [], *without)]
    table = as_table({other: cells if other == name else value * len(cells) for other, value in nobody.items()})
    ranked = model.rank(table, top=len(column.labels), column=name)
    row, item, utility = (np.asarray(ranked[key], object) for key in ("row", "item", "utility"))
    names = schema.row_names(table)
    by_row = [dict(zip(item[row == each].tolist(), utility[row == each].tolist(), strict=True)) for each in names]
    best = sorted(by_row[0], key=lambda label: -by_row[0][label])[:TOP]
    before = {label: place + 1 for place, label in enumerate(sorted(by_row[1], key=lambda label: -by_row[1][label]))}
    value = by_row if by_order else _scores(model, table, name, best, column)
    text = dict(zip(column.labels, map(str, column.texts), strict=True))
    first = best[0] if best else None
    moved = [
        {"item": text[pair[0]], "with": value[0][first], "without": value[place + 2][first]}
        for place, pair in enumerate(given)
        if first in value[place + 2]
    ]
    return {
        "best": [
            {"item": text[k], "value": float(value[0][k]), "usual": float(value[1][k]), "before": before[k]}
            for k in best
        ],
        "first": None if first is None else text[first],
        "moved": sorted(moved, key=lambda each: -abs(each["with"] - each["without"])),
    }


def _scores(model: Any, table: Any, name: str, items: Sequence[Any], column: Any) -> list[dict[Any, float]]:
    """Mean predicted scores of these items, by row."""
    if not items:
        return [{} for _ in range(table.n_rows)]
    found = model.predict(table, name, items=list(items), statistic="mean")
    return [{item: float(score) for item, score in cell.items()} for cell in np.asarray(found[name], object)]


def _cell(pairs: Sequence[tuple[Any, Any]], by_order: bool) -> Any:
    if by_order:
        return [item for item, _ in pairs] or None
    return dict(pairs)


def _read(column: Any, ratings: Any) -> list[tuple[Any, Any]]:
    """Pairs of item and score, as the column knows them."""
    pairs = isinstance(ratings, list) and all(isinstance(each, list) and len(each) == 2 for each in ratings)
    if not pairs or len(ratings) > MOST_RATINGS:
        raise ThurboError(f"ratings are up to {MOST_RATINGS} pairs of item and score")
    meaning = dict(zip(map(str, column.texts), column.labels, strict=True))
    levels = dict(zip(map(str, column.answer_texts), column.answer_labels, strict=True)) if column.has_order else None
    found: dict[Any, Any] = {}
    for item, score in ratings:
        if not isinstance(item, str) or item not in meaning:
            raise ThurboError(f"“{str(item)[:80]}” is not an item that the model knows; choose one from the list")
        if levels is not None:
            if not isinstance(score, str) or score not in levels:
                raise ThurboError(f"“{str(score)[:80]}” is not a rating of “{item}”; choose one from the list")
            found[meaning[item]] = levels[score]
        else:
            found[meaning[item]] = number(score, item) if column.family == "measured" else None
    return list(found.items())
