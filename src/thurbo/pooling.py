"""§6 Multiple imputation: pool the analyses of completed tables into one estimate with a confidence interval.

Idea: Rubin's rules. The variance between completed tables measures the uncertainty due to missing answers, and is
added to the variance within each analysis.
Guarantees the rules of Rubin (1987), with the degrees of freedom of Barnard and Rubin (1999) if `n` is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import ThurboError
from thurbo.table.columns.values import blanked
from thurbo.table.io import frames
from thurbo.table.io.frames import as_table
from thurbo.table.io.read_write import changed

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Pooled:
    """A pooled estimate: numbers, or arrays if there are several quantities.

    `variance` is `within` + (1 + 1/m) `between`; `interval` holds the lower and upper ends, by Student's t with `df`
    degrees of freedom; `missing_information` is the fraction of information lost to missing cells.
    """

    estimate: Any
    variance: Any
    within: Any
    between: Any
    df: Any
    missing_information: Any
    interval: tuple[Any, Any]
    level: float
    n_draws: int

    @property
    def standard_error(self) -> Any:
        """√variance."""
        return _plain(np.sqrt(self.variance))

    def __str__(self) -> str:
        named = (self.estimate, self.standard_error, *self.interval, self.df, self.missing_information)
        lines = [f"Pooled over {self.n_draws} completed tables, intervals at {self.level:.0%}"]
        for estimate, error, lower, upper, df, share in np.stack(np.broadcast_arrays(*named), axis=-1).reshape(-1, 6):
            lines.append(
                f"  {estimate:.4g} ± {error:.2g}, from {lower:.4g} to {upper:.4g}"
                f"  ({df:.1f} degrees of freedom, {share:.0%} of the information missing)"
            )
        return "\n".join(lines)

    __repr__ = __str__


def pool(
    estimates: Any, variances: Any, n: float | None = None, *, n_parameters: int = 1, level: float = 0.95
) -> Pooled:
    """Pool the estimates of several completed tables by Rubin's rules.

    Parameters
    ----------
    estimates, variances : array-like of shape (n_tables,) or (n_tables, n_quantities)
        Estimates from each completed table, and their squared standard errors.
    n : float, optional
        Number of rows of the analysis. With it, degrees of freedom are those of small samples (Barnard and Rubin
        1999); without it, those of large samples (Rubin 1987).
    n_parameters : int, default 1
        Number of parameters of the analysis; used only with `n`.
    level : float, default 0.95
        Confidence level.

    Returns
    -------
    Pooled
        `estimate`, `standard_error`, `interval`, `df`, `missing_information` and the variance components.

    Raises
    ------
    ThurboError
        If there are fewer than two tables, or a variance is negative.

    Examples
    --------
    >>> found = tb.pool([1.0, 1.2, 0.9], [0.04, 0.05, 0.04])
    >>> round(found.estimate, 3), round(found.standard_error, 3)
    (1.033, 0.273)
    """
    from scipy.stats import t

    value, variance = _numbers(estimates, "estimates"), _numbers(variances, "variances")
    if value.ndim == 0 or value.shape != variance.shape:
        problem = f"estimates and variances have shapes {value.shape} and {variance.shape}"
        raise ThurboError(f"{problem}; give one of each per completed table")
    m = len(value)
    if m < 2:
        raise ThurboError(f"the variance between tables needs more than {m} completed table; give at least 2")
    if (variance < 0).any():
        table = int(np.argwhere(variance < 0)[0][0])
        raise ThurboError(f"table {table}: a variance is negative; give squared standard errors")
    if not 0 < level < 1:
        raise ThurboError(f"level={level} is not between 0 and 1; give for example 0.95")
    complete = np.inf if n is None else float(n) - n_parameters
    if not complete > 0:
        problem = f"n={n} is not larger than n_parameters={n_parameters}"
        raise ThurboError(f"{problem}; give the number of rows of the analysis")
    within, between = variance.mean(axis=0), value.var(axis=0, ddof=1)
    extra = (1 + 1 / m) * between
    total = within + extra
    share = np.divide(extra, total, out=np.zeros_like(total), where=total > 0)  # of the variance due to missing cells
    observed = np.inf if np.isinf(complete) else (complete + 1) / (complete + 3) * complete * (1 - share)
    with np.errstate(divide="ignore"):
        large_sample = np.where(share > 0, (m - 1) / share**2, np.inf)
        df = 1 / (1 / large_sample + 1 / np.asarray(observed, float))  # either may be infinite
    half = t.ppf((1 + level) / 2, df) * np.sqrt(total)
    middle = value.mean(axis=0)
    # With the large-sample degrees of freedom, so that it is 0 without missing cells in a small table too.
    lost = share + (1 - share) * np.where(share > 0, 2 / (large_sample + 3), 0.0)
    ends = _plain(middle - half), _plain(middle + half)
    middle, total, within, between, df, lost = map(_plain, (middle, total, within, between, df, lost))
    return Pooled(middle, total, within, between, df, lost, ends, level, m)


def _plain(value: Any) -> Any:
    """A float for one quantity, an array for several."""
    return float(value) if np.ndim(value) == 0 else value


def stack(draws: Sequence[Any], incomplete: Any) -> Any:
    """Stack multiple imputations below the incomplete table, in the long format that `mice::as.mids` reads in R.

    Parameters
    ----------
    draws : sequence of tables
        The completed tables that `impute_draws` returns.
    incomplete : table
        The table that was imputed.

    Returns
    -------
    table
        In the library of `incomplete`. Columns `.imp` (0 for the incomplete table, then 1, 2, ...) and `.id` (row
        number, from 1) come first. Cells that the draws changed, such as codes declared missing, are missing in the
        part with `.imp` 0. `tb.write` stores the table with the column names that SPSS and Stata expect.

    Raises
    ------
    ThurboError
        If a draw has other rows or columns than the incomplete table.

    Examples
    --------
    >>> stacked = tb.stack([{"age": [30, 40]}, {"age": [30, 45]}], {"age": [30, None]})
    >>> stacked[".imp"].tolist(), stacked["age"].tolist()
    ([0, 0, 1, 1, 2, 2], [30.0, nan, 30.0, 40.0, 30.0, 45.0])
    """
    source = as_table(incomplete)
    tables = [as_table(draw) for draw in draws]
    if not tables:
        raise ThurboError("there is no completed table; give the list that impute_draws returns")
    for number, draw in enumerate(tables, 1):
        if draw.names != source.names or draw.n_rows != source.n_rows:
            problem = f"draw {number} has {draw.n_rows} rows and {len(draw.names)} columns"
            wanted = f"the incomplete table has {source.n_rows} and {len(source.names)}"
            raise ThurboError(f"{problem}, {wanted}, or the names differ; give the table that was imputed")
    for name in (".imp", ".id"):
        if name in source:
            raise ThurboError(f'column "{name}": the table already has this column, but R needs the name; rename it')
    columns: dict[str, NDArray[Any]] = {
        ".imp": np.repeat(np.arange(len(tables) + 1), source.n_rows),
        ".id": np.tile(np.arange(1, source.n_rows + 1), len(tables) + 1),
    }
    for name in source.names:
        before, after = source.cells(name), [draw.cells(name) for draw in tables]
        gap = before.missing | np.any([changed(before, each) & ~each.missing for each in after], axis=0)
        parts = [blanked(before.values, gap), *(blanked(each.values, each.missing) for each in after)]
        kinds = {part.dtype.kind for part in parts}
        if kinds <= set("biuf") or kinds <= set("mM"):
            columns[name] = np.concatenate(parts)
        else:  # numbers stay numbers beside texts; arrays in polars cells become lists
            mixed = [cell for part in parts for cell in part.tolist()]
            lists = (cell.tolist() if isinstance(cell, np.ndarray) else cell for cell in mixed)
            columns[name] = np.fromiter(lists, object, len(mixed))
    return frames.like(source, columns, rows=np.arange(len(columns[".imp"])))


def _numbers(values: Any, name: str) -> FloatArray:
    try:
        numbers = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise ThurboError(f"{name} are not all numbers; give one number per completed table") from None
    if not np.isfinite(numbers).all():
        table = int(np.argwhere(~np.isfinite(numbers))[0][0])
        raise ThurboError(f"table {table}: one of the {name} is not finite; remove quantities that failed")
    return numbers
