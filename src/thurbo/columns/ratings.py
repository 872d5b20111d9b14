"""§3 at scale: a cell is a list of few items out of many, each with a score; items that are not in it are no variables.

Idea: the score of an item is a level between cuts (the items' cuts differ by a shift, the distances between cuts are
the same for all), or only the order of a row's items counts, ties allowed (§3.2). Memory is that of the cells observed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.cells import Cells, FloatArray, Listed, collection, listing, plain, show, suggestion
from thurbo.columns.column import Block, Column, Family, ListRows
from thurbo.errors import SchemaError

MOST_SHOWN = 3  # items that are written out where there are more
AT_ONCE = 1 << 20  # entries that are looked up at a time, to spare memory
MOST_LEVELS = 20  # distinct scores up to which they are levels unless the user says otherwise


@dataclass(frozen=True)
class Ratings(Column):
    """Scores of some of many `items`, large = best; `by` their "levels", or only by the "order" they give.

    A cell is {item: score}, or a list of items from best to worst; whole tables of them come from `from_long`, or as a
    sparse matrix. Left out, `items` and `levels` are those of the training cells, and `by` is "levels" for up to 20.
    `score` is what a long table calls its scores: `from_long` notes it, and the command line reads the next one by it.
    """

    kind: ClassVar[str] = "ratings"
    family: ClassVar[Family] = "lists"
    items: tuple[Any, ...] | None = None
    levels: tuple[Any, ...] | None = None
    by: Literal["auto", "levels", "order"] = "auto"
    score: str | None = None

    def __repr__(self) -> str:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        said = {each.name: repr(values[each.name]) for each in fields(self) if values[each.name] != each.default}
        if self.items is not None and len(self.items) > MOST_SHOWN:
            said["items"] = f"({', '.join(map(repr, self.items[:MOST_SHOWN]))}, ... {len(self.items):,} in all)"
        return f"Ratings({', '.join(f'{name}={text}' for name, text in said.items())})"

    def _check(self) -> None:
        if self.by not in ("auto", "levels", "order"):
            raise SchemaError(f"by={self.by!r} is not understood", remedy='say "levels" or "order"')
        for name in ("items", "levels"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, tuple) or len(set(value)) < max(len(value), 2)):
                raise SchemaError(f"{name} are not two or more, each once", remedy=f"give {name} as a list")
        if self.score is not None and not isinstance(self.score, str):
            raise SchemaError(f"score={self.score!r} is no name of a column", remedy="give text")
        if self.levels is not None and list(self.levels) != sorted(self.levels):
            raise SchemaError(f"levels {listing(self.levels)} do not rise", remedy="give numbers, lowest first")

    @property
    def labels(self) -> tuple[Any, ...]:
        return self.items or ()

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(map(str, self.labels))

    @property
    def n_cuts(self) -> int:
        return len(self.levels) - 1 if self.by == "levels" and self.levels else 0

    def fit(self, cells: Cells) -> Self:
        found = read(cells)
        items = self.items if self.items is not None else tuple(map(plain, np.asarray(found.items).tolist()))
        if len(items) < 2:
            raise SchemaError(
                f"it lists {len(items)} item{'s' * (len(items) != 1)}", column=cells.name, remedy="give two or more"
            )
        levels = self.levels
        by = self.by
        if levels is None and by == "auto" and found.ordered:
            by = "order"
        if levels is None and by != "order":
            distinct = _distinct(found.score, MOST_LEVELS + 1 if by == "auto" else len(found.score))
            if by == "auto":
                by = "levels" if distinct is not None and 2 <= len(distinct) <= MOST_LEVELS else "order"
            if by == "levels":
                if distinct is None or len(distinct) < 2:
                    remedy = 'say levels=[...], or by="order"'
                    raise SchemaError("its scores are all the same", column=cells.name, remedy=remedy)
                levels = tuple(int(v) if float(v).is_integer() else float(v) for v in distinct)
        score = found.scores if self.score is None else self.score
        levels, by = (None, by) if by == "order" or not levels else (levels, "levels")
        return replace(self, items=items, levels=levels, by=by, score=score)

    def encode(self, cells: Cells) -> Block:
        if self.items is None:
            raise SchemaError("Ratings does not know its items yet", column=cells.name, remedy="fit it first")
        found = read(cells)
        if self.by == "levels" and found.ordered and len(found.score):
            problem = f"items stand from best to worst, and not with scores {listing(self.levels or (), ' < ')}"
            raise SchemaError(problem, column=cells.name, remedy='give scores, or fit Ratings(by="order")')
        site = self._sites(found, cells)
        row = np.repeat(np.arange(len(cells), dtype=np.int32), np.diff(found.start))
        known = site >= 0
        start, score = found.start, found.score
        if not known.all():
            row, site, score = row[known], site[known], score[known]
            start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(cells)))])
        self._refuse_twice(cells, row, site)
        code = self._levels(cells, row, site, score) if self.by == "levels" else tiers(row, score)
        silent = self.silent(len(cells))
        return replace(silent, lists=ListRows(start, site.astype(np.int32), code))

    def _sites(self, found: Listed, cells: Cells) -> NDArray[np.int64]:
        """Place of each entry's item among `items`, −1 where it is unknown and may be."""
        assert self.items is not None
        names = np.asarray(found.items)
        if len(names) == len(self.items) and [plain(name) for name in names.tolist()] == list(self.items):
            return found.which
        place = {item: number for number, item in enumerate(self.items)}
        by_name = np.asarray([place.get(plain(name), -1) for name in names.tolist()], np.int64)
        site = by_name[found.which] if len(by_name) else found.which
        if self.unseen == "error" and (site < 0).any():
            entry = int((site < 0).argmax())
            item = names[found.which[entry]]
            near = suggestion(item, self.items) if isinstance(item, str) else ""
            remedy = f'{near}leave it out, or use Ratings(unseen="missing")'
            position = int(np.searchsorted(found.start, entry, side="right") - 1)
            raise cells.error(position, f"item {show(item)} was not in the table of the fit", remedy)
        return site

    def _refuse_twice(self, cells: Cells, row: NDArray[Any], site: NDArray[Any]) -> None:
        assert self.items is not None
        if ((row[1:] > row[:-1]) | (site[1:] > site[:-1])).all():  # sorted, as from_long leaves them
            return
        key = row.astype(np.int64) * len(self.items) + site
        order = np.argsort(key, kind="stable")
        same = np.flatnonzero(np.diff(key[order]) == 0)
        if len(same):
            entry = int(order[same[0] + 1])
            remedy = "keep one score for each item of a row, the last or their mean"
            raise cells.error(int(row[entry]), f"item {show(self.items[int(site[entry])])} stands twice", remedy)

    def _levels(
        self, cells: Cells, row: NDArray[Any], site: NDArray[Any], score: NDArray[Any]
    ) -> NDArray[np.signedinteger[Any]]:
        assert self.levels is not None
        assert self.items is not None
        levels = np.asarray(self.levels, np.float64)
        narrow: type[np.signedinteger[Any]] = np.int8 if len(levels) < 128 else np.int32
        code = np.empty(len(score), narrow)
        for begin in range(0, len(score), AT_ONCE):
            part = score[begin : begin + AT_ONCE]
            found = np.searchsorted(levels, part)
            code[begin : begin + AT_ONCE] = found
            wrong = np.flatnonzero((found == len(levels)) | (levels[np.minimum(found, len(levels) - 1)] != part))
            if not len(wrong):
                continue
            entry = begin + int(wrong[0])
            problem = f"the score {score[entry]:g} of item {show(self.items[int(site[entry])])} is not one of "
            remedy = 'correct it, add it to Ratings(levels=[...]), or use by="order"'
            raise cells.error(int(row[entry]), problem + listing(self.levels, " < "), remedy)
        return code

    def silent(self, n_rows: int) -> Block:
        shape = (n_rows, len(self.labels))
        nothing = np.broadcast_to(np.int32(-1), shape)
        infinite, none = np.broadcast_to(np.inf, shape), np.broadcast_to(np.False_, shape)
        lists = ListRows(np.zeros(n_rows + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int8))
        return Block(
            self.sites,
            np.broadcast_to(-np.inf, shape),
            infinite,
            none,
            nothing,
            self.n_cuts,
            np.broadcast_to(0.0, n_rows),
            lists=lists,
        )

    def decode(self, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> NDArray[Any]:
        raise SchemaError("a list of few items out of many is not filled in", remedy="ask rank() for the best items")

    def describe(self) -> str:
        if self.items is None:
            return "scores of some of many items"
        how = f"levels {listing(self.levels, ' < ')}" if self.levels else "their order"
        return f"some of {len(self.items):,} items, by {how}"


class _Entry(NamedTuple):
    item: Any
    score: float


def read(cells: Cells) -> Listed:
    """The lists of a column: as `from_long` or a sparse matrix gave them, or cell by cell."""
    if cells.listed is not None:
        return cells.listed
    index_of: dict[Any, int] = {}
    start, index, score = [0], [], []
    ordered = not any(isinstance(value, Mapping) for value in cells.values[~cells.missing].tolist())
    for position, (value, gone) in enumerate(zip(cells.values.tolist(), cells.missing.tolist(), strict=True)):
        for item, number in () if gone else _entries(cells, position, value):
            index.append(index_of.setdefault(item, len(index_of)))
            score.append(number)
        start.append(len(index))
    items = np.fromiter(index_of, object, len(index_of))
    which, scores = np.asarray(index, np.int64), np.asarray(score, np.float64)
    return Listed(np.asarray(start, np.int64), items, which, scores, ordered=ordered)


def _entries(cells: Cells, position: int, value: Any) -> list[_Entry]:
    """Items of one cell with their scores; of a list, the higher the nearer to its beginning."""
    if isinstance(value, Mapping):
        found = []
        for item, number in value.items():
            if number is None:  # not scored: so files fill up cells of different items
                continue
            if not isinstance(number, (int, float, np.number)) or not np.isfinite(number):
                problem = f"the score {show(number)} of item {show(item)} is no number"
                raise cells.error(position, problem, "give a finite number")
            found.append(_Entry(plain(item), float(number)))
        return found
    members = collection(value)
    if members is None:
        remedy = "give {item: score}, a list of items from best to worst, or a long table through from_long"
        raise cells.error(position, f"{show(value)} is no list of items", remedy)
    return [_Entry(plain(item), float(len(members) - place)) for place, item in enumerate(members)]


def tiers(row: NDArray[Any], score: NDArray[Any]) -> NDArray[np.int32]:
    """Places of the scores within each row, 0 for the lowest, equal scores alike, without a gap; rows are in order."""
    if not len(row):
        return np.zeros(0, np.int32)
    order = np.lexsort((score, row))
    new_row = np.diff(row[order], prepend=-1) != 0
    rises = np.diff(score[order], prepend=score[order[0]]) != 0
    step = np.cumsum(rises & ~new_row)
    first = step[new_row]
    place = np.empty(len(row), np.int32)
    place[order] = step - np.repeat(first, np.diff(np.append(np.flatnonzero(new_row), len(row))))
    return place


def _distinct(score: NDArray[Any], most: int) -> NDArray[Any] | None:
    """The distinct scores, None where they are more than `most`: a look at some of them settles most cases."""
    if len(np.unique(score[:10_000])) > most:
        return None
    found = np.unique(score)
    return found if len(found) <= most else None
