"""The hot paths that `benchmarks.floor` times: simulated tables, what is run, and the work that it needs at least."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import thurbo as tb
from benchmarks.floor_work import Work, options, traced
from thurbo.fit import fitting, planning, trainer
from thurbo.fit.trainer import fold
from thurbo.latent import packing
from thurbo.latent.evidence import n_slots
from thurbo.latent.inference.annealing import first_knots, log_evidence_annealed
from thurbo.latent.masses.boundaries import effort, rule
from thurbo.latent.masses.orders import OF_CHAINS
from thurbo.predict.moments import How, hidden_layer

BATCHES = 4 if jax.default_backend() == "cpu" else 16  # updates of one timed epoch, which is one program
QUEUED = 1 if jax.default_backend() == "cpu" else 8  # calls of a transform, which the device does one after the other
CELLS = np.inf if jax.default_backend() == "cpu" else 1e9  # compiled as for a long fit, on a GPU without autotuning
PASSES = 4  # of a step of mean-field over [row, slot]: the mean and x̂ are written, and read by the gradient
OF_ADAM = 3.5  # copies of the parameters: reads four arrays, writes three
MASSES = 0.75  # masses that a batch needs, by its cells: half are masked on average, and a quarter of rows again, alone
AIS_CHAINS, AIS_TEMPERATURES = (4, 8), 128


class Sizes(NamedTuple):
    """Rows of a batch, columns, hidden units and factors."""

    rows: int
    columns: int
    n_hidden: int
    n_factors: int = 0


class Path(NamedTuple):
    """A compiled computation, how many times it does the work, and the work."""

    run: Callable[[], Any]
    times: int
    work: Work


class _Table(NamedTuple):
    """A simulated table in the form that training needs."""

    data: fitting.Data
    plan: Any
    state: trainer.TrainState
    sizes: Sizes

    @property
    def slots(self) -> int:
        return n_slots(self.data.evidence.buckets[0])

    @property
    def params(self) -> Any:
        return fold(self.state.learnable, self.state.centre, self.data.layout)


def _table(frame: Any, columns: Mapping[str, Any], sizes: Sizes) -> _Table:
    schema = tb.Schema(columns).fit(frame)
    blocks = schema.compile(frame)
    model = tb.TBM(schema, n_hidden=sizes.n_hidden, n_factors=sizes.n_factors)
    own = {name: value for column in schema.values() for name, value in column.learning_settings.items()}
    chosen = planning.of_columns(planning.flat(model.get_params(deep=False)), own, len(schema.with_sites) == 1)
    evidence = packing.pack(blocks.values(), chosen.unobserved, most_widths=1).on_device()
    data = fitting.Data(schema, blocks, evidence, np.ones(evidence.n_rows))
    plan, size = planning.plan(chosen, sizes.n_hidden, sizes.n_factors), (sizes.n_hidden, sizes.n_factors)
    return _Table(data, plan, fitting.start(jax.random.key(0), data, size, fitting.chains_of(chosen), plan), sizes)


def _learning(table: _Table, special: Mapping[str, float], turns: int = 1) -> Path:
    """One epoch; `special` are evaluations of one update, `turns` portions of masses that are needed."""
    data, plan, state, sizes = table.data, table.plan, table.state, table.sizes
    weight, layout = jnp.ones(data.evidence.n_rows, jnp.float32), data.layout
    rate = jnp.float32(1e-3)
    key, slots = jax.random.key(1), table.slots
    how = layout, trainer.Schedule(rate, jnp.float32(1e6), jnp.float32(2e6)), plan, sizes.rows * slots, CELLS
    epoch = partial(trainer.epoch, key, state, data.evidence, weight, *how)
    batch = data.evidence.buckets[0].rows(np.arange(sizes.rows))
    of_batch = partial(trainer.update, plan=plan)
    work = traced(of_batch, key, state, batch, weight[: sizes.rows], layout, rate, rate, turns=turns)
    cells, steps = sizes.rows * slots, plan.n_mean_field_steps * (2 if plan.likelihood_weight else 1)
    work.copies[cells] += PASSES * (steps + 1)
    work.copies[sum(leaf.size for leaf in jax.tree.leaves(state.learnable))] += OF_ADAM
    work.special["log", cells] += MASSES  # of the deviation of every prediction
    work.special["sigmoid", sizes.rows * max(sizes.n_hidden, 1)] += steps
    for name, count in special.items():
        work.special[name, cells] += count
    return Path(epoch, BATCHES, work)


def _levels(plan: Any, ends: int) -> dict[str, float]:
    """Truncated means of each step and log masses of boxes with so many ends."""
    steps = plan.n_mean_field_steps * (2 if plan.likelihood_weight else 1)
    return {"log Φ and hazard": ends * (steps + MASSES + (1 if plan.likelihood_weight else 0))}


def _choices(plan: Any) -> dict[str, float]:
    """A softmax in each step; each mass is an integral over Gauss nodes."""
    return {"exp": plan.n_mean_field_steps, "log Φ and hazard": MASSES * effort(np.float32).points}


def _simulated(n_rows: int, n_columns: int, n_levels: int, seed: int = 0) -> np.ndarray:
    """Codes of levels that depend on three factors."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(n_rows, 3)) @ rng.normal(size=(3, n_columns)) + rng.normal(size=(n_rows, n_columns))
    cuts = np.quantile(latent, np.arange(1, n_levels) / n_levels)
    return np.searchsorted(cuts, latent)


def _frame(values: np.ndarray, prefix: str) -> pd.DataFrame:
    return pd.DataFrame(values, columns=[f"{prefix}{i}" for i in range(values.shape[1])])


def _of_levels(sizes: Sizes, n_levels: int) -> _Table:
    frame = _frame(_simulated(BATCHES * sizes.rows, sizes.columns, n_levels), "q")
    column = tb.Binary() if n_levels == 2 else tb.Ordinal(list(range(n_levels)))
    return _table(frame, dict.fromkeys(frame, column), sizes)


def probit(sizes: Sizes) -> Path:
    """Binary columns and hidden units, as for images."""
    table = _of_levels(sizes, 2)
    return _learning(table, _levels(table.plan, 1))


def levels(sizes: Sizes) -> Path:
    """Ordered levels."""
    table = _of_levels(sizes, 5)
    return _learning(table, _levels(table.plan, 2))


def _of_choices(sizes: Sizes) -> tuple[pd.DataFrame, dict[str, Any]]:
    frame = _frame(_simulated(BATCHES * sizes.rows, sizes.columns, 6, 1), "c").astype(str)
    return frame, dict.fromkeys(frame, tb.Categorical([str(i) for i in range(6)]))


def choices(sizes: Sizes) -> Path:
    """Categories: a utility for each of six labels."""
    table = _table(*_of_choices(sizes), sizes)
    return _learning(table, _choices(table.plan))


def _of_numbers(sizes: Sizes) -> tuple[pd.DataFrame, dict[str, Any]]:
    rng, n = np.random.default_rng(2), BATCHES * sizes.rows
    values = rng.normal(size=(n, 3)) @ rng.normal(size=(3, sizes.columns)) + rng.normal(size=(n, sizes.columns))
    frame = _frame(values, "x")
    return frame, dict.fromkeys(frame, tb.Continuous())


def numbers(sizes: Sizes) -> Path:
    """Measured numbers: no special function but the logarithm of a deviation."""
    return _learning(_table(*_of_numbers(sizes), sizes), {})


def mixed(sizes: Sizes) -> Path:
    """A survey: half of the columns ordered levels, a quarter categories, a quarter numbers."""
    half = sizes._replace(columns=max(sizes.columns // 2, 1))
    quarter = sizes._replace(columns=max(sizes.columns // 4, 1))
    first = _frame(_simulated(BATCHES * sizes.rows, half.columns, 5), "q")
    chosen, measured = _of_choices(quarter), _of_numbers(quarter)
    columns = {**dict.fromkeys(first, tb.Ordinal(list(range(5)))), **chosen[1], **measured[1]}
    table = _table(pd.concat([first, chosen[0], measured[0]], axis=1), columns, sizes)
    path, cells = _learning(table, {}), {"levels": half.columns, "choices": 6 * quarter.columns}
    for name, needs in (("levels", _levels(table.plan, 2)), ("choices", _choices(table.plan))):
        for function, count in needs.items():
            path.work.special[function, sizes.rows * cells[name]] += count
    return path


def ranking(sizes: Sizes) -> Path:
    """Rankings of ten items, beside binary columns."""
    n, n_items = BATCHES * sizes.rows, 10
    frame = _frame(_simulated(n, sizes.columns, 2), "q")
    rng = np.random.default_rng(3)
    order = np.argsort(rng.normal(size=(n, n_items)) + np.linspace(0, 1, n_items), axis=1)
    names = [f"i{i}" for i in range(n_items)]
    frame["rank"] = [[names[i] for i in each] for each in order]
    columns = {**dict.fromkeys(list(frame)[:-1], tb.Binary()), "rank": tb.Ranking(names)}
    table = _table(frame, columns, sizes)
    orders, plan, how = math.ceil(MASSES * sizes.rows), table.plan, rule(np.float32, n_items)
    path = _learning(table, {}, -(-orders // OF_CHAINS))
    path.work.special["log Φ and hazard", sizes.rows * sizes.columns] += _levels(plan, 1)["log Φ and hazard"]
    path.work.special["exp", sizes.rows * n_items * n_items] += plan.n_mean_field_steps  # a stage for each place
    # The integral of each item between the ends over panels, from below and from above; by their product, the density
    # of each item at all nodes, which has the slopes.
    inner, nodes = how.panels * (how.nodes + 1) * how.inner, how.panels * how.nodes
    path.work.special["exp", orders * inner] += 2 * (n_items - 2)
    path.work.special["log", orders * nodes] += 2 * (n_items - 2)
    path.work.special["exp", orders * nodes] += n_items - 1
    path.work.special["log Φ and hazard", orders * nodes] += 2
    return path


def lists(sizes: Sizes) -> Path:
    """Scores of few of many items: `columns` are the scores of a row, of thirty times as many items."""
    rng, n = np.random.default_rng(4), BATCHES * sizes.rows
    n_items = 30 * sizes.columns
    item = np.argsort(rng.random((n, n_items)), axis=1)[:, : sizes.columns]
    long = pd.DataFrame({"user": np.repeat(np.arange(n), sizes.columns), "item": item.reshape(-1)})
    long["score"] = _simulated(n, sizes.columns, 5).reshape(-1) + 1
    table = _table(tb.from_long(long, "user", "item", "score"), {"item": tb.Ratings()}, sizes)
    path = _learning(table, _levels(table.plan, 2))
    # The parameters of the items of each row are gathered, and their slopes added up by item.
    path.work.copies[sizes.rows * table.slots * (sizes.n_hidden + sizes.n_factors)] += 3
    return path


def transform(sizes: Sizes) -> Path:
    """Features of binary rows by mean-field."""
    table, how = _of_levels(sizes, 2), How()
    params, evidence = table.params, table.data.evidence.buckets[0].rows(np.arange(sizes.rows))
    work, cells = traced(partial(hidden_layer, how=how), params, evidence), sizes.rows * table.slots
    work.copies[cells] += PASSES // 2 * how.n_steps
    work.special["log Φ and hazard", cells] += how.n_steps
    work.special["sigmoid", sizes.rows * sizes.n_hidden] += how.n_steps
    run = jax.jit(partial(hidden_layer, how=how), compiler_options=options())
    return Path(lambda: [run(params, evidence) for _ in range(QUEUED)], QUEUED, work)


def ais(sizes: Sizes) -> Path:
    """Log-likelihood of binary rows by annealed importance sampling."""
    table = _of_levels(sizes, 2)
    params, evidence = table.params, table.data.evidence.buckets[0].rows(np.arange(sizes.rows))
    key, knots = jax.random.key(0), first_knots(sizes.rows, np.dtype(np.float32))
    rounds = 1 + 2 * AIS_TEMPERATURES + AIS_TEMPERATURES // 8
    anneal = partial(log_evidence_annealed, n_temperatures=np.int32(AIS_TEMPERATURES), knots=knots, shape=AIS_CHAINS)
    work, chains = traced(anneal, key, params, evidence), sizes.rows * AIS_CHAINS[0] * AIS_CHAINS[1]
    work.special["log Φ and hazard", chains * table.slots] += rounds
    work.special["sigmoid", chains * sizes.n_hidden] += 2 * rounds
    work.copies[chains * table.slots] += rounds  # the x of each chain, which a round changes
    run = jax.jit(anneal, compiler_options=options())
    return Path(lambda: run(key, params, evidence), 1, work)


PATHS: dict[str, tuple[Callable[[Sizes], Path], Sizes, Sizes]] = {  # with the sizes of a full and of a quick run
    "probit": (probit, Sizes(500, 784, 500), Sizes(200, 196, 100)),
    "levels": (levels, Sizes(250, 200, 60, 30), Sizes(100, 60, 20, 10)),
    "choices": (choices, Sizes(250, 40, 60, 30), Sizes(100, 12, 20, 10)),
    "numbers": (numbers, Sizes(250, 200, 60, 30), Sizes(100, 60, 20, 10)),
    "table": (mixed, Sizes(250, 160, 60, 30), Sizes(100, 48, 20, 10)),
    "ranking": (ranking, Sizes(250, 20, 20, 5), Sizes(100, 10, 10, 5)),
    "lists": (lists, Sizes(250, 96, 30, 9), Sizes(100, 24, 10, 5)),
    "transform": (transform, Sizes(1000, 784, 500), Sizes(300, 196, 100)),
    "ais": (ais, Sizes(100, 100, 20), Sizes(40, 40, 8)),
}
