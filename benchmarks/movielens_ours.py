"""Thurbo's side of the ranking benchmark: one fit, with more draws of the parameters than by default.

The same fit says how movies would be rated and which ones are chosen. The latter is learned only from which movies a
user has rated, so without the ratings it is the same, bit for bit, in a few seconds.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd

import thurbo as tb
from benchmarks.movielens_catalogue import TOP
from benchmarks.movielens_data import Cells, Split

DRAWS, QUICK_DRAWS = 60, 4  # of the parameters; the default is 20


def ours(split: Split, seed: int, quick: bool) -> tuple[np.ndarray, np.ndarray, float, float, np.ndarray]:
    """Scores of the validation and of the test cells, seconds of training and of ranking, and each user's next items.

    The time is that of a ranking of all movies for all users by their ratings.
    """
    users = tb.from_long(_frame(split.train, rating=True), row="user", item="item", score="rating")
    settings = tb.ListSettings(draws=QUICK_DRAWS if quick else DRAWS)
    schema = {"item": tb.Ratings(items=list(range(split.n_items)), settings=settings, presence="model")}
    began = time.perf_counter()
    model = tb.TBM(schema, random_state=seed, verbose=False).fit(users)
    seconds = time.perf_counter() - began
    found = []
    for cells in (split.valid, split.test):
        wanted = _frame(cells)
        ranked = model.rank(users, items=wanted).rename(columns={"row": "user"})
        found.append(wanted.merge(ranked, on=["user", "item"], how="left", validate="1:1")["utility"].to_numpy())
    model.rank(users, top=TOP)  # compiles
    began = time.perf_counter()
    model.rank(users, top=TOP)
    taken = time.perf_counter() - began
    return found[0], found[1], seconds, taken, _next(model, users, split)


def next_movies(split: Split, seed: int) -> tuple[np.ndarray, float]:
    """Each user's next items, and seconds of training, from which movies they have rated alone."""
    users = tb.from_long(_frame(split.train).assign(rated=1), row="user", item="item", score="rated")
    schema = {"item": tb.Ratings(items=list(range(split.n_items)), presence="model")}
    began = time.perf_counter()
    model = tb.TBM(schema, random_state=seed, verbose=False).fit(users)
    seconds = time.perf_counter() - began
    return _next(model, users, split), seconds


def _next(model: tb.TBM, users: Any, split: Split) -> np.ndarray:
    ranked = model.rank(users, top=TOP, by="choice")
    best = np.full((split.n_users, TOP), -1)
    best[ranked["row"].to_numpy(), ranked["place"].to_numpy() - 1] = ranked["item"]
    return best


def _frame(cells: Cells, rating: bool = False) -> pd.DataFrame:
    frame = pd.DataFrame({"user": cells.user, "item": cells.item})
    return frame.assign(rating=cells.rating) if rating else frame
