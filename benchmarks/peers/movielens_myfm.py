"""myFM: Bayesian factorisation machines with an ordered probit, by Gibbs sampling.

Settings: rank, iterations, those of them left out at the start, and "svdpp" if a user is also what the user has rated.
The score is the rating expected by the mean of the kept samples' probabilities.
"""

from __future__ import annotations

import time

import numpy as np
from movielens_cells import Cells, Task, read, write
from myfm import MyFMOrderedProbit, RelationBlock
from scipy import sparse


def user_features(task: Task, with_rated: bool) -> sparse.csr_matrix:
    """A user's number; with the rated items, 1/√(how many) at each of these."""
    own = sparse.identity(task.n_users, format="csr")
    if not with_rated:
        return own
    share = 1 / np.sqrt(np.bincount(task.train.user, minlength=task.n_users))
    shape = (task.n_users, task.n_items)
    rated = sparse.csr_matrix((share[task.train.user], (task.train.user, task.train.item)), shape=shape)
    return sparse.hstack([own, rated], format="csr")


def main() -> None:
    """Learn, and score what was held out."""
    task, (rank, n_iterations, n_left_out, *how) = read()
    users, items = user_features(task, "svdpp" in how), sparse.identity(task.n_items, format="csr")
    groups = [task.n_users, task.n_items] + ([task.n_items] if "svdpp" in how else [])  # numbers, rated items, items

    def blocks(cells: Cells) -> list[RelationBlock]:
        return [RelationBlock(cells.user, users), RelationBlock(cells.item, items)]

    started = time.perf_counter()
    model = MyFMOrderedProbit(rank=int(rank), random_seed=0)
    n_kept = int(n_iterations) - int(n_left_out)
    rating = task.rating.astype(np.int64) - 1
    model.fit(None, rating, blocks(task.train), n_iter=int(n_iterations), n_kept_samples=n_kept, group_shapes=groups)
    valid, test = (model.predict_proba(None, blocks(cells)) @ np.arange(1, 6) for cells in (task.valid, task.test))
    write(valid, test, started)


if __name__ == "__main__":
    main()
