"""How sure predictions should be: all probabilities of a type to one power, chosen on rows that nobody learned from.

Averages of several models are less sure than any of them, and so are predictions from more answers than training
usually shows; questions with few answers and many labels are too sure. A power mends both, and changes no order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize_scalar

from benchmarks.survey_baselines import LEAST_CHANCE, TYPES, Guesses, codes_of

N_ROWS, N_TURNS, SHARE = 2000, 8, 0.05  # a few cells at a time, so that about as much is shown as when it counts


def rows_apart(n_rows: int) -> np.ndarray:
    """Rows to keep from learning, a tenth at most."""
    return np.sort(np.random.default_rng(2).permutation(n_rows)[: min(N_ROWS, n_rows // 10)])


def to_judge_by(shown: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
    """These rows several times over, and which of the answers that they show to hide each time."""
    table = pd.concat([shown] * N_TURNS, ignore_index=True)
    dice = np.random.default_rng(3).random(table.shape)
    return table, (dice < SHARE) & table.notna().to_numpy()


def raised(chance: np.ndarray, power: float) -> np.ndarray:
    """Probabilities [cell, label] to a power."""
    logs = power * np.log(np.maximum(chance, LEAST_CHANCE))
    found = np.exp(logs - logs.max(axis=1, keepdims=True))
    return found / found.sum(axis=1, keepdims=True)


def powers(truth: pd.DataFrame, hidden: np.ndarray, questions: list[dict[str, Any]], guesses: Guesses) -> dict:
    """By type: the power with the best log score of the hidden cells; above one, the guesses were too unsure."""
    told: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for position, q in enumerate(questions):
        rows, kind = np.flatnonzero(hidden[:, position]), TYPES[q["type"]]
        if kind != "continuous" and len(rows):
            told.setdefault(kind, []).append((guesses[q["name"]], codes_of(q, truth[q["name"]])[rows]))

    def loss(log_power: float, kind: str) -> float:
        own = (raised(p, np.exp(log_power))[np.arange(len(code)), code] for p, code in told[kind])
        return -float(np.log(np.maximum(np.concatenate(list(own)), LEAST_CHANCE)).mean())

    return {
        kind: float(np.exp(minimize_scalar(loss, bounds=(-0.7, 0.7), args=(kind,), method="bounded").x))
        for kind in told
    }


def tempered(questions: list[dict[str, Any]], guesses: Guesses, power: dict[str, float]) -> Guesses:
    """The guesses, those of each type to its power; numbers as they are."""
    kinds = {q["name"]: TYPES[q["type"]] for q in questions}
    return {
        name: raised(guess, power[kinds[name]]) if kinds[name] in power and len(guess) else guess
        for name, guess in guesses.items()
    }
