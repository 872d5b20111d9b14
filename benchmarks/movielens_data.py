"""MovieLens-1M as the paper divides it, and how good an order of each user's held-out movies is.

Idea: without the tenth of the movies that are rated most often, each user's latest ten ratings are test, the five
before these validation, the rest training.
Promises the counts that the protocol was calibrated with, and one figure for each user, which a bootstrap can pair.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from thurbo import metrics

SHARE_DROPPED, LEAST_RATINGS, N_TEST, N_VALID = 0.1, 30, 10, 5
N_USERS, N_ITEMS, N_CELLS = 3_680, 3_318, (463_361, 18_400, 36_800)
MEASURES = ("err", "ndcg1", "ndcg5", "ndcg10")


class Cells(NamedTuple):
    """Ratings from 1 to 5, user by user, each user's from the first to the last."""

    user: np.ndarray
    item: np.ndarray
    rating: np.ndarray


class Split(NamedTuple):
    """Users and items by number, 0 to n − 1; what is known of them is listed in that order."""

    train: Cells
    valid: Cells
    test: Cells
    user_id: np.ndarray  # as the files number them
    item_id: np.ndarray
    age: np.ndarray  # of each user: the lowest age of a band
    gender: np.ndarray  # "F" or "M"
    occupation: np.ndarray  # a code, 0 to 20
    genres: np.ndarray  # of each item: [item, genre], whether it is of this genre
    year: np.ndarray  # of its release

    @property
    def n_users(self) -> int:
        """Users with enough ratings."""
        return len(self.user_id)

    @property
    def n_items(self) -> int:
        """Movies that these users rated, be it only where nobody learns from it."""
        return len(self.item_id)


class Scores(NamedTuple):
    """What a method says of the cells it never saw: more is better. And the time that learning and scoring took."""

    valid: np.ndarray
    test: np.ndarray
    seconds: float
    rank_seconds: float = 0.0
    best: np.ndarray | None = None  # of a whole catalogue, for each user


def load() -> Split:
    """The ratings in $THURBO_DATA/movielens-1m, divided."""
    folder = Path(os.environ["THURBO_DATA"]) / "movielens-1m"
    split = divide(read_ratings(folder), read_users(folder), read_movies(folder))
    found = (split.n_users, split.n_items, *(len(cells.user) for cells in (split.train, split.valid, split.test)))
    assert found == (N_USERS, N_ITEMS, *N_CELLS), f"users, items and cells are {found}: these are other ratings"
    return split


def read_ratings(folder: Path) -> pd.DataFrame:
    """user_id, movie_id, rating, time_order; of GroupLens' own file, ratings of one second stay in its order."""
    if (folder / "ratings.csv.xz").exists():
        return pd.read_csv(folder / "ratings.csv.xz")
    names = ["user_id", "movie_id", "rating", "timestamp"]
    ratings = pd.read_csv(folder / "ratings.dat", sep="::", engine="python", names=names, encoding="latin-1")
    order = ratings.groupby("user_id")["timestamp"].rank(method="first").astype(int) - 1
    return ratings.drop(columns="timestamp").assign(time_order=order)


def read_users(folder: Path) -> pd.DataFrame:
    """gender, age and occupation by user_id."""
    names = ["user_id", "gender", "age", "occupation", "zip"]
    return pd.read_csv(folder / "users.dat", sep="::", engine="python", names=names, index_col="user_id", dtype=str)


def read_movies(folder: Path) -> pd.DataFrame:
    """The year by movie_id, and a column for each genre."""
    names = ["movie_id", "title", "genres"]
    movies = pd.read_csv(
        folder / "movies.dat", sep="::", engine="python", names=names, index_col="movie_id", encoding="latin-1"
    )
    year = movies["title"].str.extract(r"\((\d{4})\)\s*$", expand=False).astype(int)
    return pd.concat([year.rename("year"), movies["genres"].str.get_dummies("|").astype(bool)], axis=1)


def divide(ratings: pd.DataFrame, users: pd.DataFrame, movies: pd.DataFrame) -> Split:
    """The paper's protocol; of equally often rated movies the one with the lower number goes first."""
    number = ratings["movie_id"].value_counts().sort_index().sort_values(ascending=False, kind="stable")
    rare = number.index[math.ceil(SHARE_DROPPED * len(number)) :]
    ratings = ratings[ratings["movie_id"].isin(rare)]
    left = ratings["user_id"].value_counts()
    ratings = ratings[ratings["user_id"].isin(left.index[left >= LEAST_RATINGS])]
    ratings = ratings.sort_values(["user_id", "time_order"], kind="stable")
    user_id, user = np.unique(ratings["user_id"], return_inverse=True)
    item_id, item = np.unique(ratings["movie_id"], return_inverse=True)
    later = ratings.groupby("user_id").cumcount(ascending=False).to_numpy()  # how many ratings follow
    whole = Cells(user, item, ratings["rating"].to_numpy(np.int64))
    train, valid, test = (
        Cells(*(each[which] for each in whole))
        for which in (later >= N_TEST + N_VALID, (later >= N_TEST) & (later < N_TEST + N_VALID), later < N_TEST)
    )
    known = users.loc[user_id]
    numbers = (known[name].to_numpy().astype(np.int64) for name in ("age", "occupation"))
    age, occupation = numbers
    about = movies.loc[item_id]
    genres, year = about.drop(columns="year").to_numpy(bool), about["year"].to_numpy(np.int64)
    return Split(train, valid, test, user_id, item_id, age, known["gender"].to_numpy(), occupation, genres, year)


def figures(cells: Cells, scores: np.ndarray) -> dict[str, np.ndarray]:
    """Each measure, user by user: NDCG with gain 2^rating − 1, ERR with stop probability (2^(rating − 1) − 1) / 16."""
    found = {f"ndcg{k}": metrics.ndcg(cells.rating, scores, k, groups=cells.user) for k in (1, 5, 10)}
    return {"err": metrics.err(cells.rating - 1, scores, 4, groups=cells.user)} | found
