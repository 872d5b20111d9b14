"""Tasks of `benchmarks.defaults` with measures of their own: rankings, features, censored numbers, absolute errors.

Idea: the data and the measure of another benchmark, and `TBM(random_state=seed)` in place of its settings. The schema
says what the columns are and nothing else. A task gives one number for each seed, and whether more of it is better.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import thurbo as tb
from benchmarks import censored, impute_gss, mnist, movielens_data, sushi
from benchmarks.movielens_ours import _frame


class Found(NamedTuple):
    """The figure of one seed, and the seconds of its fits."""

    value: float
    seconds: float


class Task(NamedTuple):
    """What is measured, and by which function."""

    measure: str
    larger_is_better: bool
    run: Callable[[int, int | None], Found]  # seed, and rows to use (all by default)


def _fitted(schema: Any, X: Any, seed: int, **settings: Any) -> tuple[tb.TBM, float]:
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = tb.TBM(schema, random_state=seed, verbose=False, **settings).fit(X)
    return model, time.perf_counter() - started


def full_rankings(seed: int, n_rows: int | None) -> Found:
    """Sushi: log P(ranking) of the held-out rows of one fold, whose number is the seed."""
    data = sushi.read(Path(os.environ["THURBO_DATA"]) / "sushi")
    data = data.rows(np.arange(len(data.order))[:n_rows])
    train, test = (data.rows(part) for part in sushi.split(len(data.order), seed % sushi.N_FOLDS))
    model, seconds = _fitted(sushi.schema(False), train.frame(False), seed)
    return Found(float(model.score_samples(test.frame(False)).mean()), seconds)


def movies(seed: int, n_rows: int | None) -> Found:
    """MovieLens-1M: NDCG@5 of the last ten ratings of each user, by one call of `rank`."""
    split = movielens_data.load()
    lines, wanted = _frame(split.train, rating=True), _frame(split.test)
    if n_rows is not None:
        lines, wanted = lines[lines["user"] < n_rows], wanted[wanted["user"] < n_rows]
    users = tb.from_long(lines, row="user", item="item", score="rating")
    model, seconds = _fitted({"item": tb.Ratings(items=list(range(split.n_items)))}, users, seed)
    ranked = model.rank(users, items=wanted).rename(columns={"row": "user"})
    utility = wanted.merge(ranked, on=["user", "item"], how="left", validate="1:1")["utility"].to_numpy()
    cells = movielens_data.Cells(*(each[: len(wanted)] for each in split.test))  # users are in order
    return Found(float(movielens_data.figures(cells, utility)["ndcg5"].mean()), seconds)


def digits(seed: int, n_rows: int | None) -> Found:
    """MNIST: per cent of test images that a linear classifier gets wrong, from 500 hidden units."""
    images, labels, test_images, test_labels = mnist.load()
    images, labels = images[:n_rows], labels[:n_rows]
    model, seconds = _fitted(None, images, seed, n_hidden=mnist.N_HIDDEN)
    features, test = (mnist.soften(model.transform(each, output="log_odds")) for each in (images, test_images))
    penalty, _ = mnist.choose_penalty(features, labels)
    (guess,) = mnist.classify(features, labels, [test], penalty)
    return Found(mnist.error(guess, test_labels), seconds)


def censored_numbers(which: str) -> Callable[[int, int | None], Found]:
    """Log density, or log mass of an interval, of held-out rows: the mean over all folds."""

    def run(seed: int, n_rows: int | None) -> Found:
        data = censored.load()[which]
        data = data.rows(np.arange(len(data.lower))[:n_rows])
        scores, seconds = [], 0.0
        for train, test in censored.splits(len(data.lower), censored.N_FOLDS):
            frame = data.rows(train).frame()[["lower", "upper"]]
            model, taken = _fitted({"number": tb.Bounded(lower="lower", upper="upper")}, frame, seed)
            scores.append(censored.score(model, data.rows(test)))
            seconds += taken
        return Found(float(np.concatenate(scores).mean()), seconds)

    return run


def absolute_errors(seed: int, n_rows: int | None) -> Found:
    """GSS-2014: SMAE of medians, with a fifth of the answers hidden, every question as ordered levels."""
    frame = impute_gss.load().head(n_rows)
    hidden = impute_gss.hidden_cells(frame, seed)
    shown = frame.mask(hidden)
    model, seconds = _fitted(impute_gss.schema(frame), shown, seed)
    median, mode = (model.predict(shown, statistic=each).to_numpy(float) for each in ("median", "mode"))
    return Found(impute_gss.score(frame, hidden, impute_gss.Filled(median, mode, seconds)).smae, seconds)


TASKS = {
    "sushi": Task("log-likelihood of a ranking (nats)", True, full_rankings),
    "ml-1m": Task("NDCG@5", True, movies),
    "mnist": Task("test error (%)", False, digits),
    "censored-diabetes": Task("log-likelihood of a row (nats)", True, censored_numbers("diabetes")),
    "censored-cuzn": Task("log-likelihood of a row (nats)", True, censored_numbers("CuZn")),
    "gss-smae": Task("SMAE", False, absolute_errors),
}


def summary(name: str, found: list[Found]) -> dict[str, Any]:
    """The figures of one task over its seeds."""
    values = [each.value for each in found]
    return {
        "measure": TASKS[name].measure,
        "larger_is_better": TASKS[name].larger_is_better,
        "value": float(np.mean(values)),
        "by_seed": values,
        "seconds": float(np.median([each.seconds for each in found])),
    }
