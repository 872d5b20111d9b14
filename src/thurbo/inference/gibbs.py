"""§4.1, §4.2 Gibbs sampling of (x, h, z) given evidence, and of h under the model alone.

One step for every data type: each region draws its own slots by its own method, boxes all at once, orders by tiers.
Kernels are `(key, state, …) → state`; nothing here depends on the form of the evidence.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from thurbo import rbm
from thurbo._typing import Array, Factors, Float, Hidden, PRNGKey, Rows, RowsMask
from thurbo.constraints import Region
from thurbo.evidence import Evidence
from thurbo.rbm import Params


class ChainState(NamedTuple):
    """One chain per row: latent variables x, binary hidden units h, Gaussian factors z."""

    x: Rows
    h: Hidden
    z: Factors


class Clamp(NamedTuple):
    """What is constant while chains run on a batch of evidence: all that depends only on parameters and evidence."""

    params: Params  # gathered by slot
    region: Region
    observed: RowsMask
    present: RowsMask | None
    whitener: Float[Array, "row factor factor"] | None  # of the covariance of z; None without factors


def clamp(params: Params, evidence: Evidence, region: Region | None = None) -> Clamp:
    """Bring parameters and evidence together, once for many sweeps; `region` is that of the evidence, if known."""
    seen = evidence.seen(params)
    observed = evidence.observed
    whitener = rbm.factor_whitener(seen, observed) if params.n_factors else None
    region = evidence.region(seen.gauge) if region is None else region
    return Clamp(seen, region, observed, evidence.present, whitener)


def sweep(key: PRNGKey, x: Rows, mean: Rows, region: Region) -> Rows:
    """x ~ P(x | h, z, e): exact for boxes (§4.1), one step of a chain for what couples slots (§4.2)."""
    return region.draw(key, x, mean)


def step(key: PRNGKey, state: ChainState, given: Clamp) -> ChainState:
    """One round of z | x_o, h (free slots integrated out), then x | h, z, e, then h | x, z."""
    key_z, key_x, key_h = jax.random.split(key, 3)
    mean, z = rbm.latent_mean(given.params, state.h), state.z
    shift = jnp.zeros_like(mean)
    if given.whitener is not None:
        residual = rbm.only(state.x - mean, given.observed)
        z = rbm.sample_factors(key_z, given.params, residual, given.whitener)
        shift = rbm.factor_shift(given.params, z)
    x = sweep(key_x, state.x, mean + shift, given.region)
    h = rbm.sample_hidden(key_h, given.params, rbm.only(x - shift, given.present))
    return ChainState(x, h, z)


def start(key: PRNGKey, given: Clamp, probability: Hidden) -> ChainState:
    """A state inside Ω(e): h from the given probabilities, z at zero, x drawn within its bounds."""
    key_h, key_x = jax.random.split(key)
    h = (jax.random.uniform(key_h, probability.shape, probability.dtype) < probability).astype(probability.dtype)
    z = jnp.zeros((probability.shape[0], given.params.n_factors), probability.dtype)
    mean = rbm.latent_mean(given.params, h)
    return ChainState(sweep(key_x, given.region.start(mean), mean, given.region), h, z)


def run(key: PRNGKey, state: ChainState, given: Clamp, n_steps: int) -> ChainState:
    """`n_steps` rounds of Gibbs sampling."""
    return jax.lax.fori_loop(0, n_steps, lambda i, s: step(jax.random.fold_in(key, i), s, given), state)


def prior_step(key: PRNGKey, h: Hidden, params: Params, present: RowsMask | None = None) -> Hidden:
    """One round of x | h then h | x under the model alone, Eqs (3), (4); factors cancel and need not be drawn."""
    key_x, key_h = jax.random.split(key)
    mean = rbm.latent_mean(params, h)
    x = mean + jax.random.normal(key_x, mean.shape, mean.dtype)
    return rbm.sample_hidden(key_h, params, rbm.only(x, present))


def prior_run(key: PRNGKey, h: Hidden, params: Params, n_steps: int, present: RowsMask | None = None) -> Hidden:
    """`n_steps` rounds under the model alone: the negative phase of §5.1, and what `sample` draws from."""
    return jax.lax.fori_loop(0, n_steps, lambda i, s: prior_step(jax.random.fold_in(key, i), s, params, present), h)
