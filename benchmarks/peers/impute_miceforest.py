"""miceforest: chained LightGBM with mean matching; median and most frequent value of ten completed tables.

Columns of at most twenty answers are ordered categories to LightGBM for hits, numbers for absolute errors.
"""

from __future__ import annotations

import miceforest as mf
import numpy as np
import pandas as pd
from cells import levels, of_draws, read, write

N_TABLES, N_ROUNDS, MOST_CATEGORIES = 10, 5, 20


def complete(table: np.ndarray, as_labels: bool) -> np.ndarray:
    """Completed tables, [draw, row, column]; answers as categories, or all as numbers."""
    frame = pd.DataFrame(table, columns=[f"c{j}" for j in range(table.shape[1])])
    for name in frame:
        known = levels(frame[name].to_numpy())
        if as_labels and len(known) <= MOST_CATEGORIES:
            frame[name] = pd.Categorical(frame[name], categories=known)
    # "normal" matches log-odds, which are infinite where a tree is certain of a label.
    how = {name: "fast" for name in frame if frame[name].dtype == "category"}
    kernel = mf.ImputationKernel(frame, num_datasets=N_TABLES, mean_match_strategy=how, random_state=0)
    kernel.mice(N_ROUNDS, num_threads=1)
    return np.stack([kernel.complete_data(k).astype(float).to_numpy() for k in range(N_TABLES)])


def main() -> None:
    """Numbers for one measure, labels for the other."""
    table = read()
    write(of_draws(table, complete(table, False))[0], of_draws(table, complete(table, True))[1])


if __name__ == "__main__":
    main()
