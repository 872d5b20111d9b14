"""§4 How good the method of a model's predictions is: its results for a few rows, compared with a better method.

The better method is enumeration if it is possible, and otherwise long Gibbs chains, two with other random numbers for
each row: half of their difference is an estimate of the error of the reference itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thurbo.latent.evidence import Buckets
from thurbo.predict import answers
from thurbo.predict.model import Query
from thurbo.predict.moments import How, features
from thurbo.predict.printed import Printed
from thurbo.table.columns.forms import Lines

LEVEL = 0.9  # of the intervals
GIBBS_DRAWS = 2000  # after as many burn-in rounds


@dataclass(frozen=True)
class Difference:
    """How far the results of one query are from those of the better method.

    Attributes
    ----------
    query : str
        "transform: hidden units", "transform: factors", "predict_proba" or "predict_interval".
    n : int
        Number of results that were compared.
    largest, mean : float
        Largest and mean absolute difference: of probabilities, of factor means, and for intervals between 0.9 and the
        probability of the 90 % interval by the better method.
    reference_error : float
        Mean standard error of the better method; 0 if it is exact.
    """

    query: str
    n: int
    largest: float
    mean: float
    reference_error: float


@dataclass(frozen=True)
class MethodCheck(Printed):
    """The method that "auto" uses, and its error for some rows; `print` it, or read its attributes.

    Attributes
    ----------
    method : str
        What `method="auto"` means in predictions of this model: "exact" or "mean-field".
    reference : str
        The better method: "exact" or "gibbs".
    rows : ndarray
        Labels of the rows that were compared; empty if the method is exact, and so has no error.
    differences : tuple of Difference
        One for each query; empty if the method is exact.
    coverage : float or None
        Mean probability of the 90 % intervals by the better method; None without columns of numbers.
    """

    method: str
    reference: str
    rows: np.ndarray
    differences: tuple[Difference, ...]
    coverage: float | None = None

    def _lines(self) -> list[tuple[str, str]]:
        if self.method == "exact":
            return [("method", "exact: sums over all states of the hidden units, so there is no error to check")]
        found = [("method", f"{self.method}; compared with {self.reference} for {len(self.rows)} rows")]
        for each in self.differences:
            known = f", reference known to {each.reference_error:.3f}" if self.reference == "gibbs" else ""
            found.append((each.query, f"largest difference {each.largest:.3f}, mean {each.mean:.3f}{known}"))
        if self.coverage is not None:
            found.append(("90 % intervals", f"contain the value with probability {self.coverage:.3f}"))
        return found


def check(query: Query, labels: np.ndarray, can_enumerate: bool) -> MethodCheck:
    """Compare the method of a query with a better one, in all of its rows."""
    if query.how.method == "exact":
        return MethodCheck("exact", "exact", labels[:0], ())
    hows = [replace(query.how, method="exact")]
    if not can_enumerate:
        hows = [replace(query.how, method="gibbs", n_draws=GIBBS_DRAWS, seed=seed) for seed in (0, 1)]
    better = [query.by(how) for how in hows]
    found = []
    for name, ask in _queries(query).items():
        found.append(_difference(name, ask(query), [ask(each) for each in better]))
    ends = _intervals(query)
    contents = [_contents(each, ends) for each in better]
    if ends:
        found.append(_difference("predict_interval", np.full_like(contents[0], LEVEL), contents))
    coverage = float(np.mean(contents)) if ends else None
    return MethodCheck(query.how.method, hows[0].method, labels, tuple(found), coverage)


def _difference(query: str, own: np.ndarray, better: list[np.ndarray]) -> Difference:
    distance = np.abs(own - np.mean(better, axis=0))
    error = 0.5 * np.abs(better[0] - better[-1]).mean()
    return Difference(query, distance.size, float(distance.max()), float(distance.mean()), float(error))


def _queries(query: Query) -> dict[str, Callable[[Query], np.ndarray]]:
    """The queries that give an array, by name; those that this model has."""
    schema, found = query.schema, {}
    if query.params.n_hidden:
        found["transform: hidden units"] = lambda asked: _features(asked, "hidden")
    if query.params.n_factors:
        found["transform: factors"] = lambda asked: _features(asked, "factors")
    if any(schema[name].labels and not schema[name].is_listed for name in schema.modelled):
        found["predict_proba"] = answers.all_probabilities
    return found


def _features(query: Query, which: str) -> np.ndarray:
    evidence: Buckets = query.evidence
    how: How = query.how
    return evidence.by_chunks(lambda rows: getattr(features(query.params, rows, how), which))


def _lines(query: Query) -> Lines:
    n_rows = query.evidence.n_rows
    return Lines(np.arange(n_rows), np.zeros(n_rows, np.int64))


def _intervals(query: Query) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Both ends of the interval of every row, in standard units, for each column of numbers that all rows have."""
    schema, found, tail = query.schema, {}, 0.5 * (1.0 - LEVEL)
    for name in schema.modelled:
        if query.blocks[name].family == "measured" and not schema[name].is_listed:
            answer = query.about(name, _lines(query)).number()
            found[name] = (answer.quantile(tail), answer.quantile(1.0 - tail))
    return found


def _contents(query: Query, ends: dict[str, tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """The probability of each interval, [column, row]."""
    found: list[Any] = [query.about(name, _lines(query)).mass(*both) for name, both in ends.items()]
    return np.asarray(found, np.float64)
