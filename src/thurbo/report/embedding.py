"""The map: respondents laid out in the plane so that those with similar hidden units stand close.

t-SNE (openTSNE) of the posterior log-odds where it is installed, principal components otherwise.
The same rows and seed give the same map.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal

import numpy as np

from thurbo.report.responses import FloatArray

# Below this many rows neighbourhoods mean little, and principal components say as much.
_FEW_ROWS = 50

Method = Literal["t-SNE", "principal components"]


def embed(log_odds: FloatArray, seed: int = 0) -> tuple[FloatArray, Method]:
    """Coordinates [row, 2], centred, the longer side of their box equal to one, and how they were made."""
    log_odds = np.nan_to_num(np.asarray(log_odds, float), posinf=50.0, neginf=-50.0)
    n_rows, n_hidden = log_odds.shape
    method: Method = "principal components"
    if n_rows >= _FEW_ROWS and n_hidden > 2 and np.ptp(log_odds) > 0 and find_spec("openTSNE") is not None:
        plane, method = _tsne(log_odds, seed), "t-SNE"
    else:
        plane = _principal(log_odds)
    return _unit_box(plane), method


def _tsne(log_odds: FloatArray, seed: int) -> FloatArray:
    from openTSNE import TSNE

    n_rows = len(log_odds)
    layout = TSNE(
        perplexity=min(30.0, (n_rows - 1) / 3),
        initialization="pca",
        # Half the usual steps: neighbours on the map are the same to a per cent, and people wait half as long.
        early_exaggeration_iter=125,
        n_iter=250,
        theta=0.8,
        # More than one thread changes the order of sums, and with it the map.
        n_jobs=1,
        negative_gradient_method="bh" if n_rows < 10_000 else "fft",
        random_state=seed,
    )
    return np.asarray(layout.fit(log_odds), float)


def _principal(log_odds: FloatArray) -> FloatArray:
    if not log_odds.size:
        return np.zeros((len(log_odds), 2))
    centred = log_odds - log_odds.mean(axis=0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    plane = left[:, :2] * singular[:2]
    # A component's sign is arbitrary: make the largest coordinate positive, so that runs agree.
    sign = np.sign(plane[np.abs(plane).argmax(axis=0), range(plane.shape[1])])
    plane = plane * np.where(sign == 0, 1.0, sign)
    return np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))


def _unit_box(plane: FloatArray) -> FloatArray:
    if not len(plane):
        return plane
    low, high = plane.min(axis=0), plane.max(axis=0)
    longest = float((high - low).max()) or 1.0
    return (plane - (low + high) / 2) / longest
