"""Unit-variance normals above or below one bound: what `truncnorm` computes, where no interval has two ends.

Most answers are half-lines: yes or no, and the lowest and highest of ordered levels. One polynomial, one exponential
and one logarithm are enough, a third of the time of an interval. Promises: the same precision and derivatives.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from thurbo.latent.truncnorm import (
    DOUBLE,
    HALF_LOG_2PI,
    SINGLE,
    TWICE_PHI_0,
    Interval,
    Moments,
    arrays,
    confine,
    derivatives_of_moments,
    excess_moments,
    mills_ratio,
    not_an_interval,
)

__all__ = ["log_mass", "mean"]

FAR = 1e4  # a distance beyond which nothing is left outside


@jax.jit
def log_mass(mean: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> jax.Array:
    """log P(lower <= x <= upper), x ~ N(mean, 1), where at most one of the bounds is finite."""
    return _log_mass(*arrays(mean, lower, upper))


@jax.jit
def mean(mean: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> jax.Array:
    """E[x | lower <= x <= upper] of x ~ N(mean, 1), where at most one of the bounds is finite."""
    return _moments(*arrays(mean, lower, upper)).mean


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
def _log_mass(m: jax.Array, lo: jax.Array, hi: jax.Array) -> jax.Array:
    z, lost = _inside(m, lo, hi)
    c = jnp.minimum(jnp.abs(z), FAR if z.dtype == jnp.float32 else 1e8)
    ratio = mills_ratio(jnp.abs(z))
    outside = _bump(c, jnp.where(z < 0.0, -lost, lost)) * ratio
    rounded = 1.0 - outside
    is_out = z < 0.0
    share = jnp.where(is_out, ratio, rounded)
    rest = jnp.where(is_out, -0.5 * z * z - HALF_LOG_2PI, -(outside - (1.0 - rounded)))
    return jnp.where(not_an_interval(m, lo, hi), jnp.nan, jnp.log(share) + rest)


@_log_mass.defjvp
def _log_mass_jvp(primals: Interval, tangents: Interval) -> tuple[jax.Array, jax.Array]:
    now = _moments(*primals)
    dm, dlo, dhi = tangents
    return _log_mass(*primals), now.offset * dm - now.at_lower * dlo + now.at_upper * dhi


@jax.custom_jvp
def _moments(m: jax.Array, lo: jax.Array, hi: jax.Array) -> Moments:
    z, _ = _inside(m, lo, hi)
    slopes = SINGLE if m.dtype == jnp.float32 else DOUBLE
    c, is_out = jnp.abs(z), z < 0.0
    y = 1.0 / (1.0 + 0.3 * c)
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


@_moments.defjvp
def _moments_jvp(primals: Interval, tangents: Interval) -> tuple[Moments, Moments]:
    now = _moments(*primals)
    return now, derivatives_of_moments(now, primals, tangents)
