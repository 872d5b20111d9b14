"""How much log score surveys allow at all: thurbo beside many learners, and the best weighted mean of all of them.

    python -m benchmarks.ceiling [--quick] [--tables a,b] [--seeds 2] [--trees 200] [--keep DIR]

Tables, masks and inputs are those of `benchmarks.defaults`: 10 % of the answers are hidden, and each column is
predicted from all others, whose missing cells have indicators. Beside `TBM` with every setting left alone and both
regressions of that benchmark, there are seven learners of each column (`benchmarks.ceiling_learners`): random forests,
extremely randomised trees, gradient boosting with smaller steps, logistic regression with finer penalties, logistic
regression on Nystroem features of a Gaussian kernel, a neural network with one layer, and nearest neighbours.

"stacked" is the log score of the best weighted mean of all predictions, "stacked_without" that without thurbo. Their
weights are the same for all columns of a table and chosen on the hidden answers themselves: optimistic on purpose, so
that no such mean can be better. "mean_over_logistic" is the mean over tables of how much better thurbo is than logistic
regression, "ceiling_over_logistic" and "ceiling_without_over_logistic" are those of the weighted means. The first mask
is number 100, so that the masks of `benchmarks.defaults` stay unseen.

--quick takes one mask of two small tables and 20 trees. With --keep, log scores are written to a folder after each
learner, and a later run goes on from there; thurbo's own are among them, so take a new folder after a change of thurbo.
Data: $THURBO_DATA. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import LinearConstraint, minimize

import thurbo as tb
from benchmarks import defaults
from benchmarks.ceiling_learners import Learner, label_chances, learners, numbers
from thurbo._concurrency import one_thread
from thurbo.predict import evaluation
from thurbo.table.columns.forms.form import Normal, Tested

FIRST_MASK = 100
QUICK_TABLES, QUICK_TREES = ("weather", "steak"), 20
UNTRAINED = {"max_epochs": 0, "n_hidden": 1, "n_factors": 0}  # learners need no model, but the scores of a form do
PARTS = {"thurbo": "", "logistic": "_logistic", "boosting": "_boosting"}  # of one run of `benchmarks.defaults`


class Learned(evaluation.ColumnTrial):
    """A column in which a learner takes the place of gradient boosting."""

    learner: Learner

    def boosting(self, code: np.ndarray, n_labels: int) -> np.ndarray | None:
        return self._learn(label_chances, self.learner.classifiers, code, self.masked, n_labels)

    def boosted_numbers(self, target: np.ndarray, known: np.ndarray) -> Normal | None:
        return self._learn(numbers, self.learner.regressor, target, known, self.masked)

    def _learn(self, function: Callable[..., Any], model: Any, *about: Any) -> Any:
        if self._inputs is None:
            return None
        with warnings.catch_warnings(), one_thread():
            warnings.simplefilter("ignore")  # steps that have not converged
            return function(model, self._inputs, *about)


def learned(one: defaults.Masked, model: tb.TBM, learner: Learner) -> list[Tested]:
    """Scores of the hidden answers by a learner, under the name of boosting."""
    rest, blocks = model._query(one.shown), model.schema_.compile(one.frame)
    tests = list[Tested]()
    for trial in defaults.trials(Learned, rest, blocks, one.hidden, tuple(one.hidden), ("boosting",)):
        trial.learner = learner
        column = rest.schema[trial.name]
        tests += column.form.test(trial)
    return tests


def answers(tests: Sequence[Tested], part: str) -> np.ndarray:
    """Log scores of all answers that learners predict, [answer]."""
    return np.concatenate([test.score[part] for test in tests if "_boosting" in test.score])


def scores(one: defaults.Masked, n_trees: int, folder: Path | None = None) -> dict[str, np.ndarray]:
    """Log scores of the hidden answers by every method, [answer]; those in the folder are not computed again."""
    about = f"{one.name}-{one.seed}-{n_trees}-{defaults.fingerprint(one.shown, one.hidden)}.npz"
    path, found = None if folder is None else folder / about, dict[str, np.ndarray]()
    if path is not None and path.exists():
        with np.load(path) as kept:
            found = dict(kept)

    def add(started: float, **more: np.ndarray) -> None:
        found.update(more)
        words = ", ".join(f"{name} {each.mean():.4f}" for name, each in more.items())
        print(f"{one.name} {one.seed}: {words} ({time.perf_counter() - started:.1f} s)", flush=True)
        if path is not None:
            defaults.save(path, found)

    if not PARTS.keys() <= found.keys():
        started = time.perf_counter()
        tests = one.score(defaults.fit(one)[0])
        add(started, **{name: answers(tests, part) for name, part in PARTS.items()})
    todo = {name: learner for name, learner in learners(n_trees).items() if name not in found}
    untrained = defaults.fit(one, **UNTRAINED)[0] if todo else None
    for name, learner in todo.items():
        add(time.perf_counter(), **{name: answers(learned(one, untrained, learner), "_boosting")})
    return found


def best_mean(logs: Sequence[np.ndarray]) -> float:
    """Log score of the best weighted mean of predictions, its weights chosen on the same answers: [part][answer]."""
    table = np.stack(logs)
    most = table.max(axis=0)
    chance, n_parts = np.exp(table - most), len(table)

    def loss(weight: np.ndarray) -> tuple[float, np.ndarray]:
        mixed = weight @ chance
        return -float(np.log(mixed).mean()), -(chance / mixed).mean(axis=1)

    found = minimize(
        loss,
        np.full(n_parts, 1.0 / n_parts),
        jac=True,
        method="SLSQP",  # the loss is convex
        bounds=[(1e-9, 1.0)] * n_parts,  # not zero: a part may be the only one that does not exclude an answer
        constraints=LinearConstraint(np.ones(n_parts), 1.0, 1.0),
        options={"ftol": 1e-12, "maxiter": 500},
    )
    return float(most.mean()) - loss(found.x / found.x.sum())[0]


def summary(by_mask: Sequence[Mapping[str, np.ndarray]]) -> dict[str, Any]:
    """The figures of one table over its masks."""
    parts = {name: np.concatenate([each[name] for each in by_mask]) for name in by_mask[0]}
    mean = {name: float(values.mean()) for name, values in parts.items()}
    return {
        "log_score": mean.pop("thurbo"),
        "logistic": mean.pop("logistic"),
        "boosting": mean.pop("boosting"),
        "learners": mean,
        "stacked": best_mean(list(parts.values())),
        "stacked_without": best_mean([values for name, values in parts.items() if name != "thurbo"]),
        "n": len(parts["thurbo"]),
        "n_masks": len(by_mask),
    }


def report(tables: Mapping[str, Mapping[str, Any]]) -> None:
    """The table for people, one line for each method, and the JSON line."""
    print(f"\n{'':<18}" + "".join(f"{name:>14}" for name in tables))
    for name in (
        "logistic",
        "boosting",
        *next(iter(tables.values()))["learners"],
        "log_score",
        "stacked_without",
        "stacked",
    ):
        values = [one[name] if name in one else one["learners"][name] for one in tables.values()]
        print(f"{'thurbo' if name == 'log_score' else name:<18}" + "".join(f"{value:>14.4f}" for value in values))
    over = {"mean": "log_score", "ceiling": "stacked", "ceiling_without": "stacked_without"}
    gains = {
        f"{word}_over_logistic": float(np.mean([one[name] - one["logistic"] for one in tables.values()]))
        for word, name in over.items()
    }
    print(json.dumps({"tables": tables, **gains}))


def main() -> None:
    """Print a table for people and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"one mask of {', '.join(QUICK_TABLES)}, fewer trees")
    parser.add_argument("--tables", help=f"names, separated by commas: {', '.join(defaults.FILES)}")
    parser.add_argument("--seeds", type=int, default=2, help=f"number of masks, from {FIRST_MASK} on")
    parser.add_argument("--trees", type=int, default=200, help="trees of a forest")
    parser.add_argument("--keep", type=Path, help="folder for log scores, from which a later run goes on")
    given = parser.parse_args()
    names = given.tables.split(",") if given.tables else QUICK_TABLES if given.quick else tuple(defaults.FILES)
    for name in names:
        if name not in defaults.FILES:
            parser.error(f"there is no table {name!r}; there are {', '.join(defaults.FILES)}")
    n_masks, n_trees = (1, QUICK_TREES) if given.quick else (given.seeds, given.trees)
    tables = {}
    for name in names:
        seeds = range(FIRST_MASK, FIRST_MASK + n_masks)
        every = [one for seed in seeds for one in defaults.masked_tables([name], seed)]
        tables[name] = summary([scores(one, n_trees, given.keep) for one in every])
    report(tables)


if __name__ == "__main__":
    main()
