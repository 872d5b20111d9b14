"""§4.4 The exact probability of a weak order: all of tier j+1 above all of tier j, for independent normal utilities.

F_j(t) = P(tiers 0..j in order, all below t) = ∫_{s<t} F_{j−1}(s) · −∂_s Π_{i in tier j}[Φ(t−μ_i) − Φ(s−μ_i)] ds.
Promises: log F on panels, never F, so nothing underflows; two tiers take one short integral. Middle tiers that are
single items or small ties are chains, F_S(t) = Σ_{i in S} ∫_{s<t} F_{S−i}(s) φ_i(s) ds, with slopes in closed form.
"""

from __future__ import annotations

from functools import lru_cache, partial, reduce
from itertools import combinations
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.polynomial.legendre import leggauss

from thurbo._typing import Array, Bool, Float, Int
from thurbo.latent.masses.boundaries import (
    Items,
    ItemsCode,
    ItemsMask,
    Panelled,
    PerOrder,
    Scalar,
    Split,
    Utilities,
    beside,
    ends_of,
    in_portions,
    interpolation,
    log_below,
    log_mass_of_choice,
    log_mass_of_two,
    log_phi,
    logsumexp,
    rule,
    slopes_of_choice,
    split_log_density,
    times,
    with_slopes,
)

Form = Literal["choice", "permutation", "ranking", "places", "any"]  # what all orders are, see `form_of`
Codes = Int[Array, "row order item"]
Own = Float[Array, " item"]
Sets = tuple[Panelled, ...]  # log F of each set


class Ways(NamedTuple):
    """In which orders the items of a tie can be placed: sets of those placed so far, and edges that add one to a set.

    Sets of one size share the numbers 0, 1, …; none and all are number 0, so one tier begins where another ended.
    """

    n_sets: int
    edges: tuple[tuple[int, int], ...]  # from a set to a set of one more
    place: np.ndarray  # [size of the tie, number placed, edge]: which of its items is added; −1 where none is
    turned: tuple[int, ...]  # for each edge the one back, which is its own when the order is read from above


@lru_cache
def ways_of(width: int) -> Ways:
    """Those of all ties of at most `width` items, as one set of edges: one 1, two 3, three 8, four 23."""
    found = {}
    for size in range(1, width + 1):
        sets = [list(combinations(range(size), placed)) for placed in range(size + 1)]
        for placed in range(size):
            for a, before in enumerate(sets[placed]):
                for item in set(range(size)) - set(before):
                    b = sets[placed + 1].index(tuple(sorted((*before, item))))
                    found[size, placed, a, b] = item
    edges = sorted({(a, b) for *_, a, b in found} | {(b, a) for *_, a, b in found})
    place = np.full((width + 1, width, len(edges)), -1)
    for (size, placed, a, b), item in found.items():
        place[size, placed, edges.index((a, b))] = item
    return Ways(1 + max(max(edges)), tuple(edges), place, tuple(edges.index((b, a)) for a, b in edges))


class Steps(NamedTuple):
    """Nodes of a panel [−1, 1] cut at its nodes into short intervals, each with a Gauss rule of its own."""

    nodes: np.ndarray  # [node]
    log_weights: np.ndarray  # [node]
    spread: np.ndarray  # [inner, node]: values at the nodes → values at all inner points
    upto: np.ndarray  # [node + 1, inner]: weights of those that lie to the left of each node, and of the right edge


@lru_cache
def steps_of(nodes: int, inner: int) -> Steps:
    x, w = leggauss(nodes)
    y, v = leggauss(inner)
    cuts = np.r_[-1.0, x, 1.0]
    half = 0.5 * np.diff(cuts)[:, None]
    at = (cuts[:-1, None] + half * (y + 1.0)[None, :]).reshape(-1)
    upto = np.repeat(np.arange(nodes + 1), inner)[None, :] <= np.arange(nodes + 1)[:, None]
    return Steps(x, np.log(w), interpolation(x, at), upto * (half * v[None, :]).reshape(-1))


class What(NamedTuple):
    """What is known of all orders."""

    between: int  # the most items that are neither in the lowest tier nor in the highest
    width: int  # the most of them in one tie
    one_below: bool  # the lowest tier is a single item
    one_above: bool  # the highest tier is


class Step(NamedTuple):
    """The items that may be the next one, by edge."""

    mean: Float[Array, "*step edge row"]
    precision: Float[Array, "*step edge row"]  # 1/σ
    log_precision: Float[Array, "*step edge row"]  # next to log 0 where there is no item
    here: Bool[Array, "*step edge row"]


class ChainPanels(NamedTuple):
    """Panels laid over the boundaries of each row."""

    t: Panelled
    centre: Scalar
    half: Scalar  # of the width of a panel
    steps: Steps

    def climb(self, log_f: Sets, step: Step, ways: Ways) -> Sets:
        """log Σ ∫_{s<t} F(s) φ(s) ds over the edges into each set; one that none leads to stays as it is."""
        fresh = []
        for number, old in enumerate(log_f):
            edges = [(edge, a) for edge, (a, b) in enumerate(ways.edges) if b == number]
            terms = [log_f[a] + log_phi(_z(self.t, step, e)) + step.log_precision[e][None, None] for e, a in edges]
            is_reached = reduce(jnp.logical_or, [step.here[edge] for edge, _ in edges])[None, None]
            fresh.append(jnp.where(is_reached, self._cumulate(terms), old))
        return tuple(fresh)

    def _cumulate(self, terms: list[Array]) -> Panelled:
        """log ∫_{s<t} Σ exp(terms) ds at every node t, from the terms at all nodes: whole panels to its left, and the
        short intervals of its own."""
        top = lax.stop_gradient(reduce(jnp.maximum, [term.max(axis=0) for term in terms]))
        inner = [jnp.exp(times(self.steps.spread, term - top[None])) for term in terms]
        upto = times(self.steps.upto, reduce(jnp.add, inner))
        whole = jnp.log(upto[-1]) + top
        is_before = jnp.asarray(np.tri(whole.shape[0], k=-1, dtype=bool))[:, :, None]
        before = logsumexp(jnp.where(is_before, whole[None], -jnp.inf), axis=1)
        most = jnp.maximum(lax.stop_gradient(before), top)
        total = jnp.exp(before - most)[None] + upto[:-1] * jnp.exp(top - most)[None]
        return jnp.log(jnp.maximum(total, jnp.finfo(total.dtype).tiny)) + (most + jnp.log(self.half)[None])[None]

    def moments(self, chance: Float[Array, "step node panel row"], mean: Array, precision: Array) -> tuple[Array, ...]:
        """Sums of chances, of chance · z and of chance · (z² − 1), `[step, row]`, z as seen from an item of each step.

        By one product with powers of the places of all nodes, which are the same for all rows: by the mean of t and its
        variance, so that nothing cancels where an item's mean is far.
        """
        n_steps, n_nodes, n_panels, n_rows = chance.shape
        place = (self.steps.nodes[:, None] + 1.0 + 2.0 * np.arange(n_panels)[None, :] - n_panels).reshape(-1)
        powers = jnp.asarray(np.stack([np.ones_like(place), place, place**2]), chance.dtype)
        flat = chance.reshape(n_steps, n_nodes * n_panels, n_rows)
        found = jnp.einsum("kn,snr->ksr", powers, flat, precision=lax.Precision.HIGHEST)
        total = jnp.maximum(found[0], jnp.finfo(chance.dtype).tiny)
        at = found[1] / total
        z = (self.centre[None] + self.half[None] * at - mean) * precision
        spread = self.half[None] * precision
        second = z * z + spread * spread * (found[2] / total - at * at) - 1.0
        return found[0], found[0] * z, found[0] * second


class End(NamedTuple):
    """The items of the lowest tier, or of the highest."""

    mean: Items
    deviation: Items
    here: ItemsMask

    def z(self, t: Panelled) -> Float[Array, "item node panel row"]:
        return (t[None] - _wide(self.mean)) / _wide(self.deviation)

    def beyond(self, t: Panelled, side: float) -> Panelled:
        """log P(every item is below t), of the lowest tier, if `side` is 1; that every one is above t if it is −1."""
        return jnp.where(_wide(self.here), log_below(side * self.z(t))[0], 0.0).sum(axis=0)

    def _hazards(self, t: Panelled) -> tuple[Array, Array]:
        """log Φ(−z) of the items, and the log of their hazards φ / (σ Φ(−z))."""
        z = self.z(t)
        above, _ = log_below(-z)
        return above, jnp.where(_wide(self.here), log_phi(z) - above - _wide(jnp.log(self.deviation)), -jnp.inf)

    def least(self, t: Panelled) -> Panelled:
        """log density of the smallest item."""
        if self.mean.shape[0] == 1:
            return log_phi(self.z(t)[0]) - jnp.log(self.deviation)[:, None]
        above, hazard = self._hazards(t)
        return logsumexp(hazard, axis=0) + jnp.where(_wide(self.here), above, 0.0).sum(axis=0)

    def slopes_of_beyond(self, t: Panelled, chance: Panelled) -> tuple[Items, Items]:
        """Slopes of E[log P(all below t)] by σ-scaled means and deviations."""
        z = self.z(t)
        slope = jnp.where(_wide(self.here), -chance[None] * log_below(z)[1], 0.0)
        return slope.sum(axis=(1, 2)), (slope * z).sum(axis=(1, 2))

    def slopes_of_least(self, grid: ChainPanels, chance: Panelled) -> tuple[Items, ...]:
        """Slopes of the expected log density of the smallest item, in the same units."""
        if self.mean.shape[0] == 1:
            return grid.moments(chance[None], self.mean, 1.0 / self.deviation)[1:]
        z = self.z(grid.t)
        above, log_hazard = self._hazards(grid.t)
        share = jnp.exp(log_hazard - logsumexp(log_hazard, axis=0)[None])
        hazard = jnp.exp(log_phi(z) - above)
        slope = jnp.where(_wide(self.here), chance[None] * (hazard + share * (z - hazard)), 0.0)
        return slope.sum(axis=(1, 2)), (slope * z - chance[None] * share).sum(axis=(1, 2))


class Chain(NamedTuple):
    """Orders laid on panels, one in each row: all that their masses and slopes are made of."""

    grid: ChainPanels
    log_weights: Panelled  # of an integral over t
    middle: Step  # [step, edge, row]: the items between the ends
    own: Bool[Array, "step edge item row"]  # which items those are
    lower: End
    upper: End


def _wide(value: Array) -> Array:
    """`[item, row]` against `[item, node, panel, row]`."""
    return value[:, None, None]


def _lay_chain(what: What, tier: ItemsCode, mean: Items, deviation: Items) -> Chain:
    last, dtype, r = tier.max(axis=0)[None], mean.dtype, rule(mean.dtype, what.between + 2, 1)
    steps = steps_of(r.nodes, r.inner)
    left, right = ends_of(tier, mean, deviation, r.drop)
    half = (right - left) / (2 * r.panels)

    place = (steps.nodes + 1.0)[:, None] + 2.0 * np.arange(r.panels)[None, :]
    t = left[None, None] + half[None, None] * jnp.asarray(place, dtype)[:, :, None]
    grid = ChainPanels(t, left + half * r.panels, half, steps)
    log_weights = jnp.log(half)[None, None] + jnp.asarray(steps.log_weights, dtype)[:, None, None]
    own = _who(what, tier)
    item, spread, here = (part[..., 0, :] for part in _only(own, mean[None, None], deviation[None, None]))
    middle = Step(item, 1.0 / spread, jnp.where(here, -jnp.log(spread), jnp.finfo(dtype).min / 64), here)
    lower, upper = (
        End(*_only(here, mean, deviation)) if is_one else End(mean, deviation, here)
        for here, is_one in ((tier == 0, what.one_below), (tier == last, what.one_above))
    )
    return Chain(grid, jnp.broadcast_to(log_weights, grid.t.shape), middle, own, lower, upper)


def _who(what: What, tier: ItemsCode) -> Bool[Array, "step edge item row"]:
    """Which item each edge adds at each step, in the order of tiers and, within a tie, of items."""
    n, ways = tier.shape[0], ways_of(what.width)
    is_middle = (tier > 0) & (tier < tier.max(axis=0)[None])
    tied = (tier[:, None] == tier[None]) & is_middle[None]
    place = (tied & jnp.asarray(np.tri(n, k=-1, dtype=bool))[:, :, None]).sum(axis=1)
    before = (is_middle[None] & (tier[None] < tier[:, None])).sum(axis=1)
    number = jnp.where(is_middle, before + place, -1)
    first = number[None] == jnp.arange(what.between)[:, None, None]  # the item of this step, were ties in order
    pick = lambda value: jnp.where(first, value[None], 0).sum(axis=1)  # noqa: E731
    added = jnp.asarray(ways.place)[jnp.minimum(pick(tied.sum(axis=1)), what.width), pick(place)]  # [step, row, edge]
    added = jnp.swapaxes(added, 1, 2)[:, :, None]
    return (
        (added >= 0) & (number[None, None] == (pick(before)[:, None, None] + added)) & first.any(axis=1)[:, None, None]
    )


def _only(mask: Array, mean: Array, deviation: Array) -> tuple[Array, Array, Array]:
    """Mean and deviation of the one item that is marked, on an axis of length one, and whether there is one."""
    there = mask.any(axis=-2, keepdims=True)
    pick = lambda value: jnp.where(mask, value, 0.0).sum(axis=-2, keepdims=True)  # noqa: E731
    return pick(mean), jnp.where(there, pick(deviation), 1.0), there


def _z(t: Array, step: Step, edge: int) -> Array:
    """Points seen from the item of this edge, `[…, row]`, for every step at once if there are several."""
    mean, precision = step.mean[..., edge, :], step.precision[..., edge, :]
    if mean.ndim == 1:
        return (t - mean[None, None]) * precision[None, None]
    return (t[None] - _wide(mean)) * _wide(precision)


def log_mass_of_chain(what: What, *order: Array) -> Scalar:
    """log P of orders (tiers, means, deviations) whose tiers but the outer two are single items or small ties."""
    return with_slopes(partial(_chain_mass, what), partial(chain_slopes, what), slice(1, 3))(*order)


def _chain_mass(what: What, tier: ItemsCode, mean: Items, deviation: Items) -> Scalar:
    chain, ways = _lay_chain(what, tier, mean, deviation), ways_of(what.width)
    climb = lambda log_f, step: (chain.grid.climb(log_f, step, ways), None)  # noqa: E731
    log_f, _ = lax.scan(climb, (chain.lower.beyond(chain.grid.t, 1.0),) * ways.n_sets, chain.middle)
    return logsumexp(chain.upper.least(chain.grid.t) + log_f[0] + chain.log_weights, axis=(0, 1))


def chain_slopes(what: What, tier: ItemsCode, mean: Items, deviation: Items) -> tuple[Scalar, Items, Items]:
    """log P with its slopes by means and deviations: E[z]/σ and E[z² − 1]/σ for the item of a middle tier.

    P(x_i ∈ dt | order) ∝ Σ_S F_S(t) φ_i(t) B_{S+i}(t), with B_S(t) the mass of all that is not in S, beyond t: the
    recursion from the other end, run beside F as if it were further rows. An end's items have slopes of log Φ and of a
    hazard.
    """
    chain, ways = _lay_chain(what, tier, mean, deviation), ways_of(what.width)
    grid, middle, t, n_rows = chain.grid, chain.middle, chain.grid.t, tier.shape[1]
    centre, half = (beside(each, each) for each in (grid.centre, grid.half))
    both_grid = ChainPanels(beside(t, jnp.flip(t, (0, 1))), centre, half, grid.steps)  # each row, and it mirrored
    from_above = jax.tree.map(lambda value: value[::-1, np.array(ways.turned)], middle)
    climb = lambda log_f, step: (both_grid.climb(log_f, step, ways), log_f)  # noqa: E731
    start = beside(chain.lower.beyond(t, 1.0), jnp.flip(chain.upper.beyond(t, -1.0), (0, 1)))
    both, before = lax.scan(climb, (start,) * ways.n_sets, beside(middle, from_above))
    at_top = chain.upper.least(t) + both[0][..., :n_rows] + chain.log_weights
    value = logsumexp(at_top, axis=(0, 1))
    top_chance = jnp.exp(at_top - value[None, None])

    below = [value[..., :n_rows] for value in before]
    above = [jnp.flip(value[..., n_rows:], axis=(0, 1, 2)) for value in before]
    starts, moments = [], []
    for edge, (a, b) in enumerate(ways.edges):
        log_chance = below[a] + above[b] - (value[None, None] - chain.log_weights)[None]
        chance = jnp.exp(log_chance + log_phi(_z(t, middle, edge)) + _wide(middle.log_precision[:, edge]))
        starts.append(chance[0])
        moments.append(grid.moments(chance, middle.mean[:, edge], middle.precision[:, edge]))
    totals, firsts, seconds = zip(*moments, strict=True)
    # One for each step, up to the error of the two recursions, which far in the tails is not small in float32.
    there = middle.here.any(axis=1)
    total = jnp.where(there, sum(totals), 1.0)
    first_chance = sum(starts) / total[0][None, None]
    first_chance = jnp.where(there[0][None, None], first_chance, top_chance)

    place = lambda here, slopes: (jnp.where(here, jnp.broadcast_to(v, here.shape), 0.0) for v in slopes)  # noqa: E731
    first = place(tier == 0, chain.lower.slopes_of_beyond(t, first_chance))
    top = place(tier == tier.max(axis=0)[None], chain.upper.slopes_of_least(grid, top_chance))
    to_items = lambda v: jnp.where(chain.own, v[:, :, None], 0.0).sum(axis=(0, 1))  # noqa: E731
    between = (to_items(jnp.stack(parts, axis=1) / total[:, None]) for parts in (firsts, seconds))
    by_mean, by_deviation = (sum(parts) / deviation for parts in zip(first, top, between, strict=True))
    return value, by_mean, by_deviation


def log_mass_of_needed(what: What | None, *needed_and_order: Array) -> Scalar:
    """log P of each order, [order], and 0 where it is not needed; of choices if `what` is None, or else of chains."""
    return with_slopes(None, partial(_slopes_of_needed, what), slice(2, 4))(*needed_and_order)


def _slopes_of_needed(
    what: What | None, needed: Bool[Array, " order"], tier: ItemsCode, mean: Items, deviation: Items
) -> tuple[Scalar, Items, Items]:
    n, size = needed.shape[0], OF_CHOICES if what is None else OF_CHAINS
    number = jnp.arange(n, dtype=jnp.int32)
    first = lax.sort(jnp.where(needed, number, number + n)) % n
    # The last portion is filled up with orders that are not needed, or with the first again.
    first = jnp.concatenate([first, jnp.broadcast_to(first[:1], (size,))])

    def one(place: Array, found: tuple[Scalar, Items, Items]) -> tuple[Scalar, Items, Items]:
        own = lax.dynamic_slice_in_dim(first, place * size, size)
        codes, means, deviations = (jnp.take(each, own, axis=1, mode="clip") for each in (tier, mean, deviation))
        if what is None:
            fresh = slopes_of_choice(means, deviations, codes == 1, codes == 0)
        else:
            fresh = chain_slopes(what, codes, means, deviations)
        every = zip(found, fresh, strict=True)
        return tuple(lax.dynamic_update_slice_in_dim(old, new, place * size, -1) for old, new in every)  # type: ignore[return-value]

    empty = jnp.zeros((mean.shape[0], n + size), mean.dtype)
    n_portions = (needed.sum(dtype=jnp.int32) + size - 1) // size
    found = lax.fori_loop(0, n_portions, one, (empty[0], empty, empty))
    place = jnp.cumsum(needed, dtype=jnp.int32) - 1  # among those that are needed
    return tuple(jnp.where(needed, jnp.take(each, place, axis=-1, mode="clip"), 0.0) for each in found)  # type: ignore[return-value]


# The widest middle tie whose chains are summed: one of four has 23 edges, of five 70.
WIDEST = 4
# Portions of rows that fit a processor's cache; on an accelerator, where launching costs most, this many times more.
ON_ACCELERATOR = 128
OF_CHOICES, OF_CHAINS = 256, 64  # the same where only some orders are needed: the last portion is partly waste


class Panels(NamedTuple):
    """Nodes of a panel [−1, 1] and all that follows from them, the same for every panel, row and tier."""

    nodes: np.ndarray  # [node]
    log_weights: np.ndarray  # [node]
    inner: np.ndarray  # [node, inner]: nodes of [−1, node]
    log_inner: np.ndarray  # [node, inner]: their weights
    spread: np.ndarray  # [node, inner, node]: values at the nodes → values at the inner nodes


@lru_cache
def panels_of(nodes: int, inner: int) -> Panels:
    x, w = leggauss(nodes)
    y, v = leggauss(inner)
    half = 0.5 * (x + 1.0)
    at = -1.0 + half[:, None] * (y + 1.0)[None, :]
    return Panels(x, np.log(w), at, np.log(half[:, None] * v[None, :]), interpolation(x, at))


def log_mass_of_tiers(
    depth: int, width: int, tier: Int[Array, " item"], mean: Own, deviation: Own, ends: Float[Array, " two"]
) -> Float[Array, ""]:
    """log P of one order: at most `depth` tiers, at most `width` items in any tier but the outer two."""
    last, dtype, r = tier.max(), mean.dtype, rule(mean.dtype, depth, width)
    panels = panels_of(r.nodes, r.inner)
    half = (ends[1] - ends[0]) / (2 * r.panels)
    edges = ends[0] + half * jnp.asarray(2 * np.arange(r.panels), dtype)
    t = edges[:, None] + half * jnp.asarray(panels.nodes + 1.0, dtype)[None, :]
    inside = edges[:, None, None] + half * jnp.asarray(panels.inner + 1.0, dtype)[None, :, :]
    below, _ = log_below((t.reshape(-1, 1) - mean[None, :]) / deviation[None, :])
    log_f = jnp.where((tier == 0)[None, :], below, 0.0).sum(axis=1).reshape(t.shape)

    @jax.checkpoint
    def climb(log_f: Array, items: tuple[Array, Array, Array]) -> tuple[Array, None]:
        fresh = _climb_many(log_f, items, t, inside, panels) + jnp.log(half)
        return jnp.where(items[2].any(), fresh, log_f), None

    place = ((tier[:, None] == tier[None]) & jnp.asarray(np.tri(len(tier), k=-1, dtype=bool))).sum(axis=1)
    number = np.arange(1, depth - 1).astype(tier.dtype)[:, None, None]
    places = np.arange(width).astype(place.dtype)[None, :, None]
    who = (tier[None, None] == number) & (place[None, None] == places) & (tier < last)[None, None]
    pick = lambda value: jnp.where(who, value[None, None], 0.0).sum(axis=-1)  # noqa: E731
    here = who.any(axis=-1)
    log_f, _ = lax.scan(climb, log_f, (pick(mean), jnp.where(here, pick(deviation), 1.0), here))

    top = Split(mean, deviation, jnp.zeros_like(tier, bool), tier == last, tier == last)
    weights = jnp.asarray(panels.log_weights, dtype)[None, :]
    value = split_log_density(top, t.reshape(-1)).reshape(t.shape) + log_f + weights
    return logsumexp(value.reshape(-1), 0) + jnp.log(half)


@partial(jax.jit, static_argnames=("depth", "width", "form"))
def log_mass(
    tier: Codes,
    mean: Utilities,
    deviation: Utilities,
    depth: int,
    width: int,
    form: Form = "any",
    needed: Bool[Array, "row order"] | None = None,
) -> PerOrder:
    """log P of every order of every row; rows in portions that keep the working arrays small.

    Orders that are not `needed` may be left out, with any value; there is one derivative then.
    """
    is_choice, is_ranking = form == "choice", form in ("permutation", "ranking")
    # Two items at least are in the outer tiers.
    between = min(tier.shape[-1] - 2, (depth - 2) * width)
    width = min(width, max(between, 1))
    what = What(between, width, is_ranking, is_ranking or form == "places")
    is_chain = depth > 2 and width <= WIDEST

    def some(codes: Array, mean: Array, deviation: Array) -> Array:
        if is_choice:
            return log_mass_of_choice(mean, deviation, codes == 1, codes == 0)
        if depth == 2:
            return log_mass_of_two(Split(mean, deviation, codes == 0, codes == 1, codes == 1))
        if is_chain:
            return log_mass_of_chain(what, codes, mean, deviation)
        ends = jnp.stack(ends_of(codes, mean, deviation, rule(mean.dtype, depth, width).drop))
        one = jax.checkpoint(partial(log_mass_of_tiers, depth, width))
        return jax.vmap(one, in_axes=-1)(codes, mean, deviation, ends)

    items = [value.reshape(-1, value.shape[-1]).T for value in (tier, mean, deviation)]
    is_on_cpu, least = jax.default_backend() == "cpu", OF_CHOICES if is_choice else OF_CHAINS
    if needed is not None and is_on_cpu and (is_choice or is_chain) and items[0].shape[1] > least:
        found = log_mass_of_needed(None if is_choice else what, needed.reshape(-1), *items)
        return found.reshape(tier.shape[:-1])
    portion = 512 if is_choice else 1024 if depth == 2 else 128 if is_chain else 8
    return in_portions(some, items, portion * (1 if is_on_cpu else ON_ACCELERATOR)).reshape(tier.shape[:-1])


@jax.jit
def log_mass_of_largest(
    mean: Utilities, deviation: Utilities, part: Bool[Array, "row order item"], chosen: Bool[Array, "row order item"]
) -> PerOrder:
    """log P(the largest of `part` is one of `chosen`), for every order of every row."""
    shape = part.shape[:-1]
    mean, deviation, part, chosen = (v.reshape(-1, v.shape[-1]).T for v in (mean, deviation, part, chosen))
    # Seen from above, the largest is the smallest: all lie above −t, and one of the chosen is at −t.
    return log_mass_of_two(Split(-mean, deviation, jnp.zeros_like(part), part, chosen)).reshape(shape)


def log_mass_gumbel(mean: Utilities, in_tier: Bool[Array, "row order tier item"]) -> PerOrder:
    """Plackett–Luce from the best tier down; a tie of n by Efron's n! Π_i e^μ_i / Π_{k<n} [below + (1 − k/n) tie].

    Exact for Gumbel utilities where the members of each tie have one mean, and always for single items: softmax.
    """
    size = in_tier.sum(axis=-1)
    members = logsumexp(jnp.where(in_tier, mean[:, :, None, :], -jnp.inf), axis=-1)
    is_below = (jnp.cumsum(in_tier, axis=2) > 0)[:, :, :-1]
    below = logsumexp(jnp.where(is_below, mean[:, :, None, :], -jnp.inf), axis=-1)[..., None]
    picked = in_tier[:, :, 1:, :]  # the lowest tier is what is left over, with probability 1
    count = jnp.maximum(size[:, :, 1:, None], 1).astype(mean.dtype)
    place = (jnp.cumsum(picked, axis=-1) - 1).astype(mean.dtype)
    left = jnp.where(picked, 1.0 - place / count, 1.0)
    stage = jnp.logaddexp(below, members[..., 1:, None] + jnp.log(left))
    gain = jnp.where(picked, mean[:, :, None, :] - stage + jnp.log(jnp.maximum(place, 0.0) + 1.0), 0.0)
    return gain.sum(axis=(-1, -2))


def slopes_gumbel(mean: Utilities, tier: Codes, depth: int, has_ties: bool) -> Utilities:
    """The gradient of `log_mass_gumbel`: for each stage, whether an item was picked minus the chance that it would be.

    `has_ties` says whether a tier other than the lowest may have several items.
    """
    stage, tier = jnp.arange(1, depth, dtype=tier.dtype)[None, None, :, None], tier[:, :, None, :]
    picked, is_left = tier == stage, (tier >= 0) & (tier <= stage)
    top = jnp.where(is_left, mean[:, :, None, :], -jnp.inf).max(axis=-1, keepdims=True)
    top = jax.lax.stop_gradient(jnp.where(jnp.isfinite(top), top, 0.0))
    size = jnp.exp(jnp.where(is_left, mean[:, :, None, :] - top, -jnp.inf))
    if not has_ties:
        chance = size / jnp.maximum(size.sum(axis=-1, keepdims=True), jnp.finfo(mean.dtype).tiny)
        chance = jnp.where(picked.any(axis=-1, keepdims=True), chance, 0.0)
        return (picked.astype(mean.dtype) - chance).sum(axis=2)
    tie = jnp.where(picked, size, 0.0)
    rest, both = (size - tie).sum(axis=-1, keepdims=True), tie.sum(axis=-1, keepdims=True)
    count = jnp.maximum(picked.sum(axis=-1, keepdims=True), 1).astype(mean.dtype)
    place = (jnp.cumsum(picked, axis=-1) - 1).astype(mean.dtype)
    left = jnp.where(picked, 1.0 - place / count, 1.0)
    each = jnp.where(picked, 1.0 / jnp.maximum(rest + left * both, jnp.finfo(mean.dtype).tiny), 0.0)
    chance = size * jnp.where(picked, (left * each).sum(axis=-1, keepdims=True), each.sum(axis=-1, keepdims=True))
    return (picked.astype(mean.dtype) - chance).sum(axis=2)


def _climb_many(log_f: Array, items: tuple[Array, Array, Array], t: Array, inside: Array, panels: Panels) -> Array:
    """F_j(t) for several items at once: their joint density of min = s with all below t, summed over s as above.

    `t` is [panel, node], `inside` are points between the left edge of its panel and t. In units of half a panel.
    """
    dtype, shape, n = log_f.dtype, t.shape, t.size
    t, inside = t.reshape(n), inside.reshape(n, -1)
    panel = np.repeat(np.arange(shape[0]), shape[1])
    earlier = jnp.asarray(panel[:, None] > panel[None, :])
    column, row = lambda v: v[:, None], lambda v: v[None, :]

    def between(low: tuple[Array, Array], high: tuple[Array, Array], rightwards: Array) -> tuple[Array, Array]:
        """The larger tail b and the gap to the smaller: log[Φ(high) − Φ(low)] = b + log(1 − e^−gap), uncancelled."""
        larger = jnp.where(rightwards, low[1], high[0])
        return larger, larger - jnp.where(rightwards, high[1], low[0])

    @jax.checkpoint
    def pair(mean: Scalar, deviation: Scalar, here: Array) -> tuple[Array, ...]:
        z, y = (t - mean) / deviation, (inside - mean) / deviation
        at_t, at_s = ((log_below(value)[0], log_below(-value)[0]) for value in (z, y))
        above = column(at_t[0]), column(at_t[1])
        larger, gap = between((row(at_t[0]), row(at_t[1])), above, column(z) + row(z) > 0.0)
        # Nodes of different panels are well apart: no need of the slower expm1.
        far = jnp.where(earlier, larger + jnp.log(1.0 - jnp.exp(-jnp.where(earlier, gap, 1.0))), 0.0)
        larger, gap = between(at_s, above, column(z) + y > 0.0)
        near = larger + jnp.log(-jnp.expm1(-gap))
        far_rate = jnp.exp(row(log_phi(z)) - far) / deviation
        near_rate = jnp.exp(log_phi(y) - near) / deviation
        return tuple(jnp.where(here, value, 0.0) for value in (far, far_rate, near, near_rate))

    square, strip = jnp.zeros((n, n), dtype), jnp.zeros(inside.shape, dtype)
    add = lambda total, item: (jax.tree.map(jnp.add, total, pair(*item)), None)  # noqa: E731
    (far, far_rate, near, near_rate), _ = lax.scan(add, (square, square, strip, strip), items)
    floor = jnp.finfo(dtype).tiny
    weights = jnp.asarray(np.tile(panels.log_weights, shape[0]), dtype)
    far = far + jnp.log(jnp.maximum(far_rate, floor)) + (log_f.reshape(n) + weights)[None, :]
    spread = jnp.einsum("pm,kim->pki", log_f, jnp.asarray(panels.spread, dtype), precision=lax.Precision.HIGHEST)
    inner = jnp.asarray(np.tile(panels.log_inner, (shape[0], 1)), dtype)
    near = near + jnp.log(jnp.maximum(near_rate, floor)) + spread.reshape(inside.shape) + inner
    both = jnp.concatenate([jnp.where(earlier, far, -jnp.inf), near], axis=1)
    return logsumexp(both, axis=1).reshape(shape)
