"""Truncated normals: draws per second and errors from 0 to 50 sigma, ours and others' (paper §4.1, A.5.2).

Run `python -m benchmarks.truncnorm [--quick]`. Prints a table, then one JSON object on the last line.

A draw is wrong if it is not finite or not in its interval. A law is wrong if a Kolmogorov-Smirnov test of
draws beyond c = 0, 1, ..., 50 sigma against the exact law gives p < 2e-5/51. Errors are relative for the log
mass, and in conditional standard deviations for the mean. What is not installed is named and left out.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
import scipy.stats

from thurbo.latent import truncnorm

N = 392_000
SIGMAS = np.arange(51.0)
SMALLEST_P = 2e-5 / SIGMAS.size
Sampler = Callable[[int, Any, Any, Any], Any]  # seed, mean, lower, upper: float32 arrays


def problems(n: int) -> dict[str, tuple[np.ndarray, ...]]:
    """The bounds a Gibbs sweep meets: binary columns only, and a third of ordinal ones among them."""
    rng = np.random.default_rng(0)
    mean, cut = rng.normal(size=(2, n))
    is_above = rng.random(n) < 0.5
    lower, upper = np.where(is_above, cut, -np.inf), np.where(is_above, np.inf, cut)
    is_level = rng.random(n) < 1 / 3
    both = np.where(is_level, cut - 1, lower), np.where(is_level, cut + rng.random(n), upper)
    return {
        "one-sided": tuple(x.astype(np.float32) for x in (mean, lower, upper)),
        "mixed": tuple(x.astype(np.float32) for x in (mean, *both)),
    }


def ours() -> Sampler:
    return lambda seed, *interval: truncnorm.sample(jax.random.key(seed), *interval)


def scipy_truncnorm() -> Sampler:
    def draw(seed: int, mean: Any, lower: Any, upper: Any) -> np.ndarray:
        return scipy.stats.truncnorm.rvs(lower - mean, upper - mean, loc=mean, random_state=seed)

    return draw


def scipy_ndtri_exp() -> Sampler:
    def draw(seed: int, mean: Any, lower: Any, upper: Any) -> np.ndarray:
        a, b = np.asarray(lower, float) - mean, np.asarray(upper, float) - mean
        sign = np.where(a > -b, 1.0, -1.0)
        near, far = np.where(sign > 0, a, -b), np.where(sign > 0, b, -a)
        log_near, log_far = scipy.special.log_ndtr(-near), scipy.special.log_ndtr(-far)
        u = np.random.default_rng(seed).random(near.shape)
        log_q = log_near + np.log1p(u * np.expm1(log_far - log_near))
        return mean - sign * scipy.special.ndtri_exp(log_q)

    return draw


def jax_truncated_normal() -> Sampler:
    @jax.jit
    def draw(key: jax.Array, mean: jax.Array, lower: jax.Array, upper: jax.Array) -> jax.Array:
        return mean + jax.random.truncated_normal(key, lower - mean, upper - mean, dtype=jnp.float32)

    return lambda seed, *interval: draw(jax.random.key(seed), *interval)


def numpyro_truncated_normal() -> Sampler:
    from numpyro.distributions import TruncatedNormal

    @jax.jit
    def draw(key: jax.Array, mean: jax.Array, lower: jax.Array, upper: jax.Array) -> jax.Array:
        return TruncatedNormal(mean, jnp.float32(1), low=lower, high=upper).sample(key)

    return lambda seed, *interval: draw(jax.random.key(seed), *interval)


def botorch_truncated_normal() -> Sampler:
    import torch
    from botorch.utils.probability import TruncatedMultivariateNormal

    def draw(seed: int, mean: Any, lower: Any, upper: Any) -> np.ndarray:
        # One law for all draws, as nothing in botorch draws many laws at once, and a bound 40 sigma further
        # in place of an infinite one, which it refuses (botorch#3144).
        torch.manual_seed(seed)
        low, high = float(lower[0]), float(upper[0])
        low, high = (high - 40.0 if np.isinf(low) else low), (low + 40.0 if np.isinf(high) else high)
        bounds = torch.tensor([[low, high]])
        law = TruncatedMultivariateNormal(torch.tensor([float(mean[0])]), torch.eye(1), bounds=bounds)
        return law.rsample(torch.Size([len(mean)]))[:, 0].numpy()

    return draw


PEERS: dict[str, tuple[Callable[[], Sampler], int]] = {
    "thurbo": (ours, N),
    "scipy.stats.truncnorm": (scipy_truncnorm, N),
    "scipy ndtri_exp": (scipy_ndtri_exp, N),
    "jax.random.truncated_normal": (jax_truncated_normal, N),
    "numpyro TruncatedNormal": (numpyro_truncated_normal, N),
    "botorch TruncatedMVN": (botorch_truncated_normal, 1_000),
}


def count_wrong(draw: Sampler, n: int) -> tuple[int, list[int]]:
    """Wrong draws, and the c at which the law is wrong, over half-lines [c, inf) and (-inf, -c]."""
    bad, laws = 0, []
    for c in SIGMAS:
        failed = False
        for side in (1.0, -1.0):
            mean, cut, infinite = (np.full(n, value, np.float32) for value in (0.0, side * c, side * np.inf))
            x = side * np.asarray(draw(int(c), mean, *((cut, infinite) if side > 0 else (infinite, cut))), float)
            is_good = np.isfinite(x) & (x >= c)
            bad += int((~is_good).sum())
            log_ratio = scipy.special.log_ndtr(-np.clip(x, c, 1e6)) - scipy.special.log_ndtr(-c)
            failed |= scipy.stats.kstest(np.where(is_good, np.exp(log_ratio), 0.0), "uniform").pvalue < SMALLEST_P
        laws += [int(c)] if failed else []
    return bad, laws


def exact_half_line(c: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log mass, E[x] - c and standard deviation of N(0, 1) on [c, inf), with c exactly represented."""
    try:
        import mpmath
    except ModuleNotFoundError:
        hazard = np.sqrt(2 / np.pi) / scipy.special.erfcx(c / np.sqrt(2))
        return scipy.special.log_ndtr(-c), hazard - c, np.sqrt(1 - hazard * (hazard - c))
    rows = []
    with mpmath.workdps(60):
        for x in map(mpmath.mpf, c.tolist()):
            tail = mpmath.erfc(x / mpmath.sqrt(2)) / 2
            hazard = mpmath.npdf(x) / tail
            rows.append([float(v) for v in (mpmath.log(tail), hazard - x, mpmath.sqrt(1 - hazard * (hazard - x)))])
    return tuple(np.array(rows).T)  # type: ignore[return-value]


def largest(x: np.ndarray) -> float:
    return float(np.max(np.where(np.isnan(x), np.inf, x)))


def errors(log_mass: Any, mean: Any, dtype: Any) -> tuple[float, float]:
    """Worst error of the log mass, relative, and of the mean, in sd beyond one ulp, over both half-lines."""
    c = np.concatenate([SIGMAS, np.geomspace(0.01, 50, 200)]).astype(dtype)
    truth = exact_half_line(c.astype(float))
    zero, infinite = np.zeros_like(c), np.full_like(c, np.inf)
    worst = [0.0, 0.0]
    for side, interval in ((1, (zero, c, infinite)), (-1, (zero, -infinite, -c))):
        if log_mass is not None:
            got = np.asarray(log_mass(*interval), float)
            worst[0] = max(worst[0], largest(np.abs(got / truth[0] - 1)))
        if mean is not None:
            got = side * np.asarray(mean(*interval), float)
            ulp = np.spacing(got.astype(dtype)).astype(float)
            excess = np.abs((got - c.astype(float)) - truth[1]) - ulp
            worst[1] = max(worst[1], largest(np.maximum(excess, 0) / truth[2]))
    return worst[0], worst[1]


def peer_errors(name: str) -> tuple[float | None, float | None]:
    """Errors of a peer's log mass (its own, or from its log density) and mean; None where it offers none."""
    if name == "thurbo":
        return errors(truncnorm.log_mass, truncnorm.mean, np.float32)
    if name == "scipy.stats.truncnorm":
        law = scipy.stats.truncnorm
        at = lambda m, lo, hi: np.where(np.isinf(lo), hi, lo)  # noqa: E731
        log_mass = lambda *i: scipy.stats.norm.logpdf(at(*i)) - law.logpdf(at(*i), i[1], i[2])  # noqa: E731
        return errors(log_mass, lambda m, lo, hi: law.mean(lo, hi), np.float64)
    if name == "numpyro TruncatedNormal":
        from numpyro.distributions import Normal, TruncatedNormal

        def law_of(m: Any, lo: Any, hi: Any) -> Any:
            sides = {"high": hi} if np.isinf(lo[0]) else {"low": lo}
            return TruncatedNormal(m, np.float32(1), **sides)

        def log_mass(m: Any, lo: Any, hi: Any) -> Any:
            x = np.where(np.isinf(lo), hi, lo)
            return Normal(m, np.float32(1)).log_prob(x) - law_of(m, lo, hi).log_prob(x)

        return errors(log_mass, lambda *i: law_of(*i).mean, np.float32)
    if name == "botorch TruncatedMVN":
        import torch
        from botorch.utils.probability.utils import log_prob_normal_in

        inside = lambda m, lo, hi: log_prob_normal_in(torch.from_numpy(lo), torch.from_numpy(hi))  # noqa: E731
        return errors(inside, None, np.float64)[0], None
    return None, None


def median_seconds(calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Interleaved, so that a busy machine slows all alike."""
    for call in calls.values():
        jax.block_until_ready(call())
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            jax.block_until_ready(call())
            seconds[name].append(time.perf_counter() - start)
    return {name: float(np.median(times)) for name, times in seconds.items()}


def device_ratio() -> float:
    """Time of 2^26 draws over the time to read three such arrays and write one."""
    n = 1 << 26
    keys = jax.random.split(jax.random.key(0), 4)
    mean, cut = (jax.random.normal(key, (n,), jnp.float32) for key in keys[:2])
    is_above, is_level = jax.random.bernoulli(keys[2], 0.5, (n,)), jax.random.bernoulli(keys[3], 1 / 3, (n,))
    lower = jnp.where(is_above | is_level, cut - jnp.where(is_level, 1.0, 0.0), -jnp.inf)
    upper = jnp.where(is_level, cut + 0.5, jnp.where(is_above, jnp.inf, cut))
    copy = jax.jit(lambda a, b, c: a + b + c)
    key = jax.random.key(1)
    launches = 20  # in flight together: one launch at a time would time the host's wait as well
    seconds = median_seconds(
        {
            "copy": lambda: [copy(mean, lower, upper) for _ in range(launches)],
            "draw": lambda: [truncnorm.sample(key, mean, lower, upper) for _ in range(launches)],
        },
        9,
    )
    draw, copied = seconds["draw"] / launches, seconds["copy"] / launches
    print(f"device: {n / draw / 1e9:.1f} G draws/s; copy {16 * n / copied / 1e12:.2f} TB/s")
    return draw / copied


def timed_calls(
    samplers: dict[str, Any], host: dict[str, Any]
) -> tuple[dict[str, Callable[[], Any]], dict[str, Callable[[], Any]]]:
    """What is timed, by "name|problem": quick calls, and those of peers that take so long that few are made."""
    fast: dict[str, Callable[[], Any]] = {}
    slow: dict[str, Callable[[], Any]] = {}
    normal = jax.jit(lambda key: jax.random.normal(key, (N,), jnp.float32))
    fast["jax.random.normal"] = lambda: normal(jax.random.key(0))
    for problem, interval in host.items():
        device = tuple(map(jnp.asarray, interval))
        for name, draw in samplers.items():
            if name.startswith("botorch"):
                continue
            is_slow = name.startswith("scipy")
            table, arrays = (slow, interval) if is_slow else (fast, device)
            table[f"{name}|{problem}"] = lambda draw=draw, arrays=arrays: draw(1, *arrays)
    if "botorch TruncatedMVN" in samplers:
        few = tuple(np.full(PEERS["botorch TruncatedMVN"][1], value, np.float32) for value in (0.0, 1.0, np.inf))
        slow["botorch TruncatedMVN|one-sided"] = lambda: samplers["botorch TruncatedMVN"](1, *few)
    return fast, slow


def print_table(
    samplers: dict[str, Any], host: dict[str, Any], rate: dict[str, float], missing: dict[str, str], quick: bool
) -> int:
    """One line for each library; returns how many of our own draws and laws are wrong."""
    print(f"{N} draws on {jax.default_backend()}, float32 (scipy and botorch's log mass in float64)\n")
    print(f"{'':28} {'M draws/s':>21} {'wrong':>9} {'wrong laws':>16} {'worst error, 0-50 sigma':>25}")
    heads = {"": 28, "one-sided": 10, "mixed": 10, "draws": 9, "of 51, first at": 16, "log mass": 12, "mean/sd": 12}
    print(" ".join(f"{head:>{width}}" for head, width in heads.items()))
    print(f"{'jax.random.normal':28} {rate['jax.random.normal'] / 1e6:10.1f}")
    wrong_values = -1
    show = lambda value: f"{value:12.1e}" if value is not None else f"{'-':>12}"  # noqa: E731
    for name in PEERS:
        if name not in samplers:
            print(f"{name:28} {missing[name]}")
            continue
        speeds = [rate.get(f"{name}|{problem}") for problem in host]
        columns = " ".join(f"{speed / 1e6:10.3f}" if speed else f"{'-':>10}" for speed in speeds)
        try:
            n = min(PEERS[name][1], 200 if quick and name.startswith("botorch") else 10_000 if quick else 40_000)
            bad, laws = count_wrong(samplers[name], n)
            verdict = f"{bad:9} {len(laws):9}{', ' + str(laws[0]) if laws else '':>7}"
        except Exception as error:
            bad, laws, verdict = 0, [], f"fails: {type(error).__name__:19}"
        try:
            log_mass, mean = peer_errors(name)
        except Exception as error:
            log_mass, mean = None, None
            missing[name + " errors"] = f"fails: {error}"
        print(f"{name:28} {columns} {verdict} {show(log_mass)} {show(mean)}")
        if name == "thurbo":
            wrong_values = bad + len(laws)
    for label, reason in missing.items():
        if label not in PEERS:
            print(f"{label}: {reason}")
    return wrong_values


def main() -> None:
    parser = argparse.ArgumentParser(description="Truncated normals: speed and errors of ours and others'.")
    parser.add_argument("--quick", action="store_true", help="fewer repeats and draws")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    jax.config.update("jax_enable_x64", True)  # for the float64 errors; everything timed is float32

    host = problems(N)
    samplers, missing = {}, {}
    for name, (make, _) in PEERS.items():
        try:
            samplers[name] = make()
        except Exception as error:
            missing[name] = "not installed" if isinstance(error, ImportError) else f"fails: {error}"
    fast, slow = timed_calls(samplers, host)
    for calls in (fast, slow):
        for label in list(calls):
            try:
                jax.block_until_ready(calls[label]())
            except Exception as error:
                missing[label] = f"fails: {type(error).__name__}"
                del calls[label]
    seconds = median_seconds(fast, 9 if quick else 41) | median_seconds(slow, 1 if quick else 5)
    rate = {label: PEERS.get(label.split("|")[0], (None, N))[1] / time_ for label, time_ in seconds.items()}
    wrong_values = print_table(samplers, host, rate, missing, quick)

    ratio_normal = {problem: seconds[f"thurbo|{problem}"] / seconds["jax.random.normal"] for problem in host}
    single = errors(truncnorm.log_mass, truncnorm.mean, np.float32)
    double = errors(truncnorm.log_mass, truncnorm.mean, np.float64)
    summary = {
        "ratio_scipy": rate["thurbo|one-sided"] / rate["scipy.stats.truncnorm|one-sided"],
        "ratio_normal": max(ratio_normal.values()),
        "ratio_normal_one_sided": ratio_normal["one-sided"],
        "ratio_normal_mixed": ratio_normal["mixed"],
        "worst_rel_error_f32": max(single),
        "worst_rel_error_f64": max(double),
        "wrong_values": wrong_values,
        "backend": jax.default_backend(),
    }
    if jax.default_backend() == "gpu":
        summary["ratio_copy"] = device_ratio()
    print(json.dumps({key: round(v, 18) if isinstance(v, float) else v for key, v in summary.items()}))


if __name__ == "__main__":
    main()
