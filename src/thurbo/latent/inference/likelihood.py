"""§4.4, A.1.1, A.2.4 Probabilities of evidence: exact by enumeration where hidden units are few, estimated beyond.

log P(e) = log Σ_h Ω(h) P(e | h) − log Σ_h Ω(h). With one or two Gaussian factors the sum runs over Gauss–Hermite nodes
of z as well; beyond, importance sampling from mean-field, or annealed along q^(1 − τ) f^τ, gives both terms with a
standard error. The paper's own estimate (A.2.4) is biased downwards.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from thurbo._typing import Array, Bool, Factors, Float, Hidden, PerRow, PRNGKey, Rows, RowsMask
from thurbo.latent import rbm
from thurbo.latent.evidence import Clamp, Evidence, clamp
from thurbo.latent.inference.meanfield import MeanField
from thurbo.latent.rbm import LOG_2PI, Params

MAX_ENUMERATED = 20  # hidden units; 2^20 states
MAX_QUADRATURE_FACTORS = 2
_STATES_AT_ONCE = 8  # states mapped together: enough to fill the vector units, few enough to stay in cache
_STATES_IN_PORTION = 64  # samples whose log P(e | h) is held at one time, [portion, row]


class HiddenStates(NamedTuple):
    """Every joint state of the hidden layer, with the log-weight of its quadrature node (0 without factors)."""

    h: Float[Array, "state hidden"]
    z: Float[Array, "state factor"]
    log_weight: Float[Array, " state"]


def hidden_states(n_hidden: int, n_factors: int, dtype: np.dtype, n_nodes: int = 32) -> HiddenStates:
    """All h ∈ {0,1}^K times the Gauss–Hermite nodes of z ~ N(0, I)."""
    if n_hidden > MAX_ENUMERATED or n_factors > MAX_QUADRATURE_FACTORS:
        raise ValueError(f"{n_hidden} hidden units and {n_factors} factors are too many to enumerate")
    h = (np.arange(2**n_hidden)[:, None] >> np.arange(n_hidden)[None, :]) & 1
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    z, log_weight = np.zeros((1, 0)), np.zeros(1)
    for _ in range(n_factors):
        z = np.hstack([np.repeat(z, n_nodes, axis=0), np.tile(nodes[:, None], (len(z), 1))])
        log_weight = np.repeat(log_weight, n_nodes) + np.tile(np.log(weights / weights.sum()), len(log_weight))
    return HiddenStates(
        jnp.asarray(np.repeat(h, len(z), axis=0), dtype),
        jnp.asarray(np.tile(z, (len(h), 1)), dtype),
        jnp.asarray(np.tile(log_weight, len(h)), dtype),
    )


def log_joint(
    params: Params, evidence: Evidence, states: HiddenStates
) -> tuple[Float[Array, "state row"], Float[Array, "state rows_or_one"]]:
    """log Ω(h) + log P(e | h, z) and log Ω(h), each with its node's weight, for every state and row."""
    seen = evidence.seen(params)
    if evidence.sites_shared:
        return _log_joint_of_table(seen, evidence, states)
    region = evidence.region(seen.gauge)

    def one(state: HiddenStates) -> tuple[PerRow, PerRow]:
        h = jnp.broadcast_to(state.h, (evidence.n_rows, state.h.shape[0]))
        z = jnp.broadcast_to(state.z, (evidence.n_rows, state.z.shape[0])) + _prior(seen)
        prior = rbm.log_omega(seen, h, evidence.present) + state.log_weight
        return prior + region.log_mass(rbm.latent_mean(seen, h) + rbm.factor_shift(seen, z)), prior

    return jax.lax.map(jax.checkpoint(one), states, batch_size=min(_STATES_AT_ONCE, states.h.shape[0]))


def _prior(seen: Params) -> Float[Array, "#row factor"]:
    """Mean of z before any evidence."""
    if seen.factor_prior is None:
        return jnp.zeros((1, seen.n_factors), seen.weights.dtype)
    return seen.factor_prior


def _log_joint_of_table(
    seen: Params, evidence: Evidence, states: HiddenStates
) -> tuple[Float[Array, "state row"], Float[Array, "state rows_or_one"]]:
    """The same where rows share their sites: each state has one mean for all rows."""
    mean = rbm.latent_mean(seen, states.h)
    linear = (states.h @ seen.hidden_bias + states.log_weight)[:, None]
    if evidence.present is None:
        prior = linear + 0.5 * (mean * mean).sum(-1, keepdims=True)
    else:
        prior = linear + 0.5 * (mean * mean) @ evidence.present.astype(mean.dtype).T
    return prior + _log_mass_of_table(seen, evidence, states.h, states.z), prior


def _log_mass_of_table(
    seen: Params, evidence: Evidence, h: Float[Array, "state hidden"], z: Float[Array, "state factor"]
) -> Float[Array, "state row"]:
    """log P(e | h, z) for every state and row, where rows share their sites."""
    mean = rbm.latent_mean(seen, h) + rbm.factor_shift(seen, z)
    return evidence.log_mass_of_states(mean, seen.gauge)


def log_evidence_exact(params: Params, evidence: Evidence) -> PerRow:
    """log P(e) = log Σ_h Ω(h) P(e | h) − log Σ_h Ω(h), by enumeration."""
    states = hidden_states(params.n_hidden, params.n_factors, params.weights.dtype)
    joint, prior = log_joint(params, evidence, states)
    return logsumexp(joint, axis=0) - logsumexp(prior, axis=0)


def log_partition_exact(params: Params) -> Float[Array, ""]:
    """log Z = (N/2) log 2π + log Σ_h Ω(h), A.1.1."""
    states = hidden_states(params.n_hidden, 0, params.weights.dtype)
    omega = jax.lax.map(
        lambda h: rbm.log_omega(params, h[None, :])[0], states.h, batch_size=min(256, states.h.shape[0])
    )
    return logsumexp(omega) + 0.5 * params.site_bias.shape[0] * LOG_2PI


def log_unnormalised_importance(
    key: PRNGKey, params: Params, evidence: Evidence, proposal: MeanField, n_draws: int
) -> tuple[PerRow, PerRow]:
    """log Σ_h Ω(h) P(e | h), by importance sampling from mean-field: estimate and standard error, in nats.

    The proposal's probabilities are kept away from 0 and 1 and its factor covariance widened, so that the weights
    stay bounded. Every row uses the same random numbers: its answer does not depend on its neighbours.
    """
    given = clamp(params, evidence)
    q = jnp.clip(proposal.hidden, 0.02, 0.98)
    n_hidden, n_factors = params.n_hidden, params.n_factors
    wide = jnp.sqrt(jnp.asarray(1.5, q.dtype))

    def one(draw_key: PRNGKey) -> PerRow:
        key_h, key_z = jax.random.split(draw_key)
        h = (jax.random.uniform(key_h, (1, n_hidden), q.dtype) < q).astype(q.dtype)
        log_q = (h * jnp.log(q) + (1.0 - h) * jnp.log1p(-q)).sum(-1)
        log_w = rbm.log_omega(given.params, h, given.present) - log_q
        mean = rbm.latent_mean(given.params, h)
        if given.whitener is not None:
            noise = jnp.broadcast_to(jax.random.normal(key_z, (1, n_factors), q.dtype), (q.shape[0], n_factors))
            z = proposal.factors + wide * rbm.coloured(given.whitener, noise)
            log_det = -jnp.log(jnp.diagonal(given.whitener, axis1=1, axis2=2)).sum(-1)
            log_qz = -0.5 * (noise**2).sum(-1) + log_det - n_factors * jnp.log(wide)
            log_w = log_w - 0.5 * ((z - _prior(given.params)) ** 2).sum(-1) - log_qz
            mean = mean + rbm.factor_shift(given.params, z)
        return log_w + given.region.log_mass(mean)

    log_w = jax.lax.map(one, jax.random.split(key, n_draws), batch_size=min(_STATES_AT_ONCE, n_draws))
    return log_mean_exp(log_w)


def log_mean_exp(log_w: Float[Array, "draw row"]) -> tuple[PerRow, PerRow]:
    """log of the mean weight, and its standard error by the delta method."""
    n = log_w.shape[0]
    top = log_w.max(axis=0)
    w = jnp.exp(log_w - top[None, :])
    mean = w.mean(axis=0)
    return top + jnp.log(mean), w.std(axis=0) / (mean * jnp.sqrt(jnp.asarray(n, w.dtype)))


def log_evidence_conservative(
    params: Params,
    evidence: Evidence,
    hidden: Float[Array, "sample hidden"],
    factors: Float[Array, "sample factor"] | None = None,
) -> tuple[PerRow, PerRow]:
    """log P(e) ≈ log (1/S) Σ_s P(e | h⁽ˢ⁾, z⁽ˢ⁾), A.2.4: estimate and standard error, in nats.

    `hidden` are independent samples of P(h) and `factors` of N(0, I), the same for every row. The mean is unbiased for
    P(e), so by Jensen its logarithm is too low in expectation: an estimate on the safe side, and far too low where
    P(e | h) is carried by states that few samples meet. The standard error is then close to 1, that of one sample
    among S, and says no more. Samples are worked through in portions, so memory does not grow with S.
    """
    n_samples = hidden.shape[0]
    if factors is None:
        factors = jnp.zeros((n_samples, 0), hidden.dtype)
    if factors.shape[1] != params.n_factors:
        raise ValueError(f"the model has {params.n_factors} factors, the samples {factors.shape[1]}")
    seen = evidence.seen(params)
    region = None if evidence.sites_shared else evidence.region(seen.gauge)

    def log_mass(h: Float[Array, "state hidden"], z: Float[Array, "state factor"]) -> Float[Array, "state row"]:
        if region is None:
            return _log_mass_of_table(seen, evidence, h, z)
        rows = evidence.n_rows

        def one(state: tuple[Array, Array]) -> PerRow:
            own_h, own_z = (jnp.broadcast_to(each, (rows, each.shape[0])) for each in state)
            return region.log_mass(rbm.latent_mean(seen, own_h) + rbm.factor_shift(seen, own_z + _prior(seen)))

        return jax.lax.map(one, (h, z), batch_size=min(_STATES_AT_ONCE, h.shape[0]))

    def add(total: _Weights, portion: tuple[Array, Array, Array]) -> tuple[_Weights, None]:
        h, z, real = portion
        return total.add(jnp.where(real[:, None], log_mass(h, z), -jnp.inf)), None

    size = min(_STATES_IN_PORTION, n_samples)
    n_portions = -(-n_samples // size)
    place = np.arange(n_portions * size)
    taken = np.minimum(place, n_samples - 1)  # the last portion is filled up, with samples that do not count
    portions = (hidden[taken], factors[taken], jnp.asarray(place < n_samples))
    portions = jax.tree.map(lambda leaf: leaf.reshape(n_portions, size, *leaf.shape[1:]), portions)
    total, _ = jax.lax.scan(add, _Weights.none(evidence.n_rows, params.weights.dtype), portions)
    return total.log_mean(n_samples)


class _Weights(NamedTuple):
    """Σ w and Σ w² of weights that come a portion at a time, in units of exp(top), the largest so far."""

    top: PerRow
    first: PerRow
    second: PerRow

    @classmethod
    def none(cls, n_rows: int, dtype: np.dtype) -> _Weights:
        zero = jnp.zeros(n_rows, dtype)
        return cls(jnp.full(n_rows, -jnp.inf, dtype), zero, zero)

    def add(self, log_w: Float[Array, "state row"]) -> _Weights:
        top = jnp.maximum(self.top, log_w.max(axis=0))
        unit = jnp.where(jnp.isfinite(top), top, jnp.zeros_like(top))  # all weights so far may be zero
        shrink, w = jnp.exp(self.top - unit), jnp.exp(log_w - unit[None, :])
        return _Weights(top, shrink * self.first + w.sum(0), shrink**2 * self.second + (w * w).sum(0))

    def log_mean(self, n: int) -> tuple[PerRow, PerRow]:
        """log of the mean weight, and its standard error by the delta method."""
        some = self.first > 0
        first = jnp.where(some, self.first, jnp.ones_like(self.first))
        # n Σw² / (Σw)² − 1 is the squared coefficient of variation, of n independent weights.
        spread = jnp.maximum(n * self.second / first**2 - 1.0, 0.0) / n
        return jnp.where(some, self.top + jnp.log(first / n), -jnp.inf), jnp.where(some, jnp.sqrt(spread), jnp.inf)


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


def log_partition_ais(
    key: PRNGKey,
    params: Params,
    n_chains: int = 256,
    n_temperatures: int = 1000,
    present: RowsMask | None = None,
) -> tuple[PerRow, PerRow]:
    """log Σ_h Ω(h) + (n/2) log 2π over the n sites present: estimate and standard error for each row of `present`.

    Weights accumulate (τ_s − τ_{s−1}) [log Ω(h) − bᵀh] along the path exp{(1 − τ) bᵀh + τ log Ω(h)}, b the log-odds of
    the mean activations.
    """
    dtype = params.weights.dtype
    rows = 1 if present is None else present.shape[0]
    rate = jnp.clip(params.hidden_mean, 0.01, 0.99)
    base = jnp.log(rate) - jnp.log1p(-rate)
    mask = None if present is None else jnp.tile(present, (n_chains, 1))  # chains of a row are rows apart
    if params.weights.ndim == 3:  # each row has sites of its own
        params = jax.tree.map(lambda leaf: _repeated(leaf, rows, n_chains), params)
    bias = params.hidden_bias if params.hidden_bias.ndim == 2 else params.hidden_bias[None, :]
    taus = jnp.linspace(0.0, 1.0, n_temperatures + 1, dtype=dtype)

    def advance(s: Array, carry: tuple) -> tuple:
        h, log_w = carry
        tau, step = taus[s + 1], taus[s + 1] - taus[s]
        log_w = log_w + step * (rbm.log_omega(params, h, mask) - h @ base)
        key_x, key_h = jax.random.split(jax.random.fold_in(key, s))
        mean = jnp.sqrt(tau) * rbm.latent_mean(params, h)
        x = rbm.only(mean + jax.random.normal(key_x, mean.shape, dtype), mask)
        logits = (1.0 - tau) * base[None, :] + tau * bias
        logits = logits + jnp.sqrt(tau) * rbm.to_units(params.weights, x)
        h = (jax.random.uniform(key_h, h.shape, dtype) < jax.nn.sigmoid(logits)).astype(dtype)
        return h, log_w

    shape = (n_chains * rows, params.n_hidden)
    h = (jax.random.uniform(jax.random.fold_in(key, n_temperatures), shape, dtype) < rate[None, :]).astype(dtype)
    _, log_w = jax.lax.fori_loop(0, n_temperatures, advance, (h, jnp.zeros(shape[0], dtype)))
    estimate, error = log_mean_exp(log_w.reshape(n_chains, rows))
    n_sites = params.site_bias.shape[0] if present is None else present.sum(-1).astype(dtype)
    constant = 0.5 * n_sites * LOG_2PI + jnp.logaddexp(base, jnp.zeros_like(base)).sum()
    return estimate + constant, error


def _repeated(leaf: Array, rows: int, n_chains: int) -> Array:
    """Parameters by row for each of many chains a row; those that all rows share stay as they are."""
    by_row = leaf.ndim > 1 and leaf.shape[0] == rows
    return jnp.tile(leaf, (n_chains, *(1,) * (leaf.ndim - 1))) if by_row else leaf
