"""§6 Numbers of hidden units and factors: a rule for single models, and models of different sizes in one program.

Members of a population have different sizes. They share the program of the largest size; unused units stay at zero, and
so do sites that are added to share programs with other tables (`evidence.padding`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from thurbo.evidence.padding import Padding
from thurbo.learning.start import Layout
from thurbo.learning.trainer import TrainState

LARGEST = 50  # largest number of hidden units that the rule gives
ENUMERATED, ENUMERATED_ON_CPU = 10, 5  # the same for exact fits


def by_rule(chosen: Mapping[str, Any], n_rows: int, n_sites: int) -> tuple[int, int]:
    """Sizes of a single model: one unit per site, at most one unit per twenty rows, no factors.

    If all states are enumerated, as many units as this takes about a minute for: one more doubles the time.
    """
    n_hidden, n_factors = chosen["n_hidden"], chosen["n_factors"]
    if n_hidden == "auto":
        most = LARGEST
        if chosen["objective"] == "exact":
            most = ENUMERATED_ON_CPU if jax.default_backend() == "cpu" else ENUMERATED
        n_hidden = int(np.clip(min(n_sites, n_rows // 20), 2, most))
    return int(n_hidden), 0 if n_factors == "auto" else int(n_factors)


def cut(state: TrainState, layout: Layout, n_hidden: int, n_factors: int) -> tuple[TrainState, Layout]:
    """The same initial state with fewer active units."""
    start = state.learnable
    layout = active_only(layout, (start.weights.shape[1], start.loadings.shape[1]), n_hidden, n_factors)
    units, factors = np.asarray(layout.active_hidden), np.asarray(layout.active_factors)
    weights, loadings, effects = jax.device_put(
        (
            np.asarray(start.weights) * units,
            np.asarray(start.loadings) * factors,
            np.asarray(start.effects) * np.concatenate([[True], units, factors]),
        )
    )
    return state._replace(learnable=start._replace(weights=weights, loadings=loadings, effects=effects)), layout


def active_only(layout: Layout, size: tuple[int, int], n_hidden: int, n_factors: int) -> Layout:
    """The layout of a model of some size of which only the first units and factors are used."""
    units, factors = (np.arange(most) < n for most, n in zip(size, (n_hidden, n_factors), strict=True))
    units, factors = jax.device_put((units, factors))
    return layout._replace(active_hidden=units, active_factors=factors)


def only_real(padding: Padding, state: TrainState) -> TrainState:
    """An initial state in the common shape without what was drawn for sites that are added."""
    real, start = padding.sites(np.ones((len(padding.place), 1), np.float32), 0.0), state.learnable
    weights, loadings = jax.device_put((np.asarray(start.weights) * real, np.asarray(start.loadings) * real))
    return state._replace(learnable=start._replace(weights=weights, loadings=loadings))


def pad(padding: Padding, layout: Layout) -> Layout:
    """The types of sites in the common shape."""
    nothing: dict[str, Any] = {"n_cuts": 0, "measured": False, "utility": False, "decay": 0.0}
    own = {name: value for name in nothing if (value := getattr(layout, name)) is not None}
    return layout._replace(**jax.device_put({name: padding.sites(own[name], nothing[name]) for name in own}))
