"""§6 Predictions in the user's own terms: probabilities of labels, cells of a table, new rows.

Where the numbers of `predict` and `sample` meet the columns that know what they mean.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from thurbo.columns import Column
from thurbo.errors import ThurboError
from thurbo.evidence import Evidence, Unobserved
from thurbo.queries import predict
from thurbo.rbm import Params
from thurbo.schema import Schema


def without(evidence: Evidence, where: slice, n_sites: int, unobserved: Unobserved) -> Evidence:
    """The evidence of every row but for one column's own cell."""
    own = np.zeros((1, n_sites), bool)
    own[:, where] = True
    slots = jnp.broadcast_to(jnp.asarray(own), (evidence.n_rows, n_sites))
    return evidence.hide(slots, unobserved)


def _column(schema: Schema, name: str) -> Column:
    column = schema[name]
    if not column.sites:
        raise ThurboError(f'column "{name}" is kept out of the model ({column.describe()}); predict another one')
    return column


def probabilities(
    params: Params, schema: Schema, evidence: Evidence, name: str, unobserved: Unobserved, how: predict.How
) -> np.ndarray:
    """P(label | all other cells of the row): [row, label]."""
    column, where = _column(schema, name), schema.slices[name]
    if column.family != "levels":
        raise ThurboError(f'column "{name}" is a number and has no labels; use predict for its mean or median')
    rest = without(evidence, where, schema.n_sites, unobserved)
    return predict.level_probabilities(params, rest, where.start, len(column.labels), how)


def cells(
    params: Params,
    schema: Schema,
    evidence: Evidence,
    name: str,
    unobserved: Unobserved,
    how: predict.How,
    statistic: str,
) -> np.ndarray:
    """One value per row for a column, given all its other cells."""
    if statistic not in {"auto", "mode", "median", "mean"}:
        raise ThurboError(f'statistic "{statistic}" is not one of auto, mode, median, mean')
    column, where = _column(schema, name), schema.slices[name]
    if column.family == "levels":
        chances = probabilities(params, schema, evidence, name, unobserved, how)
        return _label(column, chances, statistic)
    rest = without(evidence, where, schema.n_sites, unobserved)
    found = predict.measured(params, rest, where.start, how)
    if statistic == "mode":
        return column.to_user(found.mode())  # type: ignore[attr-defined]
    if statistic in {"auto", "median"}:
        return column.to_user(found.quantile(0.5))  # type: ignore[attr-defined]
    steps = np.diff(found.distribution, axis=1)
    middle = 0.5 * (found.grid[:, 1:] + found.grid[:, :-1])
    values = column.to_user(middle.ravel()).reshape(middle.shape)  # type: ignore[attr-defined]
    return (steps * values).sum(axis=1) / steps.sum(axis=1)


def _label(column: Column, chances: np.ndarray, statistic: str) -> np.ndarray:
    """Mode, median, or mean of a label; the mean of labels that are no numbers is their median."""
    numeric = all(isinstance(label, (int, float)) and not isinstance(label, bool) for label in column.labels)
    if statistic == "mean" and numeric:
        return chances @ np.asarray(column.labels, np.float64)
    if statistic in {"auto", "mode"}:
        codes = chances.argmax(axis=1)
    else:
        codes = (np.cumsum(chances, axis=1) < 0.5).sum(axis=1).clip(max=chances.shape[1] - 1)
    return column.from_codes(codes)  # type: ignore[attr-defined]


def table_from_latent(schema: Schema, params: Params, x: np.ndarray) -> Any:
    """Rows drawn from the model, read by each column: a pandas frame where pandas is installed, else a dict."""
    cuts, scale = np.asarray(params.gauge.cuts, np.float64), np.asarray(params.gauge.scale, np.float64)
    found = {}
    for name in schema.modelled:
        where = schema.slices[name]
        found[name] = schema[name].decode(x[:, where], cuts[where], scale[where])
    return found
