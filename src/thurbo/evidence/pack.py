"""From blocks of columns to evidence on the device: few static shapes, so that little is compiled.

A table becomes one `Evidence` whose slots are its sites. Queries run over it in chunks padded up to one of a few row
counts, so that new data of any length meets programs that exist already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array
from thurbo.constraints import Box, Levels, OneOf, Order
from thurbo.constraints.order import form_of, shape_of
from thurbo.errors import SchemaError, ThurboError
from thurbo.evidence import Constraint, Evidence, Unobserved
from thurbo.evidence.buckets import WIDTHS_TO_ASK, Lists, Packed, Ragged, pack_lists
from thurbo.evidence.merge import Reading, merge

if TYPE_CHECKING:
    from thurbo.columns.column import Block

ROW_BUCKETS = (16, 128, 1024)
LABELS_OF_A_PROGRAM = 128  # so many more labels to weigh are worth one program less to compile


def pack(
    blocks: Iterable[Block],
    families: Iterable[str],
    unobserved: Unobserved,
    dtype: Any = np.float32,
    *,
    reading: Reading | None = None,
    most_widths: int = WIDTHS_TO_ASK,
) -> Packed:
    """One table as evidence: slot i is site i. Under "exclude" a row's model has only the sites it speaks of.

    Which constraints there are follows from the families of the columns, not from what the cells happen to say; but for
    inequalities beyond one order of a column, which make one `Linear` and need a `reading`. With a column of lists,
    rows have sites of their own: evidence in buckets of at most so many widths.
    """
    blocks, families = list(blocks), list(families)
    if "lists" in families:
        return _with_lists(blocks, families, most_widths, dtype)
    linear = None
    if any(block.linear for block in blocks):
        if reading is None:
            raise ThurboError("inequalities between sites need the names of the sites: give a reading")
        linear, taken = merge(blocks, reading, dtype)
        blocks = _without(blocks, taken)
    constraints: list[Constraint] = []
    kept = [(block, family) for block, family in zip(blocks, families, strict=True) if block.sites]
    blocks = [block for block, _ in kept]
    held = {family for _, family in kept}
    if "measured" in held:
        lower, upper, point = (_beside(blocks, name) for name in ("lower", "upper", "point"))
        constraints.append(Box(jnp.asarray(lower, dtype), jnp.asarray(upper, dtype), jnp.asarray(point)))
    if "levels" in held:
        constraints.append(_levels(blocks))
    if "utility" in held:
        constraints += _orders(kept)
    present = jnp.asarray(_beside(blocks, "takes_part")) if unobserved == "exclude" else None
    if linear is not None:
        constraints.append(linear)
        present = None if present is None else present | linear.held
    return Evidence(tuple(constraints), None, present, _cells(kept))


def _with_lists(blocks: list[Block], families: list[str], most_widths: int, dtype: Any) -> Ragged:
    """The column of lists beside all others, whose missing cells are no variables of their rows either."""
    where = [place for place, family in enumerate(families) if family == "lists"]
    if len(where) > 1 or any(block.sites for block in blocks[where[0] + 1 :]):
        remedy = "name it once, after all other columns"
        raise SchemaError("lists are one column, the last that is modelled", remedy=remedy)
    block, (others, kinds) = blocks[where[0]], (blocks[: where[0]], families[: where[0]])
    assert block.lists is not None
    ordinary: Any = None
    if any(other.sites for other in others):
        if any(other.linear for other in others):
            raise SchemaError("inequalities between columns cannot stand beside lists", remedy="leave one of them out")
        ordinary = pack(others, kinds, "exclude", dtype)
    first = sum(len(other.sites) for other in others)
    lists = Lists(block.lists.start, block.lists.site + np.int32(first), block.lists.code, block.n_cuts > 0)
    return pack_lists(lists, ordinary, most_widths)


def _without(blocks: list[Block], taken: dict[tuple[int, int], np.ndarray]) -> list[Block]:
    """The blocks without the orders that lines took over."""
    out, first = [], 0
    for block in blocks:
        rows = [row for row, start in taken if start == first] if block.sites else []
        if rows:
            tier = block.tier.copy()
            tier[rows] = -1
            block = replace(block, tier=tier)
        out.append(block)
        first += len(block.sites)
    return out


def _beside(blocks: list[Block], name: str) -> np.ndarray:
    return np.concatenate([getattr(block, name) for block in blocks], axis=1)


def _levels(blocks: list[Block]) -> Levels:
    code, high = _beside(blocks, "code"), _beside(blocks, "code_high")
    smallest = np.int8 if max(block.n_cuts for block in blocks) < 127 else np.int32
    several = None if np.array_equal(code, high) else jnp.asarray(high.astype(smallest))
    return Levels(jnp.asarray(code.astype(smallest)), several)


def _cells(kept: list[tuple[Block, str]]) -> Array | None:
    """The utilities of one column are one cell; every other slot is a cell of its own."""
    if all(family != "utility" for _, family in kept):
        return None
    first, cells = 0, []
    for block, family in kept:
        own = np.arange(first, first + len(block.sites))
        cells.append(np.full_like(own, first) if family == "utility" else own)
        first += len(block.sites)
    return jnp.asarray(np.concatenate(cells), jnp.int32)


def _orders(kept: list[tuple[Block, str]]) -> list[Constraint]:
    """Columns of about as many labels share one constraint as wide as the widest: few programs.

    Choices of one label are kept apart from what has more tiers: they are drawn and weighed by shorter ways.
    """
    kinds: dict[bool, list[tuple[Block, int]]] = {}
    first = 0
    for block, family in kept:
        if family == "utility":
            is_choice = bool(((block.tier > 0).sum(axis=1) <= 1).all())
            kinds.setdefault(is_choice, []).append((block, first))
        first += len(block.sites)
    constraints: list[Constraint] = []
    for is_choice, size, members in _alike(kinds):
        shape = (len(members[0][0].tier), len(members), size)
        tier = np.full(shape, -1, np.int32)
        one_of = np.zeros(shape[:2], bool)
        slots = np.full(shape[1:], -1)
        for place, (block, begin) in enumerate(members):
            n_labels = len(block.sites)
            tier[:, place, :n_labels], one_of[:, place] = block.tier, block.one_of
            slots[place, :n_labels] = np.arange(begin, begin + n_labels)
        where = tuple(map(tuple, slots.tolist()))
        plain = np.where(one_of[:, :, None], -1, tier)
        halves = (size, 1) if is_choice else None
        form = form_of(plain, where)
        constraints.append(Order(jnp.asarray(plain), where, first, *shape_of(plain), halves, alone=True, form=form))
        if one_of.any():
            sets = np.where(one_of[:, :, None], tier, -1)
            constraints.append(OneOf(jnp.asarray(sets), where, first, alone=True))
    return constraints


def _alike(kinds: dict[bool, list[tuple[Block, int]]]) -> Iterator[tuple[bool, int, list[tuple[Block, int]]]]:
    """Columns to compile together, by kind, with their width."""
    for is_choice, members in sorted(kinds.items()):
        narrower = 0
        for width in widths([len(block.sites) for block, _ in members], LABELS_OF_A_PROGRAM):
            yield is_choice, width, [member for member in members if narrower < len(member[0].sites) <= width]
            narrower = width


def widths(lengths: Iterable[int], price: int) -> list[int]:
    """Widths to pad lengths to: the fewest padded places in all, where one more width costs as much as `price`."""
    counts = Counter(lengths)
    sizes = sorted(counts)
    best: list[tuple[int, list[int]]] = [(0, [])]  # of the shortest lengths, their cost and widths
    for end in range(1, len(sizes) + 1):
        ways = []
        for begin in range(end):
            padded = sizes[end - 1] * sum(counts[size] for size in sizes[begin:end])
            ways.append((best[begin][0] + padded + price, [*best[begin][1], sizes[end - 1]]))
        best.append(min(ways))
    return best[-1][1]


def by_chunks(function: Callable[..., Any], evidence: Packed, *rowwise: Any) -> Any:
    """Apply `function(evidence, *rowwise)` to all rows, a padded chunk at a time; NumPy arrays by row come back.

    Chunks are cut on the host: a table of a new length then compiles nothing at all.
    """
    if isinstance(evidence, Ragged):
        return evidence.by_chunks(function, *jax.tree.map(np.asarray, rowwise))
    evidence, rowwise = jax.tree.map(np.asarray, (evidence, rowwise))
    n_rows, largest = evidence.n_rows, ROW_BUCKETS[-1]
    parts = []
    for begin in range(0, n_rows, largest):
        count = min(largest, n_rows - begin)
        bucket = next(size for size in ROW_BUCKETS if size >= count)
        index = np.r_[begin : begin + count, np.full(bucket - count, begin)]
        chunk = function(evidence.rows(index), *(leaf[index] for leaf in rowwise))
        parts.append(jax.tree.map(lambda leaf, count=count: np.asarray(leaf)[:count], chunk))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
