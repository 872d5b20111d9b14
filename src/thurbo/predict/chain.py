"""§4.3 The chain rule over the predictive distribution: answers of a row one after another, each given those before.

The score of a row is the log of the mean, over a few orders of its answers, of Π P(answer | answers before it): a
distribution, of which rows are drawn in one of the same orders. Orders come in pairs, one the reverse of the other; of
up to three answers all orders are averaged. A gate comes before the questions that it decides about. Answers that are
not yet known say nothing; where empty cells of a row are filled in, the row stays the one that left them empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.special import logsumexp, softmax

from thurbo.latent.evidence import Evidence
from thurbo.predict.member import MemberQuery
from thurbo.predict.model import Model, Query, Rows
from thurbo.predict.predictive import Predictive, drawn_codes
from thurbo.table.columns.cells import ARRAYS, Block
from thurbo.table.columns.forms import Lines
from thurbo.table.columns.values import blanked
from thurbo.table.io.frames import as_table
from thurbo.table.schema import routing
from thurbo.table.schema.schema import Schema

N_ORDERS, MOST_PASSES = 8, 256  # orders of the answers; fewer if there are many questions
FEW = 3  # answers of which all orders are averaged
STRENGTH = 20.0  # drawn rows by which the correction of shares is pulled to none
N_ROUNDS = 30  # of the search for this correction


def gates_first(schema: Schema, names: Sequence[str]) -> list[str]:
    """The same questions, each after its gates; otherwise in the given order."""
    found: dict[str, None] = {}

    def place(name: str, above: tuple[str, ...] = ()) -> None:
        for gate in (skip.asked_if for skip in schema.skips if name in skip.columns):
            if gate in names and gate not in found and gate not in above:
                place(gate, (*above, name))
        found.setdefault(name)

    for name in names:
        place(name)
    return list(found)


def orders_of(schema: Schema) -> list[list[str]]:
    """A fixed set of orders of all questions: pairs of an order and its reverse, each with gates first."""
    names = list(schema.modelled)
    n_pairs = int(np.clip(MOST_PASSES // max(len(names), 1), 2, N_ORDERS)) // 2
    rng, found = np.random.default_rng(0), []
    for _ in range(n_pairs):
        order = [names[place] for place in rng.permutation(len(names))]
        found += [gates_first(schema, order), gates_first(schema, order[::-1])]
    return found


def log_prob(model: Model, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """log P(all answers of each row), in the user's units, and the standard error of the mean over orders."""
    if rows.gaps != "ignorable":  # answers that are not yet known say nothing
        rows = model.read(rows.table, rows.given, "ignorable", "ignore")
    n_rows, schema = rows.evidence.n_rows, model.schema
    # Empty cells say nothing.
    query = replace(model.query(rows), informative=np.zeros(n_rows, bool), absent=tuple(schema.modelled))
    value, error = np.zeros(n_rows), np.zeros(n_rows)
    answered = np.stack([query.blocks[name].answered for name in schema.modelled], axis=1)
    few = np.zeros(n_rows, bool) if schema.listed else answered.sum(axis=1) <= FEW
    parts = [(np.flatnonzero(~few), orders_of(schema))]
    for pattern in np.unique(answered[few], axis=0):
        names = [name for name, has in zip(schema.modelled, pattern, strict=True) if has]
        every = [list(order) for order in permutations(names) if gates_first(schema, order) == list(order)]
        parts.append((np.flatnonzero(few & (answered == pattern).all(axis=1)), every))
    for index, orders in parts:
        if len(index):
            logs = np.stack([_by_order(query, order, index, number) for number, order in enumerate(orders)])
            value[index] = logsumexp(logs, axis=0) - np.log(len(logs))
            error[index] = np.exp(logs - value[index]).std(axis=0) / np.sqrt(max(len(logs) - 1, 1))
    error[few] = 0.0  # of all orders
    return value, error


def _by_order(query: Query, order: Sequence[str], rows: np.ndarray, number: int) -> np.ndarray:
    """log P(answers) of some rows in one order; items of lists are in an order of their own, by its number.

    With lists the context is all rows, since entries are found by their place in the whole table.
    """
    total, has_lists = np.zeros(query.evidence.n_rows), bool(query.schema.listed)
    for place, name in enumerate(order):
        column, block, later = query.schema[name], query.blocks[name], order[place + 1 :]
        if column.is_listed:
            _add_list(query, name, later, number, total)
            continue
        own = rows[block.answered[rows]]
        if not len(own):
            continue
        lines = Lines(own if has_lists else np.arange(len(own)), np.zeros(len(own), np.int64))
        for part in range(column.form.n_parts()):
            context = before(query, later, (name, part), rows=None if has_lists else own)
            total[own] += column.form.log_prob(context.about(name, lines, own=False), block.rows(own), part)
    return total[rows]


def before(
    query: Query,
    later: Sequence[str],
    own: tuple[str, int] | None = None,
    entries: Mapping[str, np.ndarray] = MappingProxyType({}),
    rows: np.ndarray | None = None,
) -> Query:
    """Rows, by default all, without later questions, a question from one of its parts on, and some entries of a list.

    An entry that is not known is not listed either: which items are rated can be a signal.
    """
    lists = [name for name in later if query.schema[name].is_listed]
    entries = {**entries, **{name: np.ones(len(query.blocks[name].lists.site), bool) for name in lists}}
    members = []
    for each in query.members:
        evidence, where = each.evidence if rows is None else each.evidence.rows(rows), each.schema.slices
        hidden = [each.slots(name) for name in later if name not in lists]
        if own is not None:
            hidden.append(each.slots(own[0])[own[1] if each.blocks[own[0]].family == "levels" else 0 :])
        shared = np.concatenate([np.zeros(0, np.int64), *hidden]).astype(np.int64)
        row, slot = [np.repeat(np.arange(evidence.n_rows), len(shared))], [np.tile(shared, evidence.n_rows)]
        for name, gone in entries.items():
            row.append(each.blocks[name].lists.row[gone])
            slot.append(evidence.entry_slots(where[name].start)[gone])
        how = "exclude" if rows is None else each.how.unobserved
        rest = evidence.hide(np.concatenate(row), np.concatenate(slot), how, always=True).on_host()
        members.append(_same_program(each, replace(each, evidence=rest.replaced(_listed))))
    found = query.with_members(members)
    if rows is None:
        return found
    places = rows if query.places is None else query.places[rows]
    return replace(found, informative=query.informative[rows], places=places)


def _listed(own: Evidence) -> Evidence:
    """Only slots that are present are listed."""
    return own if own.listed is None or own.present is None else own._replace(listed=own.listed & own.present)


def _same_program(old: MemberQuery, new: MemberQuery) -> MemberQuery:
    """The new query with parameters on the device, if the old one has the same constraints on the same slots."""
    new.__dict__["_shaped"] = old._shaped
    return new


def _turns(block: Block, number: int) -> np.ndarray:
    """Position of each entry, or of its task, among those of its row: [entry]. Odd orders reverse the ones before."""
    entries = block.lists
    key = np.random.default_rng(number // 2).random(len(block.sites))[entries.site]
    if block.tasks is not None:
        first = np.arange(len(key)) // block.tasks.size * block.tasks.size
        key = np.random.default_rng(number // 2).random(len(key))[first - entries.start[entries.row]]
    key = -key if number % 2 else key
    order = np.lexsort((np.arange(len(key)), key, entries.row))
    turn = np.empty(len(key), np.int64)
    turn[order] = np.arange(len(key)) - entries.start[entries.row[order]]
    return turn if block.tasks is None else turn // block.tasks.size


def _add_list(query: Query, name: str, later: Sequence[str], number: int, total: np.ndarray) -> None:
    """Add log P(entry | entries before it) of every entry of a list to the totals of the rows."""
    block, entries = query.blocks[name], query.blocks[name].lists
    is_order = block.family == "utility" and block.tasks is None
    turn = np.zeros(len(entries.site), np.int64) if is_order else _turns(block, number)
    for step in range(int(turn.max(initial=-1)) + 1):
        context = before(query, later, entries={name: turn >= step})
        own = np.flatnonzero((turn == step) & (block.observed[:, 0] | is_order))
        if not len(own):
            continue
        if is_order:  # of every row whose list is an order
            length, place = np.diff(entries.start), np.arange(len(entries.site)) - entries.start[entries.row]
            row, width = np.flatnonzero(length > 1), 1 << (int(length.max(initial=1)) - 1).bit_length()
            tier, site = np.full((len(length), width), -1, np.int32), np.zeros((len(length), width), np.int64)
            tier[entries.row, place], site[entries.row, place] = block.tier[:, 0], entries.site
            ask = context.about(name, Lines(np.repeat(row, width), site[row].reshape(-1)), own=False)
            logs = ask.orders(tier[row])
        else:
            ask = context.about(name, Lines(entries.row[own], entries.site[own]), own=False)
            said = replace(block, **{each: getattr(block, each)[own] for each in ARRAYS})
            logs, row = query.schema[name].form.log_prob(ask, said), entries.row[own]
            row = row if block.tasks is None else row[:: block.tasks.size]
        np.add.at(total, row, logs)


class Draws:
    """Rows that are being drawn: what is known of them so far, by member and as cells of the table.

    Each begins with the row of `rows` in `index`. Drawn is what is `missing`, [row of `rows`] by question; if `routed`,
    without questions that a row is not asked by the gates that are drawn.
    """

    def __init__(
        self, model: Model, rows: Rows, index: np.ndarray, missing: Mapping[str, np.ndarray], routed: bool = True
    ):
        self.model, self.schema, self.index = model, model.schema, index
        self.base = model.query(rows)
        self.lacking, self.missing = missing, {name: own[index] for name, own in missing.items() if own[index].any()}
        read = {id(own.schema): own for own in model.encoded(rows)}
        self.known = {
            key: (own.schema, {name: block.rows(index) for name, block in own.blocks.items()})
            for key, own in read.items()
        }
        self.pattern = {name: rows.blocks[name].answered[index] for name in self.schema.modelled}
        self.cells: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
        self.out = {name: np.zeros(len(index), bool) for name in self.schema.modelled}
        self.routed = routed and bool(self.schema.skips)
        self._starts: dict[str, tuple[np.ndarray | None, list[np.ndarray]]] = {}
        self._programs: dict[Any, MemberQuery] = {}
        if self.routed:
            named = {each for skip in self.schema.skips for each in (skip.asked_if, *skip.columns)}
            self.led = routing.led_to(self.schema.skips, {each: self.pattern[each] for each in named})

    def draw(self, rng: np.random.Generator, last: Sequence[str] = ()) -> None:
        """Draw all that is missing; questions in `last` come after all others, and keep what is said about them."""
        orders = orders_of(self.schema)
        group = rng.permutation(np.arange(len(self.index)) % len(orders))
        for number, order in enumerate(orders):
            own = np.flatnonzero(group == number)
            for name in [*(name for name in order if name in self.missing and name not in last), *last]:
                lines = own[self.missing[name][own] & ~self.out[name][own]]
                if len(lines):
                    self._draw(name, lines, rng, name in last)

    def _query(self, lines: np.ndarray) -> Query:
        """What is known of some drawn rows, put to the model."""
        read = {}
        for key, (schema, blocks) in self.known.items():
            own = {name: block.rows(lines) for name, block in blocks.items()}
            read[key] = own, self.model.packed(schema, own).on_host()
        members: list[MemberQuery] = []
        for each, old in zip(self.model.members, self.base.members, strict=True):
            blocks, evidence = read[id(each.schema)]
            new = replace(old, blocks=blocks, evidence=evidence)
            kinds = tuple((type(c), c.structure) for bucket in evidence.buckets for c in bucket.constraints)
            members.append(_same_program(self._programs.setdefault((len(members), kinds), new), new))
        pattern = {name: own[lines] for name, own in self.pattern.items()}
        informative = self.base.informative[self.index[lines]]
        return replace(self.base.with_members(members), informative=informative, pattern=pattern)

    def _draw(self, name: str, lines: np.ndarray, rng: np.random.Generator, is_stated: bool) -> None:
        column, form = self.schema[name], self.schema[name].form
        n_parts, rows = form.n_parts(), Lines(np.arange(len(lines)), np.zeros(len(lines), np.int64))
        codes = np.zeros((len(lines), n_parts), np.int64)
        within: Block | None = None
        if is_stated:  # what the rows say about it is then no longer part of what is known of them
            within = self.known[id(self.model.members[0].schema)][1][name].rows(lines)
            self._put(name, lines, lambda schema: schema[name].silent(len(lines)))
        (bands, targets), place = self._start(name), (np.cumsum(self.lacking[name]) - 1)[self.index[lines]]
        ask: Predictive | None = None
        for part in range(n_parts):
            ask = self._query(lines).about(name, rows, own=False)
            ask.bands_at = bands
            chance = form.outcomes(ask, part)
            if within is None:
                target = targets[part][place]
                chance = with_shares(sharpened(chance, target, self.model.sharpness), target)
            else:
                chance = chance * np.maximum(form.allowed(within, chance, part), 1e-300)
            codes[:, part] = drawn_codes(chance, rng)
            if n_parts > 1:
                for _, blocks in self.known.values():
                    blocks[name].code[lines, part] = blocks[name].code_high[lines, part] = codes[:, part]
        assert ask is not None
        cells = form.drawn(name, ask, codes if n_parts > 1 else codes[:, 0], rng, within)
        for source, values in cells.items():
            self.cells.setdefault(source, []).append((lines, np.asarray(values)))
        table = as_table(dict(cells))
        self._put(name, lines, lambda schema: Schema({name: schema[name]}).compile(table)[name])
        for place, skip in enumerate(self.schema.skips if self.routed else ()):
            if skip.asked_if == name:
                past = routing.says(column, skip, table.gathered({name: column}, name)) == routing.NOT_ASKED
                self._leave_out(place, lines[past & ~self.led[place][lines]])

    def _put(self, name: str, lines: np.ndarray, said: Callable[[Schema], Block]) -> None:
        """Replace what each member knows of some rows by what they say under its schema."""
        for schema, blocks in self.known.values():
            own = said(schema)
            for each in ARRAYS:
                getattr(blocks[name], each)[lines] = getattr(own, each)

    def _leave_out(self, place: int, rows: np.ndarray) -> None:
        """Leave out the questions that rows are not asked after a gate, and those that depend on them."""
        for name in self.schema.skips[place].columns:
            self.out[name][rows] = True
            for other, skip in enumerate(self.schema.skips):
                if skip.asked_if == name:
                    self._leave_out(other, rows[~self.led[other][rows]])

    def _start(self, name: str) -> tuple[np.ndarray | None, list[np.ndarray]]:
        """Bands of a number, and predictions at first by part of the answer, [row that lacks it, outcome]."""
        if name not in self._starts:
            rows, form = np.flatnonzero(self.lacking[name]), self.schema[name].form
            ask = self.base.about(name, Lines(rows, np.zeros_like(rows)), own=False)
            ask.bands_at = form.draw_bands(ask)
            self._starts[name] = ask.bands_at, [form.outcomes(ask, part) for part in range(form.n_parts())]
        return self._starts[name]

    def table(self) -> dict[str, np.ndarray]:
        """The drawn cells by column of the table, [draw]; those that were not drawn are empty."""
        sources = (source for name in self.missing for source in self.schema.source_columns[name])
        found: dict[str, Any] = {source: np.full(len(self.index), None, object) for source in sources}
        for source, parts in self.cells.items():
            kinds = {values.dtype.kind for _, values in parts}
            if len(kinds) > 1 and not kinds <= set("iuf"):  # what is beside texts stays as it is
                parts = [(lines, values.astype(object)) for lines, values in parts]
            lines, values = (np.concatenate(each) for each in zip(*parts, strict=True))
            whole, is_open = np.zeros(len(self.index), values.dtype), np.ones(len(self.index), bool)
            whole[lines], is_open[lines] = values, False
            found[source] = blanked(whole, is_open)
        return found


def sharpened(chance: np.ndarray, start: np.ndarray, power: float) -> np.ndarray:
    """Probabilities with a power of what drawn answers have added to those at the start: see `Model.sharpness`."""
    first = np.log(np.maximum(start, 1e-30))
    logs = first + power * (np.log(np.maximum(chance, 1e-30)) - first)
    return np.asarray(softmax(logs, axis=1))


def with_shares(chance: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Probabilities [row, outcome] with their mean over rows moved to that of `target`; of few rows only a part of it.

    Otherwise small errors of each prediction would add up along a row, since later answers depend on drawn ones.
    """
    wanted, logs = target.mean(axis=0), np.log(np.maximum(chance, 1e-30))
    offset = np.zeros(chance.shape[1])
    for _ in range(N_ROUNDS):
        mean = softmax(logs + offset, axis=1).mean(axis=0)
        offset = offset + np.log(np.maximum(wanted, 1e-12)) - np.log(np.maximum(mean, 1e-12))
    offset *= len(chance) / (len(chance) + STRENGTH)
    return np.asarray(softmax(logs + offset, axis=1))
