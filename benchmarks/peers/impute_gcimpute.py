"""gcimpute: a Gaussian copula of ordinal and continuous columns, told apart by its own rule.

Its own filled-in values for absolute errors. They are medians; for hits each gap takes the answer with the largest mass
under the normal that gcimpute finds for its latent value, between the cuts that the column's frequencies give.
"""

from __future__ import annotations

import numpy as np
from cells import levels, nearest, read, write
from gcimpute.gaussian_copula import GaussianCopula
from scipy.stats import norm


def most_likely(table: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """The answer of largest mass in every cell, of latent means and deviations."""
    out = table.copy()
    for j, column in enumerate(table.T):
        gaps, known = np.isnan(column), levels(column)
        share = np.searchsorted(np.sort(column[~gaps]), known, side="right") / (~gaps).sum()
        cuts = norm.ppf(np.concatenate([[0.0], share[:-1], [1.0]]))
        mass = np.diff(norm.cdf((cuts[None, :] - mean[gaps, j, None]) / deviation[gaps, j, None]), axis=1)
        out[gaps, j] = known[mass.argmax(axis=1)]
    return out


def main() -> None:
    """Fit, fill in, and read off the latent normals."""
    table = read()
    model = GaussianCopula()
    filled = model.fit_transform(X=table)
    write(nearest(table, filled), most_likely(table, model._latent_Zimp, model._get_cond_std_missing()))


if __name__ == "__main__":
    main()
