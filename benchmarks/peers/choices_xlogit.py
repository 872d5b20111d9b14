"""Multinomial and mixed logit of xlogit: `python choices_xlogit.py IN OUT N_DRAWS`, in its own environment.

IN has the training tasks (`person`, `order`: the chosen item first), the held-out tasks (`test_person`, `test_order`),
the tasks of their persons that may be conditioned on (`known_person`, `known_order`) and the attributes of the items
(`features`). In the mixed logit all coefficients are normal. Its score of a held-out choice is a mean over draws of the
coefficients, each weighted by the likelihood of the person's known choices. OUT has the log-likelihood of each held-out
choice, `logit` and `mixed`.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.special import logsumexp
from xlogit import MixedLogit, MultinomialLogit

N_SCORED = 2000  # draws for the scores


def log_chances(features: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """log P(first of those shown), [task, draw]: features are [task, shown, feature], coefficients [draw, feature]."""
    utility = features @ beta.T
    return utility[:, 0] - logsumexp(utility, axis=1)


def main() -> None:
    """Fit both models, and score the held-out choices."""
    with np.load(sys.argv[1]) as found:
        given = dict(found)
    features = (given["features"] - given["features"].mean(axis=0)) / given["features"].std(axis=0)
    order, rng = given["order"], np.random.default_rng(0)
    n_tasks, size = order.shape
    places = np.argsort(rng.random(order.shape), axis=1)  # so that the chosen one is not always the first
    long = features[np.take_along_axis(order, places, axis=1)].reshape(n_tasks * size, -1)
    names = [f"f{j}" for j in range(long.shape[1])]
    chosen = (places == 0).reshape(-1)
    alts, ids = np.tile(np.arange(size), n_tasks), np.repeat(np.arange(n_tasks), size)
    usual = {"X": long, "y": chosen, "varnames": names, "alts": alts, "ids": ids, "verbose": 0}
    logit, mixed = MultinomialLogit(), MixedLogit()
    logit.fit(**usual)
    panels = np.repeat(given["person"], size)
    mixed.fit(**usual, panels=panels, randvars=dict.fromkeys(names, "n"), n_draws=int(sys.argv[3]))
    by_name = dict(zip(mixed.coeff_names, mixed.coeff_, strict=True))
    mean, spread = np.array([[by_name[name], by_name[f"sd.{name}"]] for name in names]).T
    beta = mean + spread * rng.normal(size=(N_SCORED, len(names)))
    test, known = (log_chances(features[given[f"{part}_order"]], beta) for part in ("test", "known"))
    weight = np.zeros((int(given["test_person"].max(initial=0)) + 1, N_SCORED))
    inside = given["known_person"] < len(weight)
    np.add.at(weight, given["known_person"][inside], known[inside])
    weight = weight - logsumexp(weight, axis=1, keepdims=True)
    own = logsumexp(test + weight[given["test_person"]], axis=1)
    plain = log_chances(features[given["test_order"]], np.asarray(logit.coeff_)[None, :])[:, 0]
    np.savez(sys.argv[2], logit=plain, mixed=own, coefficients=mean, spread=spread)


if __name__ == "__main__":
    main()
