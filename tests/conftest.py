"""Every test runs with shapes checked, float64 available, and no silent promotion of dtypes or ranks."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# The JAX side carries shapes in its annotations; here they are promises that are kept, or a test fails.
CHECKED = ["rbm", "truncnorm", "constraints", "evidence", "packing", "inference", "learning", "queries"]
install_import_hook([f"thurbo.{name}" for name in CHECKED], "beartype.beartype")
