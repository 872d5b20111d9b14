"""§6 Predictions in the user's units: probabilities of labels, cells of a table, intervals, and which cells are gaps.

Each answer is predicted from all other evidence in its row. For a listed column these are the answers of the given
items, or of the items that each row lists, each predicted from the others. Answers of questions that were not asked are
no gaps: known answers of gates decide first; a gate that is empty itself is imputed or drawn, and then decides as well.
Items are added to lists and orders where their utility puts them; E[x | all that the row says] keeps the stated order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

import jax
import numpy as np

from thurbo._typing import Array, Float
from thurbo.errors import SchemaError, ThurboError
from thurbo.latent import rbm
from thurbo.latent.evidence import Evidence
from thurbo.latent.inference import gibbs
from thurbo.latent.inference.meanfield import mean_field
from thurbo.latent.rbm import Params
from thurbo.predict.member import MemberQuery
from thurbo.predict.model import Query, Rows
from thurbo.predict.moments import How
from thurbo.predict.predictive import Predictive
from thurbo.table.columns.cells import Block, Cells, Entries
from thurbo.table.columns.column import Column
from thurbo.table.columns.forms import Certainty, Lines
from thurbo.table.columns.listed import from_table
from thurbo.table.columns.values import blanked, listing, plain, show, suggestion
from thurbo.table.io.frames import Table, as_table
from thurbo.table.schema import routing
from thurbo.table.schema.routing import NOT_APPLICABLE, in_order
from thurbo.table.schema.schema import Schema

STAGE = "predicting"
# Names of kinds: every declared missing value, empty cells, and "n/a" in a text file, which may have none.
ALL, ALWAYS_KNOWN = "all", ("all", "no answer", "n/a")

OpenCells = dict[str, dict[str, np.ndarray]]  # by question, by column of the table: which rows [row]
Flags = dict[str, np.ndarray]  # new columns by name


def sites_of(schema: Schema, name: str, items: Any) -> np.ndarray:
    """Positions of items in their column; an unknown item is an error."""
    known = {label: place for place, label in enumerate(schema[name].labels)}
    found = []
    for item in items:
        if plain(item) not in known:
            remedy = f"{suggestion(item, known)}use items of the training table"
            raise SchemaError(f"there is no item {show(item)}", column=name, remedy=remedy)
        found.append(known[plain(item)])
    return np.asarray(found, np.int64)


def items_of(name: str, items: Any) -> Any:
    """The given items of one column, {column: items} if there are several; None if there are none."""
    return items.get(name) if isinstance(items, Mapping) else items


def refuse_text(name: str, items: Any) -> None:
    """Refuse one text in place of a list of items."""
    if isinstance(items, str):
        raise SchemaError(f"items={show(items)} is one text", column=name, remedy="give a list of items")


def check_items(schema: Schema, items: Any) -> None:
    """Refuse items where no column has any, or where they are given for another column."""
    if items is None:
        return
    held = [name for name, column in schema.items() if column.has_items]
    if not held:
        raise ThurboError("items= is for Ratings and Ranking columns, and this model has none; leave it out")
    for name in items if isinstance(items, Mapping) else ():
        if name not in held:
            remedy = f"{suggestion(name, held)}columns with items: {listing(held)}"
            raise SchemaError("items= names it, but it has no items", column=str(name), remedy=remedy)


def lines_of(query: Query, name: str, items: Any) -> Lines | None:
    """The answers to predict in a listed column: the same items in every row; None for each row's own items."""
    items = items_of(name, items)
    if items is None or not query.schema[name].is_listed:
        return None
    refuse_text(name, items)
    sites, n_rows = sites_of(query.schema, name, items), query.evidence.n_rows
    return Lines(np.repeat(np.arange(n_rows), len(sites)), np.tile(sites, n_rows))


def probabilities(query: Query, name: str, items: Any = None) -> np.ndarray:
    """P(label | all other evidence in the row), [row, label], of lists [row, item, level]: see `Form.probabilities`."""
    return _answer(query, name, items, "predict_proba", Predictive.probabilities, not query.schema[name].form.asks_rows)


def _answer(
    query: Query, name: str, items: Any, what: str, ask: Callable[[Predictive], np.ndarray], by_item: bool = True
) -> np.ndarray:
    """What `ask` gives for each line; of a listed column, with `by_item`, as [row, item, ...]."""
    lines, is_listed = lines_of(query, name, items), query.schema[name].is_listed
    if is_listed and lines is None:
        problem = f"{what} of a list needs items"
        raise SchemaError(problem, column=name, remedy="use items=[...]; predict works without items")
    try:
        found = ask(query.about(name, lines))
    except ThurboError as error:
        raise ThurboError(f'column "{name}": {error}') from None
    return found.reshape(query.evidence.n_rows, -1, *found.shape[1:]) if is_listed and by_item else found


def with_labels(schema: Schema) -> list[str]:
    """Questions with labels, except lists."""
    return [name for name in schema.modelled if schema[name].labels and not schema[name].is_listed]


def all_probabilities(query: Query) -> np.ndarray:
    """P(label) of all columns with labels, except lists, in the order of the schema: [row, label]."""
    names = with_labels(query.schema)
    if query.schema.listed and not names:
        problem = "all columns are lists of items, as in a sparse matrix, so there is no table of labels"
        raise SchemaError(problem, remedy="say column= and items=[...]")
    found = [probabilities(query, name) for name in names]
    return np.concatenate([np.zeros((query.evidence.n_rows, 0)), *found], axis=1)


def named_probabilities(schema: Schema, found: np.ndarray, name: str | None) -> dict[str, np.ndarray]:
    """The columns of `probabilities` by label, or those of `all_probabilities` by "column: label"."""
    if found.ndim != 2:
        raise ThurboError("probabilities of several items for each row are no table; leave out out=")
    if name is not None:
        return dict(zip(_texts(schema[name]), found.T, strict=True))
    titles = [f"{each}: {text}" for each in with_labels(schema) for text in _texts(schema[each])]
    return dict(zip(titles, found.T, strict=True))


def _texts(column: Column) -> list[str]:
    """Labels as names of columns: by their display names if these are all different."""
    texts = [str(text) for text in getattr(column, "texts", column.labels)]
    return texts if len(set(texts)) == len(texts) else [str(label) for label in column.labels]


def table(
    query: Query, names: Sequence[str], statistic: str, items: Any, on_column: Callable[[dict[str, Any]], None]
) -> dict[str, np.ndarray]:
    """Predicted cells of several columns; `on_column` is called after each, with a record for a progress display."""
    found: dict[str, np.ndarray] = {}
    for done, name in enumerate(names, start=1):
        asked = query.about(name, lines_of(query, name, items))
        if query.schema[name].is_listed:
            values = query.schema[name].form.values(asked, statistic)
            found[name] = query.schema[name].list_cells(*asked.lines, values, query.evidence.n_rows)
        else:
            found |= query.schema[name].form.cells(name, asked, statistic)
        on_column({"stage": STAGE, "done": done, "of": len(names), "figure": name})
    return found


def interval(query: Query, name: str, level: Any, items: Any = None) -> np.ndarray:
    """The two ends [row, 2] of the central interval of each row, of lists [row, item, 2]: units or labels."""
    if isinstance(level, bool) or not isinstance(level, Real) or not 0 < float(level) < 1:
        raise ThurboError(f"level={level!r} is not a probability; give a number above 0 and below 1, such as 0.9")
    form = query.schema[name].form
    return _answer(query, name, items, "predict_interval", lambda asked: form.interval(asked, float(level)))


def from_latent(schema: Schema, params: Params, x: np.ndarray, shared: np.ndarray) -> dict[str, np.ndarray]:
    """Cells of shared columns, decoded from latent values [row, slot]; `shared` is the slot of each site."""
    cuts, scale = np.asarray(params.gauge.cuts, np.float64), np.asarray(params.gauge.scale, np.float64)
    found: dict[str, np.ndarray] = {}
    for name, where in schema.slices.items():
        column = schema[name]
        if column.sites and not column.is_listed:
            found |= column.decode_columns(name, x[:, shared[where]], cuts[where], scale[where])
    return found


def kinds_named(schema: Schema, fill: Any) -> frozenset[str]:
    """The kinds of declared missing values that `fill` names: by name or by value, or "all" of them."""
    known: dict[str, set[str]] = {}
    for column in schema.values():
        for value, name in column.declared_missing:
            known.setdefault(name.casefold(), set()).add(name)
            known.setdefault(str(value).casefold(), set()).add(name)
    if schema.skips:  # empty cells of questions that were not asked
        known.setdefault(NOT_APPLICABLE, set()).add(NOT_APPLICABLE)
    every = {name for names in known.values() for name in names}
    found: set[str] = set()
    for each in (fill,) if isinstance(fill, (str, int, float)) else fill or ():
        word = str(plain(each)).strip().casefold()
        if word not in known and word not in ALWAYS_KNOWN:
            known_kinds = listing(sorted(every)) or "none"
            remedy = f"{suggestion(each, every)}the kinds are {known_kinds}; {ALL} means all of them"
            raise ThurboError(f"fill={show(each)} is not a kind of missing answer that the schema declares; {remedy}")
        found |= every if word == ALL else known.get(word, set())
    return frozenset(found)


def gaps(rows: Rows, kinds: frozenset[str]) -> OpenCells:
    """Cells of a table to impute: empty ones, and declared missing values of the given kinds, by question that has any.

    An answer in several columns is a gap if all of them are; one that is known as an interval, and a list, are none.
    """
    found: OpenCells = {}
    for name in rows.schema.modelled:
        column = rows.schema[name]
        if not column.is_listed:
            given = {source: rows.table.cells(source) for source in column.source_columns(name)}
            found[name] = column.gaps(name, given, kinds, rows.blocks[name].answered)
    found = {name: gone for name, gone in found.items() if any(missing.any() for missing in gone.values())}
    return applicable(rows, found, kinds)


class Filled(NamedTuple):
    """What is filled in, by column of the table: in which rows, the cells, how sure they are, and columns of lists."""

    n_rows: int
    where: dict[str, np.ndarray]
    cells: dict[str, np.ndarray]
    certainty: dict[str, Certainty]
    lists: dict[str, np.ndarray]

    @classmethod
    def joined(cls, parts: Sequence[Filled]) -> Filled:
        """That of several pieces of a table, of which each may have gaps in other columns."""
        if len(parts) == 1:
            return parts[0]

        def whole(held: Sequence[Mapping[str, np.ndarray]], nothing: Any = 0) -> dict[str, np.ndarray]:
            found = {}
            for name in dict.fromkeys(name for own in held for name in own):
                kind = next(own[name].dtype for own in held if name in own)
                each = zip(parts, held, strict=True)
                found[name] = np.concatenate([own.get(name, np.full(part.n_rows, nothing, kind)) for part, own in each])
            return found

        where, cells = whole([part.where for part in parts]), whole([part.cells for part in parts])
        sure = whole([{name: own.values for name, own in part.certainty.items()} for part in parts], np.nan)
        kinds = {name: own.kind for part in parts for name, own in part.certainty.items()}
        certainty = {name: Certainty(kinds[name], values) for name, values in sure.items()}
        return cls(sum(part.n_rows for part in parts), where, cells, certainty, parts[0].lists)


def filled(query: Query, rows: Rows, statistic: str, kinds: frozenset[str], items: Any, how_sure: bool) -> Filled:
    """The best prediction of every gap of a table that is to be filled, and lists with items added."""
    schema, cells, certainty = query.schema, dict[str, np.ndarray](), dict[str, Certainty]()
    open_cells = gaps(rows, kinds)
    for name, by_column in open_cells.items():
        is_open, form = np.any(list(by_column.values()), axis=0), schema[name].form
        lines, place = np.flatnonzero(is_open), np.cumsum(is_open) - 1
        # A question of several columns can have gaps beside answers: these are not evidence about their own question.
        own = bool(query.blocks[name].answered[lines].any())
        asked = query.about(name, Lines(lines, np.zeros_like(lines)), own)
        predicted = form.cells(name, asked, statistic)
        cells |= {source: np.asarray(values)[place] for source, values in predicted.items()}  # any, if it is no gap
        if how_sure:
            values = next(iter(predicted.values()))
            if len(predicted) > 1 and schema[name].is_one_label:
                values = as_table(predicted).answers(schema, name).values
            sure = form.certainty(asked, values)
            for source, missing in by_column.items():
                certainty[source] = sure._replace(values=np.where(missing, sure.values[place], np.nan))
    where, n_rows = settle(rows, open_cells, kinds, cells, certainty), rows.table.n_rows
    lists = with_items(query, rows.table, items, statistic)
    return Filled(n_rows, where, {name: cells[name] for name in where}, certainty, lists)


def flags(names: Sequence[str], where: Mapping[str, np.ndarray], certainty: Mapping[str, Certainty]) -> Flags:
    """New columns beside each column with imputed cells: which of them were imputed, and how sure they are."""
    found: Flags = {}
    for column, missing in where.items():
        if not missing.any():
            continue
        marks = {"imputed": missing}
        if column in certainty:
            marks[certainty[column].kind] = certainty[column].values
        for word, values in marks.items():
            name, number = f"{column}_{word}", 2
            while name in found or name in names:
                name, number = f"{column}_{word}_{number}", number + 1
            found[name] = values
    return found


def applicable(
    rows: Rows, gaps: OpenCells, kinds: Collection[str], cells: Mapping[str, np.ndarray] | None = None
) -> OpenCells:
    """The gaps of questions that were asked, by gates and imputed `cells`; all if `kinds` has "not applicable"."""
    schema, table = rows.schema, rows.table
    if not schema.skips or NOT_APPLICABLE in kinds:
        return gaps
    where = {source: missing for gone in gaps.values() for source, missing in gone.items()}
    imputed = None if cells is None else as_table({s: blanked(cells[s], ~gap) for s, gap in where.items()})
    out, found = routing.not_asked(schema, schema.skips, table, imputed), {}
    for name, gone in gaps.items():
        if name in out:
            empty = {source: table.cells(source).missing for source in gone}
            if schema[name].is_one_label:  # in exclusive columns, a row of zeros is no answer
                empty = dict.fromkeys(gone, schema[name].fillable(table.gathered(schema, name, "ignore")))
            gone = {source: missing & ~(out[name] & empty[source]) for source, missing in gone.items()}
        if any(missing.any() for missing in gone.values()):
            found[name] = gone
    return found


def settle(
    rows: Rows, gaps: OpenCells, kinds: Collection[str], cells: dict[str, np.ndarray], certainty: dict[str, Certainty]
) -> dict[str, np.ndarray]:
    """The gaps that are filled once gates are imputed, by column of the table: which rows, [row].

    The `cells` and `certainty` of gates that follow are changed.
    """
    schema = rows.schema
    for gate, (value, which) in routing.deduced(schema, schema.skips, rows.table).items() if schema.skips else ():
        for source, gap in gaps.get(gate, {}).items():
            told = schema[gate].to_columns(gate, np.asarray([value]))[source]
            cells[source] = np.where(which, told, cells[source].astype(np.result_type(told, cells[source])))
            if source in certainty:
                known = np.where(which & gap, 1.0, certainty[source].values)
                certainty[source] = certainty[source]._replace(values=known)
    left = applicable(rows, gaps, kinds, cells)
    where = {source: gap for gone in left.values() for source, gap in gone.items()}
    for source, own in certainty.items():
        certainty[source] = own._replace(values=np.where(where.get(source, False), own.values, np.nan))
    return where


def emptied(schema: Schema, cells: dict[str, np.ndarray], given: Collection[str] = ()) -> dict[str, np.ndarray]:
    """Cells of complete rows without those that the row would not have been asked; `given` are conditions, and stay."""
    found = dict(cells)
    for name, skips in in_order(schema.skips):
        if name in given or not schema[name].sites or schema[name].is_listed:
            continue
        for skip in skips:
            gate = skip.asked_if
            sources = [each for each in schema[gate].source_columns(gate) or (gate,) if each in found]
            if not sources:
                continue
            held = as_table({source: found[source] for source in sources})
            # A gate without an answer was not asked itself.
            says = routing.says(schema[gate], skip, held.gathered(schema, gate, "ignore"))
            out = routing.unanswered(schema, held, gate) | (says == routing.NOT_ASKED)
            for source in schema[name].source_columns(name):
                found[source] = blanked(found[source], out)
    return found


def given_items(block: Block) -> tuple[Entries, np.ndarray]:
    """Items that each row has in its list or order, and the tier of each entry, −1 if they have no order."""
    return from_table(block.tier) if block.entries is None else (block.entries, block.tier[:, 0])


def named_items(column: Column, block: Block) -> Entries:
    """Items that each row names; without those that are below them because the row does not name them."""
    if block.entries is not None or not column.is_last:
        return given_items(block)[0]
    is_whole = block.tier.max(axis=1, keepdims=True) == block.tier.shape[1] - 1  # no two items on one tier
    return from_table(np.where((block.tier > 0) | is_whole, block.tier, -1))[0]


def stated_utilities(query: MemberQuery, name: str) -> np.ndarray:
    """E[x | e] of every item that a row rates or ranks, [entry]; it keeps the order that the row states."""
    (own, tier), shared = given_items(query.blocks[name]), query.evidence.shared
    where, is_listed = query.schema.slices[name], query.schema[name].is_listed
    slot = query.evidence.entry_slots(where.start) if is_listed else shared[where][own.site]
    place = np.arange(len(own.site)) - own.start[own.row]
    slots = np.full((query.evidence.n_rows, int(np.diff(own.start).max(initial=0))), -1)
    slots[own.row, place] = slot

    def chunk(rows: Evidence, wanted: np.ndarray) -> np.ndarray:
        mean = np.asarray(slot_means(query.params, rows, query.how, smooth=is_listed))
        return np.take_along_axis(mean, np.maximum(wanted, 0), axis=1)

    utility = query.evidence.by_chunks(chunk, slots)[own.row, place].astype(np.float64)
    if (tier >= 0).any():  # means of the Gumbel approximation nearly rise with the tiers of a row
        order = np.lexsort((utility, tier, own.row))
        for row in np.split(order, np.flatnonzero(np.diff(own.row[order])) + 1):
            utility[row] = np.maximum.accumulate(utility[row])
    return utility


@partial(jax.jit, static_argnames=("how", "smooth"))
def slot_means(params: Params, evidence: Evidence, how: How, smooth: bool = True) -> Float[Array, "row slot"]:
    """E[x | e] of every slot, by mean-field; `smooth` uses the Gumbel approximation for orders."""
    given, q = gibbs.clamp(params, evidence), mean_field(params, evidence, how.n_steps)
    mean = rbm.latent_mean(given.params, q.hidden) + rbm.factor_shift(given.params, q.factors)
    return (given.region.smooth() if smooth else given.region).mean(mean)


def orders_as_tables(schema: Schema, items: Any) -> list[str]:
    """Columns of orders that are kept as a table and for which items are given.

    Items that are not given by column may be those of another column: of the one that knows them.
    """
    held = [name for name in schema.modelled if schema[name].has_items]
    names = [name for name in held if not schema[name].is_listed and items_of(name, items) is not None]
    if isinstance(items, Mapping) or len(held) < 2:
        return names
    return [name for name in names if {plain(item) for item in items} <= set(schema[name].labels)]


def in_orders(query: Query, table: Table, items: Any, x: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Cells of orders kept as a table, with items added by utilities x [row, shared slot] or, without, E[x | e]."""
    found: dict[str, np.ndarray] = {}
    names = orders_as_tables(query.schema, items)
    if names and x is None:
        x = query.evidence.by_chunks(lambda rows: np.asarray(slot_means(query.lead.params, rows, query.lead.how)))
    for name in names:
        column, tier = query.schema[name], query.blocks[name].tier
        if column.source_columns(name) != (name,):
            problem = "items cannot be added to an order in several columns of the table"
            raise SchemaError(problem, column=name, remedy="use rank(), or leave the column out of items=")
        assert x is not None
        own = x[:, query.lead.slots(name)]
        is_asked = np.isin(np.arange(own.shape[1]), sites_of(query.schema, name, items_of(name, items)))
        row, site = np.nonzero(is_asked & (tier < 0))
        entries, _ = from_table(tier)
        old = entries, own[entries.row, entries.site]
        found[name] = _extended(column, table.cells(name), row, site, own[row, site], *old)
    return found


def _extended(
    column: Column, cells: Cells, row: np.ndarray, site: np.ndarray, values: Any, entries: Any, utility: np.ndarray
) -> np.ndarray:
    """Cells with predicted items added; the given cells in rows without a new item."""
    found = column.extended(cells, row, site, values, entries, utility)
    if cells.listed is None:
        for place in np.flatnonzero((np.bincount(row, minlength=len(found)) == 0) & ~cells.missing):
            if type(found[place]) is type(cells.values[place]):  # libraries have several types for lists
                found[place] = cells.values[place]
    return found


def longer_list(query: Query, table: Table, name: str, row: np.ndarray, site: np.ndarray, values: Any) -> np.ndarray:
    """The cells of a column of lists with items added: (row, site) pairs and their scores."""
    old = query.blocks[name].lists, stated_utilities(query.lead, name)
    return _extended(query.schema[name], table.cells(name), row, site, values, *old)


def with_items(query: Query, table: Table, items: Any, statistic: str) -> dict[str, np.ndarray]:
    """Every column of lists or orders with the given items added where a row lacks them; other columns unchanged."""
    found = in_orders(query, table, items)
    for name in query.schema.modelled:
        lines = lines_of(query, name, items)
        if lines is not None:
            new = np.flatnonzero(query.about(name, lines).entry < 0)
            row, site = lines.row[new], lines.site[new]
            values = query.schema[name].form.values(query.about(name, Lines(row, site)), statistic)
            found[name] = longer_list(query, table, name, row, site, values)
        elif name not in found and name in table.lists:
            found[name] = query.schema[name].given_cells(table.cells(name))  # a long table has no such column yet
    return found
