"""How to read ordered levels: by cuts of one scale or by a utility each, as hidden answers of rows held out decide.

Two fits that differ in nothing else predict the same hidden answers; each question takes the reading that knew better.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from thurbo.errors import ThurboError
from thurbo.estimators.tbm import TBM
from thurbo.io.table import as_table
from thurbo.learning.settings import row_weights
from thurbo.schema import Schema

READINGS: tuple[Literal["cuts", "utilities"], ...] = ("cuts", "utilities")


def choose_ordinals(
    X: Any, model: TBM, hold_out: float = 0.2, hide: float = 0.2, random_state: Any = None, *, sample_weight: Any = None
) -> Schema:
    """Choose the better type for each column with ordered levels: `Ordinal` or `Categorical(ordered=True)`.

    `Ordinal` learns cuts on one scale; an ordered `Categorical` learns a utility for each level. Two copies of the
    model are fitted, one with each type, and predict hidden answers of held-out rows. For each column, the type with
    the better log score is taken. Use the result as the schema of your model.

    Parameters
    ----------
    X : table
        As in `TBM.fit`.
    model : TBM
        A model with the settings to use, fitted or not. It does not change.
    hold_out : float, default=0.2
        Share of rows that are held out.
    hide : float, default=0.2
        Share of their answers that are hidden.
    random_state : int, RandomState or None, default=None
        Seed for the choice of held-out rows and hidden answers.
    sample_weight : array-like of shape (n_rows,), optional
        Weight of each row.

    Returns
    -------
    Schema
        The schema with the better types; `reasons` contains both scores of each ordered column.
    """
    if isinstance(hold_out, bool) or not isinstance(hold_out, (int, float)) or not 0 < hold_out < 1:
        raise ThurboError(f"hold_out={hold_out!r} is not a share of the rows; give a number above 0 and below 1")
    table = as_table(X)
    schema = model._schema(table).fit(table)
    levels = schema.with_ordered_levels
    if not levels:
        return schema
    rng = check_random_state(random_state)
    apart = np.zeros(table.n_rows)
    apart[rng.permutation(table.n_rows)[: max(1, round(hold_out * table.n_rows))]] = 1.0
    weight = row_weights(sample_weight, table.n_rows)
    seed = int(rng.randint(2**31 - 1))
    sizes: dict[str, int] = {}  # the second takes those that the first found
    scores: dict[str, dict[str, Any]] = {}
    for reading in READINGS:
        fitted = clone(model).set_params(schema=schema.read_ordinals(reading), checkpoint=None, **sizes)
        fitted.fit(X, sample_weight=weight * (1.0 - apart))
        fitted._finished()
        sizes = {"n_hidden": fitted.params_.n_hidden, "n_factors": fitted.params_.n_factors}
        found = fitted.evaluate(X, hide=hide, random_state=seed, logistic=False, sample_weight=weight * apart)
        scores[reading] = {record["column"]: record for record in found.columns if record["answer"] == "label"}
    reasons = schema.reasons
    for name in levels:
        if any(name not in found for found in scores.values()):
            continue  # no answer of it was hidden: it stays as it was
        cuts, utilities = (scores[reading][name]["log_score"] for reading in READINGS)
        better = READINGS[utilities > cuts]
        n = scores[better][name]["n"]
        said = f"{cuts:.3f} nats an answer by cuts, {utilities:.3f} by utilities, of {n} hidden answers"
        reasons[name], schema = f"read by {better}: {said}", schema.read_ordinals(better, [name])
    return Schema(dict(schema), reasons=reasons, titles=schema.titles, skips=schema.skips or None)
