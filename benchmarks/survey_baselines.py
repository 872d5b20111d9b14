"""What the survey benchmark compares with: marginals, one-hot answers, missingness, and regressions on SVD features.

Every method fills in hidden cells as `Guesses`: by question the probabilities of its labels, or numbers for a measured
one; `score` judges them all by the same measures.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.classify import chances, logistic
from thurbo.table.columns.forms.form import LEAST_CHANCE, calibration_of_labels, median_level

TYPES = {"binary": "binary", "categorical": "categorical", "rank_mention": "rank", "ordinal": "ordinal"}
TYPES |= {"continuous": "continuous"}
Guesses = dict[str, np.ndarray]  # by question: [hidden cell, label], or [hidden cell] of a number
Scores = dict[str, dict[str, float | None]]  # by type: accuracy, log_score, smae

# Other libraries on these very cells, measured once (accuracy, log score, SMAE): see docs/benchmarks.md.
RECORDED: dict[str, dict[str, tuple[float | None, float | None, float | None]]] = {
    "gcimpute 0.0.4, full correlation": {
        "binary": (0.774, -0.478, None),
        "ordinal": (0.582, -1.018, 0.684),
        "continuous": (None, None, 0.897),
    },
    "lace (pylace 0.10.1)": {
        "binary": (0.689, -0.599, None),
        "categorical": (0.495, -1.226, None),
        "rank": (0.146, -2.920, None),
        "ordinal": (0.479, -1.206, 0.945),
        "continuous": (None, None, 1.015),
    },
}


def recorded() -> dict[str, Scores]:
    """The figures of other libraries, in the form of all others."""
    measures = ("accuracy", "log_score", "smae")
    return {
        name: {kind: dict(zip(measures, found, strict=True)) for kind, found in kinds.items()}
        for name, kinds in RECORDED.items()
    }


# ---- the answers as numbers


def labels_of(question: dict[str, Any]) -> np.ndarray | None:
    """Codes of a question's labels in order; None of a number."""
    if question["type"] == "continuous":
        return None
    return np.asarray(question["items" if question["type"] == "rank_mention" else "levels"], float)


def codes_of(question: dict[str, Any], values: pd.Series | np.ndarray) -> np.ndarray:
    """Place of each answer among the labels, −1 where there is none; a number as it is."""
    values, labels = np.asarray(values, float), labels_of(question)
    if labels is None:
        return values
    order = np.argsort(labels)
    place = order[np.searchsorted(labels[order], values).clip(max=len(labels) - 1)]
    return np.where(labels[place] == values, place, -1)


class OneHot(NamedTuple):
    """Standardised indicators of every label, and numbers; whose question each is. Unanswered is none of the labels."""

    table: np.ndarray  # [row, indicator]
    owner: np.ndarray  # [indicator], position of the question


def one_hot(frame: pd.DataFrame, questions: list[dict[str, Any]]) -> OneHot:
    """The answers as numbers, so that who was silent can still be seen by it; an unknown number is the mean."""
    parts, owner = [], []
    for position, q in enumerate(questions):
        code, labels = codes_of(q, frame[q["name"]]), labels_of(q)
        if labels is None:
            number = unit(q, code)
            part = np.where(np.isnan(number), np.nanmean(number), number)[:, None]
        else:
            part = (code[:, None] == np.arange(len(labels))).astype(float)
        spread = part.std(axis=0)
        parts.append(((part - part.mean(axis=0)) / np.where(spread > 1e-9, spread, 1.0)).astype(np.float32))
        owner += [position] * part.shape[1]
    return OneHot(np.concatenate(parts, axis=1), np.asarray(owner))


def missingness(frame: pd.DataFrame) -> np.ndarray:
    """Which questions were answered: [row, question]."""
    return frame.isna().to_numpy(np.float32)


def unit(question: dict[str, Any], numbers: np.ndarray) -> np.ndarray:
    """A number on the scale that the survey's description names."""
    return np.log1p(numbers) if question.get("transform") == "log1p" else numbers


def back(question: dict[str, Any], numbers: np.ndarray) -> np.ndarray:
    """The number itself again."""
    return np.expm1(numbers) if question.get("transform") == "log1p" else numbers


def directions(table: np.ndarray, n: int) -> np.ndarray:
    """The n strongest right singular vectors, [indicator, n], from the table's products with itself."""
    values, vectors = np.linalg.eigh((table.T @ table).astype(np.float64))
    return vectors[:, np.argsort(-values)[:n]].astype(np.float32)


def svd_features(table: np.ndarray, n: int) -> np.ndarray:
    """Scores on the n strongest directions, [row, n]."""
    return table @ directions(table, min(n, table.shape[1]))


# ---- filling in


def marginals(shown: pd.DataFrame, hidden: np.ndarray, questions: list[dict[str, Any]]) -> Guesses:
    """Shares of the answers that are shown, and the median of numbers."""
    found = {}
    for position, q in enumerate(questions):
        code, labels, cells = codes_of(q, shown[q["name"]]), labels_of(q), int(hidden[:, position].sum())
        if labels is None:
            found[q["name"]] = np.full(cells, np.nanmedian(code))
        else:
            found[q["name"]] = np.tile(_shares(code, len(labels)), (cells, 1))
    return found


def _shares(code: np.ndarray, n_labels: int) -> np.ndarray:
    """How many of those who answered gave each label."""
    return np.bincount(code[code >= 0], minlength=n_labels) / max((code >= 0).sum(), 1)


def by_regression(
    shown: pd.DataFrame, hidden: np.ndarray, questions: list[dict[str, Any]], n: int = 100, n_steps: int = 60
) -> Guesses:
    """Logistic regression of every question on n SVD features of all others' answers; of numbers a ridge.

    A row's own answer is taken out of the features before it is to be predicted: where it is hidden it is not in them.
    """
    table, owner = one_hot(shown, questions)
    basis = directions(table, min(n, table.shape[1]))
    scores = table @ basis
    found = {}
    for position, q in enumerate(questions):
        code, labels = codes_of(q, shown[q["name"]]), labels_of(q)
        x = scores - table[:, owner == position] @ basis[owner == position]
        x = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-6)
        rows = np.flatnonzero(hidden[:, position])
        if labels is None:
            found[q["name"]] = back(q, _ridge(x, unit(q, code), rows))
            continue
        told = code >= 0
        penalty = 0.5 / max(int(told.sum()), 1)  # scikit-learn's C = 1
        slopes = logistic(x, code.clip(min=0), len(labels), penalty, weight=told, n_steps=n_steps)
        found[q["name"]] = chances(x[rows], slopes)
    return found


def _ridge(x: np.ndarray, y: np.ndarray, rows: np.ndarray, penalty: float = 1.0) -> np.ndarray:
    """Least squares with a small ridge, from the rows where y is known, for others."""
    known = ~np.isnan(y)
    inside, mean = x[known].astype(float), y[known].mean()
    gram = inside.T @ inside + penalty * np.eye(x.shape[1])
    middle = inside.mean(axis=0)
    centred = gram - len(inside) * np.outer(middle, middle)
    slope = np.linalg.solve(centred, inside.T @ (y[known] - mean))
    return mean + (x[rows] - middle) @ slope


# ---- measures


def score(truth: pd.DataFrame, shown: pd.DataFrame, hidden: np.ndarray, questions: list, guesses: Guesses) -> Scores:
    """By type: share of cells whose likeliest label is right and mean log-probability of the truth, over all cells;
    SMAE, the mean over questions of mean absolute error in levels (or units) ÷ that of the median of the shown."""
    right: dict[str, list[np.ndarray]] = {}
    logs: dict[str, list[np.ndarray]] = {}
    ratios: dict[str, list[float]] = {}
    for position, q in enumerate(questions):
        rows, kind, guess = np.flatnonzero(hidden[:, position]), TYPES[q["type"]], guesses[q["name"]]
        if not len(rows):
            continue
        true, told = codes_of(q, truth[q["name"]])[rows], codes_of(q, shown[q["name"]])
        if kind != "continuous":
            right.setdefault(kind, []).append(guess.argmax(axis=1) == true)
            logs.setdefault(kind, []).append(np.log(np.maximum(guess[np.arange(len(rows)), true], LEAST_CHANCE)))
        if kind in ("ordinal", "continuous"):
            middle = median_level(guess) if kind == "ordinal" else guess
            usual = median_level(_shares(told, guess.shape[1])[None, :]) if kind == "ordinal" else np.nanmedian(told)
            plain = np.abs(usual - true).mean()
            ratios.setdefault(kind, []).append(float(np.abs(middle - true).mean() / plain) if plain else 1.0)
    return {
        kind: {
            "accuracy": float(np.concatenate(right[kind]).mean()) if kind in right else None,
            "log_score": float(np.concatenate(logs[kind]).mean()) if kind in logs else None,
            "smae": float(np.mean(ratios[kind])) if kind in ratios else None,
        }
        for kind in TYPES.values()
        if kind in right or kind in ratios
    }


def calibration(truth: pd.DataFrame, hidden: np.ndarray, questions: list, guesses: Guesses) -> dict[str, float]:
    """Expected calibration error by type: ten equal bins of the likeliest label's probability, all cells together."""
    sure: dict[str, list[np.ndarray]] = {}
    right: dict[str, list[np.ndarray]] = {}
    for position, q in enumerate(questions):
        rows, kind = np.flatnonzero(hidden[:, position]), TYPES[q["type"]]
        if kind != "continuous" and len(rows):
            chance = guesses[q["name"]]
            sure.setdefault(kind, []).append(chance.max(axis=1))
            right.setdefault(kind, []).append(chance.argmax(axis=1) == codes_of(q, truth[q["name"]])[rows])
    return {kind: calibration_of_labels(np.concatenate(sure[kind]), np.concatenate(right[kind])) for kind in sure}
