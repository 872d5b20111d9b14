"""§6 After imputation: an analysis of every completed table becomes one estimate with an honest interval.

Idea: Rubin's rules. What the completed tables disagree about is what the missing answers left open, and is added to
the variance that each analysis states of itself.
Promises the rules of Rubin (1987), with the degrees of freedom of Barnard and Rubin (1999) where `n` is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.cells import Cells, frozen
from thurbo.errors import ThurboError
from thurbo.io import frames

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Pooled:
    """One estimate from several completed tables: numbers, or arrays where several quantities were estimated.

    `variance` is `within` + (1 + 1/m) `between`; `interval` its lower and upper ends by Student's t with `df` degrees
    of freedom; `missing_information` the share of the information about the quantity that the missing cells took.
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
        return np.sqrt(self.variance)

    def __str__(self) -> str:
        named = (self.estimate, self.standard_error, *self.interval, self.df, self.missing_information)
        lines = [f"Pooled over {self.n_draws} completed tables, intervals at {self.level:.0%}"]
        for estimate, error, lower, upper, df, share in np.stack(np.broadcast_arrays(*named), axis=-1).reshape(-1, 6):
            lines.append(
                f"  {estimate:.4g} ± {error:.2g}, from {lower:.4g} to {upper:.4g}"
                f"  ({df:.1f} degrees of freedom, {share:.0%} of the information missing)"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)


def pool(
    estimates: Any, variances: Any, n: float | None = None, *, n_parameters: int = 1, level: float = 0.95
) -> Pooled:
    """Rubin's rules: pool the `estimates` of each completed table and their `variances` (squared standard errors).

    Both are [table], or [table, quantity]. With `n` rows and `n_parameters` estimated together, degrees of freedom are
    never more than complete data would have (Barnard and Rubin 1999); without, those of large samples (Rubin 1987).
    """
    value, variance = _numbers(estimates, "estimates"), _numbers(variances, "variances")
    if value.ndim == 0 or value.shape != variance.shape:
        problem = f"estimates and variances have shapes {value.shape} and {variance.shape}"
        raise ThurboError(f"{problem}; give one of each for every completed table")
    m = len(value)
    if m < 2:
        raise ThurboError(f"{m} completed table cannot show how much is left open; give at least 2")
    if (variance < 0).any():
        table = int(np.argwhere(variance < 0)[0][0])
        raise ThurboError(f"table {table}: a variance is negative; give squared standard errors")
    if not 0 < level < 1:
        raise ThurboError(f"level={level} is not between 0 and 1; give for instance 0.95")
    complete = np.inf if n is None else float(n) - n_parameters
    if not complete > 0:
        raise ThurboError(f"{n} rows are not more than the {n_parameters} parameters; give all rows of the analysis")
    within, between = variance.mean(axis=0), value.var(axis=0, ddof=1)
    extra = (1 + 1 / m) * between
    total = within + extra
    share = np.divide(extra, total, out=np.zeros_like(total), where=total > 0)  # of the variance, by missing cells
    with np.errstate(divide="ignore"):
        large_sample = np.where(share > 0, (m - 1) / share**2, np.inf)
    observed = np.inf if np.isinf(complete) else (complete + 1) / (complete + 3) * complete * (1 - share)
    df = _parallel(large_sample, observed)
    half = _quantile(df, level) * np.sqrt(total)
    middle = value.mean(axis=0)
    # By the degrees of freedom of large samples: a small table without a gap misses nothing.
    lost = share + (1 - share) * np.where(share > 0, 2 / (large_sample + 3), 0.0)
    return Pooled(
        estimate=_plain(middle),
        variance=_plain(total),
        within=_plain(within),
        between=_plain(between),
        df=_plain(df),
        missing_information=_plain(lost),
        interval=(_plain(middle - half), _plain(middle + half)),
        level=level,
        n_draws=m,
    )


def _plain(value: Any) -> Any:
    """A number where there is one quantity, an array where there are several."""
    return float(value) if np.ndim(value) == 0 else value


def stack(draws: Sequence[Any], incomplete: Any) -> Any:
    """Completed tables below the incomplete one, in the long form that `mice::as.mids` reads in R.

    Columns `.imp` (0 for the incomplete table, then 1, 2, …) and `.id` (the row, from 1) come first. A cell that the
    draws changed, such as a code that the schema counts as missing, is a gap in the part with `.imp` 0. The table is of
    the library of `incomplete`; `tb.write` takes it to a file, under the names that SPSS and Stata give the two
    (`Imputation_` and `Row_`, `_mi_m` and `_mi_id`). `thurbo impute --draws` writes the same.
    """
    source = frames.table(incomplete)
    tables = [frames.table(draw) for draw in draws]
    if not tables:
        raise ThurboError("there is no completed table; give the list that impute_draws returns")
    for number, draw in enumerate(tables, 1):
        if draw.names != source.names or draw.n_rows != source.n_rows:
            problem = f"draw {number} has {draw.n_rows} rows of {len(draw.names)} columns"
            wanted = f"the incomplete table {source.n_rows} of {len(source.names)}"
            raise ThurboError(f"{problem} and {wanted}, or other names; give the table that was imputed")
    for name in (".imp", ".id"):
        if name in source:
            raise ThurboError(f'column "{name}": the table has one already; rename it, since R needs the name')
    columns: dict[str, NDArray[Any]] = {
        ".imp": np.repeat(np.arange(len(tables) + 1), source.n_rows),
        ".id": np.tile(np.arange(1, source.n_rows + 1), len(tables) + 1),
    }
    for name in source.names:
        before, after = source.cells(name), [draw.cells(name) for draw in tables]
        gap = before.missing.copy()
        for cells in after:
            gap[_changed(before, cells)] = True
        parts = [_with_gaps(before.values, gap), *(_with_gaps(each.values, each.missing) for each in after)]
        columns[name] = _joined(parts)
    return frames.build(source, columns, rows=np.arange(len(columns[".imp"])))


def _changed(before: Cells, after: Cells) -> NDArray[np.intp]:
    """Rows in which both say something, and not the same."""
    rows = np.flatnonzero(~before.missing & ~after.missing)
    if before.values.dtype.kind in "biufmM" and after.values.dtype.kind in "biufmM":
        return rows[before.values[rows] != after.values[rows]]
    pairs = zip(rows, before.values[rows].tolist(), after.values[rows].tolist(), strict=True)
    return np.asarray([row for row, old, new in pairs if frozen(old) != frozen(new)], np.intp)


def _with_gaps(values: NDArray[Any], gap: NDArray[np.bool_]) -> NDArray[Any]:
    if not gap.any():
        return values
    filled = values.astype(np.float64 if values.dtype.kind in "iuf" else object)
    filled[gap] = np.nan if filled.dtype.kind == "f" else None
    return filled


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Columns below one another, without turning numbers into text; lists, which polars gives as arrays, as lists."""
    if all(part.dtype.kind in "biuf" for part in parts) or all(part.dtype.kind in "mM" for part in parts):
        return np.concatenate(parts)
    cells = [cell.tolist() if isinstance(cell, np.ndarray) else cell for part in parts for cell in part.tolist()]
    return np.fromiter(cells, object, len(cells))


def _parallel(first: Any, second: Any) -> Any:
    """first · second / (first + second), either of which may be infinite."""
    with np.errstate(divide="ignore"):
        return 1 / (1 / np.asarray(first, float) + 1 / np.asarray(second, float))


def _quantile(df: Any, level: float) -> Any:
    """How many standard errors a two-sided interval reaches, by Student's t."""
    from scipy.stats import norm, t

    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(df), norm.ppf((1 + level) / 2), t.ppf((1 + level) / 2, np.where(np.isinf(df), 1, df)))


def _numbers(values: Any, name: str) -> FloatArray:
    try:
        numbers = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise ThurboError(f"{name} are not all numbers; give one for each completed table") from None
    if not np.isfinite(numbers).all():
        table = int(np.argwhere(~np.isfinite(numbers))[0][0])
        raise ThurboError(f"table {table}: one of the {name} is not finite; leave out a quantity that failed")
    return numbers
