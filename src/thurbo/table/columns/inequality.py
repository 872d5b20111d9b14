"""§3, Eq. (5) in general form: a cell holds inequalities b ≤ A x ≤ c on sites of any columns.

Use it for evidence that no other data type can express. Sites have the names of `Schema.site_names`.
The column has no sites of its own. Utilities and levels are in latent units, measured numbers in the user's units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from thurbo.table.columns.cells import Block, Cells, Family, FloatArray, LinearRow
from thurbo.table.columns.column import Column
from thurbo.table.columns.values import Refused, collection, plain, show

_AT_LEAST, _AT_MOST = (">=", ">", "≥"), ("<=", "<", "≤")
_EXAMPLE = 'write [({"issues.tax": 1, "issues.health": -1}, ">=", 0)]'


@dataclass(frozen=True)
class Inequality(Column):
    """Linear inequalities on sites, Eq. (5): b ≤ A x ≤ c, any number of them in a cell.

    Parameters
    ----------
    unseen : {"error", "missing"}, default="error"
        What to do with a cell that is not a list of inequalities.
    missing : dict or list, optional
        Values that mean "no answer".
    recode : dict, optional
        Not used.

    Notes
    -----
    A cell is a list of ({site: coefficient}, sign, number). The sign is ">=" or "<=", or "in" with two numbers:
    ({"a": 1, "b": 1}, "in", (0, 2)). A site of a Continuous column without transform is in the user's units; other
    sites are in latent units, in which residuals have unit variance.

    Examples
    --------
    >>> schema = tb.Schema({"now": tb.Continuous(), "before": tb.Continuous(), "change": tb.Inequality()})
    >>> cell = [({"now": 1, "before": -1}, ">=", 0)]
    >>> schema = schema.fit({"now": [3, None], "before": [2, 4], "change": [None, cell]})
    """

    kind: ClassVar[str] = "inequality"
    family: ClassVar[Family] = "none"
    sites, n_cuts = (), 0

    def encode(self, cells: Cells) -> Block:
        """Cells as rows of b ≤ A x ≤ c, Eq. (5)."""
        linear: list[LinearRow] = []
        for row in np.flatnonzero(~cells.missing):
            try:
                linear += [LinearRow(int(row), *statement) for statement in _statements(cells.values[row])]
            except Refused as refused:
                if self.unseen == "error":
                    raise cells.error(int(row), refused.problem, refused.remedy) from None
        return replace(self.silent(len(cells)), linear=tuple(linear), family="measured")

    def decode(self, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> NDArray[Any]:
        return np.full(len(x), None, object)

    def describe(self) -> str:
        return "inequalities between sites"


def _statements(value: Any) -> list[tuple[dict[str, float], float, float]]:
    listed = collection(value)
    if listed is None or isinstance(value, (set, frozenset)):
        raise Refused(f"{show(value)} is not a list of inequalities", _EXAMPLE)
    if len(listed) == 3 and isinstance(listed[0], Mapping):
        listed = (listed,)  # one inequality without a list
    return [_statement(entry) for entry in listed]


def _statement(entry: Any) -> tuple[dict[str, float], float, float]:
    parts = collection(entry)
    if parts is None or len(parts) != 3 or not isinstance(parts[0], Mapping):
        raise Refused(f"{show(entry)} is not an inequality", _EXAMPLE)
    coefficients, sign, bound = parts
    found = {str(site): _number(value, "coefficient") for site, value in coefficients.items()}
    found = {site: value for site, value in found.items() if value != 0}
    if not found:
        raise Refused(f"{show(str(entry))} names no site", _EXAMPLE)
    if sign in _AT_LEAST:
        return found, _number(bound, "bound"), np.inf
    if sign in _AT_MOST:
        return found, -np.inf, _number(bound, "bound")
    ends = collection(bound)
    if sign == "in" and ends is not None and len(ends) == 2:
        lower, upper = (_number(end, "bound") for end in ends)
        if lower < upper:
            return found, lower, upper
        problem = f"the interval from {lower:g} to {upper:g} is empty or a point"
        raise Refused(problem, "give a smaller and a larger end")
    remedy = 'use ">=", "<=", or "in" with two numbers; equations are not supported'
    raise Refused(f"the sign {show(sign)} is not valid", remedy)


def _number(value: Any, what: str) -> float:
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, Real) or not np.isfinite(float(value)):
        raise Refused(f"the {what} {show(value)} is not a finite number", "correct it")
    return float(value)
