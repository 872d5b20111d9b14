"""§3 From the blocks of columns to evidence, as NumPy arrays: few static shapes, to limit compilation.

The first slots of every row are the sites of shared columns; the entries of each listed column follow, padded to one
of a few widths. Overlapping inequalities are merged into one `Linear` per row; an infeasible row is an error that
names the lines. Tables of similar size are filled up with sites that no row says anything about, so that they share
programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import jax
import numpy as np

from thurbo.errors import InfeasibleEvidence, SchemaError, ThurboError
from thurbo.latent.constraints.base import Constraint, Gauge
from thurbo.latent.constraints.box import Box, Levels
from thurbo.latent.constraints.comparisons import Pairwise, RepeatedChoice
from thurbo.latent.constraints.grouped import Groups, Slots, form_of, shape_of
from thurbo.latent.constraints.linear import Linear, System, conflict, interior
from thurbo.latent.constraints.order import CLOSER_SCALE, OneOf, Order
from thurbo.latent.evidence import Buckets, Evidence, ListSlots, Unobserved, list_widths, n_slots, widths
from thurbo.latent.masses.orders import Form
from thurbo.latent.rbm import Params

if TYPE_CHECKING:
    from thurbo.table.columns.cells import Block, Tasks


class MergeLabels(NamedTuple):
    """Names of the columns and sites, labels of the rows, and the cuts."""

    columns: Sequence[str]
    sites: Sequence[str]
    rows: Sequence[Any] | np.ndarray
    cuts: np.ndarray | None = None  # [site, cut] of the model, None before training


class Line(NamedTuple):
    """b ≤ Σ coefficient · slot ≤ c, and its source."""

    coefficients: Mapping[int, float]
    lower: float
    upper: float
    words: str
    column: str


def merge(blocks: Sequence[Block], reading: MergeLabels, dtype: Any) -> tuple[Linear, list[Block]]:
    """All lines of all rows as one constraint, and the blocks without the orders that these include."""
    place = {site: slot for slot, site in enumerate(reading.sites)}
    first = np.cumsum([0, *(len(block.sites) for block in blocks)])
    lines: dict[int, list[Line]] = {}
    for block, column in zip(blocks, reading.columns, strict=True):
        for each in block.linear:
            coefficients = {place[site]: value for site, value in each.coefficients.items()}
            lines.setdefault(each.row, []).append(Line(coefficients, each.lower, each.upper, str(each), column))
    tiers = [block.tier.copy() if block.has_tiers else block.tier for block in blocks]
    systems: list[System | None] = [None] * (len(blocks[0].code) if blocks else 0)
    known: dict[tuple, np.ndarray | None] = {}
    for row, said in lines.items():
        named = {slot for line in said for slot in line.coefficients}
        for number, block in enumerate(blocks):
            own = np.arange(first[number], first[number + 1])
            if block.has_tiers and named.intersection(own.tolist()) and (block.tier[row] > 0).any():
                if block.one_of[row]:
                    raise SchemaError(
                        "one_of and an inequality on the same labels cannot be combined",
                        row=reading.rows[row],
                        column=reading.columns[number],
                        remedy="use top_set(...), or remove one of the two",
                    )
                said += _pairs(block.tier[row], own, reading.sites, reading.columns[number])
                tiers[number][row] = -1
        slots = sorted({slot for line in said for slot in line.coefficients})
        boxes = _boxes(row, slots, blocks, first, reading)
        systems[row] = _checked(row, said, boxes, reading, known)
    # A row's constraint holds its lines; the boxes are those of its cells, for any learned cuts.
    rest = [replace(block, tier=tier) for block, tier in zip(blocks, tiers, strict=True)]
    return Linear.of(systems, len(reading.sites), dtype), rest


def _pairs(tier: np.ndarray, own: np.ndarray, sites: Sequence[str], column: str) -> list[Line]:
    """An order as lines: every member of a tier above every member of the tier below."""
    found = []
    for height in range(int(tier.max()), 0, -1):
        for above in np.flatnonzero(tier == height):
            for below in np.flatnonzero(tier == height - 1):
                words = f"{sites[own[above]]} >= {sites[own[below]]}"
                found.append(Line({int(own[above]): 1.0, int(own[below]): -1.0}, 0.0, np.inf, words, column))
    return found


def _boxes(
    row: int, slots: Sequence[int], blocks: Sequence[Block], first: np.ndarray, reading: MergeLabels
) -> list[Line]:
    """The boxes of these slots from their own cells, in standard units; levels only if the cuts are known."""
    found = []
    for slot in slots:
        number = int(np.searchsorted(first, slot, side="right")) - 1
        block, site = blocks[number], slot - int(first[number])
        lower, upper = float(block.lower[row, site]), float(block.upper[row, site])
        if block.code[row, site] >= 0 and reading.cuts is not None:
            ends = np.r_[-np.inf, reading.cuts[slot, : block.n_cuts], np.inf]
            lower, upper = ends[block.code[row, site]], ends[block.code_high[row, site] + 1]
        if np.isfinite(lower) or np.isfinite(upper):
            words = f"the cell of {reading.sites[slot]}"
            found.append(Line({slot: 1.0}, lower, upper, words, reading.columns[number]))
    return found


def _checked(
    row: int, lines: list[Line], boxes: list[Line], reading: MergeLabels, known: dict[tuple, np.ndarray | None]
) -> System:
    """The lines of a row and a point that satisfies them and the boxes; raises an error if there is none."""
    every, n = lines + boxes, len(lines)
    matrix = np.zeros((len(every), len(reading.sites)))
    for number, line in enumerate(every):
        matrix[number, list(line.coefficients)] = list(line.coefficients.values())
    lower, upper = np.array([line.lower for line in every]), np.array([line.upper for line in every])
    key = (matrix.tobytes(), lower.tobytes(), upper.tobytes())
    if key not in known:
        known[key] = _inside(System(matrix, lower, upper))
    if known[key] is None:
        # A point as a narrow box, so that a linear program can have a margin.
        width = np.where(lower == upper, 1e-4 * np.maximum(1.0, np.abs(lower)), 0.0)
        clash = [every[number] for number in conflict(System(matrix, lower - width, upper + width))]
        columns = dict.fromkeys(line.column for line in clash)
        raise InfeasibleEvidence(
            f"no value satisfies all of: {'; '.join(line.words for line in clash)}",
            row=reading.rows[row],
            column='", "'.join(columns),
            remedy="remove one of them",
        )
    return System(matrix[:n], lower[:n], upper[:n], known[key])


def _inside(system: System) -> np.ndarray | None:
    """An interior point, after the exactly known values are substituted."""
    fixed = np.flatnonzero(system.lower == system.upper)
    slots = system.matrix[fixed].argmax(axis=1)
    value = np.zeros(system.matrix.shape[1])
    value[slots] = system.lower[fixed]
    shift = np.delete(system.matrix @ value, fixed)
    matrix = np.delete(system.matrix, fixed, axis=0)
    matrix[:, slots] = 0.0
    point = interior(System(matrix, np.delete(system.lower, fixed) - shift, np.delete(system.upper, fixed) - shift))
    return None if point is None else point + value


_FORMS: tuple[Form, ...] = ("permutation", "ranking", "places", "any")  # of orders: each one includes those before it
WIDTHS_TO_ASK = 8  # maximum of shapes that queries compile
WIDTHS_TO_FIT = ((20_000, 2), (1_000_000, 5))  # entries, and maximum of shapes that training compiles up to so many
LABELS_OF_A_PROGRAM = 128  # additional padded labels that one compiled program less is worth


class _Shared(NamedTuple):
    """Columns that have the same sites in every row."""

    blocks: list[Block]
    sites: np.ndarray  # their sites in the model
    linear: Any  # a Linear, or None

    def rows(self, index: np.ndarray) -> _Shared:
        """Some rows, which are in order."""
        if not self.blocks or len(index) == self.blocks[0].n_rows:
            return self
        linear = jax.tree.map(lambda leaf: leaf[index], self.linear)
        return _Shared([block.rows(index) for block in self.blocks], self.sites, linear)


class _Listed(NamedTuple):
    """One column of lists in one bucket, padded: which slots [row, slot] are entries, and the numbers of these."""

    block: Block
    first_site: int
    first_slot: int
    real: np.ndarray
    entry: np.ndarray

    @classmethod
    def of(cls, block: Block, first_site: int, first_slot: int, width: int, rows: np.ndarray) -> _Listed:
        start, slot = block.lists.start, np.arange(width)[None, :]
        real = slot < (start[rows + 1] - start[rows])[:, None]
        return cls(block, first_site, first_slot, real, (start[rows][:, None] + slot)[real])

    @property
    def width(self) -> int:
        return self.real.shape[1]

    def padded(self, values: np.ndarray, nothing: Any, kind: Any) -> Any:
        """Values by entry as [row, slot]."""
        found = np.full(self.real.shape, nothing, kind)
        found[self.real] = values[self.entry]
        return found

    @property
    def takes_part(self) -> np.ndarray:
        """Entries that are variables of their rows: all but the padding, in tasks only items that were shown."""
        return self.real if self.block.tasks is None else self.padded(self.block.tier[:, 0] >= 0, False, bool)


def pack(
    blocks: Iterable[Block],
    unobserved: Unobserved,
    dtype: Any = np.float32,
    *,
    reading: MergeLabels | None = None,
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
        return Buckets((_evidence(shared, [], rows, unobserved, dtype, False),), (rows,), slot)
    buckets, places, firsts = [], [], []
    for rows, sizes in _by_width([block for block, _ in lists], n_rows, most_widths):
        at, own = len(shared.sites), []
        for (block, site), size in zip(lists, sizes, strict=True):
            own.append(_Listed.of(block, site, at, size, rows))
            at += size
        buckets.append(_evidence(shared.rows(rows), own, rows, unobserved, dtype, free_lists))
        places.append(rows)
        firsts.append([each.first_slot for each in own])
    where = tuple(
        ListSlots(site, block.lists.start, tuple(each[number] for each in firsts))
        for number, (block, site) in enumerate(lists)
    )
    return Buckets(tuple(buckets), tuple(places), slot, where)


def _shared(every: list[Block], first: np.ndarray, reading: MergeLabels | None, dtype: Any) -> _Shared:
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
        _refuse(blocks, columns, names, reading)
        cuts = None if reading.cuts is None else reading.cuts[sites]
        linear, blocks = merge(blocks, MergeLabels(columns, names, reading.rows, cuts), dtype)
    return _Shared([block for block in blocks if block.sites], sites, linear)


def _refuse(blocks: list[Block], columns: list[str], names: list[str], reading: MergeLabels) -> None:
    """Raise an error for an inequality on an item of a list, which is not a variable of rows that do not list it, or
    on one whose ranking is choices with noise of their own."""
    is_repeated = dict(zip(names, (block.is_repeated for block in blocks for _ in block.sites), strict=True))
    for block, column in zip(blocks, columns, strict=True):
        for line in block.linear:
            for site in line.coefficients:
                if site not in is_repeated:
                    problem = f'"{site}" is an item of a list; inequalities on such items are not supported'
                    remedy = "compare items within the list, by scores or by an order"
                elif is_repeated[site]:
                    problem = f'"{site}" is an item of a ranking with context, which has no utility to compare'
                    remedy = "use Ranking(context=False)"
                else:
                    continue
                raise SchemaError(problem, row=reading.rows[line.row], column=column, remedy=remedy)


def _by_width(blocks: list[Block], n_rows: int, most: int) -> Iterator[tuple[np.ndarray, tuple[int, ...]]]:
    """Rows whose lists have the same padded widths, with these widths."""
    sizes, numbers = [], []
    for block in blocks:
        n_entries, lengths = len(block.lists.site), np.diff(block.lists.start)
        allowed = most or next((n for entries, n in WIDTHS_TO_FIT if n_entries <= entries), WIDTHS_TO_ASK)
        # Every combination of widths is compiled separately.
        steps = list_widths(lengths, max(1, round(allowed ** (1 / len(blocks)))))
        sizes.append(steps)
        numbers.append(np.searchsorted(steps, lengths))
    key = np.stack(numbers, axis=1) if n_rows else np.zeros((0, len(blocks)), np.int64)
    for combination in np.unique(key, axis=0):
        rows = np.flatnonzero((key == combination).all(axis=1))
        yield rows, tuple(int(steps[number]) for steps, number in zip(sizes, combination, strict=True))


def _evidence(
    shared: _Shared, lists: list[_Listed], rows: np.ndarray, unobserved: Unobserved, dtype: Any, free_lists: bool
) -> Evidence:
    """The evidence of some rows, whose lists are padded to the same widths."""
    n_slots, blocks = len(shared.sites) + sum(each.width for each in lists), shared.blocks
    families = {block.family for block in blocks} | {each.block.family for each in lists}

    def beside(name: str, nothing: Any, kind: Any) -> Any:
        """One array of all columns over the slots of these rows."""
        parts = [np.zeros((len(rows), 0), kind), *(getattr(block, name).astype(kind) for block in blocks)]
        parts += [each.padded(getattr(each.block, name)[:, 0], nothing, kind) for each in lists]
        return np.concatenate(parts, axis=1)

    constraints: list[Constraint] = []
    if "measured" in families:
        ends = beside("lower", -np.inf, dtype), beside("upper", np.inf, dtype)
        box = Box(*ends, beside("point", False, bool))
        constraints.append(replace(box, exact=() if np.array_equal(box.observed, box.point) else None))
    if "levels" in families:
        most = max([block.n_cuts for block in blocks] + [each.block.n_cuts for each in lists])
        small = np.int8 if most < 127 else np.int32
        code, high = beside("code", -1, small), beside("code_high", -1, small)
        constraints.append(Levels(code, None if np.array_equal(code, high) else high))
    constraints += _orders(blocks, n_slots)
    constraints += [_listed_order(each, n_slots) for each in lists if each.block.family == "utility"]
    present: Any = None
    if unobserved == "exclude" or lists:
        takes = [block.takes_part | free_lists for block in blocks] + [each.takes_part for each in lists]
        present = np.concatenate([np.zeros((len(rows), 0), bool), *takes], axis=1)
    if shared.linear is not None:
        linear = shared.linear.embed(np.arange(len(shared.sites)), n_slots) if lists else shared.linear
        linear = jax.tree.map(np.asarray, linear)
        constraints.append(linear)
        if present is not None:
            row, member = np.nonzero(linear.slots >= 0)
            present[row, linear.slots[row, member]] = True
    cells = _cells(blocks, lists, n_slots)
    if not lists:
        return Evidence(tuple(constraints), None, present, cells)
    sites = [np.broadcast_to(shared.sites, (len(rows), len(shared.sites)))]
    sites += [each.padded(each.first_site + each.block.lists.site, 0, np.int64) for each in lists]
    # What was shown is no signal.
    listed = [np.zeros(sites[0].shape, bool), *(each.real & (each.block.tasks is None) for each in lists)]
    slots: Any = np.concatenate(sites, axis=1).astype(np.int32)
    marked: Any = np.concatenate(listed, axis=1)
    return Evidence(tuple(constraints), slots, present, cells, marked)


def _cells(blocks: list[Block], lists: list[_Listed], n_slots: int) -> Any:
    """The utilities of one column, or of one task, are one cell; every other slot is its own cell."""
    slots = np.arange(n_slots, dtype=np.int32)
    cells, first = slots.copy(), 0
    for block in blocks:
        if block.family == "utility":
            cells[first : first + len(block.sites)] = first
        first += len(block.sites)
    for each in lists:
        if each.block.tasks is not None:
            own = slots[each.first_slot : each.first_slot + each.width]
            cells[own] = own - (own - each.first_slot) % each.block.tasks.size
    return None if np.array_equal(cells, slots) else cells


def _listed_order(each: _Listed, n_slots: int) -> Order | Pairwise:
    """The orders of a listed column, one for each row over the slots of its list; or its tasks, each a comparison with
    noise of its own over consecutive slots."""
    tier, about = each.padded(each.block.tier[:, 0], -1, np.int32), each.block.tasks
    slots = np.arange(each.first_slot, each.first_slot + each.width)
    if about is not None:
        end = max(each.width // about.size, 1) * about.size
        groups = tuple(map(tuple, slots[:end].reshape(-1, about.size).tolist()))
        return comparisons(tier[:, :end].reshape(len(tier), -1, about.size), groups, n_slots, about)
    tier = tier[:, None, :]
    depth, breadth = shape_of(tier)
    depth = 1 << (max(depth, 2) - 1).bit_length()  # few shapes
    where = (tuple(slots.tolist()),)
    return Order(tier, where, n_slots, depth, breadth, mass="gumbel", gumbel_scale=CLOSER_SCALE)


def comparisons(tier: Any, slots: Any, n_slots: int, about: Tasks) -> Order | Pairwise:
    """Tasks as a constraint: `tier` [row, task, item]. Orders of more than two tiers have the Gumbel mass (A.3)."""
    if about.is_paired:
        return Pairwise(tier, slots, n_slots, 2, 1, False, True, True, about.noise, about.has_ties)
    depth, breadth = about.shape
    form: Any = "places" if about.is_choice else "any"
    mass: Any = "gumbel" if about.noise == "gumbel" or breadth > 1 else "exact"
    scale = 1.0 if about.noise == "gumbel" else CLOSER_SCALE
    return Order(tier, slots, n_slots, depth, breadth, about.is_choice, True, True, mass, scale, form)


def _orders(blocks: list[Block], n_slots: int) -> list[Constraint]:
    """Columns with similar numbers of labels share one constraint, padded to the widest: few programs.

    Choices of one label are separate from orders with more tiers, since they have faster algorithms.
    """
    kinds: dict[bool, list[tuple[Block, int]]] = {}
    constraints: list[Constraint] = []
    first = 0
    for block in blocks:
        if block.is_repeated:  # rankings that are choices one after another
            own: Any = block.tier[:, None, :].astype(np.int32)
            slots = (tuple(range(first, first + len(block.sites))),)
            constraints.append(RepeatedChoice(own, slots, n_slots, alone=True))
        elif block.family == "utility":
            is_choice = block.order_shape is None and _are_choices(block)
            kinds.setdefault(is_choice, []).append((block, first))
        first += len(block.sites)
    for is_choice, every in sorted(kinds.items()):
        narrower = 0
        for size in widths([len(block.sites) for block, _ in every], price=LABELS_OF_A_PROGRAM):
            members = [each for each in every if narrower < len(each[0].sites) <= size]
            constraints += _one_order(members, size, is_choice, n_slots)
            narrower = size
    return constraints


def _one_order(members: list[tuple[Block, int]], size: int, is_choice: bool, n_slots: int) -> Iterator[Constraint]:
    """The orders of some columns, given with their first slots, as one constraint; and "one of these" as another."""
    shape = (len(members[0][0].tier), len(members), size)
    tier, one_of, slots = np.full(shape, -1, np.int32), np.zeros(shape[:2], bool), np.full(shape[1:], -1)
    for place, (block, begin) in enumerate(members):
        n_labels = len(block.sites)
        tier[:, place, :n_labels] = block.tier
        one_of[:, place] = block.one_of
        slots[place, :n_labels] = np.arange(begin, begin + n_labels)
    where = tuple(map(tuple, slots.tolist()))
    plain: Any = np.where(one_of[:, :, None], -1, tier)
    (depth, breadth), form = shape_of(plain), form_of(plain, where)
    # The shape of the training table if it has room for these orders, so that they share a program.
    shapes: list[Any] = [block.order_shape for block, _ in members if block.order_shape is not None]
    if shapes:
        own = [(depth, breadth, form)] if plain.max(initial=-1) > 0 else []  # else they say nothing
        depth, breadth, form = _widest([*shapes, *own])
    yield Order(plain, where, n_slots, depth, breadth, is_choice, alone=True, form=form)
    if one_of.any():
        sets: Any = np.where(one_of[:, :, None], tier, -1)
        yield OneOf(sets, where, n_slots, alone=True)


OrderShape = tuple[int, int, str]  # depth, width and form, which decide what program computes the orders of a column


def _widest(shapes: Iterable[OrderShape]) -> tuple[int, int, Any]:
    """A shape that has room for the orders of all."""
    depths, breadths, forms = zip(*shapes, strict=True)
    form = max(("places" if each == "choice" else each for each in forms), key=_FORMS.index)
    return max(depths), max(breadths), form


def order_shapes(blocks: Mapping[str, Block]) -> dict[str, OrderShape]:
    """The shape of each column's orders; not of choices of one label."""
    found = dict[str, OrderShape]()
    for name, block in blocks.items():
        if block.family == "utility" and block.entries is None and not (block.is_repeated or _are_choices(block)):
            tier = np.where(block.one_of[:, None], -1, block.tier)[:, None, :]
            found[name] = *shape_of(tier), form_of(tier, None)
    return found


def wider(one: Mapping[str, OrderShape], other: Mapping[str, OrderShape]) -> dict[str, OrderShape]:
    """Shapes that have room for the orders of both, by column."""
    both = {name: _widest((one[name], shape)) for name, shape in other.items() if name in one}
    return {**one, **other, **both}


def _are_choices(block: Block) -> bool:
    return bool(((block.tier > 0).sum(axis=1) <= 1).all())


# Sizes to fill up to. Time grows with the number of sites: by an eighth at most on six surveys.
BOXES = (16, 32, 48, 64, 96, 128, 192, 256)  # sites that are levels or numbers
FEW_ITEMS = 6  # columns of choices with so many labels, and those with more ...
GROUPS = (1, 2, 4, 6, 8, 12, 16, 24, 32)  # ... are filled up to these numbers of columns
ITEMS = (9, 12, 16, 24, 32, 48, 64, 96)  # labels of the latter
FEW_BOXES, LEAST_GROUPS = 16, (4, 2)  # columns of either kind beside few other sites: one shape for small surveys
CUTS = (6, 12, 24, 48, 96)  # of a site
ROWS = (2048, 8192, 32768)  # of a table that is trained on
MOST_SLOTS = 300  # training of larger tables takes longer than compilation
MOST_ADDED = 64  # sites, beyond as many as the table has itself
BY_SITE = "site_bias", "weights", "loadings"  # parameters


def up(number: int, sizes: tuple[int, ...]) -> int:
    """The smallest of the sizes that holds a number; beyond the largest, a multiple of it."""
    return next((size for size in sizes if size >= number), -(-number // sizes[-1]) * sizes[-1])


class Padding(NamedTuple):
    """Where the sites of a table are in the common shape.

    place    slot of each site, [site]
    n_slots  number of slots of the common shape
    groups   slots of the groups of each constraint in the common shape, and the numbers of its own groups among these;
             None if it has no groups
    """

    place: np.ndarray
    n_slots: int
    groups: tuple[tuple[Slots, np.ndarray] | None, ...]

    @classmethod
    def of(cls, table: Buckets) -> Padding | None:
        """The padding of a table; None for tables with lists or with constraints between cells, and for large ones."""
        if len(table.buckets) != 1:
            return None
        evidence = table.buckets[0]
        # The groups of a constraint, none of a box; None if it cannot be moved to other slots.
        groups = [each.structure.groups if each.structure.couples else () for each in evidence.constraints]
        has_own_models = evidence.sites is not None or evidence.present is not None
        if has_own_models or not groups or any(each is None for each in groups):
            return None
        n_sites, place = n_slots(evidence), np.full(n_slots(evidence), -1)
        inside = [slot for own in groups for group in own or () for slot in group if slot >= 0]
        boxes = np.setdiff1d(np.arange(n_sites), inside)
        place[boxes] = np.arange(len(boxes))
        end = up(len(boxes), BOXES) if len(boxes) else 0
        known: dict[Slots, tuple[Slots, np.ndarray]] = {}
        for own, constraint in zip(groups, evidence.constraints, strict=True):
            if own and own not in known:
                are_choices, old = constraint.structure.are_choices, np.asarray(own)
                # Orders that are no choices would cost more time if they were filled up.
                as_they_are = (old >= 0).sum(axis=1).tolist(), np.arange(len(old))
                sizes, where = _choices(old, len(boxes) <= FEW_BOXES) if are_choices else as_they_are
                ends, item = end + np.cumsum(sizes), np.arange(max(sizes))[None, :]  # one group after another
                places = np.where(item < np.asarray(sizes)[:, None], (ends - sizes)[:, None] + item, -1)
                slots, end = tuple(map(tuple, places.tolist())), int(ends[-1])
                place[old[old >= 0]] = np.asarray(slots)[where, : old.shape[1]][old >= 0]
                known[own] = slots, where
        if end > min(MOST_SLOTS, 2 * n_sites + MOST_ADDED):
            return None
        return cls(place, end, tuple(known[own] if own else None for own in groups))

    def evidence(self, own: Evidence) -> Evidence:
        """Rows in the common shape, on the host."""
        constraints: list[Constraint] = []
        for each, groups in zip(own.constraints, self.groups, strict=True):
            if groups is None:
                constraints.append(each.embed(self.place, self.n_slots))
            else:
                constraints.append(cast(Groups, each).move(*groups, self.n_slots))
        cells: Any = None
        if own.cells is not None:
            cells = np.arange(self.n_slots, dtype=np.int32)
            cells[self.place] = self.place[np.asarray(own.cells)]
        return Evidence(tuple(constraints), None, None, cells)

    def table(self, own: Buckets) -> Buckets:
        """A table in the common shape. Rows that fill it up have no place: they are no part of it."""
        (evidence,), (rows,) = own.on_host().buckets, own.places
        index = np.concatenate([np.arange(len(rows)), np.zeros(up(len(rows), ROWS) - len(rows), np.int64)])
        return replace(own, buckets=(self.evidence(evidence).rows(index),), shared=self.place)

    def sites(self, own: Any, nothing: Any) -> np.ndarray:
        """Values by site in the common shape; `nothing` at sites that are added."""
        values = np.asarray(own)
        found = np.full((self.n_slots, *values.shape[1:]), nothing, values.dtype)
        found[self.place] = values
        return found

    def cuts(self, own: Any) -> np.ndarray:
        """Cuts by site in the common shape, +∞ where there is none."""
        more = up(max(own.shape[1], 1), CUTS) - own.shape[1]
        return self.sites(np.pad(np.asarray(own), ((0, 0), (0, more)), constant_values=np.inf), np.inf)

    def params(self, own: Params) -> Params:
        """Parameters in the common shape."""
        gauge = Gauge(self.cuts(own.gauge.cuts), self.sites(own.gauge.scale, 1.0))  # type: ignore[arg-type]
        by_site: dict[str, Any] = {name: self.sites(getattr(own, name), 0.0) for name in BY_SITE}
        return jax.device_put(own._replace(gauge=gauge, **by_site))

    def own_params(self, found: Params, n_cuts: int) -> Params:
        """Parameters of the table's own sites, with as many cuts as it has."""
        cuts, scale = np.asarray(found.gauge.cuts), np.asarray(found.gauge.scale)
        gauge: Any = Gauge(cuts[self.place, :n_cuts], scale[self.place])  # type: ignore[arg-type]
        by_site: dict[str, Any] = {name: np.asarray(getattr(found, name))[self.place] for name in BY_SITE}
        return jax.device_put(found._replace(gauge=gauge, **by_site))


def _choices(slots: np.ndarray, is_small: bool) -> tuple[list[int], np.ndarray]:
    """Sizes of groups to fill up to, first those with few items; and which of them each group becomes."""
    sizes = (slots >= 0).sum(axis=1)
    is_few = sizes <= FEW_ITEMS
    least = LEAST_GROUPS if is_small and sizes.max() <= ITEMS[0] else (0, 0)
    counts = np.maximum([is_few.sum(), (~is_few).sum()], least)
    n_few, n_more = (up(n, GROUPS) if n else 0 for n in counts.tolist())
    where = np.where(is_few, np.cumsum(is_few) - 1, n_few + np.cumsum(~is_few) - 1)
    return [FEW_ITEMS] * n_few + [up(int(sizes.max()), ITEMS)] * n_more, where
