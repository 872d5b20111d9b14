"""A.1.1 log Σ_h Ω(h) P(e | h) of each row by annealed importance sampling, for more states than one can enumerate.

The path runs from a flattened mean-field q(h, z) to f(h, z) = Ω(h) P(e | h, z) P(z) as q^(1 − τ) f^τ, with Metropolis
moves at every τ. The mean weight is unbiased for any number of moves, and for every constraint that has a `log_mass`.
Plain importance sampling misses what mean-field misses; here chains start nearly everywhere and move on.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thurbo import rbm
from thurbo._typing import Array, Bool, Factors, Float, Hidden, PerRow, PRNGKey, Rows
from thurbo.evidence import Evidence
from thurbo.inference.gibbs import Clamp, clamp
from thurbo.inference.likelihood import log_mean_exp
from thurbo.inference.meanfield import MeanField
from thurbo.rbm import Params

LEAST_CHANCE = 0.45  # of either value of a hidden unit at the start; at 0.3, some chains stay where mean-field errs
WIDER = 1.5  # variance of the factors there, relative to mean-field
KEPT = 0.8  # how much of the factors a move keeps
SWEEPS, MOST_MOVES = 80, 2000  # moves of each hidden unit; limit for all units together
POWER = 3  # temperatures are close together at the start, where the density changes most
CHAINS_AT_ONCE = 8


class _State(NamedTuple):
    """A chain for each row: h, its mean of x, the factors in standard units, and log f(h, z) − log q(h, z)."""

    h: Hidden
    mean: Rows
    noise: Factors
    gain: PerRow


class _Path(NamedTuple):
    """What the evidence says, and where the path starts: the log-odds of h and the mean of z."""

    given: Clamp
    log_odds: Hidden
    centre: Factors

    def state(self, h: Hidden, mean: Rows, noise: Factors) -> _State:
        params, whitener = self.given.params, self.given.whitener
        inside = rbm.only(mean, self.given.present)
        gain = rbm.prior_of_hidden(params, h) + 0.5 * (inside * inside).sum(-1)
        gain = gain - (h * self.log_odds - jnp.logaddexp(self.log_odds, jnp.zeros_like(self.log_odds))).sum(-1)
        shifted = mean
        if whitener is not None:
            z = self.centre + float(np.sqrt(WIDER)) * rbm.coloured(whitener, noise)
            prior = jnp.zeros_like(z) if params.factor_prior is None else params.factor_prior
            log_det = jnp.log(jnp.diagonal(whitener, axis1=1, axis2=2)).sum(-1)
            gain = gain + 0.5 * (noise**2 - (z - prior) ** 2 + float(np.log(WIDER))).sum(-1) + log_det
            shifted = mean + rbm.factor_shift(params, z)
        return _State(h, mean, noise, gain + self.given.region.log_mass(shifted))

    def start(self, dice: Float[Array, " unit"]) -> _State:
        """A draw from q, by one uniform number for each hidden unit and then for each factor."""
        rows, n_hidden = self.log_odds.shape
        h = (dice[None, :n_hidden] < jax.nn.sigmoid(self.log_odds)).astype(self.log_odds.dtype)
        noise = jnp.broadcast_to(jax.scipy.special.ndtri(dice[n_hidden:]), (rows, self.centre.shape[1]))
        return self.state(h, rbm.latent_mean(self.given.params, h), noise)

    def flip(self, key: PRNGKey, now: _State, units: Array, counts: Array, tau: Array, follow: Array) -> _State:
        """Metropolis for one hidden unit or two (those that count); with `follow`, the factors make up for the change.

        A change W δ of the mean then moves z by −(I + V_oᵀV_o)⁻¹ V_oᵀ W δ, and the flip back moves it back.
        """
        given, params = self.given, self.given.params
        change = counts[None, :] * (1.0 - 2.0 * now.h[:, units])
        moved = rbm.to_slots(jnp.take(params.weights, units, axis=-1), change)
        noise = now.noise
        if given.whitener is not None:
            pull = rbm.to_units(params.loadings, rbm.only(moved, given.observed))
            shift = jnp.einsum("rfg,rg->rf", given.whitener, pull) / float(np.sqrt(WIDER))
            noise = noise - jnp.where(follow, shift, jnp.zeros_like(shift))
        then = self.state(now.h.at[:, units].add(change), now.mean + moved, noise)
        by_q = (change * self.log_odds[:, units]).sum(-1) + 0.5 * (now.noise**2 - noise**2).sum(-1)
        dice = jax.random.uniform(key, (), now.mean.dtype)
        return _moved(now, then, jnp.log(dice) < by_q + tau * (then.gain - now.gain))

    def shake(self, key: PRNGKey, now: _State, tau: Array) -> _State:
        """Metropolis for the factors, by a move that leaves q as it is."""
        key_z, key_dice = jax.random.split(key)
        fresh = jax.random.normal(key_z, (1, now.noise.shape[1]), now.noise.dtype)
        then = self.state(now.h, now.mean, KEPT * now.noise + float(np.sqrt(1 - KEPT**2)) * fresh)
        dice = jax.random.uniform(key_dice, (), now.mean.dtype)
        return _moved(now, then, jnp.log(dice) < tau * (then.gain - now.gain))


def _moved(now: _State, then: _State, accepted: Bool[Array, " row"]) -> _State:
    return jax.tree.map(lambda a, b: jnp.where(accepted.reshape(-1, *(1,) * (a.ndim - 1)), b, a), now, then)


def log_unnormalised_annealed(
    key: PRNGKey, params: Params, evidence: Evidence, proposal: MeanField, n_chains: int
) -> tuple[PerRow, PerRow]:
    """log Σ_h Ω(h) P(e | h), by annealing from mean-field: estimate and standard error, in nats.

    Every row uses the same random numbers: its answer does not depend on its neighbours.
    """
    dtype, n_hidden = params.weights.dtype, params.n_hidden
    bound = float(np.log(1 / LEAST_CHANCE - 1))
    path = _Path(clamp(params, evidence), jnp.clip(proposal.log_odds, -bound, bound), proposal.factors)
    n_moves = min(SWEEPS * max(n_hidden, params.n_factors, 1), MOST_MOVES)
    taus = jnp.linspace(0.0, 1.0, n_moves + 1, dtype=dtype) ** POWER

    def chain(item: tuple[PRNGKey, Array]) -> PerRow:
        own, dice = item

        def advance(s: Array, carry: tuple[_State, PerRow]) -> tuple[_State, PerRow]:
            state, log_w = carry
            log_w = log_w + (taus[s + 1] - taus[s]) * state.gain
            key_units, key_h, key_z = jax.random.split(jax.random.fold_in(own, s), 3)
            if n_hidden:  # every unit in turn; in two of four sweeps together with another, in two with the factors
                sweep, other = s // n_hidden, jax.random.randint(key_units, (), 0, n_hidden)
                units = jnp.stack([s % n_hidden, other])
                counts = jnp.stack([jnp.ones((), dtype), ((sweep % 4 >= 2) & (other != s % n_hidden)).astype(dtype)])
                state = path.flip(key_h, state, units, counts, taus[s + 1], sweep % 2 == 1)
            if params.n_factors:
                state = path.shake(key_z, state, taus[s + 1])
            return state, log_w

        first = path.start(dice)
        return jax.lax.fori_loop(0, n_moves, advance, (first, jnp.zeros_like(first.gain)))[1]

    key_start, key_run = jax.random.split(key)
    starts = _stratified(key_start, n_chains, n_hidden + params.n_factors, dtype)
    chains = (jax.random.split(key_run, n_chains), starts)
    log_w = jax.lax.map(chain, chains, batch_size=min(CHAINS_AT_ONCE, n_chains))
    value, error = log_mean_exp(log_w)
    return value, jnp.maximum(error, _error_of_tail(log_w))


def _stratified(key: PRNGKey, n: int, n_units: int, dtype: np.dtype) -> Float[Array, "chain unit"]:
    """Uniform numbers with one in each n-th part of the unit interval, for every unit: a Latin hypercube."""
    key_place, key_within = jax.random.split(key)
    place = jnp.argsort(jax.random.uniform(key_place, (n, n_units)), axis=0)
    within = jax.random.uniform(key_within, (n, n_units), dtype, 1e-3, 1.0 - 1e-3)
    return (place.astype(dtype) + within) / n


def _error_of_tail(log_w: Float[Array, "chain row"]) -> PerRow:
    """Standard error of log mean w if log w is normal with the spread of its upper half; at most that spread.

    The deviation of few weights is too small where the largest ones are rare.
    """
    above = jnp.maximum(log_w - jnp.median(log_w, axis=0)[None, :], 0.0)
    variance = 2.0 * (above**2).mean(axis=0)
    return jnp.sqrt(jnp.minimum(jnp.expm1(jnp.minimum(variance, 30.0)) / log_w.shape[0], variance))
