"""lace: cross-categorisation; answers are categories, but numbers where no one of them is as frequent as a tenth.

Hits by `impute`, its most likely value; absolute errors by the median of draws of the cell.
"""

from __future__ import annotations

import lace
import numpy as np
import pandas as pd
from cells import levels, most_frequent, nearest, read, write

N_STATES, N_STEPS, N_DRAWS, LEAST_MODE = 16, 1000, 100, 0.1


def main() -> None:
    """Run the chains, then ask each gap."""
    table = read()
    known = [levels(column) for column in table.T]
    is_label = [most_frequent(column) >= LEAST_MODE for column in table.T]
    columns = {}
    for j, column in enumerate(table.T):
        codes = np.searchsorted(known[j], column).astype(float)
        if is_label[j]:
            text = np.asarray([f"v{code:.0f}" for code in codes], object)
            columns[f"c{j}"] = pd.Series(np.where(np.isnan(column), None, text))
        else:
            columns[f"c{j}"] = pd.Series(column)
    frame = pd.DataFrame(columns)
    frame.index = pd.Index([f"r{i}" for i in range(len(frame))], name="ID")
    engine = lace.Engine.from_df(frame, n_states=N_STATES, rng_seed=0)
    engine.update(N_STEPS, quiet=True)
    median, mode = table.copy(), table.copy()
    for j in range(table.shape[1]):
        gaps = np.flatnonzero(np.isnan(table[:, j]))
        best = engine.impute(f"c{j}", rows=[f"r{i}" for i in gaps], with_uncertainty=False)[f"c{j}"].to_list()
        for i, value in zip(gaps, best, strict=True):
            draws = engine.draw(f"r{i}", f"c{j}", n=N_DRAWS).to_list()
            if is_label[j]:
                mode[i, j] = known[j][int(value[1:])]
                median[i, j] = known[j][int(np.median([int(draw[1:]) for draw in draws]))]
            else:
                mode[i, j], median[i, j] = value, np.median(draws)
    write(nearest(table, median), nearest(table, mode))


if __name__ == "__main__":
    main()
