"""A.1.3 New rows from the model: h from P(h), then x given h, then each column reads its answer off x.

Exact where hidden units are few enough to enumerate; otherwise one long Gibbs chain for each row drawn.
"""

from __future__ import annotations

from functools import partial

import jax
import numpy as np

from thurbo import rbm
from thurbo._typing import Float, PRNGKey
from thurbo.inference import gibbs
from thurbo.inference.likelihood import hidden_states
from thurbo.rbm import Params

EXACT_HIDDEN = 12
SMALLEST_DRAW = 64


def draw(key: PRNGKey, params: Params, n_rows: int) -> np.ndarray:
    """x ~ P(x), [row, site]; drawn in powers of two, so that asking for one row more compiles nothing."""
    bucket = max(SMALLEST_DRAW, 1 << max(n_rows - 1, 0).bit_length())
    return np.asarray(latent(key, params, bucket), np.float64)[:n_rows]


@partial(jax.jit, static_argnames=("n_rows", "n_steps"))
def latent(key: PRNGKey, params: Params, n_rows: int, n_steps: int = 500) -> Float[jax.Array, "row site"]:
    """x ~ P(x): `n_rows` draws of all sites."""
    key_h, key_run, key_x, key_z = jax.random.split(key, 4)
    dtype = params.weights.dtype
    if params.n_hidden <= EXACT_HIDDEN:
        states = hidden_states(params.n_hidden, 0, dtype).h
        omega = rbm.log_omega(params, states)
        h = states[jax.random.categorical(key_h, omega, shape=(n_rows,))]
    else:
        shape = (n_rows, params.n_hidden)
        h = (jax.random.uniform(key_h, shape, dtype) < params.hidden_mean[None, :]).astype(dtype)
        h = gibbs.prior_run(key_run, h, params, n_steps)
    z = jax.random.normal(key_z, (n_rows, params.n_factors), dtype)
    mean = rbm.latent_mean(params, h) + rbm.factor_shift(params, z)
    return mean + jax.random.normal(key_x, mean.shape, dtype)
