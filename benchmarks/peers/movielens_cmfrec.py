"""cmfrec: collective matrix factorisation of explicit ratings by alternating least squares.

Settings: factors, penalty, rounds, "scaled" or "plain" as the penalty grows with the number of ratings or not, and the
weight of a second factorisation of which items were rated; 0 for none.
"""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
from cmfrec import CMF
from movielens_cells import Cells, read, write


def main() -> None:
    """Learn, and score what was held out."""
    task, (n_factors, penalty, n_rounds, kind, weight) = read()
    frame = pd.DataFrame({"UserId": task.train.user, "ItemId": task.train.item, "Rating": task.rating.astype(float)})
    model = CMF(
        method="als",
        k=int(n_factors),
        lambda_=float(penalty),
        niter=int(n_rounds),
        scale_lam=kind == "scaled",
        add_implicit_features=float(weight) > 0,
        w_implicit=float(weight) or 0.5,
        random_state=1,
        verbose=False,
    )
    started = time.perf_counter()
    model.fit(frame)

    def score(cells: Cells) -> np.ndarray:
        found = np.asarray(model.predict(cells.user, cells.item), float)
        return np.where(np.isnan(found), task.rating.mean(), found)  # an item that nobody rated

    write(score(task.valid), score(task.test), started)


if __name__ == "__main__":
    main()
