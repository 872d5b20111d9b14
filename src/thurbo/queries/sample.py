"""A.1.3 New rows from the model: h from P(h), then x given h, then each column reads its answer off x.

Exact where hidden units are few enough to enumerate; otherwise, or given evidence, one long Gibbs chain for each row
drawn. Representative rows, one basin of attraction each, come from the tempered sampler (inference/modes.py).
"""

from __future__ import annotations

from functools import partial

import jax
import numpy as np

from thurbo import rbm
from thurbo._typing import Float, Hidden, PRNGKey, Rows
from thurbo.evidence import Evidence
from thurbo.inference import gibbs, modes
from thurbo.inference.likelihood import hidden_states
from thurbo.rbm import Params

EXACT_HIDDEN = 12
SMALLEST_DRAW = 64


def draw(key: PRNGKey, params: Params, n_rows: int) -> np.ndarray:
    """x ~ P(x), [row, site]; drawn in powers of two, so that asking for one row more compiles nothing."""
    bucket = max(SMALLEST_DRAW, 1 << max(n_rows - 1, 0).bit_length())
    return np.asarray(latent(key, params, bucket), np.float64)[:n_rows]


def draw_given(key: PRNGKey, params: Params, evidence: Evidence, n_rows: int) -> np.ndarray:
    """x ~ P(x | e) for the evidence of one row, as often as asked: [row, site]."""
    bucket = max(SMALLEST_DRAW, 1 << max(n_rows - 1, 0).bit_length())
    many = evidence.rows(np.zeros(bucket, np.int32))
    return np.asarray(_latent_given(key, params, many), np.float64)[:n_rows]


def draw_modes(key: PRNGKey, params: Params, evidence: Evidence | None, n_rows: int) -> np.ndarray:
    """Representative x, A.1.3, inside the evidence of one row if there is any: [row, site]."""
    bucket = max(SMALLEST_DRAW, 1 << max(n_rows - 1, 0).bit_length())
    many = None if evidence is None else evidence.rows(np.zeros(bucket, np.int32))
    return np.asarray(_seek(key, params, bucket, many)[0], np.float64)[:n_rows]


_seek = jax.jit(modes.seek, static_argnames=("n_rows",))


@partial(jax.jit, static_argnames=("n_steps",))
def _latent_given(key: PRNGKey, params: Params, evidence: Evidence, n_steps: int = 500) -> Rows:
    """One chain a row, from hidden units at their mean rates."""
    given = gibbs.clamp(params, evidence)
    rate = jax.numpy.broadcast_to(params.hidden_mean, (evidence.n_rows, params.n_hidden))
    state = gibbs.start(jax.random.fold_in(key, 0), given, rate)
    return gibbs.run(jax.random.fold_in(key, 1), state, given, n_steps).x


@partial(jax.jit, static_argnames=("n_rows", "n_steps"))
def latent(key: PRNGKey, params: Params, n_rows: int, n_steps: int = 500) -> Float[jax.Array, "row site"]:
    """x ~ P(x): `n_rows` draws of all sites."""
    key_h, key_run, key_x, key_z = jax.random.split(key, 4)
    dtype = params.weights.dtype
    h = hidden(key_h, key_run, params, n_rows, n_steps)
    z = jax.random.normal(key_z, (n_rows, params.n_factors), dtype)
    mean = rbm.latent_mean(params, h) + rbm.factor_shift(params, z)
    return mean + jax.random.normal(key_x, mean.shape, dtype)


def hidden(key_h: PRNGKey, key_run: PRNGKey, params: Params, n_rows: int, n_steps: int) -> Hidden:
    """h ~ P(h) ∝ Ω(h), independent draws: exact for few hidden units, else the ends of so many chains."""
    dtype = params.weights.dtype
    if params.n_hidden <= EXACT_HIDDEN:
        states = hidden_states(params.n_hidden, 0, dtype).h
        omega = rbm.log_omega(params, states)
        return states[jax.random.categorical(key_h, omega, shape=(n_rows,))]
    shape = (n_rows, params.n_hidden)
    h = (jax.random.uniform(key_h, shape, dtype) < params.hidden_mean[None, :]).astype(dtype)
    return gibbs.prior_run(key_run, h, params, n_steps)
