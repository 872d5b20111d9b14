"""§3 From the blocks of columns to evidence, as NumPy arrays: few static shapes, to limit compilation.

The same code is used for tables and lists: the first slots of every row are the sites of shared columns; the entries of
each listed column follow, padded to one of a few widths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from thurbo.constraints import Box, Levels, OneOf, Order, Pairwise, RepeatedChoice
from thurbo.constraints.order import CLOSER_SCALE, Form, form_of, shape_of
from thurbo.errors import SchemaError, ThurboError
from thurbo.evidence.buckets import WIDTHS_TO_ASK, Buckets, ListSlots, widths_to_fit
from thurbo.evidence.buckets import widths as list_widths
from thurbo.evidence.evidence import Constraint, Evidence, Unobserved
from thurbo.evidence.merge import Reading, merge

if TYPE_CHECKING:
    from thurbo.columns.block import Block, Tasks

_FORMS: tuple[Form, ...] = ("permutation", "ranking", "places", "any")  # of orders: each one includes those before it
LABELS_OF_A_PROGRAM = 128  # additional padded labels that one compiled program less is worth


class _Shared(NamedTuple):
    """Columns that have the same sites in every row."""

    blocks: list[Block]
    sites: np.ndarray  # their sites in the model
    linear: Any  # a Linear, or None

    def array(self, name: str) -> np.ndarray:
        """One array of all blocks, concatenated."""
        return np.concatenate([getattr(block, name) for block in self.blocks], axis=1)


class _Listed(NamedTuple):
    """One column of lists in one bucket: its block, first site, first slot and width."""

    block: Block
    first_site: int
    first_slot: int
    width: int

    def grid(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which of the padded slots [row, slot] are entries, and the numbers of the entries."""
        assert self.block.entries is not None
        start = self.block.entries.start
        length = start[rows + 1] - start[rows]
        real = np.arange(self.width)[None, :] < length[:, None]
        return real, (start[rows][:, None] + np.arange(self.width)[None, :])[real]

    def present(self, rows: np.ndarray) -> np.ndarray:
        """Which of the padded slots belong to the models of their rows, [row, slot]."""
        real, entry = self.grid(rows)
        if self.block.tasks is not None:
            real[real] = self.block.tier[entry, 0] >= 0
        return real


def pack(
    blocks: Iterable[Block],
    unobserved: Unobserved,
    dtype: Any = np.float32,
    *,
    reading: Reading | None = None,
    most_widths: int = WIDTHS_TO_ASK,
    free_lists: bool = False,
) -> Buckets:
    """A table as evidence. With "exclude", a row's model has only the sites that its evidence constrains.

    Which constraints there are depends on the families of the columns, not on the cells, except for inequalities
    beyond one order of a column: these make one `Linear` and need a `reading`. Lists are padded to at most
    `most_widths` widths (0: as many as suit a fit). With `free_lists`, entries without a score are variables of their
    rows, as sampling needs.
    """
    every = list(blocks)
    first = np.cumsum([0, *(len(block.sites) for block in every)])
    shared = _shared(every, first, reading, dtype)
    lists = [(block, int(at)) for block, at in zip(every, first[:-1], strict=True) if block.entries is not None]
    n_rows = every[0].n_rows if every else 0
    slot = np.full(int(first[-1]), -1, np.int64)
    slot[shared.sites] = np.arange(len(shared.sites))
    if not lists:
        rows = np.arange(n_rows)
        return Buckets((_evidence(shared, [], rows, unobserved, dtype),), (rows,), slot)
    buckets, places, firsts = [], [], []
    for rows, sizes in _by_width([block for block, _ in lists], n_rows, most_widths):
        at, own = len(shared.sites), []
        for (block, site), size in zip(lists, sizes, strict=True):
            own.append(_Listed(block, site, at, size))
            at += size
        evidence = _evidence(shared, own, rows, unobserved, dtype, free_lists)
        buckets.append(evidence)
        places.append(rows)
        firsts.append([each.first_slot for each in own])
    where = tuple(
        ListSlots(site, block.entries.start, tuple(each[number] for each in firsts))  # type: ignore[union-attr]
        for number, (block, site) in enumerate(lists)
    )
    return Buckets(tuple(buckets), tuple(places), slot, where)


def _shared(every: list[Block], first: np.ndarray, reading: Reading | None, dtype: Any) -> _Shared:
    """The shared columns, with all inequalities between them as one constraint."""
    kept = [place for place, block in enumerate(every) if block.entries is None]
    blocks = [every[place] for place in kept]
    sites = np.concatenate([np.zeros(0, np.int64), *(np.arange(first[place], first[place + 1]) for place in kept)])
    linear = None
    if any(block.linear for block in blocks):
        if reading is None:
            raise ThurboError("inequalities between sites need the names of the sites: give a reading")
        names = [reading.sites[int(site)] for site in sites]
        columns = [reading.columns[place] for place in kept]
        _refuse_listed(blocks, columns, set(names), reading)
        _refuse_repeated(blocks, columns, names, reading)
        cuts = None if reading.cuts is None else reading.cuts[sites]
        linear, taken = merge(blocks, Reading(columns, names, reading.rows, cuts), dtype)
        blocks = _without(blocks, taken)
    return _Shared([block for block in blocks if block.sites], sites, linear)


def _refuse_listed(blocks: list[Block], columns: list[str], known: set[str], reading: Reading) -> None:
    """Raise an error for an inequality on an item of a list: it is not a variable of rows that do not list it."""
    for block, column in zip(blocks, columns, strict=True):
        for line in block.linear:
            strange = [site for site in line.coefficients if site not in known]
            if strange:
                problem = f'"{strange[0]}" is an item of a list; inequalities on such items are not supported'
                remedy = "compare items within the list, by scores or by an order"
                raise SchemaError(problem, row=reading.rows[line.row], column=column, remedy=remedy)


def _refuse_repeated(blocks: list[Block], columns: list[str], names: list[str], reading: Reading) -> None:
    """Raise an error for an inequality on an item whose ranking is choices with noise of their own."""
    repeated = [block.is_repeated for block in blocks for _ in block.sites]
    taken = {name for name, is_repeated in zip(names, repeated, strict=True) if is_repeated}
    for block, column in zip(blocks, columns, strict=True):
        for line in block.linear:
            for site in taken.intersection(line.coefficients):
                problem = f'"{site}" is an item of a ranking with context, which has no utility to compare'
                remedy = "use Ranking(context=False)"
                raise SchemaError(problem, row=reading.rows[line.row], column=column, remedy=remedy)


def _by_width(blocks: list[Block], n_rows: int, most: int) -> Iterator[tuple[np.ndarray, tuple[int, ...]]]:
    """Rows whose lists have the same padded widths, with these widths."""
    sizes, numbers = [], []
    for block in blocks:
        assert block.entries is not None
        allowed = most or widths_to_fit(len(block.entries.site))
        if len(blocks) > 1:  # every combination of widths is compiled separately
            allowed = max(1, round(allowed ** (1 / len(blocks))))
        lengths = np.diff(block.entries.start)
        steps = list_widths(lengths, allowed)
        sizes.append(steps)
        numbers.append(np.searchsorted(steps, lengths))
    key = np.stack(numbers, axis=1) if n_rows else np.zeros((0, len(blocks)), np.int64)
    for combination in np.unique(key, axis=0):
        rows = np.flatnonzero((key == combination).all(axis=1))
        yield rows, tuple(int(steps[number]) for steps, number in zip(sizes, combination, strict=True))


def _evidence(
    shared: _Shared,
    lists: list[_Listed],
    rows: np.ndarray,
    unobserved: Unobserved,
    dtype: Any,
    free_lists: bool = False,
) -> Evidence:
    """The evidence of some rows, whose lists are padded to the same widths."""
    n_slots = len(shared.sites) + sum(each.width for each in lists)
    families = {block.family for block in shared.blocks} | {each.block.family for each in lists}
    every = len(rows) == (shared.blocks[0].n_rows if shared.blocks else -1)

    def beside(name: str, nothing: Any, kind: Any) -> Any:
        """One array of all columns over the slots of these rows."""
        own = shared.array(name) if shared.blocks else np.zeros((len(rows), 0))
        own = own if every or not shared.blocks else own[rows]
        parts = [own.astype(kind)]
        for each in lists:
            real, entry = each.grid(rows)
            part = np.full(real.shape, nothing, kind)
            part[real] = getattr(each.block, name)[entry, 0]
            parts.append(part)
        return np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]

    constraints: list[Constraint] = []
    if "measured" in families:
        ends = beside("lower", -np.inf, dtype), beside("upper", np.inf, dtype)
        box = Box(*ends, beside("point", False, bool))
        constraints.append(box._replace(exact=() if np.array_equal(box.observed, box.point) else None))
    if "levels" in families:
        most = max([block.n_cuts for block in shared.blocks] + [each.block.n_cuts for each in lists])
        small = np.int8 if most < 127 else np.int32
        code, high = beside("code", -1, small), beside("code_high", -1, small)
        constraints.append(Levels(code, None if np.array_equal(code, high) else high))
    constraints += _orders(shared.blocks, None if every else rows, n_slots)
    for each in lists:
        if each.block.family == "utility":
            constraints.append((_listed_order if each.block.tasks is None else _tasks)(each, rows, n_slots))
    present: Any = None
    if unobserved == "exclude" or lists:
        takes = shared.array("takes_part") if shared.blocks else np.zeros((len(rows), 0), bool)
        takes = takes if every or not shared.blocks else takes[rows]
        if free_lists:
            takes = np.ones_like(takes)
        present = np.concatenate([takes, *(each.present(rows) for each in lists)], axis=1)
    if shared.linear is not None:
        linear = shared.linear if every else jax.tree.map(lambda leaf: leaf[rows], shared.linear)
        if lists:
            linear = linear.embed(np.arange(len(shared.sites)), n_slots)
        linear = jax.tree.map(np.asarray, linear)
        constraints.append(linear)
        if present is not None:
            row, member = np.nonzero(linear.slots >= 0)
            present[row, linear.slots[row, member]] = True
    cells = _cells(shared.blocks, lists, n_slots)
    if not lists:
        return Evidence(tuple(constraints), None, present, cells)
    site = np.broadcast_to(shared.sites, (len(rows), len(shared.sites)))
    sites, listed = [site], [np.zeros(site.shape, bool)]
    for each in lists:
        real, entry = each.grid(rows)
        assert each.block.entries is not None
        own = np.zeros(real.shape, np.int64)
        own[real] = each.first_site + each.block.entries.site[entry]
        sites.append(own)
        listed.append(real if each.block.tasks is None else np.zeros_like(real))  # what was shown is no signal
    slots: Any = np.concatenate(sites, axis=1).astype(np.int32)
    marked: Any = np.concatenate(listed, axis=1)
    return Evidence(tuple(constraints), slots, present, cells, marked)


def _without(blocks: list[Block], taken: dict[tuple[int, int], np.ndarray]) -> list[Block]:
    """The blocks without the orders that lines include."""
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


def _cells(blocks: list[Block], lists: list[_Listed], n_slots: int) -> Any:
    """The utilities of one column, or of one task, are one cell; every other slot is its own cell."""
    tasks = [(each, each.block.tasks.size) for each in lists if each.block.tasks is not None]
    if all(block.family != "utility" for block in blocks) and not tasks:
        return None
    cells, first = np.arange(n_slots), 0
    for block in blocks:
        if block.family == "utility":
            cells[first : first + len(block.sites)] = first
        first += len(block.sites)
    for each, size in tasks:
        own = np.arange(each.width) // size * size
        cells[each.first_slot : each.first_slot + each.width] = each.first_slot + own
    return cells.astype(np.int32)


def _listed_order(each: _Listed, rows: np.ndarray, n_slots: int) -> Order:
    """The orders of a listed column: one for each row, over the slots of its list."""
    real, entry = each.grid(rows)
    tier: Any = np.full((len(rows), 1, each.width), -1, np.int32)
    tier[:, 0][real] = each.block.tier[entry, 0]
    depth, breadth = shape_of(tier)
    depth = 1 << (max(depth, 2) - 1).bit_length()  # few shapes
    slots = (tuple(range(each.first_slot, each.first_slot + each.width)),)
    return Order(tier, slots, n_slots, depth, breadth, None, mass="gumbel", gumbel_scale=CLOSER_SCALE)


def _tasks(each: _Listed, rows: np.ndarray, n_slots: int) -> Order | Pairwise:
    """The tasks of a listed column: consecutive groups of slots, each a comparison with noise of its own."""
    about = each.block.tasks
    assert about is not None
    real, entry = each.grid(rows)
    n_tasks = max(each.width // about.size, 1)
    flat = np.full((len(rows), each.width), -1, np.int32)
    flat[real] = each.block.tier[entry, 0]
    tier: Any = flat[:, : n_tasks * about.size].reshape(len(rows), n_tasks, about.size)
    first = each.first_slot + about.size * np.arange(n_tasks)
    slots = tuple(tuple(range(begin, begin + about.size)) for begin in first.tolist())
    return comparisons(tier, slots, n_slots, about)


def comparisons(tier: Any, slots: Any, n_slots: int, about: Tasks) -> Order | Pairwise:
    """Tasks as a constraint: `tier` [row, task, item]. Orders of more than two tiers have the Gumbel mass (A.3)."""
    if about.is_paired:
        return Pairwise(tier, slots, n_slots, 2, 1, None, True, True, about.noise, about.has_ties)
    depth, breadth = about.shape
    halves = (about.size, 1) if about.is_choice else None
    form: Any = "places" if about.is_choice else "any"
    mass: Any = "gumbel" if about.noise == "gumbel" or breadth > 1 else "exact"
    scale = 1.0 if about.noise == "gumbel" else CLOSER_SCALE
    return Order(tier, slots, n_slots, depth, breadth, halves, True, True, mass, scale, form)


def _orders(blocks: list[Block], rows: np.ndarray | None, n_slots: int) -> list[Constraint]:
    """Columns with similar numbers of labels share one constraint, padded to the widest: few programs.

    Choices of one label are separate from orders with more tiers, since they have faster algorithms.
    """
    kinds: dict[bool, list[tuple[Block, int]]] = {}
    constraints: list[Constraint] = []
    first = 0
    for block in blocks:
        if block.is_repeated:
            constraints.append(_repeated(block, rows, first, n_slots))
        elif block.family == "utility":
            is_choice = block.order_shape is None and _are_choices(block)
            kinds.setdefault(is_choice, []).append((block, first))
        first += len(block.sites)
    for is_choice, size, members in _alike(kinds):
        n_rows = len(members[0][0].tier) if rows is None else len(rows)
        shape = (n_rows, len(members), size)
        tier = np.full(shape, -1, np.int32)
        one_of = np.zeros(shape[:2], bool)
        slots = np.full(shape[1:], -1)
        for place, (block, begin) in enumerate(members):
            n_labels = len(block.sites)
            tier[:, place, :n_labels] = block.tier if rows is None else block.tier[rows]
            one_of[:, place] = block.one_of if rows is None else block.one_of[rows]
            slots[place, :n_labels] = np.arange(begin, begin + n_labels)
        where = tuple(map(tuple, slots.tolist()))
        plain: Any = np.where(one_of[:, :, None], -1, tier)
        halves = (size, 1) if is_choice else None
        depth, breadth, form = _shape(plain, where, [block for block, _ in members])
        constraints.append(Order(plain, where, n_slots, depth, breadth, halves, alone=True, form=form))
        if one_of.any():
            sets: Any = np.where(one_of[:, :, None], tier, -1)
            constraints.append(OneOf(sets, where, n_slots, alone=True))
    return constraints


def order_shapes(blocks: Mapping[str, Block]) -> dict[str, tuple[int, int, str]]:
    """What decides which program computes a column's orders: depth, width and form; not of choices of one label."""
    found = dict[str, tuple[int, int, str]]()
    for name, block in blocks.items():
        if block.family == "utility" and block.entries is None and not (block.is_repeated or _are_choices(block)):
            tier = np.where(block.one_of[:, None], -1, block.tier)[:, None, :]
            found[name] = *shape_of(tier), form_of(tier, None)
    return found


def _are_choices(block: Block) -> bool:
    return bool(((block.tier > 0).sum(axis=1) <= 1).all())


def _shape(tier: np.ndarray, slots: Any, members: list[Block]) -> tuple[int, int, Form]:
    """The shape of these orders; that of the training table if it has room for them, so that they share a program."""
    depth, width = shape_of(tier)
    form, known = form_of(tier, slots), [block.order_shape for block in members if block.order_shape is not None]
    if not known:
        return depth, width, form
    forms: list[Any] = [each[2] for each in known]
    if tier.max(initial=-1) > 0:  # otherwise they say nothing, and have any form
        forms.append(form)
    form = max(("places" if each == "choice" else each for each in forms), key=_FORMS.index)
    return max(depth, *(each[0] for each in known)), max(width, *(each[1] for each in known)), form


def _repeated(block: Block, rows: np.ndarray | None, first: int, n_slots: int) -> RepeatedChoice:
    """A column whose rankings are choices one after another, at slots from `first` on."""
    tier: Any = (block.tier if rows is None else block.tier[rows])[:, None, :].astype(np.int32)
    return RepeatedChoice(tier, (tuple(range(first, first + len(block.sites))),), n_slots, alone=True)


def _alike(kinds: dict[bool, list[tuple[Block, int]]]) -> Iterator[tuple[bool, int, list[tuple[Block, int]]]]:
    """Columns to compile together, by kind, with their width."""
    for is_choice, members in sorted(kinds.items()):
        narrower = 0
        for width in widths([len(block.sites) for block, _ in members], LABELS_OF_A_PROGRAM):
            yield is_choice, width, [member for member in members if narrower < len(member[0].sites) <= width]
            narrower = width


def widths(lengths: Iterable[int], price: int) -> list[int]:
    """Widths to pad lengths to: minimal padding, where each additional width costs `price`."""
    counts = Counter(lengths)
    sizes = sorted(counts)
    best: list[tuple[int, list[int]]] = [(0, [])]  # for the n shortest lengths: cost and widths
    for end in range(1, len(sizes) + 1):
        ways = []
        for begin in range(end):
            padded = sizes[end - 1] * sum(counts[size] for size in sizes[begin:end])
            ways.append((best[begin][0] + padded + price, [*best[begin][1], sizes[end - 1]]))
        best.append(min(ways))
    return best[-1][1]
