"""Surprise: SVD, that is biases and factors by stochastic gradient descent.

Settings: factors, epochs, rate, penalty.
"""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
from movielens_cells import Cells, read, write
from surprise import SVD, Dataset, Reader


def main() -> None:
    """Learn, and score what was held out."""
    task, (n_factors, n_epochs, rate, penalty) = read()
    frame = pd.DataFrame({"user": task.train.user, "item": task.train.item, "rating": task.rating})
    learned = Dataset.load_from_df(frame, Reader(rating_scale=(1, 5))).build_full_trainset()
    model = SVD(
        n_factors=int(n_factors), n_epochs=int(n_epochs), lr_all=float(rate), reg_all=float(penalty), random_state=0
    )
    started = time.perf_counter()
    model.fit(learned)

    def score(cells: Cells) -> np.ndarray:
        # Without clipping: ratings above five would otherwise be ties.
        pairs = zip(cells.user.tolist(), cells.item.tolist(), strict=True)
        return np.array([model.predict(user, item, clip=False).est for user, item in pairs])

    write(score(task.valid), score(task.test), started)


if __name__ == "__main__":
    main()
