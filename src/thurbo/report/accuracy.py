"""How well hidden answers are predicted: on new rows directly, on rows of the fit by a fit without these answers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from thurbo.errors import ConvergenceWarning
from thurbo.io.table import as_table
from thurbo.queries.seen import are_seen

HIDDEN = 0.1  # share of the answers
MOSTLY = 0.5  # share of the rows that the model was fitted to, from which it has to be fitted once more
QUICK = 180.0  # seconds of a fit, up to which "auto" fits once more


def measured(model: Any, X: Any, wanted: bool | None, seed: int) -> Any:
    """An `Evaluation` of hidden answers, or None.

    If most rows are those of the fit, the model is fitted once more without the hidden answers; None as `wanted` does
    this only if the fit was quick.
    """
    if wanted is False:
        return None
    blocks = model.schema_.compile(as_table(X))
    if np.mean(are_seen(blocks.values(), model._seen_rows)) < MOSTLY:
        return model.evaluate(X, hide=HIDDEN, random_state=seed)
    if wanted is None and not model.time_spent_.get("total", np.inf) <= QUICK:
        return None
    from thurbo.estimators.cross_evaluation import evaluate

    with warnings.catch_warnings():  # about the training, which the page tells of the model itself
        warnings.simplefilter("ignore", ConvergenceWarning)
        return evaluate(model, X, hide=HIDDEN, random_state=seed, boosting=False, verbose=False)


def as_plain(found: Any) -> dict[str, Any] | None:
    """An `Evaluation`, or a mapping like its `overall` with `columns`, as plain values."""
    if found is None:
        return None
    if isinstance(found, Mapping):
        return {"calibration": [], "surprises": [], "seen": "", **found}
    caution = f"{found.n_seen_rows:,} of {found.n_rows:,}" if found.n_seen_rows > 0.2 * found.n_rows else ""
    return {
        **found.overall,
        "columns": [dict(each) for each in found.columns],
        "calibration": [dict(each) for each in found.calibration],
        "surprises": [dict(each) for each in found.surprises],
        "seen": caution,
    }
