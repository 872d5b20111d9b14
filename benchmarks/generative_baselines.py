"""Other models of binary images, for `benchmarks.generative`: a binary RBM and mixtures of Bernoullis.

The RBM is trained like ours: persistent chains, centred gradient, plain gradient steps at a rate that falls to zero in
the second half. Its log Z is bracketed by annealed importance sampling from both ends (Salakhutdinov and Murray 2008).
Mixtures are fitted by EM, with the number of components chosen on held-out images; one component is independence.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

# ---- a binary RBM


class RBM(NamedTuple):
    """P(v, h) ∝ exp(bᵀv + cᵀh + vᵀW h), both layers binary."""

    weights: Any  # [pixel, unit]
    visible_bias: Any
    hidden_bias: Any


class Training(NamedTuple):
    """Settings of a fit; chosen on the last 10,000 training images (`--part rbm --validate`)."""

    epochs: int = 150
    batch: int = 500
    n_chains: int = 5000
    n_sweeps: int = 5  # of every chain at every update
    rate: float = 0.05
    forgetting: float = 0.01  # of the moving means by which both layers are centred
    warm_up: int = 200  # updates


class Trained(NamedTuple):
    """A fitted RBM, the states of its chains [chain, pixel], and how long it took."""

    rbm: RBM
    chains: Any
    seconds: float


def _share(v: Any) -> Any:
    """Of images in which each pixel is on, never 0 or 1."""
    return jnp.clip(v.mean(axis=0), 1e-3, 1.0 - 1e-3)


def _log_odds(share: Any) -> Any:
    return jnp.log(share) - jnp.log1p(-share)


def _bits(key: Any, probability: Any) -> Any:
    return (jax.random.uniform(key, probability.shape, probability.dtype) < probability).astype(probability.dtype)


def _sweep(key: Any, v: Any, rbm: RBM) -> Any:
    """h ~ P(h | v), then v ~ P(v | h)."""
    key_h, key_v = jax.random.split(key)
    h = _bits(key_h, jax.nn.sigmoid(rbm.hidden_bias[None, :] + v @ rbm.weights))
    return _bits(key_v, jax.nn.sigmoid(rbm.visible_bias[None, :] + h @ rbm.weights.T))


@partial(jax.jit, static_argnames=("n_sweeps",))
def swept(key: Any, v: Any, rbm: RBM, n_sweeps: int) -> Any:
    """States of chains after some sweeps."""
    return jax.lax.fori_loop(0, n_sweeps, lambda i, state: _sweep(jax.random.fold_in(key, i), state, rbm), v)


class _State(NamedTuple):
    rbm: RBM
    chains: Any
    visible_centre: Any
    hidden_centre: Any


def _updated(state: _State, key: Any, v: Any, rate: Any, settings: Training) -> _State:
    """One step along the centred gradient: ⟨(v − μ)(h − λ)ᵀ⟩ of the data minus that of the chains."""
    rbm, keep = state.rbm, 1.0 - settings.forgetting
    free = swept(key, state.chains, rbm, settings.n_sweeps)
    q, r = (jax.nn.sigmoid(rbm.hidden_bias[None, :] + each @ rbm.weights) for each in (v, free))
    mu = keep * state.visible_centre + settings.forgetting * v.mean(axis=0)
    centre = keep * state.hidden_centre + settings.forgetting * q.mean(axis=0)
    of_data = (v - mu[None, :]).T @ (q - centre[None, :]) / v.shape[0]
    of_chains = (free - mu[None, :]).T @ (r - centre[None, :]) / free.shape[0]
    w = of_data - of_chains
    b = v.mean(axis=0) - free.mean(axis=0) - w @ centre
    c = q.mean(axis=0) - r.mean(axis=0) - mu @ w
    moved = jax.tree.map(lambda value, slope: value + rate * slope, rbm, RBM(w, b, c))
    return _State(moved, free, mu, centre)


def train_rbm(images: np.ndarray, n_hidden: int, seed: int, settings: Training) -> Trained:
    """Maximise the likelihood by persistent chains."""
    started = time.perf_counter()
    data = jnp.asarray(images, jnp.float32)
    quickest = "threefry2x32" if jax.default_backend() == "cpu" else "rbg"  # most of the time goes into random numbers
    key = jax.random.key(seed, impl=quickest)
    batch = min(settings.batch, len(images))
    n_updates = len(images) // batch
    share = _share(data)
    key_w, key_v, key = jax.random.split(key, 3)
    weights = 0.01 * jax.random.normal(key_w, (data.shape[1], n_hidden), jnp.float32)
    rbm = RBM(weights, _log_odds(share), jnp.zeros(n_hidden, jnp.float32))
    chains = _bits(key_v, jnp.broadcast_to(share, (settings.n_chains, data.shape[1])))

    @jax.jit
    def epoch(state: _State, key: Any, rates: Any) -> _State:
        key_order, key_step = jax.random.split(key)
        order = jax.random.permutation(key_order, len(images))[: n_updates * batch].reshape(n_updates, batch)

        def one(state: _State, item: Any) -> Any:
            rows, rate, own_key = item
            return _updated(state, own_key, data[rows], rate, settings), None

        return jax.lax.scan(one, state, (order, rates, jax.random.split(key_step, n_updates)))[0]

    place = np.arange(settings.epochs * n_updates)
    rates = settings.rate * np.minimum(1.0, 2.0 * (1.0 - place / max(len(place), 1)))
    rates = (rates * np.minimum(1.0, (place + 1) / settings.warm_up)).astype(np.float32)
    state = _State(rbm, chains, share, jnp.full(n_hidden, 0.5, jnp.float32))
    for number, own in enumerate(rates.reshape(settings.epochs, n_updates)):
        state = epoch(state, jax.random.fold_in(key, number), jnp.asarray(own))
    state = jax.block_until_ready(state)
    return Trained(state.rbm, state.chains, time.perf_counter() - started)


# ---- its partition function


class Bracket(NamedTuple):
    """log Z from both ends: the forward estimate is too low in expectation, the reverse one too high."""

    forward: float
    reverse: float


def log_unnormalised(rbm: RBM, v: Any) -> Any:
    """log Σ_h exp(bᵀv + cᵀh + vᵀW h), [row]."""
    return v @ rbm.visible_bias + jax.nn.softplus(rbm.hidden_bias[None, :] + v @ rbm.weights).sum(axis=1)


@jax.jit
def _annealed(key: Any, rbm: RBM, base: Any, betas: Any, v: Any) -> Any:
    """log Π_t f_{t+1}(v_t) / f_t(v_t) along a path in either direction, [chain].

    log f_β(v) = ((1 − β) a + β b)ᵀv + Σ_k log(1 + exp(β (c + Wᵀv)_k)): independent pixels with log-odds a at 0, the
    RBM at 1. Gibbs sampling of either layer leaves f_β invariant.
    """

    def step(carry: Any, item: Any) -> Any:
        v, log_weight = carry
        now, then, number = item
        key_h, key_v = jax.random.split(jax.random.fold_in(key, number))
        field = rbm.hidden_bias[None, :] + v @ rbm.weights
        log_weight = log_weight + (then - now) * (v @ (rbm.visible_bias - base))
        log_weight = log_weight + (jax.nn.softplus(then * field) - jax.nn.softplus(now * field)).sum(axis=1)
        h = _bits(key_h, jax.nn.sigmoid(then * field))
        bias = (1.0 - then) * base + then * rbm.visible_bias
        return (_bits(key_v, jax.nn.sigmoid(bias[None, :] + then * (h @ rbm.weights.T))), log_weight), None

    items = betas[:-1], betas[1:], jnp.arange(len(betas) - 1)
    return jax.lax.scan(step, (v, jnp.zeros(v.shape[0], v.dtype)), items)[0][1]


def log_partition(key: Any, rbm: RBM, base: Any, samples: Any, n_temperatures: int) -> Bracket:
    """log Z by annealing from independent pixels to the RBM, and back from `samples` [chain, pixel] of the RBM."""
    key_start, key_up, key_down = jax.random.split(key, 3)
    known = float(jax.nn.softplus(base).sum() + rbm.weights.shape[1] * float(np.log(2.0)))
    betas = jnp.linspace(0.0, 1.0, n_temperatures + 1, dtype=rbm.weights.dtype)
    start = _bits(key_start, jnp.broadcast_to(jax.nn.sigmoid(base), samples.shape))
    with jax.default_matmul_precision("highest"):
        up = _annealed(key_up, rbm, base, betas, start)
        down = _annealed(key_down, rbm, base, betas[::-1], samples)
    return Bracket(known + _log_mean(up), known - _log_mean(down))


def _log_mean(log_weight: Any) -> float:
    """log of the mean of exp, in double precision."""
    values = np.asarray(log_weight, np.float64)
    return float(np.logaddexp.reduce(values) - np.log(len(values)))


class Scores(NamedTuple):
    """log P of each image: the mean of both estimates of log Z, and one for each of them."""

    estimate: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def score_rbm(
    trained: Trained, images: np.ndarray, seed: int, n_temperatures: int, n_chains: int, n_sweeps: int
) -> Scores:
    """log P(v) of images; log Z by `n_chains` chains each way, those on the way back from the chains of training."""
    key_mix, key = jax.random.split(jax.random.fold_in(jax.random.key(seed), 1))
    rbm = trained.rbm
    samples = swept(key_mix, trained.chains[:n_chains], rbm, n_sweeps)
    log_z = log_partition(key, rbm, _log_odds(_share(trained.chains)), samples, n_temperatures)
    with jax.default_matmul_precision("highest"):
        value = np.asarray(log_unnormalised(rbm, jnp.asarray(images, jnp.float32)), np.float64)
    return Scores(value - 0.5 * sum(log_z), value - max(log_z), value - min(log_z))


# ---- mixtures of Bernoullis


class Mixture(NamedTuple):
    """Σ_k π_k Π_i Bernoulli(v_i; p_ki)."""

    log_share: Any  # [component]
    log_odds: Any  # [component, pixel]


def _log_joint(mixture: Mixture, v: Any) -> Any:
    """log π_k + log P(v | k), [row, component]."""
    constant = mixture.log_share - jax.nn.softplus(mixture.log_odds).sum(axis=1)
    return constant[None, :] + v @ mixture.log_odds.T


@jax.jit
def mixture_scores(mixture: Mixture, v: Any) -> Any:
    """log P(v), [row]."""
    return logsumexp(_log_joint(mixture, v), axis=1)


@jax.jit
def em_step(mixture: Mixture, v: Any, prior: Any) -> tuple[Mixture, Any]:
    """One step of EM, and the objective before it: log-likelihood plus that of `prior` imagined images of either kind.

    Every pixel of every component has as many more images in which it is on, and in which it is off.
    """
    joint = _log_joint(mixture, v)
    total = logsumexp(joint, axis=1)
    weight = jnp.exp(joint - total[:, None])
    count, on = weight.sum(axis=0), weight.T @ v
    log_odds = jnp.log(on + prior) - jnp.log(jnp.maximum(count[:, None] - on, 0.0) + prior)
    log_share = jnp.log(count + prior) - jnp.log((count + prior).sum())
    log_prior = -prior * (jax.nn.softplus(mixture.log_odds) + jax.nn.softplus(-mixture.log_odds)).sum()
    return Mixture(log_share, log_odds), total.sum() + log_prior + prior * mixture.log_share.sum()


PRIOR = 0.1  # imagined images


def fit_mixture(images: np.ndarray, n_components: int, seed: int, n_steps: int = 60) -> Mixture:
    """EM from images at random, drawn towards the shares of all; one component has independent pixels."""
    v = jnp.asarray(images, jnp.float32)
    some = jax.random.choice(jax.random.key(seed), len(images), (n_components,), replace=False)
    start = _log_odds(0.5 * v[some] + 0.5 * _share(v)[None, :] * (1.0 - 1e-3))
    mixture = Mixture(jnp.full(n_components, -np.log(n_components), jnp.float32), start)
    for _ in range(n_steps if n_components > 1 else 1):
        mixture, _ = em_step(mixture, v, PRIOR)
    return mixture


def choose_mixture(images: np.ndarray, sizes: tuple[int, ...], seed: int) -> tuple[Mixture, dict[int, float]]:
    """The number of components that is best on the last tenth, fitted to all images; and the scores of each number."""
    n_train = len(images) * 9 // 10
    held = jnp.asarray(images[n_train:], jnp.float32)
    scores = {n: float(mixture_scores(fit_mixture(images[:n_train], n, seed), held).mean()) for n in sizes}
    return fit_mixture(images, max(scores, key=lambda n: scores[n]), seed), scores
