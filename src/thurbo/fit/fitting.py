"""§5 From evidence to a fitted model: sizes, initial values, held-out rows, length of training, and checkpoints.

The common part of `TBM.fit` and `TBM.partial_fit`, between the table and the training loop. A fit resumes from a
checkpoint that has the same data and settings; the result is the same bit for bit, and another file is an error.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thurbo import _runtime, parallel
from thurbo._typing import Array, Int, PRNGKey, Rows
from thurbo.errors import NotTrusted, SchemaError
from thurbo.fit import course, planning, trainer
from thurbo.fit.course import Run, Told
from thurbo.fit.objective import RowChains
from thurbo.fit.planning import FitSettings, Plan
from thurbo.fit.trainer import Layout, TrainState, folded
from thurbo.latent.constraints import Context
from thurbo.latent.evidence import Buckets, Evidence
from thurbo.latent.packing import ROWS, Padding
from thurbo.latent.rbm import Params
from thurbo.table.io import files
from thurbo.table.io.files import destination

if TYPE_CHECKING:
    from thurbo.table.columns import Block
    from thurbo.table.schema.schema import Schema


HIDDEN_RATE = 0.1  # probability that a hidden unit is on when the likelihood begins: at 0.5 units stay dense, and alike
LARGEST = 50  # largest number of hidden units that the rule gives
ENUMERATED, ENUMERATED_ON_CPU = 10, 5  # the same for exact fits


def sizes(chosen: FitSettings, n_rows: int, n_sites: int, has_lists: bool = False) -> tuple[int, int]:
    """Hidden units and factors of a single model: one unit per site, at most one unit per twenty rows, no factors.

    If all states are enumerated, as many units as this takes about a minute for: one more doubles the time. Lists of
    items have a rule of their own.
    """
    n_hidden, n_factors = chosen.n_hidden, chosen.n_factors
    if has_lists:
        rule = planning.LIST_UNITS if n_hidden == "auto" else (int(n_hidden), 0)
        return rule[0], rule[1] if n_factors == "auto" else int(n_factors)
    if n_hidden == "auto":
        most = LARGEST
        if chosen.objective == "exact":
            most = ENUMERATED_ON_CPU if jax.default_backend() == "cpu" else ENUMERATED
        n_hidden = int(np.clip(min(n_sites, n_rows // 20), 2, most))
    return int(n_hidden), 0 if n_factors == "auto" else int(n_factors)


def cut(state: TrainState, layout: Layout) -> TrainState:
    """The same initial state without units that are not active."""
    units, factors = np.asarray(layout.active_hidden), np.asarray(layout.active_factors)
    return _times(state, weights=units, loadings=factors, effects=np.concatenate([[True], units, factors]))


def _times(state: TrainState, **factors: np.ndarray) -> TrainState:
    """The state with some parameters multiplied, on the host, where this needs no program."""
    found = {name: np.asarray(getattr(state.learnable, name)) * each for name, each in factors.items()}
    return state._replace(learnable=state.learnable._replace(**jax.device_put(found)))


def active_only(layout: Layout, size: tuple[int, int], n_hidden: int, n_factors: int) -> Layout:
    """The layout of a model of some size of which only the first units and factors are used."""
    units, factors = (np.arange(most) < n for most, n in zip(size, (n_hidden, n_factors), strict=True))
    units, factors = jax.device_put((units, factors))
    return layout._replace(active_hidden=units, active_factors=factors)


def pad(padding: Padding, layout: Layout) -> Layout:
    """The types of sites in the common shape."""
    nothing: dict[str, Any] = {"n_cuts": 0, "measured": False, "utility": False, "decay": 0.0}
    own = {name: value for name in nothing if (value := getattr(layout, name)) is not None}
    return layout._replace(**jax.device_put({name: padding.sites(own[name], nothing[name]) for name in own}))


def unpadded(state: TrainState, padding: Padding, n_cuts: int) -> TrainState:
    """The state without the sites that the common shape adds, and with as many cuts as the table has."""

    def own(values: Any) -> Any:
        """Parameters of the own sites, or the optimiser's moments of them."""
        by_site = ("site_bias", "weights", "loadings", "first_cut", "log_gaps", "log_scale", "presence", "context")
        found = {name: jax.tree.map(lambda leaf: _own(leaf, padding), getattr(values, name)) for name in by_site}
        return values._replace(**{**found, "log_gaps": found["log_gaps"][:, : n_cuts - 1]})

    is_own = lambda each: isinstance(each, trainer.Learnable)  # noqa: E731
    optimiser = jax.tree.map(lambda each: own(each) if is_own(each) else each, state.optimiser, is_leaf=is_own)
    centre = state.centre._replace(site=jax.device_put(_own(state.centre.site, padding)))
    return jax.device_put(state._replace(learnable=own(state.learnable), centre=centre, optimiser=optimiser))


def _own(values: Any, padding: Padding) -> np.ndarray:
    array = np.asarray(values)
    return array[padding.place] if array.shape[0] == padding.n_slots else array


SECONDS_BETWEEN = 5.0  # at most so much work is lost if a fit is killed


def fingerprint(*parts: Any) -> str:
    """A fingerprint of all inputs of a fit: arrays by their bytes, other values by their text."""
    digest = hashlib.sha256()
    leaves, structure = jax.tree.flatten(parts)
    digest.update(str(structure).encode())
    for leaf in leaves:
        if isinstance(leaf, (jax.Array, np.ndarray)):
            array = np.asarray(leaf)
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        else:
            digest.update(repr(leaf).encode())
    return digest.hexdigest()


class Checkpoint:
    """The checkpoint file of one fit, identified by its fingerprint."""

    def __init__(self, path: str | PathLike[str], mark: str, seconds_between: float = SECONDS_BETWEEN):
        self.path, self.mark, self.seconds_between = Path(path), mark, seconds_between
        destination(self.path)  # check the path before training starts
        self.written = time.monotonic()

    def save(self, run: Run) -> None:
        """Write the run, unless it was written a few seconds ago."""
        if time.monotonic() - self.written >= self.seconds_between:
            self.write(run)

    def write(self, run: Run) -> None:
        """Write the run now."""
        states = {name: enumerate(jax.tree.leaves(getattr(run, name))) for name in ("state", "best")}
        arrays = {f"{name}.{place:03d}": np.asarray(leaf) for name, own in states.items() for place, leaf in own}
        numbers = {name: value for name, value in vars(run).items() if name not in {"state", "best", "mark"}}
        files.save(self.path, arrays, {"checkpoint": self.mark, "run": numbers | {"best_score": str(run.best_score)}})
        self.written = time.monotonic()

    def load(self, like: TrainState) -> Run | None:
        """The run in the file; None if the file does not exist."""
        if not self.path.exists():
            return None
        arrays, description = files.load(self.path)
        if description.get("checkpoint") != self.mark:
            raise NotTrusted(
                f'"{self.path}" is not a checkpoint of this fit: the data, the settings or the seed differ; '
                "remove the file, or use another name"
            )
        # In the order of their names. The file does not keep scalar shapes: take the shapes of an initial state.
        leaves, structure = jax.tree.flatten({"state": like, "best": like})
        own = zip(sorted(arrays), leaves, strict=True)
        found = [jnp.asarray(arrays[name]).reshape(leaf.shape) for name, leaf in own]
        numbers = description["run"]
        numbers["fall"], numbers["best_score"] = tuple(numbers["fall"]), float(numbers["best_score"])
        return Run(**jax.tree.unflatten(structure, found), **numbers)


class Data(NamedTuple):
    """A table in the form that a fit needs."""

    schema: Schema
    blocks: Mapping[str, Block]
    evidence: Buckets
    weight: np.ndarray  # [row] how many rows each row stands for

    @property
    def relative_weight(self) -> np.ndarray:
        """Weights of rows in the objective: with mean one, and in single precision."""
        return np.asarray(self.weight / self.weight.mean(), np.float32)

    @property
    def n_counted(self) -> int:
        """Number of rows by weight, which decides how large models are."""
        return max(1, round(float(self.weight.sum())))

    @property
    def n_cuts(self) -> int:
        """The most cuts of a site, and one where there are none: so many columns has the array of cuts."""
        return max(1, int(self.schema.n_cuts.max(initial=0)))

    @property
    def padding(self) -> Padding | None:
        """How the table shares its programs with others; None if it does not, as with many rows."""
        return Padding.of(self.evidence) if self.evidence.n_rows <= ROWS[-1] else None

    @property
    def layout(self) -> Layout:
        """The type of each site."""
        schema, slices = self.schema, self.schema.effect_slices
        context: Any = schema.context.astype(np.float32)
        found: dict[str, Any] = {"n_cuts": schema.n_cuts, "measured": schema.is_measured}
        lists, decay = [], np.zeros(schema.n_sites, np.float32)
        for name, where in schema.slices.items():
            entries = self.blocks[name].entries
            if entries is not None:
                lists.append(np.zeros(schema.n_sites, np.float32))
                lists[-1][where] = 1.0
                decay[where] = schema[name].learning_settings["item_decay"] / max(1, len(entries.site))
        if lists:
            found |= {"lists": np.stack(lists), "item_decay": decay}
        if schema.is_utility.any():
            found["utility"] = schema.is_utility
        if context.shape[1]:  # the j-th site of a ranking holds the precision of its j-th choice, the first one is 1
            found["context"] = Context(context, context[:, 0])
        if slices:
            n_features = max(own.stop for own in slices.values())
            found["design"] = np.zeros((schema.n_sites, n_features), np.float32)
            found["constants"] = np.ones(schema.n_sites, np.float32)
            found["effect_decay"] = np.zeros(n_features, np.float32)
        for name, own in slices.items():
            design, where = schema[name].design, schema.slices[name]
            assert design is not None
            found["design"][where, own], found["constants"][where] = design.matrix, float(design.constants)
            found["effect_decay"][own] = decay[where].max(initial=0.0)
        return Layout(**jax.device_put(found))


def start(
    key: PRNGKey,
    data: Data,
    size: tuple[int, int],
    n_chains: int,
    plan: Plan,
    padding: Padding | None = None,
    rows: np.ndarray | None = None,
) -> TrainState:
    """Small random weights around the independent model; cuts and utilities start at the observed frequencies.

    In tables with utilities, and for the likelihood, weights are so small that the log-odds of a unit have a standard
    deviation of about 0.3 over rows for any number of sites; otherwise larger weights give better features. For the
    likelihood, units start at their target probability. `rows` are those of the table that are trained on, if not all.
    """
    schema, lists = data.schema, data.schema.listed
    columns = [(name, schema[name]) for name in schema.with_sites]
    starts = [column.form.start(data.blocks[name], data.weight) for name, column in columns]
    width = max([each.cuts.shape[1] for each in starts], default=0)
    wide = [np.pad(each.cuts, ((0, 0), (0, width - each.cuts.shape[1])), constant_values=np.inf) for each in starts]
    cuts, bias = np.concatenate(wide), np.concatenate([each.bias for each in starts])
    log_scale = np.concatenate([np.full(len(each.bias), np.log(each.scale)) for each in starts])
    n_presence, n_context = sum(size) if plan.presence and lists else 0, schema.context.shape[1]
    if n_context and plan.objective != "exact":
        name = next(name for name, column in columns if column.has_context)
        problem = f'a ranking with context needs objective="exact", and this fit has "{plan.objective}"'
        remedy = 'use TBM(objective="exact", n_hidden=6), or Ranking(context=False)'
        raise SchemaError(problem, column=name, remedy=remedy)
    options: dict[str, Any] = {}
    if not lists and (schema.is_utility.any() or plan.objective == "likelihood"):
        options["weight_scale"] = float(min(0.1, 0.3 / np.sqrt(max(schema.n_sites, 1))))
    if plan.objective == "likelihood":
        options["hidden_rate"] = plan.sparsity_target if plan.sparsity_weight else HIDDEN_RATE
    if lists:
        options["loadings"] = np.full((schema.n_sites, size[1]), np.nan)
        scored = [name for name in lists if not schema[name].has_tasks]  # a task only compares its items
        for factor, name in enumerate(scored[: size[1]]):  # a row's mean score: equal loadings of all items
            options["loadings"][schema.slices[name], factor] = trainer.GENEROSITY
    options["log_scale"] = log_scale
    options["effects"] = np.zeros(max((own.stop for own in schema.effect_slices.values()), default=0))
    for name, own in schema.effect_slices.items():  # attributes explain what they can of the starting utilities
        design, where = schema[name].design, schema.slices[name]
        assert design is not None
        gram = design.matrix.T @ design.matrix + 1e-3 * max(len(design.matrix), 1) * np.eye(design.matrix.shape[1])
        options["effects"][own] = np.linalg.solve(gram, design.matrix.T @ bias[where])
        bias[where] = (bias[where] - design.matrix @ options["effects"][own]) * design.constants
    if padding is not None:
        cuts, bias = padding.cuts(cuts), padding.sites(bias, 0.0)
        options["log_scale"] = padding.sites(log_scale, 0.0)
    values = trainer.initial_values(cuts, np.dtype(np.float32), site_bias=bias, **options)
    state = _begin(key, values, (*size, n_presence, n_context, n_chains, 0 if rows is None else len(rows)), plan)
    if plan.objective == "likelihood":
        every = np.arange(data.evidence.n_rows) if rows is None else rows
        state = state._replace(rows=_row_chains(jax.random.fold_in(key, 1), state, data, every))
    if padding is None:
        return state
    real = padding.sites(np.ones((len(padding.place), 1), np.float32), 0.0)  # without what was drawn for other sites
    return _times(state, weights=real, loadings=real)


def _row_chains(key: PRNGKey, state: TrainState, data: Data, rows: np.ndarray) -> RowChains:
    """Initial states of the chains of rows: hidden units at their rates, x at a point that satisfies the evidence."""
    rate = np.asarray(state.centre.hidden)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).astype(np.uint32))
    n, evidence = len(rows), data.evidence
    h = rng.random((n, len(rate)), np.float32) < rate
    own = rng.random((n, len(rate)), np.float32) < rate if evidence.has_own_models else np.zeros((n, 0), bool)
    z = np.zeros((n, state.learnable.loadings.shape[1]), np.float32)
    x = np.zeros((n, 0), np.float32)
    if len(evidence.buckets) == 1 and any(c.structure.couples for c in evidence.buckets[0].constraints):
        params = folded(state.learnable, state.centre, data.layout)
        x = evidence.rows(rows).by_chunks(partial(_inside, params))
    return RowChains(*jax.device_put((h, z, x, own)))


@jax.jit
def _inside(params: Params, evidence: Evidence) -> Rows:
    seen = evidence.seen(params)
    bias = seen.site_bias if seen.site_bias.ndim == 2 else seen.site_bias[None, :]
    return evidence.region(seen.gauge).start(jnp.broadcast_to(bias, evidence.observed.shape))


@partial(jax.jit, static_argnames=("sizes", "plan"), compiler_options=_runtime.RUNS_ONCE)
def _begin(key: PRNGKey, values: trainer.Values, sizes: tuple[int, ...], plan: Plan) -> TrainState:
    """One compiled program for all that changes during training.

    `sizes` are the numbers of hidden units, factors, units of presence, items with context, chains and rows.
    """
    *sizes_of_parameters, n_chains, n_rows = sizes
    key_start, key_chains = jax.random.split(key)
    learnable, centre = trainer.initial_coordinates(key_start, values, *sizes_of_parameters)
    rate = centre.hidden
    chains = jax.random.bernoulli(key_chains, rate[None, :], (n_chains, rate.shape[0])).astype(rate.dtype)
    return trainer.initial_state(learnable, centre, chains, plan, n_rows)


@partial(jax.jit, compiler_options=_runtime.RUNS_ONCE)
def _keys(seed: Int[Array, ""]) -> tuple[PRNGKey, ...]:
    """Keys for initial values, training, and the choice of held-out rows."""
    return tuple(jax.random.split(jax.random.key(seed), 3))


def chains_of(chosen: FitSettings) -> int:
    """Number of chains without evidence."""
    return planning.CHAINS_BESIDE_PREDICTION if chosen.n_chains == "auto" else int(chosen.n_chains)


def train(
    path: str | PathLike[str] | None,
    inputs: tuple[Any, ...],
    key: PRNGKey,
    state: TrainState,
    *rest: Any,
    **options: Any,
) -> course.Fitted:
    """`course.fit` with a checkpoint at `path`, if it is given; `inputs` are what a fit depends on, besides its key."""
    checkpoint = None if path is None else Checkpoint(path, fingerprint(*inputs))
    resume, on_run = (checkpoint.load(state), checkpoint.save) if checkpoint else (None, None)
    fitted = course.fit(key, state, *rest, resume=resume, on_run=on_run, **options)
    if fitted.unfinished is not None:
        fitted.unfinished.mark = checkpoint.mark if checkpoint else fingerprint(*inputs)
        if checkpoint is not None:
            checkpoint.write(fitted.unfinished)
    return fitted


def fit(chosen: FitSettings, data: Data, seed: int, on_epoch: Told) -> tuple[course.Fitted, Plan, np.ndarray]:
    """Train from initial values, or from a checkpoint of the same fit; also its plan and the training rows."""
    began = time.perf_counter()
    n_rows = data.evidence.n_rows
    key_start, key_fit, key_split = _keys(np.int32(seed))
    size = sizes(chosen, data.n_counted, data.schema.n_sites, bool(data.schema.listed))
    chosen = planning.of_likelihood(chosen, n_rows, data.evidence.n_cells // n_rows, size[0])
    plan = planning.plan(chosen, *size)
    n_held = planning.held_out(chosen, n_rows)
    order = np.asarray(jax.random.permutation(key_split, n_rows)) if n_held else np.arange(n_rows)
    state = start(key_start, data, size, chains_of(chosen), plan, rows=order[n_held:])
    cells, max_epochs = lengths(chosen, data)
    every = course.WeightedRows(data.evidence, data.relative_weight)
    seen, held = (_rows(every, order[n_held:]), _rows(every, order[:n_held])) if n_held else (every, None)
    seen, devices = seen._replace(evidence=seen.evidence.on_device()), parallel.chosen(chosen.devices)
    about = data.layout, plan, course.Length(cells, max_epochs, float(chosen.learning_rate))
    limit = None if chosen.max_time is None else course.TimeLimit(float(chosen.max_time), began, is_shared=True)
    more: dict[str, Any] = {"devices": devices, "held_out": held, "on_epoch": on_epoch, "limit": limit}
    fitted = train(chosen.checkpoint, (every, state, *about, n_held), key_fit, state, seen, *about, **more)
    return fitted, plan, order[n_held:]


def lengths(chosen: FitSettings, data: Data) -> tuple[int, int]:
    """Cells in a batch, and epochs."""
    return planning.lengths(chosen, data.evidence.n_rows, data.evidence.n_cells, bool(data.schema.listed))


def go_on(chosen: FitSettings, data: Data, state: TrainState, plan: Plan, seed: int) -> course.Fitted:
    """One more pass over new rows at the full rate; smoothed posteriors of the first rows are not updated."""
    plan = replace(plan, posterior_smoothing=0.0)
    rows = course.WeightedRows(data.evidence.on_device(), data.relative_weight)
    cells, _ = lengths(chosen, data)
    length = course.Length(cells, 1, float(chosen.learning_rate), falls=False)
    key = jax.random.fold_in(jax.random.key(seed), state.step)
    if plan.objective == "likelihood":  # chains of the new rows
        state = state._replace(rows=_row_chains(key, state, data, np.arange(data.evidence.n_rows)))
    work = max(float(rows.n_cells), _runtime.LITTLE_WORK)  # there may be more such calls
    return course.fit(key, state, rows, data.layout, plan, length, work=work)


def _rows(rows: course.WeightedRows, index: np.ndarray) -> course.WeightedRows:
    return course.WeightedRows(rows.evidence.rows(index), rows.weight[index])
