"""§6 Predictions in the user's own terms: probabilities of labels, cells of a table, new rows.

Where the numbers of `predict` and `sample` meet the columns that know what they mean.
"""

from __future__ import annotations

import numpy as np

from thurbo.columns import Column, LevelColumn, MeasuredColumn
from thurbo.errors import ThurboError
from thurbo.evidence import Evidence
from thurbo.queries import predict
from thurbo.rbm import Params
from thurbo.schema import Schema


def _target(schema: Schema, name: str) -> predict.Target:
    where = schema.slices[name]
    own = np.zeros(schema.n_sites, bool)
    own[where] = True
    return predict.target(where.start, own)


def _column(schema: Schema, name: str) -> Column:
    column = schema[name]
    if not column.sites:
        raise ThurboError(f'column "{name}" is kept out of the model ({column.describe()}); predict another one')
    return column


def _levels(schema: Schema, name: str) -> LevelColumn:
    column = _column(schema, name)
    if not isinstance(column, LevelColumn):
        raise ThurboError(f'column "{name}" is a number and has no labels; use predict for its mean or median')
    return column


def probabilities(params: Params, schema: Schema, evidence: Evidence, name: str, how: predict.How) -> np.ndarray:
    """P(label | all other cells of the row): [row, label]."""
    column = _levels(schema, name)
    return predict.level_probabilities(params, evidence, _target(schema, name), len(column.labels), how)


def cells(
    params: Params, schema: Schema, evidence: Evidence, name: str, how: predict.How, statistic: str
) -> np.ndarray:
    """One value per row for a column, given all its other cells."""
    if statistic not in {"auto", "mode", "median", "mean"}:
        raise ThurboError(f'statistic "{statistic}" is not one of auto, mode, median, mean')
    column = _column(schema, name)
    if isinstance(column, LevelColumn):
        return _label(column, probabilities(params, schema, evidence, name, how), statistic)
    assert isinstance(column, MeasuredColumn)
    found = predict.measured(params, evidence, _target(schema, name), how)
    if statistic == "mode":
        return column.to_user(found.mode())
    if statistic in {"auto", "median"}:
        return column.to_user(found.quantile(0.5))
    return found.average(column.to_user)


def _label(column: LevelColumn, chances: np.ndarray, statistic: str) -> np.ndarray:
    """Mode, median, or mean of a label; the mean of labels that are no numbers is their median."""
    numeric = all(isinstance(label, (int, float)) and not isinstance(label, bool) for label in column.labels)
    if statistic == "mean" and numeric:
        return chances @ np.asarray(column.labels, np.float64)
    if statistic in {"auto", "mode"}:
        codes = chances.argmax(axis=1)
    else:
        codes = (np.cumsum(chances, axis=1) < 0.5).sum(axis=1).clip(max=chances.shape[1] - 1)
    return column.from_codes(codes)


def from_latent(schema: Schema, params: Params, x: np.ndarray) -> dict[str, np.ndarray]:
    """Cells of every column, read off latent values [row, site]."""
    cuts, scale = np.asarray(params.gauge.cuts, np.float64), np.asarray(params.gauge.scale, np.float64)
    return {
        name: schema[name].decode(x[:, where], cuts[where], scale[where])
        for name, where in schema.slices.items()
        if schema[name].sites
    }
