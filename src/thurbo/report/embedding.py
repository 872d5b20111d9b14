"""The map: a two-dimensional embedding in which rows with similar hidden units and factors are close.

t-SNE (openTSNE) of the features on one scale (`queries.scaling`) if it is installed, else principal components.
The same rows and seed give the same map.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal

import numpy as np

from thurbo.report.responses import FloatArray

# With fewer rows t-SNE has no advantage over principal components.
_FEW_ROWS = 50

Method = Literal["t-SNE", "principal components"]


def embed(points: FloatArray, seed: int = 0) -> tuple[FloatArray, Method]:
    """Centred coordinates [row, 2], scaled to a longer side of one, and the method."""
    n_rows, n_features = points.shape
    method: Method = "principal components"
    if n_rows >= _FEW_ROWS and n_features > 2 and np.ptp(points) > 0 and find_spec("openTSNE") is not None:
        plane, method = _tsne(points, seed), "t-SNE"
    else:
        plane = _principal(points)
    return _unit_box(plane), method


def _tsne(points: FloatArray, seed: int) -> FloatArray:
    from openTSNE import TSNE

    n_rows = len(points)
    layout = TSNE(
        perplexity=min(30.0, (n_rows - 1) / 3),
        initialization="pca",
        # Half the usual number of steps: 99 % of the neighbours are the same, in half the time.
        early_exaggeration_iter=125,
        n_iter=250,
        theta=0.8,
        # Several threads change the order of summation, and so the map.
        n_jobs=1,
        negative_gradient_method="bh" if n_rows < 10_000 else "fft",
        random_state=seed,
    )
    return np.asarray(layout.fit(points), float)


def _principal(points: FloatArray) -> FloatArray:
    if not points.size:
        return np.zeros((len(points), 2))
    centred = points - points.mean(axis=0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    plane = left[:, :2] * singular[:2]
    # The sign of a component is arbitrary: the largest coordinate is made positive, so that runs agree.
    sign = np.sign(plane[np.abs(plane).argmax(axis=0), range(plane.shape[1])])
    plane = plane * np.where(sign == 0, 1.0, sign)
    return np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))


def _unit_box(plane: FloatArray) -> FloatArray:
    if not len(plane):
        return plane
    low, high = plane.min(axis=0), plane.max(axis=0)
    longest = float((high - low).max()) or 1.0
    return (plane - (low + high) / 2) / longest
