"""myFM: Bayesian factorisation machines with an ordered probit, by Gibbs sampling.

Settings: rank, iterations, those of them left out at the start, the seed, and any of: "rated" if a user is also what
the user has rated (SVD++), "raters" if an item is also who has rated it, "side" for the age, gender and occupation of
users and the genres and year of items. The score is the rating expected by the mean of the kept samples' probabilities.
"""

from __future__ import annotations

import time

import numpy as np
from movielens_cells import Cells, Task, read, write
from myfm import MyFMOrderedProbit, RelationBlock
from scipy import sparse


def of_levels(values: np.ndarray) -> sparse.csr_matrix:
    """One feature for each distinct value."""
    found, place = np.unique(values, return_inverse=True)
    return sparse.csr_matrix((np.ones(len(place)), (np.arange(len(place)), place)), shape=(len(place), len(found)))


def in_proportion(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> sparse.csr_matrix:
    """1/√(how many) at each of a row's columns."""
    share = 1 / np.sqrt(np.maximum(np.bincount(rows, minlength=shape[0]), 1))
    return sparse.csr_matrix((share[rows], (rows, columns)), shape=shape)


def features(task: Task, how: list[str]) -> tuple[list[sparse.csr_matrix], list[sparse.csr_matrix]]:
    """Groups of features of the users, and of the items."""
    user, item = task.train
    users, items = ([sparse.identity(number, format="csr")] for number in (task.n_users, task.n_items))
    if "rated" in how:
        users.append(in_proportion(user, item, (task.n_users, task.n_items)))
    if "raters" in how:
        items.append(in_proportion(item, user, (task.n_items, task.n_users)))
    if "side" in how:
        users += [of_levels(each) for each in task.about_users.values()]
        item_of, genre = np.nonzero(task.about_items["genres"])
        genres = in_proportion(item_of, genre, task.about_items["genres"].shape)
        items += [of_levels(task.about_items["year"]), genres]
    return users, items


def main() -> None:
    """Learn, and score what was held out."""
    task, (rank, n_iterations, n_left_out, seed, *how) = read()
    parts = features(task, how)
    groups = [each.shape[1] for part in parts for each in part]
    users, items = (sparse.hstack(part, format="csr") for part in parts)

    def blocks(cells: Cells) -> list[RelationBlock]:
        return [RelationBlock(cells.user, users), RelationBlock(cells.item, items)]

    started = time.perf_counter()
    model = MyFMOrderedProbit(rank=int(rank), random_seed=int(seed))
    n_kept = int(n_iterations) - int(n_left_out)
    rating = task.rating.astype(np.int64) - 1
    model.fit(None, rating, blocks(task.train), n_iter=int(n_iterations), n_kept_samples=n_kept, group_shapes=groups)
    valid, test = (model.predict_proba(None, blocks(cells)) @ np.arange(1, 6) for cells in (task.valid, task.test))
    write(valid, test, started)


if __name__ == "__main__":
    main()
