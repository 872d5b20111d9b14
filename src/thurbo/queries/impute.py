"""§4.1, §4.3 Completed tables: the missing answers of a row drawn jointly from P(missing | observed).

If there are few hidden units, (h, x) is drawn exactly: h from its enumerated posterior, then the missing x given h.
Otherwise each draw of each row is the last state of its own Gibbs chain. Each column converts x to its cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thurbo import rbm
from thurbo._typing import Array, Float, Int, PRNGKey
from thurbo.columns.block import Block
from thurbo.columns.forms import Lines
from thurbo.errors import SchemaError, ThurboError, check_choice
from thurbo.evidence import Evidence
from thurbo.evidence.buckets import Buckets
from thurbo.inference import gibbs
from thurbo.inference.likelihood import hidden_states
from thurbo.inference.meanfield import mean_field
from thurbo.inference.posterior import state_weights
from thurbo.io import build
from thurbo.io.table import Table
from thurbo.queries import predict, score
from thurbo.queries.features import How
from thurbo.queries.question import Question
from thurbo.rbm import Params
from thurbo.schema import Schema

N_STEPS = 300  # of each chain, which starts at the mean-field probabilities

Gaps = dict[str, dict[str, np.ndarray]]  # by question, by column of the table: which rows [row]


class Share(NamedTuple):
    """A share of the draws: their number, their seed, and the weight of each row in the refit they come from."""

    n: int
    seed: int
    weight: np.ndarray | None


def gaps(schema: Schema, table: Table, blocks: Mapping[str, Block]) -> Gaps:
    """Cells of a table that are to be imputed, declared missing values included, for every question that has any.

    An answer in several columns (a ranking, options) is a gap if all of them are missing. An answer that is known as
    an interval (by its ends, its band or as censored) is not a gap. A list has no gaps: items are added only if they
    are asked for.
    """
    found: Gaps = {}
    for name in schema.modelled:
        if schema[name].is_listed:
            continue
        sources = schema[name].source_columns(name)
        gone = {source: schema[name].answered(table.cells(source)).missing for source in sources}
        gone = schema[name].gaps(name, gone, ~blocks[name].answered)
        if any(missing.any() for missing in gone.values()):
            found[name] = gone
    return found


def guesses(question: Question, gaps: Gaps, statistic: str) -> dict[str, np.ndarray]:
    """The best prediction for every gap, by column of the table; other rows have an arbitrary cell.

    The posterior of a row is computed once for all its gaps, since a missing answer does not change it.
    """
    found: dict[str, np.ndarray] = {}
    for name, by_column in gaps.items():
        rows = np.flatnonzero(np.any(list(by_column.values()), axis=0))
        own = bool(question.blocks[name].answered[rows].any())
        cells = predict.cells(question, name, statistic, rows=rows, own=own)
        place = np.zeros(question.evidence.n_rows, np.int64)
        place[rows] = np.arange(len(rows))
        found |= {column: np.asarray(values)[place] for column, values in cells.items()}
    return found


def with_items(question: Question, table: Table, items: Any, statistic: str) -> dict[str, np.ndarray]:
    """Every listed column with the given items added to each list that does not have them; other columns unchanged."""
    found: dict[str, np.ndarray] = {}
    for name in question.schema.modelled:
        column, entries = question.schema[name], question.blocks[name].entries
        lines = predict.lines_of(question, name, items)
        if entries is not None and lines is None and name in table.lists:
            found[name] = column.given_cells(table.cells(name))  # a long table has no such column yet
        if entries is None or lines is None:
            continue
        asked = question.about(name, lines)
        new = np.flatnonzero(asked.entry < 0)
        values = column.form.values(column, question.about(name, Lines(lines.row[new], lines.site[new])), statistic)
        old = entries, _utilities(question, name)
        found[name] = column.extended(table.cells(name), lines.row[new], lines.site[new], values, *old)
    return found


def _utilities(question: Question, name: str) -> np.ndarray:
    """E[x | e] of every entry of a listed column, in the order of the row's list: [entry]."""
    entries = question.blocks[name].entries
    assert entries is not None
    longest = int(np.diff(entries.start).max(initial=0))
    place = np.arange(len(entries.site)) - entries.start[entries.row]
    slots = np.full((question.evidence.n_rows, longest), -1)
    slots[entries.row, place] = question.evidence.entry_slots(question.schema.slices[name].start)

    def chunk(rows: Evidence, own: np.ndarray) -> np.ndarray:
        mean = np.asarray(_slot_means(question.params, rows, question.how))
        return np.take_along_axis(mean, np.maximum(own, 0), axis=1)

    return question.evidence.by_chunks(chunk, slots)[entries.row, place]


@partial(jax.jit, static_argnames=("how",))
def _slot_means(params: Params, evidence: Evidence, how: How) -> Float[Array, "row slot"]:
    """E[x | e] of every slot, by mean-field."""
    given, q = gibbs.clamp(params, evidence), mean_field(params, evidence, how.n_steps)
    mean = rbm.latent_mean(given.params, q.hidden) + rbm.factor_shift(given.params, q.factors)
    return given.region.smooth().mean(mean)


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
    check_choice("method", method, ("auto", "exact", "gibbs"))
    possible = params.n_factors == 0 and score.is_exact(params)
    if method == "exact" and not possible:
        sizes = f"{params.n_hidden} hidden units and {params.n_factors} factors"
        raise ThurboError(f'{sizes} are too many for exact draws; use method="gibbs"')
    return possible and method != "gibbs"


def complete(question: Question, table: Table, share: Share, method: str, items: Any = None) -> list[Any]:
    """`share.n` copies of the table, each with its gaps filled by one joint draw."""
    params, schema, evidence = question.params, question.schema, question.evidence
    exact, open_cells = is_exact(params, method), gaps(schema, table, question.blocks)
    confined = _confined(schema, evidence, open_cells) if exact else None
    if confined is not None:
        if method == "exact":
            row, name = table.rows[confined[0]], confined[1]
            problem = "an inequality constrains this missing answer"
            raise SchemaError(problem, row=row, column=name, remedy='use method="gibbs"')
        exact = False
    lists = [name for name in schema.modelled if schema[name].is_listed and predict.items_of(name, items) is not None]
    some = np.any([m for gone in open_cells.values() for m in gone.values()], axis=0) if open_cells else None
    rows = np.arange(table.n_rows) if lists else np.flatnonzero(np.zeros(0) if some is None else some)
    if not len(rows):
        return [build.replace(table, {}) for _ in range(share.n)]
    key = jax.random.key(share.seed)
    drawn = latent(key, params, evidence.on_host().rows(np.tile(rows, share.n)), exact)
    rng = np.random.default_rng(share.seed)
    completed = []
    for number in range(share.n):
        own = Drawn(*(leaf.reshape(share.n, len(rows), -1)[number] for leaf in drawn))
        completed.append(_completed(question, table, rows, own, open_cells, lists, items, rng))
    return completed


def _completed(
    question: Question,
    table: Table,
    rows: np.ndarray,
    drawn: Drawn,
    open_cells: Gaps,
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
    filled = {source: missing for gone in open_cells.values() for source, missing in gone.items()}
    found = {source: cells[source][place] for source in filled}
    lists_found: dict[str, np.ndarray] = {}
    for name in lists:
        column, lines, where = schema[name], predict.lines_of(question, name, items), schema.slices[name]
        assert lines is not None
        new = np.flatnonzero(question.about(name, lines).entry < 0)
        row, site = lines.row[new], lines.site[new]
        x = draw_items(params, drawn.h[row], drawn.z[row], where.start + site, rng)
        values = column.form.from_latent(column, x, site.astype(np.int32), cuts[where], scale[where])
        entries = question.blocks[name].entries
        assert entries is not None
        old = entries, _utilities(question, name)
        lists_found[name] = column.extended(table.cells(name), row, site, values, *old)
    return build.replace(table, found, filled, lists_found)


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
