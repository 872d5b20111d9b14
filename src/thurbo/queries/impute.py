"""§4.1, §4.3 Completed tables: the missing answers of a row drawn jointly from P(missing | observed).

If there are few hidden units, (h, x) is drawn exactly: h from its enumerated posterior, then the missing x given h.
Otherwise each draw of each row is the last state of its own Gibbs chain, or, for models trained by prediction, its
cells are drawn one after another (sequential.py). Each column converts x to its cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thurbo import rbm
from thurbo._typing import Array, Int, PRNGKey
from thurbo.columns.block import Block
from thurbo.columns.cells import listing, plain, show, suggestion
from thurbo.columns.forms import Certainty, Lines
from thurbo.errors import SchemaError, ThurboError, check_choice
from thurbo.evidence import Evidence
from thurbo.evidence.buckets import Buckets
from thurbo.inference import gibbs
from thurbo.inference.likelihood import hidden_states
from thurbo.inference.meanfield import mean_field
from thurbo.inference.posterior import state_weights
from thurbo.io import build
from thurbo.io.table import Table
from thurbo.queries import added_items, given_items, not_asked, predict, sample, score, sequential
from thurbo.queries.kept_shares import Offsets
from thurbo.queries.question import Question
from thurbo.rbm import Params
from thurbo.schema import Schema
from thurbo.schema.routing import NOT_APPLICABLE

# Names of kinds: every declared missing value, empty cells, and "n/a" in a text file, which may have none.
ALL, ALWAYS_KNOWN = "all", ("all", "no answer", "n/a")
N_STEPS = 300  # of each chain, which starts at the mean-field probabilities

Gaps = dict[str, dict[str, np.ndarray]]  # by question, by column of the table: which rows [row]
Flags = dict[str, np.ndarray]  # new columns by name


class Share(NamedTuple):
    """A share of the draws: their number, their seed, and the weight of each row in the refit they come from."""

    n: int
    seed: int
    weight: np.ndarray | None


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
            remedy = (
                f"{suggestion(each, every)}the kinds are {listing(sorted(every)) or 'none'}; {ALL} means all of them"
            )
            raise ThurboError(f"fill={show(each)} is not a kind of missing answer that the schema declares; {remedy}")
        found |= every if word == ALL else known.get(word, set())
    return frozenset(found)


def gaps(schema: Schema, table: Table, blocks: Mapping[str, Block], kinds: frozenset[str] = frozenset()) -> Gaps:
    """Cells of a table that are to be imputed, for every question that has any: empty cells, and cells with a declared
    missing value of one of the given kinds. Other declared values ("refused", "not applicable") are kept, and so are
    empty cells of questions that were not asked, unless "not applicable" is one of the kinds.

    An answer in several columns (a ranking, options) is a gap if all of them are. An answer that is known as an
    interval (by its ends, its band or as censored) is not a gap. A list has no gaps: items are added only if they are
    asked for.
    """
    found: Gaps = {}
    for name in schema.modelled:
        column = schema[name]
        if column.is_listed:
            continue
        cells = {source: table.cells(source) for source in column.source_columns(name)}
        gone = {source: column.fillable(own, kinds) for source, own in cells.items()}
        kept = [column.answered(own).missing & ~gone[source] for source, own in cells.items()]
        gone = column.gaps(name, gone, ~blocks[name].answered & ~np.any(kept, axis=0))
        if any(missing.any() for missing in gone.values()):
            found[name] = gone
    return not_asked.applicable(schema, table, found, kinds)


class Guessed(NamedTuple):
    """Predicted cells by column of the table [row], and how sure they are, if that was asked; NaN in other rows."""

    cells: dict[str, np.ndarray]
    certainty: dict[str, Certainty]


def guesses(question: Question, gaps: Gaps, statistic: str, how_sure: bool = False) -> Guessed:
    """The best prediction for every gap, by column of the table; other rows have an arbitrary cell.

    The posterior of a row is computed once for all its gaps, since a missing answer does not change it.
    """
    found = Guessed({}, {})
    for name, by_column in gaps.items():
        rows = np.flatnonzero(np.any(list(by_column.values()), axis=0))
        own = bool(question.blocks[name].answered[rows].any())
        cells = predict.cells(question, name, statistic, rows=rows, own=own)
        place = np.zeros(question.evidence.n_rows, np.int64)
        place[rows] = np.arange(len(rows))
        found.cells.update({column: np.asarray(values)[place] for column, values in cells.items()})
        if how_sure:
            sure = predict.certainty(question, name, next(iter(cells.values())), rows, own)
            for column, missing in by_column.items():
                found.certainty[column] = sure._replace(values=np.where(missing, sure.values[place], np.nan))
    return found


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


def with_items(question: Question, table: Table, items: Any, statistic: str) -> dict[str, np.ndarray]:
    """Every column of lists or orders with the given items added where a row lacks them; other columns unchanged."""
    found = added_items.in_orders(question, table, items)
    for name in question.schema.modelled:
        column, entries = question.schema[name], question.blocks[name].entries
        lines = predict.lines_of(question, name, items)
        if name not in found and lines is None and name in table.lists:
            found[name] = column.given_cells(table.cells(name))  # a long table has no such column yet
        if entries is None or lines is None:
            continue
        asked = question.about(name, lines)
        new = np.flatnonzero(asked.entry < 0)
        values = column.form.values(column, question.about(name, Lines(lines.row[new], lines.site[new])), statistic)
        old = entries, given_items.utilities(question, name)
        cells = table.cells(name)
        found[name] = column.extended(cells, lines.row[new], lines.site[new], values, *old)
        added_items.keep_given(found[name], cells, lines.row[new])
    return found


def shares(n: Any, refits: Any, n_rows: int, rng: np.random.RandomState) -> list[Share]:
    """Spread `n` draws evenly over one fitted model, or over `refits` models of bootstrapped rows."""
    for name, value, least in (("n", n, 1), ("refits", refits, 0)):
        if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
            raise ThurboError(f"{name}={value!r} is not a whole number of at least {least}")
    if refits > n:
        raise ThurboError(f"refits={refits} models are more than n={n} draws; use n of at least refits")
    found = []
    for part in np.array_split(np.arange(n), max(refits, 1)):
        seed = int(rng.randint(2**31 - 1))
        # How often a row is in a sample with replacement: its weight in a fit to the resampled table.
        weight = rng.multinomial(n_rows, np.full(n_rows, 1.0 / n_rows)).astype(np.float64) if refits else None
        found.append(Share(len(part), seed, weight))
    return found


def is_exact(params: Params, method: str) -> bool:
    """Whether draws are exact: by enumeration, not by Gibbs chains."""
    check_choice("method", method, ("auto", "exact", "gibbs", "sequential"))
    possible = params.n_factors == 0 and score.is_exact(params)
    if method == "exact" and not possible:
        sizes = f"{params.n_hidden} hidden units and {params.n_factors} factors"
        raise ThurboError(f'{sizes} are too many for exact draws; use method="gibbs"')
    return possible and method in ("auto", "exact")


def complete(
    question: Question,
    table: Table,
    share: Share,
    method: str,
    items: Any = None,
    kinds: frozenset[str] = frozenset(),
    offsets: Offsets | None = None,
) -> list[Any]:
    """`share.n` copies of the table, each with its gaps filled by one joint draw."""
    params, schema, evidence = question.params, question.schema, question.evidence
    exact, open_cells = is_exact(params, method), gaps(schema, table, question.blocks, kinds)
    orders = added_items.orders_as_tables(schema, items)
    if orders and exact:
        if method == "exact":
            problem = "items are added to an order by Gibbs sampling"
            raise SchemaError(problem, column=orders[0], remedy='use method="gibbs"')
        exact = False
    confined = _confined(schema, evidence, open_cells) if exact else None
    if confined is not None:
        if method == "exact":
            row, name = table.rows[confined[0]], confined[1]
            problem = "an inequality constrains this missing answer"
            raise SchemaError(problem, row=row, column=name, remedy='use method="gibbs"')
        exact = False
    lists = [name for name in schema.modelled if schema[name].is_listed and predict.items_of(name, items) is not None]
    some = np.any([m for gone in open_cells.values() for m in gone.values()], axis=0) if open_cells else None
    rows = np.arange(table.n_rows) if lists or orders else np.flatnonzero(np.zeros(0) if some is None else some)
    if method == "sequential" and (lists or orders or evidence.spans_cells):
        what = "inequalities between columns" if evidence.spans_cells else "items to add"
        raise ThurboError(f'method="sequential" has no {what}; use method="gibbs"')
    if not len(rows):
        return [build.replace(table, {}) for _ in range(share.n)]
    rng, tiled = np.random.default_rng(share.seed), np.tile(rows, share.n)
    if method == "sequential":
        routed = NOT_APPLICABLE not in kinds
        missing = _open_rows(open_cells)
        x = sequential.draw(
            rng, params, schema, question.blocks, missing, question.how, tiled, routed=routed, offsets=offsets
        )
        drawn = Drawn(x, np.zeros((len(tiled), 0)), np.zeros((len(tiled), 0)))
    else:
        drawn = latent(jax.random.key(share.seed), params, evidence.on_host().rows(tiled), exact)
        drawn = _with_choices(rng, question, drawn)
    completed = []
    for number in range(share.n):
        own = Drawn(*(leaf.reshape(share.n, len(rows), -1)[number] for leaf in drawn))
        completed.append(_completed(question, table, rows, own, open_cells, kinds, lists, items, rng))
    return completed


def _open_rows(open_cells: Gaps) -> dict[str, np.ndarray]:
    """Rows of each question that are to be imputed, [row]."""
    return {name: np.any(list(gone.values()), axis=0) for name, gone in open_cells.items()}


def _completed(
    question: Question,
    table: Table,
    rows: np.ndarray,
    drawn: Drawn,
    open_cells: Gaps,
    kinds: frozenset[str],
    lists: list[str],
    items: Any,
    rng: np.random.Generator,
) -> Any:
    """The table with one draw in its gaps."""
    schema, params = question.schema, question.params
    cuts, scale = np.asarray(params.gauge.cuts, np.float64), np.asarray(params.gauge.scale, np.float64)
    place = np.zeros(table.n_rows, np.intp)  # index of each row among those with gaps
    place[rows] = np.arange(len(rows))
    cells: dict[str, np.ndarray] = {}
    for name in open_cells:
        where = schema.slices[name]
        x = drawn.x[:, question.evidence.shared[where]]
        cells |= schema[name].decode_columns(name, x, cuts[where], scale[where])
    found = {source: cells[source][place] for gone in open_cells.values() for source in gone}
    left = not_asked.settle(schema, table, open_cells, kinds, found, {})
    filled = {source: missing for gone in left.values() for source, missing in gone.items()}
    found = {source: found[source] for source in filled}
    lists_found = added_items.in_orders(question, table, items, drawn.x)
    for name in lists:
        column, lines, where = schema[name], predict.lines_of(question, name, items), schema.slices[name]
        assert lines is not None
        new = np.flatnonzero(question.about(name, lines).entry < 0)
        row, site = lines.row[new], lines.site[new]
        x = draw_items(params, drawn.h[row], drawn.z[row], where.start + site, rng)
        values = column.form.from_latent(column, x, site.astype(np.int32), cuts[where], scale[where])
        entries = question.blocks[name].entries
        assert entries is not None
        old = entries, given_items.utilities(question, name)
        lists_found[name] = column.extended(table.cells(name), row, site, values, *old)
    return build.replace(table, found, filled, lists_found)


def _with_choices(rng: np.random.Generator, question: Question, drawn: Drawn) -> Drawn:
    """Missing rankings that are choices one after another, drawn as such given the hidden layer."""
    schema, params = question.schema, question.params
    if params.gauge.context is None:
        return drawn
    mean = np.asarray(rbm.latent_mean(params, jnp.asarray(drawn.h, params.weights.dtype)), np.float64)
    shared = question.evidence.shared
    by_site = np.where(shared[None, :] >= 0, drawn.x[:, np.maximum(shared, 0)], 0.0)
    fresh = sample.with_choices(rng, params, schema, by_site, mean)
    x = drawn.x.copy()
    x[:, shared[shared >= 0]] = fresh[:, shared >= 0]
    return drawn._replace(x=x)


def draw_items(params: Params, h: np.ndarray, z: np.ndarray, site: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """x ~ N(α + W h + V z, 1) at one site of each line, given the hidden layer of its row: [line]."""
    mean = np.asarray(params.site_bias, np.float64)[site] + (np.asarray(params.weights)[site] * h).sum(axis=1)
    mean = mean + (np.asarray(params.loadings)[site] * z).sum(axis=1)
    return mean + rng.standard_normal(len(mean))


@jax.jit
def _observed(evidence: Evidence) -> Array:
    return evidence.observed


def _confined(schema: Schema, evidence: Buckets, open_cells: Gaps) -> tuple[int, str] | None:
    """Row and column of a missing answer that is constrained otherwise, such as by an inequality between columns."""
    if not open_cells:
        return None
    first = int((evidence.shared >= 0).sum())
    observed = evidence.by_chunks(lambda rows: np.asarray(_observed(rows))[:, :first])
    for name, gone in open_cells.items():
        both = observed[:, evidence.shared[schema.slices[name]]].any(axis=1) & np.any(list(gone.values()), axis=0)
        if both.any():
            return int(both.argmax()), name
    return None


class Drawn(NamedTuple):
    """One draw of x by shared slot, h and z for each row."""

    x: np.ndarray
    h: np.ndarray
    z: np.ndarray


def latent(key: PRNGKey, params: Params, evidence: Buckets, exact: bool) -> Drawn:
    """x ~ P(x | e) with its h and z, one draw for each row; constrained sites need chains."""
    numbers, first = np.arange(evidence.n_rows), int((evidence.shared >= 0).sum())

    def chunk(rows: Evidence, number: np.ndarray) -> Any:
        x, h, z = _draw(jax.random.fold_in(key, int(number[0])), params, rows, exact)
        return np.asarray(x)[:, :first], h, z

    return Drawn(*(np.asarray(each, np.float64) for each in evidence.by_chunks(chunk, numbers)))


@partial(jax.jit, static_argnames=("exact",))
def _draw(key: PRNGKey, params: Params, evidence: Evidence, exact: bool) -> tuple[Array, Array, Array]:
    if exact:
        key_h, key_x = jax.random.split(key)
        states = hidden_states(params.n_hidden, 0, params.weights.dtype).h
        state: Int[Array, " row"] = jax.random.categorical(key_h, jnp.log(state_weights(params, evidence)).T)
        h = states[state]
        mean = rbm.latent_mean(evidence.seen(params), h)
        # Given h the missing x are independent of the observed answers.
        z = jnp.zeros((evidence.n_rows, 0), mean.dtype)
        return mean + jax.random.normal(key_x, mean.shape, mean.dtype), h, z
    key_start, key_run = jax.random.split(key)
    given = gibbs.clamp(params, evidence)
    start = gibbs.start(key_start, given, mean_field(params, evidence, 10).hidden)
    end = gibbs.run(key_run, start, given, N_STEPS)
    return end.x, end.h, end.z
