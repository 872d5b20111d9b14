"""Bradley–Terry model of choix: `python choices_choix.py IN OUT`, in its own environment.

IN has the training pairs (`order`: winner, loser), the held-out pairs (`test_order`) and `n_items`. The penalty is that
of the best log-likelihood in three-fold cross-validation of the training pairs. OUT has the log-likelihood of each
held-out pair, `score`.
"""

from __future__ import annotations

import sys

import choix
import numpy as np

PENALTIES = (0.05, 0.2, 0.5, 1.0)
N_FOLDS = 3


def scores(n_items: int, train: np.ndarray, test: np.ndarray, alpha: float) -> np.ndarray:
    """log P(winner beats loser) of each test pair."""
    utility = choix.opt_pairwise(n_items, [tuple(pair) for pair in train.tolist()], alpha=alpha)
    return -np.log1p(np.exp(utility[test[:, 1]] - utility[test[:, 0]]))


def main() -> None:
    """Choose the penalty, fit, and score the held-out pairs."""
    with np.load(sys.argv[1]) as found:
        n_items, order, test = int(found["n_items"]), found["order"], found["test_order"]
    fold = np.random.default_rng(0).permutation(len(order)) % N_FOLDS
    means = [
        np.mean([scores(n_items, order[fold != k], order[fold == k], alpha).mean() for k in range(N_FOLDS)])
        for alpha in PENALTIES
    ]
    alpha = PENALTIES[int(np.argmax(means))]
    np.savez(sys.argv[2], score=scores(n_items, order, test, alpha), alpha=alpha)


if __name__ == "__main__":
    main()
