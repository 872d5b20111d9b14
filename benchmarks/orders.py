"""Orders: effective samples per second and errors of log P(e | h), ours and others' (paper §3.2, §4.2, §4.4).

Run `python -m benchmarks.orders [--quick]`. Prints two tables, then one JSON object on the last line.

Every sampler runs the same number of chains of x ~ N(μ, I) on Ω; what counts is the worst slot's effective sample size
per second of wall time, after compilation and warming up. Errors of log P are in units of what is allowed, in float32
max(1e-4, 1e-6 |log P|), and in nats in float64, against closed forms and an independent, far finer recursion.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import legendre
from scipy.special import gammaln, log_ndtr, logsumexp

from thurbo.latent import truncnorm
from thurbo.latent.constraints import Gauge
from thurbo.latent.constraints.grouped import form_of, shape_of
from thurbo.latent.constraints.order import Order, OrderRegion

CASES = {
    "ranking of 50": np.arange(50),
    "ten with ties": np.array([0, 0, 1, 1, 1, 2, 3, 3, 4, 4]),
    "one of 40": np.array([1] + [0] * 39),
}
CHAINS = 64
Timed = tuple[np.ndarray, float]  # draws [chain, draw, slot], seconds


def region_of(codes: np.ndarray, rows: int = 1) -> OrderRegion:
    gauge = Gauge(jnp.zeros((1, 0)), jnp.ones(1))
    tier = np.broadcast_to(codes, (rows, 1, len(codes)))
    has_one_top = codes.max() == 1 and (codes == 1).sum() == 1
    order = Order(jnp.asarray(tier), None, len(codes), *shape_of(tier), has_one_top, form=form_of(tier, None))
    return order.region(gauge)


# ---- Reference masses, from nothing in thurbo


def chain_reference(mean: np.ndarray, n_panels: int = 600, n_nodes: int = 16) -> float:
    """log P(x_1 < … < x_n): F_j(t) = ∫^t φ(s − μ_j) F_{j−1}(s) ds on short panels, each with its own scale."""
    nodes, weights = legendre.leggauss(n_nodes)
    basis = np.eye(n_nodes)
    integrals = np.stack([legendre.legval(nodes, legendre.legint(row, lbnd=-1)) for row in basis], axis=1)
    integrate = integrals @ np.linalg.inv(legendre.legvander(nodes, n_nodes - 1))
    low, high = mean.min() - 9.0, mean.max() + 9.0
    half = (high - low) / (2 * n_panels)
    t = low + 2 * half * np.arange(n_panels)[:, None] + half * (nodes + 1.0)[None, :]
    log_f = log_ndtr(t - mean[0])
    total = 0.0
    for mu in mean[1:]:
        value = log_f - 0.5 * (t - mu) ** 2 - 0.5 * np.log(2 * np.pi)
        top = value.max(axis=1)
        scaled = np.exp(value - top[:, None])
        whole = np.log(half * (scaled @ weights)) + top
        before = np.concatenate([[-np.inf], np.logaddexp.accumulate(whole)[:-1]])
        part = np.log(np.maximum(half * (scaled @ integrate.T), 1e-300)) + top[:, None]
        log_f = np.logaddexp(before[:, None], part)
        total = float(np.logaddexp.reduce(whole))
    return total


def reference(codes: np.ndarray, mean: np.ndarray) -> float:
    """log P of an order with ties: the sum over all ways to break them."""
    groups = [np.flatnonzero(codes == tier) for tier in range(codes.max() + 1)]
    ways = itertools.product(*(itertools.permutations(group) for group in groups))
    return float(logsumexp([chain_reference(mean[list(itertools.chain(*way))], 300) for way in ways]))


def choice_reference(codes: np.ndarray, mean: np.ndarray, n: int = 40_000) -> float:
    """log P of two tiers: a trapezoid of the density of the smallest of the upper ones, exact to rounding."""
    s = np.linspace(mean.min() - 40.0, mean.max() + 40.0, n)[:, None]
    z = s - mean[None, :]
    above = log_ndtr(-z)
    total = np.where(codes == 0, log_ndtr(z), above).sum(axis=1)
    rate = np.where(codes == 1, -0.5 * z * z - 0.5 * np.log(2 * np.pi) - above, -np.inf)
    return float(logsumexp(total + logsumexp(rate, axis=1)) + np.log(s[1, 0] - s[0, 0]))


def multinomial(sizes: list[int]) -> float:
    return float(sum(gammaln(n + 1.0) for n in sizes) - gammaln(sum(sizes) + 1.0))


def mass_cases() -> list[tuple[str, np.ndarray, np.ndarray, float]]:
    """Name, tiers, means (exact in float32), log P."""
    rng = np.random.default_rng(0)
    normal = lambda n, scale: (scale * rng.normal(size=n)).astype(np.float32).astype(float)  # noqa: E731
    cases = []
    for sizes in ([1] * 50, [8] * 5, [300, 200], [1, 300, 1], [100, 100, 100], [1, 39], [7, 1, 2, 5]):
        codes = np.repeat(np.arange(len(sizes)), sizes)
        cases.append(
            (f"equal means {sizes if len(sizes) < 9 else '50 × [1]'}", codes, np.zeros(len(codes)), multinomial(sizes))
        )
    for scale in (1.0, 3.0):
        mean = normal(50, scale)
        cases.append((f"ranking of 50, scale {scale}", np.arange(50), mean, chain_reference(mean)))
        codes, mean = CASES["ten with ties"], normal(10, scale)
        cases.append((f"ten with ties, scale {scale}", codes, mean, reference(codes, mean)))
    for n, scale in ((2, 1.0), (5, 1.0), (40, 1.0), (40, 4.0)):
        codes, mean = np.arange(n) // (n - 1), normal(n, scale)
        cases.append((f"one of {n}, scale {scale}", codes, mean, choice_reference(codes, mean)))
    for gap in (-30.0, 30.0):
        codes, mean = np.arange(40) // 39, np.r_[np.zeros(39), gap]
        cases.append((f"one of 40, {gap:+.0f} sigma", codes, mean, choice_reference(codes, mean)))
    codes, mean = np.array([1] * 4 + [0] * 8), normal(12, 2.0)
    cases.append(("four of 12", codes, mean, choice_reference(codes, mean)))
    return cases


def mass_errors() -> dict[str, float]:
    """The worst error in each dtype, and a table of all."""
    worst = {"float32": 0.0, "float64": 0.0}
    print(f"\n{'log P(e | h)':34}{'value':>14}{'float32 / allowed':>20}{'float64, nats':>16}")
    for name, codes, mean, truth in mass_cases():
        region = region_of(codes)
        ours = {str(d): float(region.log_mass(jnp.asarray(mean, d)[None, :])[0]) for d in ("float32", "float64")}
        single = abs(ours["float32"] - truth) / max(1e-4, 1e-6 * abs(truth))
        double = abs(ours["float64"] - truth) * min(1.0, 1e4 / abs(truth))
        worst = {"float32": max(worst["float32"], single), "float64": max(worst["float64"], double)}
        print(f"{name:34}{truth:14.4f}{single:20.4f}{double:16.1e}")
    return worst


# ---- Samplers


def timed_chain(step: Callable[[jax.Array, jax.Array], jax.Array], x: jax.Array, n: int, thin: int) -> Timed:
    """n draws of every chain, `thin` steps apart, after a run that compiles and warms up; the best time of three."""

    @jax.jit
    def run(key: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        def keep(x: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
            x = jax.lax.fori_loop(0, thin, lambda i, x: step(jax.random.fold_in(key, i), x), x)
            return x, x

        return jax.lax.scan(keep, x, jax.random.split(key, n))

    x, _ = jax.block_until_ready(run(jax.random.key(0), x))
    seconds = np.inf
    for _ in range(3):
        began = time.perf_counter()
        _, draws = jax.block_until_ready(run(jax.random.key(1), x))
        seconds = min(seconds, time.perf_counter() - began)
    return np.moveaxis(np.asarray(draws, float), 0, 1), seconds


def ours(codes: np.ndarray, mean: np.ndarray, quick: bool) -> Timed:
    region, mu = region_of(codes, CHAINS), jnp.broadcast_to(jnp.asarray(mean, jnp.float32), (CHAINS, len(mean)))
    return timed_chain(lambda key, x: region.draw(key, x, mu), region.start(mu), 300 if quick else 1000, 1)


def two_colours(codes: np.ndarray, mean: np.ndarray, quick: bool) -> Timed:
    region, mu = region_of(codes, CHAINS), jnp.broadcast_to(jnp.asarray(mean, jnp.float32), (CHAINS, len(mean)))
    colour = region.order.to_slots(region.order.tier % 2, 0)

    def step(key: jax.Array, x: jax.Array) -> jax.Array:
        for turn in range(2):
            drawn = truncnorm.sample(jax.random.fold_in(key, turn), mu, *region.bounds(x))
            x = jnp.where(colour == turn, drawn, x)
        return x

    return timed_chain(step, region.start(mu), 300 if quick else 1000, 4)


def one_at_a_time(codes: np.ndarray, mean: np.ndarray, quick: bool) -> Timed:
    """Plain Gibbs, §4.2: x_1, x_2, … in turn, each from its interval given the others; chains side by side."""
    tier = jnp.asarray(codes)
    mu = jnp.asarray(mean, jnp.float32)

    def step(key: jax.Array, x: jax.Array) -> jax.Array:
        def visit(i: jax.Array, x: jax.Array) -> jax.Array:
            lower = jnp.where((tier == tier[i] - 1)[None, :], x, -jnp.inf).max(axis=1)
            upper = jnp.where((tier == tier[i] + 1)[None, :], x, jnp.inf).min(axis=1)
            drawn = truncnorm.sample(jax.random.fold_in(key, i), jnp.broadcast_to(mu[i], lower.shape), lower, upper)
            return x.at[:, i].set(drawn)

        return jax.lax.fori_loop(0, len(codes), visit, x)

    start = region_of(codes, CHAINS).start(jnp.broadcast_to(mu, (CHAINS, len(mean))))
    return timed_chain(step, start, 300 if quick else 1000, 4)


def botorch_less(codes: np.ndarray, mean: np.ndarray, quick: bool) -> Timed:
    import torch
    from botorch.utils.probability.lin_ess import LinearEllipticalSliceSampler

    torch.manual_seed(0)
    region = region_of(codes)
    A, _, _ = region.as_linear(0)
    n = len(mean)
    inside = np.array(region.start(jnp.asarray(mean)[None, :])[0], float)
    sampler = LinearEllipticalSliceSampler(
        inequality_constraints=(torch.tensor(-A), torch.zeros(len(A), 1, dtype=torch.float64)),
        interior_point=torch.tensor(inside)[:, None],
        mean=torch.tensor(mean)[:, None],
        covariance_matrix=torch.eye(n, dtype=torch.float64),
        burnin=100,
        num_chains=CHAINS,
        check_feasibility=False,
    )
    count = 300 if quick else 1000
    sampler.draw(count)
    seconds = np.inf
    for _ in range(3):
        began = time.perf_counter()
        draws = sampler.draw(count).numpy().reshape(count, CHAINS, n)
        seconds = min(seconds, time.perf_counter() - began)
    return np.moveaxis(draws, 0, 1), seconds


SAMPLERS: dict[str, Callable[[np.ndarray, np.ndarray, bool], Timed]] = {
    "thurbo draw": ours,
    "thurbo two colours": two_colours,
    "one at a time": one_at_a_time,
    "botorch LESS": botorch_less,
}
OTHERS = ("one at a time", "botorch LESS")


def effective(draws: np.ndarray) -> float:
    """The smallest effective sample size of any slot: arviz-stats if it is here, else batch-free Geyer sums."""
    try:
        from arviz_stats.base import array_stats
    except ModuleNotFoundError:
        return min(_geyer(draws[:, :, i]) for i in range(draws.shape[2]))
    return min(
        float(array_stats.ess(np.ascontiguousarray(draws[:, :, i]), chain_axis=0, draw_axis=1, method="mean"))
        for i in range(draws.shape[2])
    )


def _geyer(chains: np.ndarray) -> float:
    """N / (1 + 2 Σ ρ_t) over all chains, the sum cut where a pair of lags turns negative."""
    m, n = chains.shape
    centred = chains - chains.mean()
    power = np.abs(np.fft.rfft(centred, 2 * n, axis=1)) ** 2
    lag = np.fft.irfft(power, axis=1)[:, :n].mean(axis=0)
    rho = lag / lag[0]
    pairs = rho[: n - n % 2].reshape(-1, 2).sum(axis=1)
    stop = int(np.argmax(pairs < 0)) if (pairs < 0).any() else len(pairs)
    return m * n / max(2.0 * pairs[:stop].sum() - 1.0, 1.0 / n)


def race(quick: bool) -> dict[str, dict[str, float | None]]:
    """Effective samples per second of every sampler on every case; None where it is not installed."""
    rates: dict[str, dict[str, float | None]] = {}
    print(f"{'effective samples per second':30}" + "".join(f"{name:>22}" for name in SAMPLERS))
    for case, codes in CASES.items():
        mean = np.random.default_rng(1).normal(size=len(codes))
        rates[case] = {}
        for name, sampler in SAMPLERS.items():
            try:
                draws, seconds = sampler(codes, mean, quick)
            except ModuleNotFoundError:
                rates[case][name] = None
                continue
            rates[case][name] = effective(draws) / seconds
        shown = ["not installed" if rate is None else f"{rate:,.0f}" for rate in rates[case].values()]
        print(f"{case:30}" + "".join(f"{text:>22}" for text in shown), flush=True)
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter chains")
    quick = parser.parse_args().quick
    jax.config.update("jax_enable_x64", True)
    rates = race(quick)
    ratios = {
        case: (row["thurbo draw"] or 0.0) / max(row[name] or 0.0 for name in OTHERS) for case, row in rates.items()
    }
    errors = mass_errors()
    result: dict[str, Any] = {
        "min_ess_ratio": min(ratios.values()),
        "ess_ratio": ratios,
        "ess_per_second": rates,
        "logmass_error_f32": errors["float32"],
        "logmass_error_f64": errors["float64"],
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
