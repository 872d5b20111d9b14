"""A.1.1 log P(e) between two bounds: annealed importance sampling up to the posterior, and down again.

f_β = q^(1 − β) f^β joins a base q, whose mass is known, to f, whose mass F(e) = Σ_h Ω(h) P(e | h) is wanted. Every
conditional along the path is that of a Gibbs round with other means, so each kind of evidence is drawn by its own
region; h is summed out. Chains from q give E[w] = F(e) / F(q), so log mean w errs downwards; chains that start at
posterior states give the inverse, and err upwards. Between the two lies log F(e).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Factors, Float, Hidden, PerRow, PRNGKey, Rows, RowsMask
from thurbo.latent import rbm
from thurbo.latent.constraints.base import JointRegion, Region
from thurbo.latent.evidence import Buckets, Evidence, clamp, n_slots
from thurbo.latent.inference.gibbs import ChainState
from thurbo.latent.rbm import Params

CHAINS = 8, 32  # groups that know nothing of each other, and chains of each
CHAINS_OF_MODEL = 16, 32  # the same for the normaliser, which all rows share
RESAMPLED_BELOW = 0.5  # share of the chains of a group that carries its weight
KNOTS = 32  # pieces of the schedule β(t), which is linear in each
POWER = 1.5  # of the first schedule, β(t) = t^POWER
LEAST_CHANCE = 0.02  # of either value of a hidden unit at the base
FACTOR_STEPS = 10  # to the factors at the base
SETTLING = 40  # rounds at the base where a draw depends on the one before
MOST_FLIPS = 8  # of hidden units in a round where h is not summed out
KEPT = 0.8  # how much of the factors a small move keeps there
SAFETY = 3.0  # standard errors between estimates and bounds


Count = Array | np.integer  # a number of steps that may be traced
Knots = Float[Array, "row knot"]


class Path(NamedTuple):
    """The densities f_β of one row. A state has x on slots that are confined and x − Vz on the others.

    h is part of the state only where it is not summed out.

    params    by slot
    region    of x; None where no slot is confined
    choices   regions whose mass is no truncated normal: it is a factor of f, and their x are integrated out
    chosen    slots of these
    shifted   slots on which factors act
    present   slots with an x that counts
    log_odds, centre, factors  of the base: log-odds of the hidden units, means of x and z
    """

    params: Params
    region: Region | None
    choices: tuple[Region, ...]
    chosen: RowsMask
    shifted: RowsMask
    present: RowsMask | None
    whitener: Float[Array, "row factor factor"] | None
    log_odds: Hidden
    centre: Rows
    factors: Factors

    @property
    def sums_hidden(self) -> bool:
        return not self.choices

    def shift(self, z: Factors) -> Float[Array, "#row slot"]:
        return rbm.only(rbm.factor_shift(self.params, z), self.shifted)

    def log_base(self) -> PerRow:
        """log of the mass of q, in the units of log F."""
        value = jnp.logaddexp(self.log_odds, jnp.zeros_like(self.log_odds)).sum(-1)
        if self.whitener is not None:
            value = value + jnp.log(jnp.diagonal(self.whitener, axis1=1, axis2=2)).sum(-1)
        return value if self.region is None else value + self.region.log_mass(self.centre)

    def log_base_error(self) -> PerRow:
        """Standard error of `log_base`, where a mass is estimated."""
        none = jnp.zeros(1, self.centre.dtype)
        return none if self.region is None else self.region.log_mass_error(self.centre)

    def start(self) -> ChainState:
        """A state inside Ω, at the base's means."""
        x = self.centre if self.region is None else self.region.start(self.centre)
        return ChainState(x, (self.log_odds > 0).astype(x.dtype), self.factors)

    def slope(self, state: ChainState, shift: Float[Array, "#row slot"]) -> PerRow:
        """log f − log q without what depends on h: Σ x (s + α − μ) + ½ μ² + ½ ŝ² − s (α + ŝ), s = Vz, and that of z."""
        centre, factors, bias = self.centre, self.factors, jnp.atleast_2d(self.params.site_bias)
        usual = self.shift(factors)
        by_slot = state.x * (shift + bias - centre) + 0.5 * (centre**2 + usual**2) - shift * (bias + usual)
        value = rbm.only(by_slot, self.present).sum(-1)
        if self.whitener is None:
            return value
        prior = jnp.zeros_like(factors) if self.params.factor_prior is None else self.params.factor_prior
        return value + (state.z * (prior - factors) + 0.5 * (factors**2 - prior**2)).sum(-1)

    def log_choices(self, h: Hidden, z: Factors) -> PerRow:
        """½‖m(h)‖² over the slots of choices, and log P(choices | h, z)."""
        mean = rbm.latent_mean(self.params, h)
        own = rbm.only(mean, self.chosen)
        mean = mean + rbm.factor_shift(self.params, z)
        return sum((each.log_mass(mean) for each in self.choices), start=0.5 * (own * own).sum(-1))

    def advance(self, key: PRNGKey, state: ChainState, before: Array, after: Array) -> tuple[ChainState, PerRow]:
        """log f_after − log f_before at the state, and then a round of h, z and x that leaves f_after invariant."""
        params = self.params
        key_h, key_z, key_x = jax.random.split(key, 3)
        shift = self.shift(state.z)
        logits = rbm.hidden_logits(params, rbm.only(state.x - shift, self.present))
        step = after - before
        gain = step * self.slope(state, shift)
        now = (1.0 - after) * self.log_odds + after * logits
        if self.sums_hidden:
            old = (1.0 - before) * self.log_odds + before * logits
            gain = gain + _softplus_gain(old, step * (logits - self.log_odds)).sum(-1)
            h = rbm.bernoulli(key_h, now)
        else:
            mass = self.log_choices(state.h, state.z)
            gain = gain + step * ((state.h * (logits - self.log_odds)).sum(-1) + mass)
            h, mass = self._moved_hidden(key_h, state, now, mass, after)
        mean, z = rbm.latent_mean(params, h), state.z
        if self.whitener is not None:
            z = rbm.factor_mean(params, rbm.only(state.x - mean, self.shifted), self.whitener)
            z = (1.0 - after) * self.factors + after * z
            if self.sums_hidden:
                z = z + rbm.coloured(self.whitener, jax.random.normal(key_z, z.shape, z.dtype))
            else:
                z = self._moved_factors(key_z, state.z, z, h, mass, after)
            mean = mean + self.shift(z)
        mean = (1.0 - after) * self.centre + after * mean
        if self.region is None:
            x = mean + jax.random.normal(key_x, mean.shape, mean.dtype)
        else:
            x = self.region.draw(key_x, state.x, mean)
        return ChainState(x, h, z), gain

    def _moved_hidden(
        self, key: PRNGKey, state: ChainState, logits: Hidden, mass: PerRow, beta: Array
    ) -> tuple[Hidden, PerRow]:
        """Metropolis flips of single units and of pairs in turn."""
        n_hidden = state.h.shape[1]

        def flipped(key: PRNGKey, number: Array, h: Hidden) -> tuple[Hidden, PerRow]:
            units = jax.random.randint(key, (2,), 0, n_hidden)
            units = jnp.where(number % 2 == 0, units[:1], units)
            flips = (jnp.arange(n_hidden)[:, None] == units[None, :]).any(axis=1)[None, :]
            then = jnp.where(flips, 1.0 - h, h)
            return then, ((then - h) * logits).sum(-1)

        n_steps = min(n_hidden, MOST_FLIPS)
        return _metropolis(key, n_steps, state.h, mass, beta, flipped, lambda h: self.log_choices(h, state.z))

    def _moved_factors(self, key: PRNGKey, z: Factors, mean: Factors, h: Hidden, mass: PerRow, beta: Array) -> Factors:
        """Metropolis with moves that leave the Gaussian conditional invariant, large and small ones in turn."""
        assert self.whitener is not None
        whitener = self.whitener

        def moved(key: PRNGKey, number: Array, z: Factors) -> tuple[Factors, PerRow]:
            kept = KEPT * (number % 2).astype(z.dtype)
            noise = rbm.coloured(whitener, jax.random.normal(key, z.shape, z.dtype))
            return mean + kept * (z - mean) + jnp.sqrt(1.0 - kept**2) * noise, jnp.zeros_like(mass)

        return _metropolis(key, 2, z, mass, beta, moved, lambda z: self.log_choices(h, z))[0]


def _metropolis(
    key: PRNGKey, n_steps: int, state: Array, mass: PerRow, beta: Array, propose: Callable[..., Any], log_mass: Any
) -> tuple[Array, PerRow]:
    """Steps to states that `propose` gives with the log of their chance, but for the power β of `log_mass`."""

    def one(number: Array, carry: tuple[Array, PerRow]) -> tuple[Array, PerRow]:
        state, mass = carry
        key_move, key_dice = jax.random.split(jax.random.fold_in(key, number))
        then, gain = propose(key_move, number, state)
        new = log_mass(then)
        accepted = jnp.log(jax.random.uniform(key_dice, mass.shape, mass.dtype)) < gain + beta * (new - mass)
        return jnp.where(accepted[:, None], then, state), jnp.where(accepted, new, mass)

    return jax.lax.fori_loop(0, n_steps, one, (state, mass))


def _softplus_gain(old: Hidden, step: Hidden) -> Hidden:
    """softplus(old + step) − softplus(old), to the relative precision of a small step."""
    small = jnp.log1p(jax.nn.sigmoid(old) * jnp.expm1(jnp.clip(step, -1.0, 1.0)))
    softplus = lambda value: jnp.logaddexp(value, jnp.zeros_like(value))  # noqa: E731
    return jnp.where(jnp.abs(step) < 1.0, small, softplus(old + step) - softplus(old))


class Bracket(NamedTuple):
    """log F from below and from above with standard errors, and a schedule for the next run: [row]."""

    forward: PerRow
    forward_error: PerRow
    reverse: PerRow
    reverse_error: PerRow
    knots: Knots


class _Run(NamedTuple):
    """Chains of all groups, and what they have weighed so far.

    chains  [group · member]
    log_w   of each chain since its group was resampled; `lost` is what rounding took from it
    log_z   of each group, up to its last resampling
    forward log F(e) / F(q) by each group, once the chains are at the posterior
    recent  gain of each chain in the current piece of the schedule
    length  of the path, by piece of the schedule: deviation of what chains gain there, up and down
    """

    chains: ChainState
    log_w: Float[Array, "group member"]
    lost: Float[Array, "group member"]
    log_z: Float[Array, " group"]
    forward: Float[Array, " group"]
    recent: Float[Array, "group member"]
    length: Float[Array, " piece"]

    def log_weight(self) -> Float[Array, " group"]:
        """Of each group: log of the mean weight, over all its resamplings."""
        return self.log_z + jax.nn.logsumexp(self.log_w, axis=1) - float(np.log(self.log_w.shape[1]))

    def measured(self, piece: Array | int) -> _Run:
        """At the end of a piece of the schedule."""
        length = self.length.at[piece].add(self.recent.std())
        return self._replace(length=length, recent=jnp.zeros_like(self.recent))

    def resampled(self, key: PRNGKey, threshold: float) -> _Run:
        """Where few chains carry the weight of their group, chains in proportion to their weights."""
        (groups, members), dtype = self.log_w.shape, self.log_w.dtype
        share = jax.nn.softmax(self.log_w, axis=1)
        acts = (share**2).sum(axis=1) * members * threshold > 1.0
        dice = jax.random.uniform(key, (groups, 1), dtype) + jnp.arange(members, dtype=dtype)[None, :]
        own = (jnp.cumsum(share, axis=1)[:, None, :] < (dice / members)[:, :, None]).sum(axis=2)
        own = jnp.where(acts[:, None], jnp.minimum(own, members - 1), jnp.arange(members)[None, :])
        chosen = (own + members * jnp.arange(groups)[:, None]).reshape(-1)
        chains = jax.tree.map(lambda leaf: leaf[chosen], self.chains)
        log_w, lost = (jnp.where(acts[:, None], 0.0, own) for own in (self.log_w, self.lost))
        log_z = jnp.where(acts, self.log_weight(), self.log_z)
        return self._replace(chains=chains, log_w=log_w, lost=lost, log_z=log_z)


def first_knots(n_rows: int, dtype: np.dtype) -> Knots:
    """β(t) = t^POWER."""
    return jnp.broadcast_to(jnp.linspace(0.0, 1.0, KNOTS + 1, dtype=dtype) ** POWER, (n_rows, KNOTS + 1))


def up_and_down(
    key: PRNGKey, path: Path, knots: Float[Array, " knot"], n_temperatures: Count, shape: tuple[int, int]
) -> Bracket:
    """One row: from base to posterior, some rounds there, and back; the number of temperatures may be traced.

    Chains of a group are resampled where few of them carry its weight, which keeps E[w]: modes then have chains in
    proportion to their mass, however many came to them. The spread between groups gives the standard errors.
    """
    dtype = path.centre.dtype
    n_rounds = n_temperatures // 8
    n_chains = shape[0] * shape[1]
    coupled = path.region is not None and not path.region.draws_exactly
    settling = SETTLING if coupled or not path.sums_hidden else 1
    top, down = settling + n_temperatures, settling + n_temperatures + n_rounds
    chains = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (n_chains, *leaf.shape)), path.start())
    keys = jax.vmap(lambda number: jax.random.fold_in(key, number))(jnp.arange(n_chains))
    key_resample = jax.random.fold_in(key, n_chains)
    nodes = jnp.linspace(0.0, 1.0, KNOTS + 1, dtype=dtype)

    def moment(step: Array) -> Array:
        """Time along the path, from 0 to 1 and back to 0."""
        up = jnp.clip(step - settling, 0, n_temperatures)
        back = jnp.clip(step - down, 0, n_temperatures)
        return (up - back).astype(dtype) / n_temperatures.astype(dtype)

    def piece(step: Array) -> Array:
        """Piece of the schedule that a step is in."""
        middle = 0.5 * (moment(step) + moment(step + 1))
        return jnp.minimum((middle * KNOTS).astype(np.int32), KNOTS - 1)

    def turn(run: _Run, number: Array) -> _Run:
        """At the posterior: keep the weights, and begin again."""
        forward = run.log_weight()
        run = run.measured(KNOTS - 1).resampled(jax.random.fold_in(key_resample, number), np.inf)
        return run._replace(log_z=jnp.zeros_like(run.log_z), forward=forward)

    def next_piece(run: _Run, number: Array) -> _Run:
        run = run.measured(piece(number - 1))
        return run.resampled(jax.random.fold_in(key_resample, number), RESAMPLED_BELOW)

    def step(number: Array, run: _Run) -> _Run:
        run = jax.lax.cond(number == top, turn, lambda run, _: run, run, number)
        run = jax.lax.cond(piece(number) != piece(number - 1), next_piece, lambda run, _: run, run, number)
        before, after = (jnp.interp(moment(each), nodes, knots) for each in (number, number + 1))
        own = jax.vmap(lambda each: jax.random.fold_in(each, number))(keys)
        chains, gain = jax.vmap(path.advance, in_axes=(0, 0, None, None))(own, run.chains, before, after)
        gain = gain.reshape(shape)
        # Summed so that thousands of roundings do not add up.
        exact = gain - run.lost
        log_w = run.log_w + exact
        lost = (log_w - run.log_w) - exact
        return run._replace(chains=chains, log_w=log_w, lost=lost, recent=run.recent + gain)

    zero, none = jnp.zeros(shape, dtype), jnp.zeros(shape[0], dtype)
    run = _Run(chains, zero, zero, none, none, zero, jnp.zeros(KNOTS, dtype))
    with jax.default_matmul_precision("float32"):  # on a GPU too: errors of all products would add up in log w
        run = jax.lax.fori_loop(0, down + n_temperatures, step, run)
    base, mass_error = path.log_base()[0], path.log_base_error()[0]
    forward, forward_error = log_mean_exp(run.forward, jnp.zeros_like(none))
    reverse, reverse_error = log_mean_exp(run.log_weight(), run.forward)
    errors = jnp.hypot(forward_error, mass_error), jnp.hypot(reverse_error, mass_error)
    forward = jnp.where(jnp.isfinite(base), base + forward, base)
    return Bracket(forward, errors[0], base - reverse, errors[1], _refined(knots, run.measured(0).length, nodes))


def _refined(knots: Float[Array, " knot"], length: Float[Array, " piece"], nodes: Float[Array, " knot"]) -> Array:
    """Knots between which log w spreads equally, as far as the run shows it; a fifth of the time is as before."""
    even = length.sum() / KNOTS
    mixed = jnp.where(even > 0.0, 0.8 * length / jnp.maximum(even, 1e-30) + 0.2, 1.0)
    along = jnp.concatenate([jnp.zeros(1, length.dtype), jnp.cumsum(mixed)])
    return jnp.interp(nodes, along / along[-1], knots)


def log_mean_exp(log_w: Float[Array, " group"], log_weight: Float[Array, " group"]) -> tuple[Array, Array]:
    """log Σ e^weight w / Σ e^weight over independent groups, and its standard error by the delta method."""
    n = log_w.shape[0]
    share = jax.nn.softmax(log_weight)
    value = jax.nn.logsumexp(log_w + jnp.log(share))
    rest = share * (jnp.exp(log_w - value) - 1.0)
    return value, jnp.sqrt((rest**2).sum() * float(n / (n - 1)))


def path_of_row(params: Params, evidence: Evidence) -> Path:
    """From the mean activations of the hidden units to the posterior given one row.

    A base nearer to the posterior, such as mean-field, needs fewer temperatures, but all its chains may miss a mode.
    """
    given = clamp(params, evidence)
    seen, region, shifted, whitener = given.params, given.region, given.observed, given.whitener
    present, chosen = given.present, jnp.zeros_like(shifted)
    choices = tuple(part for part in region.parts if part.mass == "gumbel")
    if choices:
        confined = tuple(part for part in region.parts if part.mass != "gumbel")
        region = confined[0] if len(confined) == 1 else JointRegion(confined)
        held = reduce(jnp.logical_or, (part.held for part in choices))
        chosen, shifted = held & shifted, shifted & ~held
        present = ~held if present is None else present & ~held
        whitener = None if whitener is None else rbm.factor_whitener(seen, shifted)
    log_odds = rbm.usual_log_odds(params, seen, LEAST_CHANCE)
    mean = rbm.latent_mean(seen, jax.nn.sigmoid(log_odds))
    factors = jnp.zeros((1, params.n_factors), mean.dtype) if seen.factor_prior is None else seen.factor_prior
    centre = mean
    if whitener is not None:

        def one(_: Array, z: Factors) -> Factors:
            x = region.smooth().mean(mean + rbm.only(rbm.factor_shift(seen, z), shifted))
            return rbm.factor_mean(seen, rbm.only(x - mean, shifted), whitener)

        factors = jax.lax.fori_loop(0, FACTOR_STEPS, one, factors)
        centre = mean + rbm.only(rbm.factor_shift(seen, factors), shifted)
    return Path(seen, region, choices, chosen, shifted, present, whitener, log_odds, centre, factors)


def path_of_model(params: Params, present: RowsMask | None = None) -> Path:
    """From the mean activations to the model, or that of one row's slots; the factors integrate to one."""
    log_odds = rbm.usual_log_odds(params, params, LEAST_CHANCE)
    mean = rbm.latent_mean(params, jax.nn.sigmoid(log_odds))
    without = params._replace(loadings=params.loadings[..., :0], factor_prior=None)
    none = jnp.zeros(mean.shape, bool)
    return Path(without, None, (), none, none, present, None, log_odds, mean, jnp.zeros((1, 0), mean.dtype))


def log_evidence_annealed(
    key: PRNGKey, params: Params, evidence: Evidence, n_temperatures: Count, knots: Knots, shape: tuple = CHAINS
) -> Bracket:
    """log F(e) = log Σ_h Ω(h) P(e | h) of every row; every row uses the same random numbers."""
    one = lambda row, own: up_and_down(key, path_of_row(params, row), own, n_temperatures, shape)  # noqa: E731
    return evidence.by_row(one, knots)


def log_normaliser_annealed(
    key: PRNGKey, params: Params, evidence: Evidence, n_temperatures: Count, knots: Knots, shape: tuple = CHAINS
) -> Bracket:
    """log F(∅) = log Σ_h Ω(h) over each row's own sites."""
    path = lambda row: path_of_model(row.seen(params), row.present)  # noqa: E731
    return evidence.by_row(lambda row, own: up_and_down(key, path(row), own, n_temperatures, shape), knots)


def log_partition_annealed(
    key: PRNGKey, params: Params, n_temperatures: Count, knots: Knots, shape: tuple = CHAINS_OF_MODEL
) -> Bracket:
    """log Σ_h Ω(h) over all sites, in arrays of one row; log Z has (N/2) log 2π more."""
    found = up_and_down(key, path_of_model(params), knots[0], n_temperatures, shape)
    return jax.tree.map(lambda leaf: leaf[None], found)


WIDTH, WIDTH_PER_SITE = 0.1, 0.0005  # of narrow bounds, in nats: at least, and for each site
FIRST, MOST = 32, 8192  # temperatures
WORK, WORK_OF_GPU = 2_000_000, 32_000_000  # slots and hidden units times temperatures, at most
CELLS, CELLS_OF_GPU = 4096, 1 << 17  # slots of the rows that are annealed together
MOST_ROWS = 16


class Scores(NamedTuple):
    """Estimates of rows with bounds on either side, and standard errors; all are the same where a value is exact."""

    value: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    error: np.ndarray

    @property
    def width(self) -> np.ndarray:
        """Of the bounds; 0 where both are −∞."""
        return np.subtract(self.upper, self.lower, out=np.zeros_like(self.upper), where=self.lower != self.upper)

    @classmethod
    def of(cls, value: np.ndarray, error: np.ndarray) -> Scores:
        """Bounds by standard errors alone."""
        return cls(value, value - SAFETY * error, value + SAFETY * error, error)

    def plus(self, constant: np.ndarray | float) -> Scores:
        return Scores(self.value + constant, self.lower + constant, self.upper + constant, self.error)

    def less(self, other: Scores) -> Scores:
        """The difference of estimates that are independent of each other."""
        lower, upper = self.lower - other.upper, self.upper - other.lower
        return Scores(self.value - other.value, lower, upper, np.hypot(self.error, other.error))


def scores(bracket: Bracket) -> Scores:
    """The middle of both estimates; bounds are the errors of the middle away from either of them.

    Where the two agree, the middle has half of their variance. The standard error is that of bounds as wide as these.
    """
    forward, forward_error, reverse, reverse_error = (np.asarray(each, np.float64) for each in bracket[:4])
    impossible = forward == -np.inf  # the base has no mass in single precision
    reverse = np.where(impossible, forward, reverse)
    value, error = 0.5 * (forward + reverse), 0.5 * np.where(impossible, 0.0, np.hypot(forward_error, reverse_error))
    lower, upper = np.minimum(forward, reverse) - SAFETY * error, np.maximum(forward, reverse) + SAFETY * error
    found = Scores(value, lower, upper, error)
    return found._replace(error=found.width / (2.0 * SAFETY))


def budget_of_rows(params: Params, rows: Buckets) -> int:
    """Most temperatures of a row; flips of hidden units cost as much as a round each."""
    masses: list[str] = []  # known without computing anything
    jax.eval_shape(lambda own: masses.append(own.region(own.seen(params).gauge).mass), rows.buckets[0])
    n_cells = max(map(n_slots, rows.buckets)) + params.n_hidden
    return most_temperatures(n_cells * (1 + MOST_FLIPS) if "gumbel" in masses[0] else n_cells)


def most_temperatures(n_cells: int) -> int:
    """The budget for so many slots and hidden units: a power of two."""
    work = WORK if jax.default_backend() == "cpu" else WORK_OF_GPU
    return int(2 ** np.clip(np.log2(work / max(n_cells, 1)) // 1, np.log2(FIRST), np.log2(MOST)))


Anneal = Callable[..., Bracket]  # of key, number of temperatures, knots and the numbers of some rows


def narrowed(anneal: Anneal, dtype: np.dtype, most: int, seed: int, narrow: np.ndarray) -> Scores:
    """Twice to eight times as many temperatures for each row whose bounds are not narrow, until they are or `most`.

    The variance of log w is in inverse proportion to their number. `narrow` is the width to reach, [row].
    """
    n_rows = len(narrow)
    found = Scores(*np.zeros((4, n_rows)))
    knots = np.array(first_knots(n_rows, dtype))
    wanted, level = np.full(n_rows, FIRST), FIRST
    while level <= most:
        rows = np.flatnonzero(wanted == level)
        if len(rows):
            bracket = anneal(jax.random.fold_in(jax.random.key(seed), level), np.int32(level), knots[rows], rows)
            knots[rows] = bracket.knots
            for own, new in zip(found, scores(bracket), strict=True):
                own[rows] = new
            ratio = np.nan_to_num(found.width[rows] / narrow[rows])
            more = level * 2 ** np.clip(np.ceil(2.0 * np.log2(np.maximum(ratio, 1.0))), 0, 3).astype(int)
            wanted[rows] = np.where((more > level) & (level < most), np.minimum(more, most), 0)
        level *= 2
    return found


def width_of_narrow(n_sites: np.ndarray) -> np.ndarray:
    """Bounds of rows of so many sites that are not wider than this are narrow enough."""
    return np.maximum(WIDTH, WIDTH_PER_SITE * n_sites)


def rows_at_once(bucket: Evidence) -> int:
    """How many rows are annealed together, a power of two."""
    cells = CELLS if jax.default_backend() == "cpu" else CELLS_OF_GPU
    return int(2 ** np.clip(np.log2(cells / n_slots(bucket)) // 1, 0, np.log2(MOST_ROWS * cells // CELLS)))
