"""§6 Predictions in the user's own terms: probabilities of labels, cells of a table, new rows.

Where the numbers of `predict` and `sample` meet the columns that know what they mean.
"""

from __future__ import annotations

import numpy as np

from thurbo.columns import Banded, Categorical, Column, LevelColumn, MeasuredColumn, UtilityColumn
from thurbo.columns.labels import natural
from thurbo.errors import ThurboError
from thurbo.evidence.buckets import Packed
from thurbo.queries import predict
from thurbo.rbm import Params
from thurbo.schema import Schema


def target(schema: Schema, name: str) -> predict.Target:
    """The question about a column's first site, with all its sites out of the evidence."""
    where = schema.slices[name]
    own = np.zeros(schema.n_sites, bool)
    own[where] = True
    return predict.target(where.start, own)


def _column(schema: Schema, name: str) -> Column:
    column = schema[name]
    if not column.sites:
        raise ThurboError(f'column "{name}" is kept out of the model ({column.describe()}); predict another one')
    if column.family == "lists":
        raise ThurboError(f'column "{name}": a list of few items out of many is not predicted as a cell; ask rank()')
    return column


def probabilities(
    params: Params, schema: Schema, evidence: Packed, name: str, how: predict.How, known: predict.Belief | None = None
) -> np.ndarray:
    """P(label | all other cells of the row): [row, label].

    Of levels, bands and categories the rows sum to one; of a ranking it is P(this item is the best); of options each
    number is P(this option is ticked). `known` are the `beliefs` of rows that lack the cell.
    """
    column, about, where = _column(schema, name), target(schema, name), schema.slices[name]
    if isinstance(column, Banded):
        return predict.band_probabilities(params, evidence, about, *column.standard_edges, how)
    if isinstance(column, MeasuredColumn):
        raise ThurboError(f'column "{name}" is a number and has no labels; use predict for its mean or median')
    if isinstance(column, LevelColumn):
        return predict.level_probabilities(params, evidence, about, len(column.labels), how, known)
    if isinstance(column, UtilityColumn):
        return predict.largest_utility(params, evidence, about, np.arange(where.start, where.stop), how, known)[0]
    options = [about._replace(site=about.site + step) for step in range(len(column.sites))]
    chances = [predict.level_probabilities(params, evidence, each, 2, how, known)[:, 1] for each in options]
    return np.stack(chances, axis=1)


def all_probabilities(params: Params, schema: Schema, evidence: Packed, how: predict.How) -> np.ndarray:
    """The same of every column that has labels, side by side in the order of the schema: [row, label]."""
    names = [name for name in schema.modelled if schema[name].labels]
    found = [probabilities(params, schema, evidence, name, how) for name in names]
    return np.concatenate([np.zeros((evidence.n_rows, 0)), *found], axis=1)


def cells(
    params: Params,
    schema: Schema,
    evidence: Packed,
    name: str,
    how: predict.How,
    statistic: str,
    known: predict.Belief | None = None,
) -> dict[str, np.ndarray]:
    """One value per row for a column, given all its other cells; by column of the table that holds the answers."""
    if statistic not in {"auto", "mode", "median", "mean"}:
        raise ThurboError(f'statistic "{statistic}" is not one of auto, mode, median, mean')
    column, about, where = _column(schema, name), target(schema, name), schema.slices[name]
    if isinstance(column, LevelColumn) or (isinstance(column, Categorical) and column.ordered):
        return {name: _label(column, probabilities(params, schema, evidence, name, how, known), statistic)}
    if isinstance(column, Banded) and statistic in {"auto", "mode"}:
        return {name: column.from_codes(probabilities(params, schema, evidence, name, how).argmax(axis=1))}
    if isinstance(column, MeasuredColumn):
        found = predict.measured(params, evidence, about, how)
        if statistic == "mode":
            return column.as_columns(name, column.to_user(found.mode()))
        if statistic in {"auto", "median"}:
            return column.as_columns(name, column.to_user(found.quantile(0.5)))
        return column.as_columns(name, found.average(column.to_user))
    cuts = np.asarray(params.gauge.cuts, np.float64)[where]
    scale = np.ones(len(column.sites))
    if isinstance(column, UtilityColumn):
        chance, mean = predict.largest_utility(params, evidence, about, np.arange(where.start, where.stop), how, known)
        x = chance if isinstance(column, Categorical) else mean
    else:  # options, each ticked where that is the more probable
        x = cuts[:, 0] + np.where(probabilities(params, schema, evidence, name, how, known) > 0.5, 1.0, -1.0)
    return column.decode_columns(name, x, cuts, scale)


def _label(column: Column, chances: np.ndarray, statistic: str) -> np.ndarray:
    """Mode, median, or mean of a label; the mean of labels that are no numbers is their median."""
    numeric = all(isinstance(label, (int, float)) and not isinstance(label, bool) for label in column.labels)
    if statistic == "mean" and numeric:
        return chances @ np.asarray(column.labels, np.float64)
    codes = chances.argmax(axis=1) if statistic in {"auto", "mode"} else median_level(chances)
    return natural(column.labels, codes)


def median_level(chances: np.ndarray) -> np.ndarray:
    """The level at which half of the probability is reached, [row]."""
    return (np.cumsum(chances, axis=1) < 0.5).sum(axis=1).clip(max=chances.shape[1] - 1)


def from_latent(schema: Schema, params: Params, x: np.ndarray) -> dict[str, np.ndarray]:
    """Cells of every column, read off latent values [row, site]."""
    cuts, scale = np.asarray(params.gauge.cuts, np.float64), np.asarray(params.gauge.scale, np.float64)
    found: dict[str, np.ndarray] = {}
    for name, where in schema.slices.items():
        if schema[name].sites:
            found |= schema[name].decode_columns(name, x[:, where], cuts[where], scale[where])
    return found
