"""§4.4 The probability of a chain: each middle tier one item, as in a ranking without ties, with its slopes.

The recursion of tiers.py in short steps on panels of Gauss nodes; slopes are in closed form, so that a gradient costs
little more than the value, and a second one can be taken.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.polynomial.legendre import leggauss

from thurbo._typing import Array, Bool, Float
from thurbo.constraints.splits import (
    Items,
    ItemsCode,
    ItemsMask,
    Panelled,
    Points,
    Scalar,
    Tier,
    beside,
    ends_of,
    interpolation,
    log_both,
    log_phi,
    logsumexp,
    rule,
)

# ---- Chains: every middle tier is one item


class Steps(NamedTuple):
    """Nodes of a panel [−1, 1] cut at its nodes into short intervals, each with a Gauss rule of its own."""

    nodes: np.ndarray  # [node]
    log_weights: np.ndarray  # [node]
    spread: np.ndarray  # [inner, node]: values at the nodes → values at all inner points
    log_inner: np.ndarray  # [inner]: their weights
    upto: np.ndarray  # [node + 1, inner]: which of them lie to the left of each node, and of the right edge


@lru_cache
def steps_of(nodes: int, inner: int) -> Steps:
    x, w = leggauss(nodes)
    y, v = leggauss(inner)
    cuts = np.r_[-1.0, x, 1.0]
    half = 0.5 * np.diff(cuts)[:, None]
    at = (cuts[:-1, None] + half * (y + 1.0)[None, :]).reshape(-1)
    upto = np.repeat(np.arange(nodes + 1), inner)[None, :] <= np.arange(nodes + 1)[:, None]
    return Steps(x, np.log(w), interpolation(x, at), np.log((half * v[None, :]).reshape(-1)), upto.astype(float))


def _cumulate(value: Panelled, log_half: Scalar, steps: Steps) -> Panelled:
    """log ∫_{s<t} exp(value) ds at every node t: whole panels to its left, and the short intervals of its own."""
    dtype, least = value.dtype, jnp.finfo(value.dtype).min / 64
    times = lambda m, v: jnp.tensordot(jnp.asarray(m, dtype), v, 1, precision=lax.Precision.HIGHEST)  # noqa: E731
    at = times(steps.spread, value) + jnp.asarray(steps.log_inner, dtype)[:, None, None]
    top = lax.stop_gradient(jnp.maximum(at.max(axis=0), least))
    upto = times(steps.upto, jnp.exp(at - top[None]))
    whole = jnp.log(upto[-1]) + top
    is_before = jnp.asarray(np.tri(whole.shape[0], k=-1, dtype=bool))[:, :, None]
    before = logsumexp(jnp.where(is_before, whole[None], -jnp.inf), axis=1)
    most = jnp.maximum(lax.stop_gradient(before), top)
    total = jnp.exp(before - most)[None] + upto[:-1] * jnp.exp(top - most)[None]
    return jnp.log(jnp.maximum(total, jnp.finfo(dtype).tiny)) + (most + log_half[None])[None]


class What(NamedTuple):
    """What is known of all orders: the most tiers, and whether the outer ones are single items too."""

    depth: int
    single: bool


class End(NamedTuple):
    """The items of the lowest tier, or of the highest."""

    mean: Items
    deviation: Items
    here: ItemsMask

    def z(self, t: Panelled) -> Float[Array, "item node panel row"]:
        return (t[None] - _wide(self.mean)) / _wide(self.deviation)


class Chain(NamedTuple):
    """Orders laid on panels, one in each row: all that their masses and slopes are made of."""

    t: Panelled
    log_half: Scalar
    log_weights: Panelled  # of an integral over t
    middle: Tier  # [tier, row]: the items between the ends
    own: Bool[Array, "tier item row"]  # which items those are
    lower: End
    upper: End


def _wide(value: Array) -> Array:
    """`[item, row]` against `[item, node, panel, row]`."""
    return value[:, None, None]


def _end(here: ItemsMask, mean: Items, deviation: Items, single: bool) -> End:
    return End(*_only(here, mean, deviation)) if single else End(mean, deviation, here)


def _lay_chain(what: What, tier: ItemsCode, mean: Items, deviation: Items) -> tuple[Chain, Steps]:
    depth, single = what
    last, r = tier.max(axis=0)[None], rule(mean.dtype, depth, 1)
    steps = steps_of(r.nodes, r.inner)
    left, right = ends_of(tier, mean, deviation, r.drop)
    half = (right - left) / (2 * r.panels)
    place = (steps.nodes + 1.0)[:, None] + 2.0 * np.arange(r.panels)[None, :]
    t = left[None, None] + half[None, None] * jnp.asarray(place, mean.dtype)[:, :, None]
    number = jnp.arange(1, depth - 1, dtype=tier.dtype)[:, None]
    own = (tier[None] == number[:, :, None]) & (number < last)[:, None]
    log_half = jnp.log(half)
    log_weights = log_half[None, None] + jnp.asarray(steps.log_weights, t.dtype)[:, None, None]
    middle = _only(own, mean[None], deviation[None])
    return Chain(
        t,
        log_half,
        jnp.broadcast_to(log_weights, t.shape),
        Tier(*(part[:, 0] for part in middle)),
        own,
        _end(tier == 0, mean, deviation, single),
        _end(tier == last, mean, deviation, single),
    ), steps


def _only(mask: Array, mean: Array, deviation: Array) -> tuple[Array, Array, Array]:
    """Mean and deviation of the one item that is marked, on an axis of length one, and whether there is one."""
    there = mask.any(axis=-2, keepdims=True)
    pick = lambda value: jnp.where(mask, value, 0.0).sum(axis=-2, keepdims=True)  # noqa: E731
    return pick(mean), jnp.where(there, pick(deviation), 1.0), there


def _all_below(end: End, t: Panelled) -> Panelled:
    """log P(every item of the lowest tier is below t)."""
    below, _ = log_both(end.z(t))
    return jnp.where(_wide(end.here), below, 0.0).sum(axis=0)


def _all_above(end: End, t: Panelled) -> Panelled:
    """log P(every item of the highest tier is above t)."""
    _, above = log_both(end.z(t))
    return jnp.where(_wide(end.here), above, 0.0).sum(axis=0)


def _hazards(end: End, t: Panelled) -> tuple[Array, Array]:
    """log Φ(−z) of the highest tier's items, and the log of their hazards φ / (σ Φ(−z))."""
    z = end.z(t)
    _, above = log_both(z)
    return above, jnp.where(_wide(end.here), log_phi(z) - above - _wide(jnp.log(end.deviation)), -jnp.inf)


def _least_of_top(end: End, t: Panelled) -> Panelled:
    """log density of the smallest item of the highest tier."""
    above, hazard = _hazards(end, t)
    return logsumexp(hazard, axis=0) + jnp.where(_wide(end.here), above, 0.0).sum(axis=0)


def _slopes_below(end: End, t: Panelled, chance: Panelled) -> tuple[Items, Items]:
    """Slopes of E[log P(all below t)] by σ-scaled means and deviations."""
    z = end.z(t)
    slope = jnp.where(_wide(end.here), -chance[None] * jnp.exp(log_phi(z) - log_both(z)[0]), 0.0)
    return slope.sum(axis=(1, 2)), (slope * z).sum(axis=(1, 2))


def _slopes_of_top(end: End, t: Panelled, chance: Panelled) -> tuple[Items, Items]:
    """Slopes of the expected log density of the smallest item, in the same units."""
    z = end.z(t)
    above, log_hazard = _hazards(end, t)
    share = jnp.exp(log_hazard - logsumexp(log_hazard, axis=0)[None])
    hazard = jnp.exp(log_phi(z) - above)
    slope = jnp.where(_wide(end.here), chance[None] * (hazard + share * (z - hazard)), 0.0)
    return slope.sum(axis=(1, 2)), (slope * z - chance[None] * share).sum(axis=(1, 2))


def _log_density(t: Array, item: Tier) -> Array:
    z = (t - item.mean[None, None]) / item.deviation[None, None]
    return log_phi(z) - jnp.log(item.deviation)[None, None]


def _flat(value: Panelled) -> Points:
    return value.reshape(-1, value.shape[-1])


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def log_mass_of_chain(what: What, tier: ItemsCode, mean: Items, deviation: Items) -> Scalar:
    """log P of orders whose tiers, but for the outer two, are single items: F_j(t) = ∫_{s<t} F_{j−1}(s) φ_j(s) ds."""
    chain, steps = _lay_chain(what, tier, mean, deviation)

    def climb(log_f: Array, item: Tier) -> tuple[Array, None]:
        value = log_f + _log_density(chain.t, item)
        return jnp.where(item.here[None, None], _cumulate(value, chain.log_half, steps), log_f), None

    log_f, _ = lax.scan(climb, _all_below(chain.lower, chain.t), chain.middle)
    return logsumexp(_flat(_least_of_top(chain.upper, chain.t) + log_f + chain.log_weights), axis=0)


@log_mass_of_chain.defjvp
def _log_mass_of_chain_jvp(
    what: What, primals: tuple[ItemsCode, Items, Items], tangents: tuple[Any, Items, Items]
) -> tuple[Scalar, Scalar]:
    value, by_mean, by_deviation = chain_slopes(what, *primals)
    return value, (by_mean * tangents[1] + by_deviation * tangents[2]).sum(axis=0)


def chain_slopes(what: What, tier: ItemsCode, mean: Items, deviation: Items) -> tuple[Scalar, Items, Items]:
    """log P with its slopes by means and deviations: E[z]/σ and E[z² − 1]/σ for the item of a middle tier.

    P(x_j ∈ dt | order) ∝ F_{j−1}(t) φ_j(t) B_j(t), with B_j(t) the mass of all above j, all beyond t: the recursion
    from the other end, run beside F as if it were further rows. An end's items have slopes of log Φ and of a hazard.
    """
    chain, steps = _lay_chain(what, tier, mean, deviation)
    middle, t, n_rows = chain.middle, chain.t, tier.shape[1]
    mirror = lambda value: jnp.flip(value, axis=(-3, -2))  # noqa: E731
    both_t, log_half = beside(t, mirror(t)), beside(chain.log_half, chain.log_half)

    def climb(both: Array, item: Tier) -> tuple[Array, Array]:
        value = both + _log_density(both_t, item)
        return jnp.where(item.here[None, None], _cumulate(value, log_half, steps), both), both

    start = beside(_all_below(chain.lower, t), mirror(_all_above(chain.upper, t)))
    both, before = lax.scan(climb, start, beside(middle, jax.tree.map(lambda value: value[::-1], middle)))
    at_top = _least_of_top(chain.upper, t) + both[..., :n_rows] + chain.log_weights
    value = logsumexp(_flat(at_top), axis=0)
    top_chance = jnp.exp(at_top - value[None, None])

    z = (t[None] - _wide(middle.mean)) / _wide(middle.deviation)
    log_chance = before[..., :n_rows] + mirror(before[::-1, ..., n_rows:]) - value[None, None, None]
    log_chance = log_chance + chain.log_weights[None] + log_phi(z) - _wide(jnp.log(middle.deviation))
    chance = jnp.where(_wide(middle.here), jnp.exp(log_chance), 0.0)
    # One up to the error of the two recursions, which far in the tails is not small in float32.
    chance = chance / jnp.where(_wide(middle.here), chance.sum(axis=(1, 2), keepdims=True), 1.0)
    first_chance = jnp.where(middle.here[0][None, None], chance[0], top_chance)

    place = lambda here, slopes: (jnp.where(here, jnp.broadcast_to(v, here.shape), 0.0) for v in slopes)  # noqa: E731
    first = place(tier == 0, _slopes_below(chain.lower, t, first_chance))
    top = place(tier == tier.max(axis=0)[None], _slopes_of_top(chain.upper, t, top_chance))
    to_items = lambda v: jnp.where(chain.own, v.sum(axis=(1, 2))[:, None], 0.0).sum(axis=0)  # noqa: E731
    between = to_items(chance * z), to_items(chance * (z * z - 1.0))
    by_mean, by_deviation = (sum(parts) / deviation for parts in zip(first, top, between, strict=True))
    return value, by_mean, by_deviation
