"""Mills' ratio M = Q/φ, Q = 1 − Φ, of the normal tail, and ratios of tails, with full relative precision anywhere.

One polynomial and its divided differences serve the whole half-line, in float32 and in float64. The truncated normal
(truncnorm.py) and the masses of orders (constraints/masses) are built on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

# Q = 1 - Φ, Mills' ratio M = Q/φ. Put y = 1/(1 + k x) and s = 2y - 1: x in [0, ∞) becomes s in (-1, 1].
# Then log M(x) = log y - P(s), with P' so smooth that one short polynomial serves the whole half-line. The
# tuples hold P' in powers of s, lowest first: Chebyshev expansions by mpmath, cut off; k = 0.3 makes them
# shortest. The mean excess δ(x) = 1/M(x) - x = k y - 2 k y² P'(s) is then right to 4e-6, 2e-8 and 3e-15 of
# itself, as a test checks. The first is for draws, where so small an error in a probability cannot be seen.
K = 0.3
DRAWS = (
    -0.741448631, -0.23002945, 0.0845565887, 0.0862496533, -0.00829926032, -0.0261181025, 0.000286264868,
    0.00499940965,
)  # fmt: skip
SINGLE = (
    -0.7414471727, -0.2300853541, 0.08450792542, 0.08702569184, -0.008039218752, -0.02909578276,
    -0.0001833218025, 0.009460160858, 0.0003150735824, -0.002636570488, -5.708817592e-05, 0.000428082149,
)  # fmt: skip
DOUBLE = (
    -0.741447172862807, -0.23008577922885903, 0.0845079718971769, 0.0870379341316381, -0.00804040824782521,
    -0.02919767833982359, -0.0001734700181624992, 0.009831104573246905, 0.00027749008876102807,
    -0.0033198833703491624, 1.946091271718029e-05, 0.0010921205545304075, -8.945139040469862e-05,
    -0.0003353919461397346, 6.300436869419794e-05, 9.106142986064281e-05, -2.8799184484384065e-05,
    -2.025268369330967e-05, 9.37171571005677e-06, 3.239063091308075e-06, -2.012998476371774e-06,
    -2.748525604320206e-07, 2.1505005048826368e-07,
)  # fmt: skip
# M/y itself in powers of s, right to 4e-8: no exponential where M is wanted and not its logarithm.
RATIO_SINGLE = (
    0.5563978156, 0.4125397456, 0.2169478492, 0.06958168739, 0.004553949694, -0.00605699794, -0.001439008796,
    0.0006650600628, 0.0002187139339, -7.243918944e-05, -2.225212651e-05,
)  # fmt: skip

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
TWICE_PHI_0 = math.sqrt(2.0 / math.pi)  # 2 φ(0), the hazard at 0


class Origin(NamedTuple):
    """A point c >= 0 from which tails are measured, and what they share."""

    c: jax.Array
    y: jax.Array
    s: jax.Array
    partial: list[jax.Array]  # Horner's sums on the way to P(s), which is the last


class Tail(NamedTuple):
    """The tail beyond x = c + t, R = Q(x)/Q(c) = g exp(-a) with g = 1/(1 + e), a = t (c + t/2 + bend)."""

    a: jax.Array
    bend: jax.Array
    e: jax.Array
    g: jax.Array
    y: jax.Array
    s: jax.Array

    def survival(self) -> tuple[jax.Array, jax.Array]:
        """R and 1 - R, each to full relative precision."""
        a, decay = self.a, jnp.exp(-self.a)
        if a.dtype == jnp.float32:  # good to 1e-6 and cheaper than a second exponential
            lost = jnp.where(a < 0.1, a * (1.0 - a * (1 / 2 - a * (1 / 6 - a * (1 / 24)))), 1.0 - decay)
        else:
            lost = -jnp.expm1(-a)
        return self.g * decay, self.g * (self.e + lost)

    def log_survival(self) -> jax.Array:
        """Λ = -log R, to full relative precision down to t = 0."""
        return self.a + minus_log1p_minus(self.e * self.g)


def origin_at(c: jax.Array, slopes: tuple[float, ...]) -> Origin:
    y = 1.0 / (1.0 + K * c)
    s = 2.0 * y - 1.0
    powers = [slope / (n + 1) for n, slope in enumerate(slopes)]
    powers = [math.log(TWICE_PHI_0) - sum(powers), *powers]  # P(1) = -log M(0)
    partial = [jnp.full_like(s, powers[-1])]
    for power in powers[-2::-1]:
        partial.append(partial[-1] * s + power)
    return Origin(c, y, s, partial)


def beyond(origin: Origin, t: jax.Array) -> Tail:
    e = K * t * origin.y
    g = 1.0 / (1.0 + e)
    y = origin.y * g
    s = 2.0 * y - 1.0
    divided = origin.partial[0]  # (P(s₀) - P(s))/(s₀ - s), by Horner's rule
    for partial in origin.partial[1:-1]:
        divided = divided * s + partial
    bend = (-2.0 * K) * origin.y * y * divided
    return Tail(t * (origin.c + 0.5 * t + bend), bend, e, g, y, s)


def mills_ratio(c: jax.Array) -> jax.Array:
    """M(c) = Q(c)/φ(c) for c >= 0."""
    if c.dtype == jnp.float32:
        y = 1.0 / (1.0 + K * c)
        return y * horner(RATIO_SINGLE, 2.0 * y - 1.0)
    origin = origin_at(c, DOUBLE)
    return origin.y * jnp.exp(-origin.partial[-1])


def minus_log1p_minus(x: jax.Array, rest: jax.Array | None = None) -> jax.Array:
    """-log(1 - x) for 0 <= x < 1; beyond one half from rest = 1 - x where that is known better."""
    rounded = 1.0 - x
    lost = x - (1.0 - rounded)  # XLA keeps this order; it would simplify (1 + x) - 1
    if rest is None:
        return lost - jnp.log(rounded)
    is_small = x < 0.5
    return jnp.where(is_small, lost, 0.0) - jnp.log(jnp.where(is_small, rounded, rest))


def horner(coefficients: Sequence[Any], x: jax.Array) -> jax.Array:
    total = coefficients[-1] + jnp.zeros_like(x)
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total


def excess_moments(slopes: tuple[float, ...], y: jax.Array, s: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Mean excess δ(x) = E[z | z > x] - x and Var[z | z > x] = -δ'(x), which is 1 - δ (δ + x) uncancelled."""
    slope = horner(slopes, s)
    curvature = horner([n * power for n, power in enumerate(slopes)][1:], s)
    return K * y * (1.0 - 2.0 * y * slope), (K * y) ** 2 * (1.0 - 4.0 * y * (slope + y * curvature))
