"""How well hidden answers are predicted: on new rows directly, on rows of the fit by a fit without these answers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from thurbo.errors import ConvergenceWarning
from thurbo.io.table import as_table
from thurbo.predict.seen import are_seen
from thurbo.report.wording import percent

HIDDEN = 0.1  # share of the answers
MOSTLY = 0.5  # share of the rows that the model was fitted to, from which it has to be fitted once more
TRUE_TO_WORD = 0.05  # calibration error, up to which probabilities are shares
MINUS = "\u2212"
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
    from thurbo.cross_evaluation import evaluate

    with warnings.catch_warnings():  # about the training, which the page tells of the model itself
        warnings.simplefilter("ignore", ConvergenceWarning)
        return evaluate(model, X, hide=HIDDEN, random_state=seed, boosting=False, verbose=False)


def verdict(held_out: Mapping[str, Any]) -> list[str]:
    """How far to trust the predictions, in sentences: against the baselines, and whether probabilities are right."""
    said = []
    words = {"_marginal": "than the shares of each question alone", "_logistic": "than regressions of each question"}
    for rival, than in words.items():
        gain, low, high = (held_out.get(f"gain{rival}{end}") for end in ("", "_low", "_high"))
        if gain is None or low is None or high is None:
            continue
        is_clear = "clearly better" if low > 0 else "clearly worse" if high < 0 else "neither clearly better nor worse"
        said.append(f"{is_clear} {than} ({gain:+.3f}, 95 % interval {low:+.3f} to {high:+.3f})".replace("-", MINUS))
    found = [f"By log score, the predictions are {' and '.join(said)}."] if said else []
    bins = held_out.get("calibration") or []
    n = sum(each["n"] for each in bins)
    if n:
        error = sum(each["n"] * abs(each["predicted"] - each["observed"]) for each in bins) / n
        right = (
            "can be taken at face value" if error < TRUE_TO_WORD else "are off: read them as an order, not as shares"
        )
        found.append(f"Predicted probabilities {right}: they differ from the observed shares by {percent(error)}.")
    return found


def of_orders(held_out: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """Accuracy of ranking: records about pairs of items, with the name of the column."""
    columns = [] if held_out is None else held_out["columns"]
    pairs = [each for each in columns if each.get("answer") == "pair" and each.get("accuracy") is not None]
    return [{**each, "column": each["column"].removesuffix(": pairs")} for each in pairs]


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
