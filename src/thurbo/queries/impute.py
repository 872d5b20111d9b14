"""§4.1, §4.3 Completed tables: the missing answers of a row drawn jointly from P(missing | observed).

Where hidden units are few, (h, x) is drawn exactly: h from its enumerated posterior, then the missing x given h.
Beyond, each draw of each row is the end of a Gibbs chain of its own. Each column then reads its answer off x.
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
from thurbo.columns import Block
from thurbo.errors import SchemaError, ThurboError
from thurbo.evidence import Evidence
from thurbo.evidence.pack import by_chunks
from thurbo.inference import gibbs
from thurbo.inference.likelihood import hidden_states
from thurbo.inference.meanfield import mean_field
from thurbo.inference.posterior import state_weights
from thurbo.io import frames
from thurbo.queries import answers, predict, score
from thurbo.rbm import Params
from thurbo.schema import Schema

N_STEPS = 300  # of each chain, which starts where mean-field expects the hidden units

Gaps = dict[str, dict[str, np.ndarray]]  # by question, by column of the table: which rows [row]


class Share(NamedTuple):
    """Some of the draws: how many, their seed, and how often each row counts in the refit they come from."""

    n: int
    seed: int
    weight: np.ndarray | None


def gaps(schema: Schema, table: frames.Table, blocks: Mapping[str, Block]) -> Gaps:
    """Cells of a table that are to be filled in, those declared missing among them, for every question that has any.

    An answer that is spread over several columns (a ranking, options) is a gap where the whole of it is missing; one
    that is known only to an interval, by its ends, its band or where it was censored, is no gap.
    """
    found: Gaps = {}
    for name in schema.modelled:
        sources = schema[name].source_columns(name)
        gone = {source: schema[name].answered(table.cells(source)).missing for source in sources}
        says_nothing = np.asarray(~blocks[name].takes_part.any(axis=1))
        gone = schema[name].gaps(name, gone, says_nothing)
        if any(missing.any() for missing in gone.values()):
            found[name] = gone
    return found


def guesses(
    params: Params,
    schema: Schema,
    evidence: Evidence,
    blocks: Mapping[str, Block],
    gaps: Gaps,
    how: predict.How,
    statistic: str,
) -> dict[str, np.ndarray]:
    """The best guess for every gap, by column of the table; of other rows any cell.

    What a row says is asked once for all its gaps, since a question that it leaves open says nothing of the others.
    """
    evidence = jax.tree.map(np.asarray, evidence)
    shared = predict.beliefs(params, evidence, how) if gaps else None
    found: dict[str, np.ndarray] = {}
    for name, by_column in gaps.items():
        rows = np.flatnonzero(np.any(list(by_column.values()), axis=0))
        known = None
        if shared is not None and not blocks[name].takes_part[rows].any():
            known = predict.Belief(*(leaf[rows] for leaf in shared))
        cells = answers.cells(params, schema, evidence.rows(rows), name, how, statistic, known)
        place = np.zeros(evidence.n_rows, np.int64)
        place[rows] = np.arange(len(rows))
        found |= {column: np.asarray(values)[place] for column, values in cells.items()}
    return found


def shares(n: Any, refits: Any, n_rows: int, rng: np.random.RandomState) -> list[Share]:
    """Spread `n` draws evenly over one fitted model, or over `refits` models of bootstrapped rows."""
    for name, value, least in (("n", n, 1), ("refits", refits, 0)):
        if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
            raise ThurboError(f"{name}={value!r} is not a whole number of at least {least}")
    if refits > n:
        raise ThurboError(f"refits={refits} models are more than n={n} draws; ask for at least one draw of each")
    found = []
    for part in np.array_split(np.arange(n), max(refits, 1)):
        seed = int(rng.randint(2**31 - 1))
        # How often a row is among as many drawn with replacement: its weight in a fit to the resampled table.
        weight = rng.multinomial(n_rows, np.full(n_rows, 1.0 / n_rows)).astype(np.float64) if refits else None
        found.append(Share(len(part), seed, weight))
    return found


def is_exact(params: Params, method: str) -> bool:
    """Whether draws are exact: by enumeration, rather than at the end of chains."""
    if method not in {"auto", "exact", "gibbs"}:
        raise ThurboError(f'method "{method}" is not one of auto, exact, gibbs')
    possible = params.n_factors == 0 and score.is_exact(params)
    if method == "exact" and not possible:
        sizes = f"{params.n_hidden} hidden units and {params.n_factors} factors"
        raise ThurboError(f'{sizes} cannot be drawn from by enumeration; use method="gibbs"')
    return possible and method != "gibbs"


def complete(
    params: Params,
    schema: Schema,
    table: frames.Table,
    blocks: Mapping[str, Block],
    evidence: Evidence,
    share: Share,
    method: str = "auto",
) -> list[Any]:
    """`share.n` copies of the table, each with its gaps filled by one joint draw."""
    exact, open_cells = is_exact(params, method), gaps(schema, table, blocks)
    confined = _confined(schema, evidence, open_cells) if exact else None
    if confined is not None:
        if method == "exact":
            row, name = table.rows[confined[0]], confined[1]
            problem = "an inequality confines this answer, which is missing"
            raise SchemaError(problem, row=row, column=name, remedy='use method="gibbs"')
        exact = False
    rows = np.flatnonzero(np.any([m for gone in open_cells.values() for m in gone.values()], axis=0))
    if not len(rows):
        return [frames.replace(table, {}) for _ in range(share.n)]
    host: Evidence = jax.tree.map(np.asarray, evidence)
    x = latent(jax.random.key(share.seed), params, host.rows(np.tile(rows, share.n)), exact)
    x = x.reshape(share.n, len(rows), -1)
    cuts, scale = np.asarray(params.gauge.cuts, np.float64), np.asarray(params.gauge.scale, np.float64)
    place = np.zeros(table.n_rows, np.intp)  # of each row among those that have gaps
    place[rows] = np.arange(len(rows))
    completed = []
    for drawn in x:
        cells: dict[str, np.ndarray] = {}
        for name in open_cells:
            own = schema.slices[name]
            cells |= schema[name].decode_columns(name, drawn[:, own], cuts[own], scale[own])
        where = {source: missing for gone in open_cells.values() for source, missing in gone.items()}
        completed.append(frames.replace(table, {source: cells[source][place] for source in where}, where))
    return completed


def _confined(schema: Schema, evidence: Evidence, open_cells: Gaps) -> tuple[int, str] | None:
    """Row and column of a missing answer that something else confines, such as an inequality between columns."""
    observed = np.asarray(evidence.observed)
    for name, gone in open_cells.items():
        both = observed[:, schema.slices[name]].any(axis=1) & np.any(list(gone.values()), axis=0)
        if both.any():
            return int(both.argmax()), name
    return None


def latent(key: PRNGKey, params: Params, evidence: Evidence, exact: bool) -> np.ndarray:
    """x ~ P(x | e), one draw for each row, [row, site]; of confined sites only chains give a draw."""
    numbers = np.arange(evidence.n_rows)

    def chunk(rows: Evidence, number: np.ndarray) -> Any:
        return _draw(jax.random.fold_in(key, int(number[0])), params, rows, exact)

    return np.asarray(by_chunks(chunk, evidence, numbers), np.float64)


@partial(jax.jit, static_argnames=("exact",))
def _draw(key: PRNGKey, params: Params, evidence: Evidence, exact: bool) -> Float[Array, "row slot"]:
    if exact:
        key_h, key_x = jax.random.split(key)
        states = hidden_states(params.n_hidden, 0, params.weights.dtype).h
        state: Int[Array, " row"] = jax.random.categorical(key_h, jnp.log(state_weights(params, evidence)).T)
        mean = rbm.latent_mean(params, states[state])
        # Given h the missing x are independent of all that was observed.
        return mean + jax.random.normal(key_x, mean.shape, mean.dtype)
    key_start, key_run = jax.random.split(key)
    given = gibbs.clamp(params, evidence)
    start = gibbs.start(key_start, given, mean_field(params, evidence, 10).hidden)
    return gibbs.run(key_run, start, given, N_STEPS).x
