"""Unit-variance normals restricted to an interval [lower, upper]: draws, mass, moments (paper §4.1, A.5.2).

Mirrored to the right of its mean, every interval takes one polynomial and its divided differences.
Promises: relative precision and right derivatives in any tail, at any width; no draw outside, no NaN.
Most answers are half-lines: yes or no, and the lowest and highest of ordered levels. Where all are, one polynomial,
one exponential and one logarithm are enough, a third of the time of an interval, with the same precision.

Bounds may be infinite. NaN comes out only where lower > upper, the mean is infinite or an input is NaN.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from importlib.resources import files
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

# With y = 1/(1 + K x) and s = 2y - 1, Mills' ratio of Q = 1 - Φ is log M(x) = log y - P(s). These are P' in powers of
# s, lowest first, for draws, float32 and float64, and M/y for float32.
_MILLS = tomllib.loads(files(__package__).joinpath("mills.toml").read_text("utf-8"))
K: float = _MILLS["k"]
DRAWS, SINGLE, DOUBLE, RATIO_SINGLE = (tuple(_MILLS[name]) for name in ("draws", "single", "double", "ratio_single"))

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
    for coefficient in origin.partial[1:-1]:
        divided = divided * s + coefficient
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


Interval = tuple[jax.Array, jax.Array, jax.Array]  # mean, lower, upper: one shape, one dtype


@jax.jit
def sample(key: jax.Array, mean: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> jax.Array:
    """One draw of x ~ N(mean, 1) | lower <= x <= upper for every element, by inverting log Q.

    lower == upper returns that value. No gradient flows through a draw.
    """
    m, lo, hi = map(lax.stop_gradient, arrays(mean, lower, upper))
    return _invert(*_uniform(key, m.shape, m.dtype), m, lo, hi)


@jax.jit
def quantile(share: ArrayLike, mean: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> jax.Array:
    """The x below which lies this share, in (0, 1), of N(mean, 1) on [lower, upper]; gradients flow to the bounds."""
    u, m, lo, hi = arrays(share, mean, lower, upper)
    return _quantile(lax.stop_gradient(u), m, lo, hi)


@jax.custom_jvp
def _quantile(u: jax.Array, m: jax.Array, lo: jax.Array, hi: jax.Array) -> jax.Array:
    mirrored = _fold(m, lo, hi).sign < 0.0  # shares are then from the other end
    return _invert(jnp.where(mirrored, 1.0 - u, u), jnp.where(mirrored, u, 1.0 - u), m, lo, hi)


@_quantile.defjvp
def _quantile_jvp(primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
    """From Φ(x − m) = (1 − u) Φ(lo − m) + u Φ(hi − m): each bound moves x by its share of the density there."""
    u, m, lo, hi = primals
    _, dm, dlo, dhi = tangents
    x = _quantile(u, m, lo, hi)

    def pull(bound: jax.Array, weight: jax.Array) -> jax.Array:
        is_finite = jnp.isfinite(bound)
        b = jnp.where(is_finite, bound, x)
        log_ratio = 0.5 * (x - b) * (x + b - 2.0 * m)  # log φ(b − m) − log φ(x − m)
        return jnp.where(is_finite, weight * jnp.exp(jnp.minimum(log_ratio, 80.0)), 0.0)

    from_lo, from_hi = pull(lo, 1.0 - u), pull(hi, u)
    zero = jnp.zeros_like(x)
    step = from_lo * jnp.where(from_lo > 0.0, dlo - dm, zero) + from_hi * jnp.where(from_hi > 0.0, dhi - dm, zero)
    return x, dm + step


def _invert(from_left: jax.Array, from_right: jax.Array, m: jax.Array, lo: jax.Array, hi: jax.Array) -> jax.Array:
    """x with a share `from_left` of the interval's mass below it and `from_right` above, by inverting log Q.

    Of intervals that lie more to the left of the mean than to its right, which are mirrored, it is the other way round.
    """
    single = m.dtype == jnp.float32
    interval = _fold(m, lo, hi)
    origin = origin_at(interval.c, DRAWS if single else DOUBLE)

    # Masses in units of Q(c): on either side of the origin within the interval, and beyond the interval.
    right_rest, right = beyond(origin, interval.reach).survival()
    left_rest, left = beyond(origin, jnp.abs(interval.a)).survival()
    left = jnp.where(interval.is_tail, 0.0, left)
    total = left + right
    signed = from_left * total - left  # between the origin and the draw
    goes_left = signed < 0.0
    inner = jnp.abs(signed)
    outer = jnp.where(goes_left, left_rest, right_rest) + jnp.where(goes_left, from_left, from_right) * total
    target = minus_log1p_minus(inner, outer)
    t = _solve(origin, target, steps=1 if single else 4)
    sign = jnp.where(goes_left, -interval.sign, interval.sign)
    return confine(interval.anchor + sign * t, m, lo, hi)


@partial(jax.jit, static_argnames="half")
def log_mass(mean: ArrayLike, lower: ArrayLike, upper: ArrayLike, half: bool = False) -> jax.Array:
    """Log probability of the interval, log(Φ(upper - mean) - Φ(lower - mean)); -inf where lower == upper.

    `half` promises that at most one of the bounds is finite, here and in `mean`.
    """
    return (_log_mass_of_half if half else _log_mass)(*arrays(mean, lower, upper))


@partial(jax.jit, static_argnames="half")
def mean(mean: ArrayLike, lower: ArrayLike, upper: ArrayLike, half: bool = False) -> jax.Array:
    """Conditional expectation E[x | lower <= x <= upper] of x ~ N(mean, 1); lower if lower == upper."""
    return (_moments_of_half if half else _moments)(*arrays(mean, lower, upper)).mean


@jax.jit
def variance(mean: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> jax.Array:
    """Conditional variance Var[x | lower <= x <= upper] = d E[x | ...]/d mean; 0 where lower == upper."""
    return _moments(*arrays(mean, lower, upper)).variance


def log_density(mean: ArrayLike, value: ArrayLike) -> jax.Array:
    """Log density of a point, log φ(value - mean)."""
    m, x = arrays(mean, value)
    z = x - m
    return -0.5 * z * z - HALF_LOG_2PI


def arrays(*values: ArrayLike) -> list[jax.Array]:
    dtype = jnp.result_type(float, *values)
    if dtype not in (jnp.float32, jnp.float64):
        raise TypeError(f"truncated normals are computed in float32 or float64, not {dtype}: convert the arguments")
    return list(jnp.broadcast_arrays(*(jnp.asarray(value, dtype) for value in values)))


class _Folded(NamedTuple):
    """The interval seen from its mean, mirrored where it lies to the left: [a, b] with b >= |a|."""

    a: jax.Array
    b: jax.Array
    width: jax.Array
    is_tail: jax.Array  # a >= 0: distances are measured from a, otherwise from 0
    c: jax.Array  # max(a, 0), that origin
    reach: jax.Array  # from the origin to b
    sign: jax.Array  # -1 where mirrored
    anchor: jax.Array  # the origin in the caller's coordinates: the nearer bound, or the mean


def _fold(m: jax.Array, lo: jax.Array, hi: jax.Array) -> _Folded:
    # A finite stand-in for infinity keeps 0·inf out of everything below; its square may overflow, harmlessly.
    big = float(jnp.finfo(m.dtype).max) / 16.0
    left, right = jnp.clip(lo - m, -big, big), jnp.clip(hi - m, -big, big)
    mirrored = left + right < 0.0
    a, b = jnp.where(mirrored, -right, left), jnp.where(mirrored, -left, right)
    # hi - lo, not b - a, and later lo + t, not m + z: the rounding of lo - m must not enter short distances.
    width, is_tail = jnp.minimum(hi - lo, big), a >= 0.0
    reach, sign = jnp.where(is_tail, width, b), jnp.where(mirrored, -1.0, 1.0).astype(m.dtype)
    anchor = jnp.where(is_tail, jnp.where(mirrored, hi, lo), m)
    return _Folded(a, b, width, is_tail, jnp.maximum(a, 0.0), reach, sign, anchor)


def _uniform(key: jax.Array, shape: tuple[int, ...], dtype: Any) -> tuple[jax.Array, jax.Array]:
    """A uniform u in (0, 1) and 1 - u from one random word; neither is ever 0, both keep digits near 0."""
    unsigned, signed = (jnp.uint32, jnp.int32) if dtype == jnp.float32 else (jnp.uint64, jnp.int64)
    word = lax.bitcast_convert_type(jax.random.bits(key, shape, unsigned), signed)
    is_low = word < 0
    small = (jnp.where(is_low, ~word, word).astype(dtype) + 0.5) * 2.0 ** (-8 * np.dtype(signed).itemsize)
    return jnp.where(is_low, small, 1.0 - small), jnp.where(is_low, 1.0 - small, small)


def _solve(origin: Origin, target: jax.Array, steps: int) -> jax.Array:
    """The t with Λ = log Q(c) - log Q(c + t) = target."""

    def rough_excess(y: jax.Array) -> jax.Array:
        # δ to 2e-4 of the hazard c + δ: it only sets the slope of a step that is short already.
        return y * (K + y * (0.19767841 + y * (0.68791173 - 0.38769955 * y)))

    excess = rough_excess(origin.y)
    hazard = origin.c + excess
    # Λ = hazard·t + κ t²/2 with κ between 2/π and 1. This κ is fitted so that one step leaves at most 4e-6 of
    # Λ for every c and every target up to 23, the largest that 32 random bits can ask for. Should the square
    # overflow, the step starts at 0, and is then exact.
    y_square = origin.y * origin.y
    kappa = 1.0 - excess * excess * (0.392 - 0.0077 * (y_square * y_square) * target)
    t = 2.0 * target / (hazard + jnp.sqrt(hazard * hazard + 2.0 * kappa * target))
    for _ in range(steps):
        tail = beyond(origin, t)
        excess = rough_excess(tail.y)
        error = tail.a + minus_log1p_minus(tail.e * tail.g) - target  # Λ = -log R, precise down to t = 0
        t = t - error / (origin.c + t + excess - 0.5 * excess * error)  # Halley's step, since Λ''/Λ' = δ
    return t


def not_an_interval(m: jax.Array, lo: jax.Array, hi: jax.Array) -> jax.Array:
    return ~(lo <= hi) | ~jnp.isfinite(m)


def confine(x: jax.Array, m: jax.Array, lo: jax.Array, hi: jax.Array) -> jax.Array:
    """Force x into [lo, hi] and to be finite; the bound where lo == hi, NaN where there is no interval."""
    # As integers in the order of the floats: a processor told to flush denormals would take 0 for one.
    integer = jnp.int32 if x.dtype == jnp.float32 else jnp.int64
    last = 8 * np.dtype(integer).itemsize - 1

    def ordered(bits: jax.Array) -> jax.Array:  # its own inverse
        return bits ^ (lax.shift_right_arithmetic(bits, jnp.full_like(bits, last)) & (2**last - 1))

    largest = int(np.asarray(jnp.finfo(x.dtype).max).view(integer))
    rank, low, high = (ordered(lax.bitcast_convert_type(value, integer)) for value in (x, lo, hi))
    rank = jnp.maximum(jnp.minimum(rank, jnp.minimum(high, largest)), jnp.maximum(low, -largest - 1))
    inside = lax.bitcast_convert_type(ordered(rank), x.dtype)
    return jnp.where(not_an_interval(m, lo, hi), jnp.nan, jnp.where(lo == hi, lo, inside))


@jax.custom_jvp
def _log_mass(m: jax.Array, lo: jax.Array, hi: jax.Array) -> jax.Array:
    interval = _fold(m, lo, hi)
    slopes = SINGLE if m.dtype == jnp.float32 else DOUBLE
    origin = origin_at(interval.c, slopes)
    _, right = beyond(origin, interval.reach).survival()
    _, left = beyond(origin, jnp.abs(interval.a)).survival()
    log_mills = jnp.log(origin.y) - origin.partial[-1]
    in_tail = jnp.log(right) + log_mills - 0.5 * interval.c * interval.c - HALF_LOG_2PI
    missing = 0.5 * (_survival_beyond(m - lo, m, lo, origin) + _survival_beyond(hi - m, hi, m, origin))
    around = jnp.where(missing < 0.5, jnp.log1p(-missing), jnp.log(0.5 * (left + right)))
    value = jnp.where(interval.is_tail, in_tail, around)
    return jnp.where(not_an_interval(m, lo, hi), jnp.nan, jnp.where(lo == hi, -jnp.inf, value))


def _survival_beyond(t: jax.Array, high: jax.Array, low: jax.Array, origin: Origin) -> jax.Array:
    """2 Q(high - low), where t = high - low rounded and the origin is 0.

    When nearly all mass is inside, the little outside is the answer, and t²/2 must not be rounded before exp.
    """
    virtual = t - high
    error = (high - (t - virtual)) - (low + virtual)
    is_finite = jnp.isfinite(error)
    t, error = jnp.where(is_finite, jnp.abs(t), 0.0), jnp.where(is_finite, error, 0.0)
    tail = beyond(origin, t)
    short = lax.reduce_precision(t, 11, 11)  # 12 bits, so that its square is exact
    rest = 0.5 * (t - short) * (t + short) + t * (error + tail.bend)
    return jnp.where(is_finite, tail.g * jnp.exp(-0.5 * short * short) * jnp.exp(-rest), 0.0)


class Moments(NamedTuple):
    """What derivatives are made of; densities are 0 at infinite bounds and if lo == hi."""

    at_lower: jax.Array  # φ(lower - mean)/mass
    at_upper: jax.Array  # φ(upper - mean)/mass
    below: jax.Array  # E[x] - lower
    above: jax.Array  # upper - E[x]
    mean: jax.Array  # E[x]
    offset: jax.Array  # E[x] - mean
    variance: jax.Array


@jax.custom_jvp
def _moments(m: jax.Array, lo: jax.Array, hi: jax.Array) -> Moments:
    single = m.dtype == jnp.float32
    slopes = SINGLE if single else DOUBLE
    a, b, width, is_tail, c, reach, sign, anchor = _fold(m, lo, hi)
    origin = origin_at(c, slopes)
    far = beyond(origin, reach)
    rest, right = far.survival()
    _, left = beyond(origin, jnp.abs(a)).survival()
    is_point = (lo == hi) | (width <= 0.0)  # the second where the width underflows
    total = jnp.where(is_point, 1.0, jnp.where(is_tail, right, left + right))

    excess, spread = excess_moments(slopes, origin.y, origin.s)
    near = jnp.where(is_tail, c + excess, TWICE_PHI_0 * jnp.exp(-0.5 * a * a)) / total
    distant = jnp.where(
        is_tail, near * jnp.exp(-width * (c + 0.5 * width)), TWICE_PHI_0 * jnp.exp(-0.5 * b * b) / total
    )

    # In a tail, the half-line from a is the interval, with probability `right`, and the half-line from b.
    far_excess, far_spread = excess_moments(slopes, far.y, far.s)
    past = jnp.where(rest == 0.0, 0.0, width + far_excess)
    tail_shift = (excess - rest * past) / total
    tail_variance = (spread - rest * far_spread) / total - rest * (past - tail_shift) ** 2
    # Around the mean, E[z] = (φ(a) - φ(b))/mass and E[z²] = 1 + (a φ(a) - b φ(b))/mass.
    around_shift = -near * jnp.expm1(-0.5 * width * (a + b))
    around_variance = 1.0 + a * near - b * distant - around_shift * around_shift
    # In a narrow interval all of these cancel, and a power series does not.
    limit = 0.9 if single else 0.25
    half = jnp.minimum(0.5 * width, 2.0)
    middle = jnp.where(is_tail, c + 0.5 * width, 0.5 * (a + b))
    is_narrow = (middle * half <= limit) & (half <= limit)
    tilt, tilt_slope = _narrow_tilt(jnp.where(is_narrow, middle * half, 0.0), half * half)

    shift = jnp.where(is_tail, tail_shift, around_shift)
    shift = jnp.where(is_narrow, jnp.where(is_tail, half, middle) - half * tilt, shift)
    spread = jnp.where(is_narrow, half * half * tilt_slope, jnp.where(is_tail, tail_variance, around_variance))
    is_mirrored, is_improper = sign < 0.0, not_an_interval(m, lo, hi)
    near, distant = (jnp.where(is_point, 0.0, density) for density in (near, distant))
    to_near, to_distant = jnp.where(is_tail, shift, shift - a), reach - shift
    return Moments(
        at_lower=jnp.where(is_mirrored, distant, near),
        at_upper=jnp.where(is_mirrored, near, distant),
        below=jnp.where(jnp.isinf(lo), 0.0, jnp.where(is_mirrored, to_distant, to_near)),
        above=jnp.where(jnp.isinf(hi), 0.0, jnp.where(is_mirrored, to_near, to_distant)),
        mean=confine(anchor + sign * shift, m, lo, hi),
        offset=jnp.where(is_improper, jnp.nan, sign * (c + shift)),
        variance=jnp.where(is_improper, jnp.nan, jnp.where(is_point, 0.0, jnp.clip(spread, 0.0, 1.0))),
    )


def _derivatives_of_moments(now: Moments, primals: Interval, tangents: Interval) -> Moments:
    """Products of the moments themselves, so that derivatives of every order exist and none cancels."""
    _, lo, hi = primals
    dm, dlo, dhi = tangents
    d_mean = now.variance * dm + now.at_lower * now.below * dlo + now.at_upper * now.above * dhi
    return Moments(
        at_lower=now.at_lower * (now.below * (dlo - dm) + now.at_upper * (dlo - dhi)),
        at_upper=now.at_upper * (now.at_lower * (dlo - dhi) - now.above * (dhi - dm)),
        below=jnp.where(jnp.isinf(lo), 0.0, d_mean - dlo),
        above=jnp.where(jnp.isinf(hi), 0.0, dhi - d_mean),
        mean=d_mean,
        offset=d_mean - dm,
        variance=now.at_lower * (now.variance - now.below**2) * (dlo - dm)
        + now.at_upper * (now.above**2 - now.variance) * (dhi - dm),
    )


def _narrow_series(order: int) -> list[list[float]]:
    """The f_ij of F(κ, q) = Σ f_ij κ^(2i+1) q^j = -E[r], r in [-1, 1] of density ∝ exp(-κ r - q r²/2)."""
    top, bottom = {}, {}
    for i in range(order + 1):
        for j in range(order + 1 - i):
            curvature = Fraction((-1) ** j, 2**j * math.factorial(j))
            top[i, j] = curvature / (math.factorial(2 * i + 1) * (2 * i + 2 * j + 3))
            bottom[i, j] = curvature / (math.factorial(2 * i) * (2 * i + 2 * j + 1))
    ratio: dict[tuple[int, int], Fraction] = {}
    for i, j in sorted(top, key=sum):  # bottom[0, 0] is 1
        ratio[i, j] = top[i, j] - sum(ratio[k, n] * bottom[i - k, j - n] for k, n in ratio if k <= i and n <= j)
    return [[float(ratio[i, j]) for j in range(order + 1 - i)] for i in range(order + 1)]


_NARROW = _narrow_series(7)


def _narrow_tilt(kappa: jax.Array, q: jax.Array) -> tuple[jax.Array, jax.Array]:
    """F and dF/dκ: for z in [mid - d, mid + d], κ = mid·d and q = d², E[z] = mid - d F, Var[z] = d² dF/dκ."""
    rows = [horner(row, q) for row in _NARROW]
    square = kappa * kappa
    return kappa * horner(rows, square), horner([(2 * i + 1) * row for i, row in enumerate(rows)], square)


FAR = 1e4  # a distance beyond which nothing is left outside


def _inside(m: jax.Array, lo: jax.Array, hi: jax.Array) -> tuple[jax.Array, jax.Array]:
    """How far inside the mean is, z, and what rounding took from it; a large number where there is no bound."""
    from_lower = jnp.isfinite(lo)
    is_bound = from_lower | jnp.isfinite(hi)
    high, low = jnp.where(from_lower, m, jnp.where(is_bound, hi, 0.0)), jnp.where(from_lower, lo, m)
    z = high - low
    virtual = z - high
    lost = (high - (z - virtual)) - (low + virtual)
    return jnp.where(is_bound, z, FAR), jnp.where(is_bound & jnp.isfinite(lost), lost, 0.0)


def _bump(c: jax.Array, lost: jax.Array) -> jax.Array:
    """φ(c + lost), whose exponent must not be rounded."""
    short = lax.reduce_precision(c, 11, 11)  # 12 bits, so that its square is exact
    rest = 0.5 * (c - short) * (c + short) + c * lost
    if c.dtype != jnp.float32:
        return 0.5 * TWICE_PHI_0 * jnp.exp(-0.5 * c * c - c * lost)
    # The second exponent is less than 0.02 wherever the first is not zero.
    return 0.5 * TWICE_PHI_0 * jnp.exp(-0.5 * short * short) * (1.0 - rest * (1.0 - rest * (0.5 - rest * (1 / 6))))


@jax.custom_jvp
def _log_mass_of_half(m: jax.Array, lo: jax.Array, hi: jax.Array) -> jax.Array:
    z, lost = _inside(m, lo, hi)
    c = jnp.minimum(jnp.abs(z), FAR if z.dtype == jnp.float32 else 1e8)
    ratio = mills_ratio(jnp.abs(z))
    outside = _bump(c, jnp.where(z < 0.0, -lost, lost)) * ratio
    rounded = 1.0 - outside
    is_out = z < 0.0
    share = jnp.where(is_out, ratio, rounded)
    rest = jnp.where(is_out, -0.5 * z * z - HALF_LOG_2PI, -(outside - (1.0 - rounded)))
    return jnp.where(not_an_interval(m, lo, hi), jnp.nan, jnp.log(share) + rest)


@jax.custom_jvp
def _moments_of_half(m: jax.Array, lo: jax.Array, hi: jax.Array) -> Moments:
    z, _ = _inside(m, lo, hi)
    slopes = SINGLE if m.dtype == jnp.float32 else DOUBLE
    c, is_out = jnp.abs(z), z < 0.0
    y = 1.0 / (1.0 + K * c)
    excess, spread = excess_moments(slopes, y, 2.0 * y - 1.0)
    bump = 0.5 * TWICE_PHI_0 * jnp.exp(-0.5 * c * c)
    hazard = jnp.where(is_out, c + excess, bump / (1.0 - bump * mills_ratio(c)))
    beyond = jnp.where(is_out, excess, z + hazard)  # of the mean from its bound
    variance = jnp.where(is_out, spread, 1.0 - hazard * beyond)
    has_lower, has_upper = jnp.isfinite(lo), jnp.isfinite(hi)
    sign = jnp.where(has_upper, -1.0, 1.0).astype(m.dtype)
    anchor = jnp.where(is_out, jnp.where(has_upper, hi, lo), m)
    improper, none = not_an_interval(m, lo, hi), jnp.zeros_like(m)
    return Moments(
        at_lower=jnp.where(has_lower, hazard, none),
        at_upper=jnp.where(has_upper, hazard, none),
        below=jnp.where(has_lower, beyond, none),
        above=jnp.where(has_upper, beyond, none),
        mean=confine(anchor + sign * jnp.where(is_out, excess, hazard), m, lo, hi),
        offset=jnp.where(improper, jnp.nan, sign * hazard),
        variance=jnp.where(improper, jnp.nan, jnp.clip(variance, 0.0, 1.0)),
    )


def _differentiate(log_mass: Any, moments: Any) -> None:
    """Derivatives of both from the moments."""

    def of_mass(primals: Interval, tangents: Interval) -> tuple[jax.Array, jax.Array]:
        now = moments(*primals)
        dm, dlo, dhi = tangents
        return log_mass(*primals), now.offset * dm - now.at_lower * dlo + now.at_upper * dhi

    def of_moments(primals: Interval, tangents: Interval) -> tuple[Moments, Moments]:
        now = moments(*primals)
        return now, _derivatives_of_moments(now, primals, tangents)

    log_mass.defjvp(of_mass)
    moments.defjvp(of_moments)


_differentiate(_log_mass, _moments)
_differentiate(_log_mass_of_half, _moments_of_half)
