"""Other models of full rankings, fitted by maximum likelihood: contextual repeated selection and Mallows, and mixtures.

Contextual repeated selection (Seshadri, Ragain and Ugander, NeurIPS 2020) chooses item by item: from the set S that is
left, item i with a probability proportional to exp Σ_{k∈S∖i} U_ik. A choice depends on S only, so its log-probabilities
are a table over subsets, and rankings are sums of entries. Mallows' model falls off with Kendall's distance from a
centre. Both are plain NumPy and SciPy in double precision.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.sparse import csr_matrix
from scipy.special import logsumexp

# ---- contextual repeated selection


class Selections(NamedTuple):
    """All subsets of two items or more, and which entries of a table [subset, item] are choices from them."""

    left: np.ndarray  # [subset, item], which items are left
    entry: np.ndarray  # [subset, item], number of the choice, −1 where the item is not left
    number: np.ndarray  # [2 ** n], number of each subset by its bits


@lru_cache
def selections(n: int) -> Selections:
    """The choices that rankings of n items can have."""
    bits = np.arange(2**n)
    left = (bits[:, None] >> np.arange(n)[None, :] & 1).astype(bool)
    kept = left.sum(axis=1) >= 2
    number = np.full(2**n, -1)
    number[kept] = np.arange(kept.sum())
    entry = np.full((int(kept.sum()), n), -1)
    entry[left[kept]] = np.arange(left[kept].sum())
    return Selections(left[kept], entry, number)


def taken(order: np.ndarray) -> csr_matrix:
    """Which choices each ranking [row, place] consists of, [row, choice]."""
    n_rows, n = order.shape
    every, bits = selections(n), np.full(n_rows, 2**n - 1)
    found = np.zeros((n_rows, n - 1), int)
    for place in range(n - 1):
        found[:, place] = every.entry[every.number[bits], order[:, place]]
        bits &= ~(1 << order[:, place])
    rows, size = np.repeat(np.arange(n_rows), n - 1), int(every.left.sum())
    return csr_matrix((np.ones(found.size), (rows, found.ravel())), (n_rows, size))


class Contextual(NamedTuple):
    """Log-weights of the components, and U of each: what item k does to item i while both are left."""

    log_weight: np.ndarray  # [component]
    effect: np.ndarray  # [component, i, k]


def choice_table(effect: np.ndarray) -> np.ndarray:
    """log P of every choice for each component, [choice, component]."""
    left = selections(effect.shape[-1]).left
    apart = effect * (1.0 - np.eye(effect.shape[-1]))
    logits = np.where(left[None], np.einsum("sk,cik->csi", left.astype(float), apart), -np.inf)
    return (logits - logsumexp(logits, axis=2, keepdims=True))[:, left].T


def contextual_log_likelihood(model: Contextual, order: np.ndarray) -> np.ndarray:
    """log P of each ranking."""
    return np.asarray(logsumexp(taken(order) @ choice_table(model.effect) + model.log_weight, axis=1))


def fit_contextual(
    order: np.ndarray, n_components: int = 1, penalty: float = 1.0, n_restarts: int = 1, seed: int = 0
) -> Contextual:
    """Of several starts the one with the largest likelihood less penalty · Σ U², by L-BFGS."""
    n, rows = order.shape[1], taken(order)
    left, apart = selections(n).left, 1.0 - np.eye(n)
    shape = (n_components, n, n)

    def parts(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return at[:n_components] - logsumexp(at[:n_components]), at[n_components:].reshape(shape) * apart

    def loss(at: np.ndarray) -> tuple[float, np.ndarray]:
        log_weight, effect = parts(at)
        table = choice_table(effect)
        joint = rows @ table + log_weight
        total = logsumexp(joint, axis=1)
        share = np.exp(joint - total[:, None])
        counts = np.zeros((n_components, *left.shape))
        counts[:, left] = (rows.T @ share).T
        chance = np.zeros_like(counts)
        chance[:, left] = np.exp(table).T
        slope = np.einsum("csi,sk->cik", counts - chance * counts.sum(axis=2, keepdims=True), left.astype(float))
        weights = share.sum(axis=0) - len(share) * np.exp(log_weight)
        down = np.concatenate([weights, ((slope - 2 * penalty * effect) * apart).ravel()])
        return -(total.sum() - penalty * (effect**2).sum()), -down

    best, least = np.zeros(0), np.inf
    rng = np.random.default_rng(seed)
    for _ in range(n_restarts):
        start = np.concatenate([np.zeros(n_components), rng.normal(0, 0.3 * (n_components > 1), shape).ravel()])
        found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 1000, "maxcor": 20})
        if found.fun < least:
            best, least = found.x, found.fun
    return Contextual(*parts(best))


# ---- Mallows


class Mallows(NamedTuple):
    """Log-weights of the components, their central rankings from best to worst, and how fast they fall off."""

    log_weight: np.ndarray  # [component]
    centre: np.ndarray  # [component, place]
    rate: np.ndarray  # [component]


def precedes(order: np.ndarray) -> np.ndarray:
    """Whether item i stands before item j, [row, i, j]."""
    place = np.argsort(order, axis=1)
    return place[:, :, None] < place[:, None, :]


def kendall(before: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """How many pairs stand otherwise than in each central ranking, [row, component]."""
    n = centre.shape[1]
    against = np.swapaxes(precedes(centre), 1, 2).reshape(len(centre), n * n)
    return before.reshape(len(before), n * n).astype(float) @ against.T.astype(float)


def log_normaliser(rate: float, n: int) -> float:
    """log Σ over all rankings of exp(−rate · distance) = Σ_j log (1 + e^{−rate} + … + e^{−(j−1) rate})."""
    return float(np.log(np.cumsum(np.exp(-rate * np.arange(n)))).sum())


def mean_distance(rate: float, n: int) -> float:
    """Expected distance from the centre: the sum of what each item adds, which are independent."""
    size = np.exp(-rate * np.arange(n))
    return float((np.cumsum(np.arange(n) * size) / np.cumsum(size)).sum())


def mallows_log_likelihood(model: Mallows, order: np.ndarray) -> np.ndarray:
    """log P of each ranking."""
    return np.asarray(logsumexp(_joint(model, precedes(order)), axis=1))


def _joint(model: Mallows, before: np.ndarray) -> np.ndarray:
    n = model.centre.shape[1]
    constant = model.log_weight - [log_normaliser(rate, n) for rate in model.rate]
    return constant - model.rate * kendall(before, model.centre)


def central_ranking(wins: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
    """A ranking with few weighted disagreements, where wins[i, j] rankings put i before j.

    Local search from Borda's ranking, and from `start`: one item is moved to the best place for it until none gains.
    """
    starts = [np.argsort(-wins.sum(axis=1), kind="stable")] + ([] if start is None else [start])
    found = [_moved(wins, list(each)) for each in starts]
    cost = [sum(wins[b, a] for place, a in enumerate(order) for b in order[place + 1 :]) for order in found]
    return np.asarray(found[int(np.argmin(cost))])


def _moved(wins: np.ndarray, order: list[int]) -> list[int]:
    gained = True
    while gained:
        gained = False
        for item in order:
            rest = [each for each in order if each != item]
            # Cost of the item at each place: those before it that lose to it, and those behind it that win.
            first = np.concatenate([[0.0], np.cumsum(wins[item, rest])])
            behind = np.concatenate([np.cumsum(wins[rest, item][::-1])[::-1], [0.0]])
            cost, now = first + behind, order.index(item)
            best = int(cost.argmin())
            if cost[best] < cost[now] - 1e-9:
                order, gained = [*rest[:best], item, *rest[best:]], True
    return order


def mallows_step(model: Mallows, before: np.ndarray) -> tuple[Mallows, float]:
    """One step of EM, which does not lower the likelihood; and the mean log-likelihood before it."""
    joint = _joint(model, before)
    total = logsumexp(joint, axis=1)
    share, n = np.exp(joint - total[:, None]), model.centre.shape[1]
    weight = share.sum(axis=0)
    wins = (share.T @ before.reshape(len(before), n * n).astype(float)).reshape(-1, n, n)
    centre = np.stack([central_ranking(own, start) for own, start in zip(wins, model.centre, strict=True)])
    distance = (share * kendall(before, centre)).sum(axis=0) / np.maximum(weight, 1e-9)
    rate = [_rate(float(each), n) for each in distance]
    return Mallows(np.log(np.maximum(weight / len(before), 1e-12)), centre, np.asarray(rate)), float(total.mean())


def _rate(distance: float, n: int, most: float = 10.0) -> float:
    """The rate at which the expected distance is this one."""
    if distance >= mean_distance(0.0, n):
        return 0.0
    if distance <= mean_distance(most, n):
        return most
    return float(brentq(lambda rate: mean_distance(rate, n) - distance, 0.0, most))


def fit_mallows(
    order: np.ndarray, n_components: int, n_restarts: int = 4, n_steps: int = 100, seed: int = 0
) -> Mallows:
    """Of several starts from rankings of the data, the one that ends with the largest likelihood."""
    before, rng = precedes(order), np.random.default_rng(seed)
    best, most = None, -np.inf
    for _ in range(n_restarts):
        centre = order[rng.choice(len(order), n_components, replace=False)]
        model = Mallows(np.full(n_components, -np.log(n_components)), centre, np.full(n_components, 0.3))
        last = -np.inf
        for _ in range(n_steps):
            model, value = mallows_step(model, before)
            if value - last < 1e-6:
                break
            last = value
        if last > most:
            best, most = model, last
    assert best is not None
    return best
