"""Every test runs with shapes checked, float64 available, and no silent promotion of dtypes or ranks."""

import gc
import os
from collections.abc import Iterator

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import pytest
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# The JAX side carries shapes in its annotations; here they are promises that are kept, or a test fails.
CHECKED = ["rbm", "normal", "constraints", "evidence", "inference", "learning", "queries"]
install_import_hook([f"thurbo.{name}" for name in CHECKED], "beartype.beartype")


@pytest.fixture(scope="module", autouse=True)
def _forget_programs() -> Iterator[None]:
    """Compiled programs of one file are no use to the next, and thousands of them fill memory."""
    yield
    jax.clear_caches()
    gc.collect()
