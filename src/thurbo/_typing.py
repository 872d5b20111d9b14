"""Array types with named dimensions (jaxtyping); checked at run time in the test suite only.

Dimensions: row (a row of the table), slot (a position in a row's list of sites), site, hidden, factor, cut.
Without jaxtyping the names are plain arrays, and shapes are documentation only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jax import Array

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, Key, Shaped
else:
    try:
        from jaxtyping import Bool, Float, Int, Key, Shaped
    except ModuleNotFoundError:

        class _Unchecked:
            def __getitem__(self, item: Any) -> Any:
                return Array

        Bool = Float = Int = Key = Shaped = _Unchecked()

PRNGKey = Key[Array, ""]

Rows = Float[Array, "row slot"]  # a number for each slot of each row
RowsMask = Bool[Array, "row slot"]  # what is known without parameters may be asked on the host as well
if not TYPE_CHECKING and hasattr(RowsMask, "dims"):
    RowsMask = Bool[Array | np.ndarray, "row slot"]
RowsCode = Int[Array, "row slot"]
PerRow = Float[Array, " row"]
Hidden = Float[Array, "row hidden"]  # h, or probabilities of h
Chains = Float[Array, "chain hidden"]  # states of the negative phase
Factors = Float[Array, "row factor"]

__all__ = [
    "Array", "Bool", "Chains", "Factors", "Float", "Hidden", "Int", "Key", "PRNGKey", "PerRow", "Rows", "RowsCode",
    "RowsMask", "Shaped",
]  # fmt: skip
