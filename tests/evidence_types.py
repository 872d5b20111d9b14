"""A model of any size for each kind of evidence, with parameters that are drawn and not learned."""

from __future__ import annotations

import warnings
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd

import thurbo as tb
from tests.known import changed

N_ROWS = 12
PARTIES, ITEMS, MEDIA = ("blue", "green", "red"), tuple("abcd"), ("tv", "net", "press", "radio")
FILMS = tuple(f"i{number}" for number in range(10))


def several(n: int, column: Any, cell: Any) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """The same question under n names, and a cell for each of the rows."""
    names = [f"q{number}" for number in range(n)]
    return dict.fromkeys(names, column), {name: [cell() for _ in range(N_ROWS)] for name in names}


def table(kind: str, seed: int = 0) -> tuple[dict[str, Any], pd.DataFrame]:
    """Columns of one kind, and random answers of which few are missing."""
    rng = np.random.default_rng(seed)
    pick = lambda values: values[rng.integers(len(values))]  # noqa: E731

    def ranked() -> str:
        signs = rng.choice([" > ", " = "], 3, p=[0.7, 0.3])
        items = rng.permutation(ITEMS)
        return items[0] + "".join(sign + item for sign, item in zip(signs, items[1:], strict=True))

    def rated() -> dict[str, int]:
        return {film: int(rng.integers(1, 6)) for film in rng.permutation(FILMS)[: rng.integers(3, 9)]}

    def chosen() -> list[dict[str, Any]]:
        shown = [rng.permutation(FILMS)[:3].tolist() for _ in range(5)]
        return [{"shown": each, "chosen": pick(each)} for each in shown]

    if kind == "yes or no":
        columns, cells = several(12, tb.Binary(true="yes", values=("no", "yes")), lambda: pick(["no", "yes"]))
    elif kind == "ordinal":
        columns, cells = several(10, tb.Ordinal([1, 2, 3, 4]), lambda: pick([1, 2, 3, 4]))
    elif kind == "categorical":
        columns, cells = several(5, tb.Categorical(PARTIES), lambda: pick(PARTIES))
    elif kind == "rankings":
        columns, cells = several(3, tb.Ranking(ITEMS, cell_format="text"), ranked)
    elif kind == "numbers":
        columns, cells = several(10, tb.Continuous(), lambda: rng.normal())
    elif kind == "censored":
        columns, cells = several(10, tb.Censored(limits=(-0.5, 1.0)), lambda: float(np.clip(rng.normal(), -0.5, 1.0)))
    elif kind == "several of a list":
        columns, cells = several(
            3, tb.MultiSelect(MEDIA, cell_format="list"), lambda: [each for each in MEDIA if rng.random() < 0.5]
        )
    elif kind == "lists":
        columns, cells = {"r": tb.Ratings(FILMS)}, {"r": [rated() for _ in range(N_ROWS)]}
    elif kind == "pairs":
        columns = {"r": tb.Pairs(FILMS)}
        cells = {"r": [[tuple(rng.permutation(FILMS)[:2].tolist()) for _ in range(6)] for _ in range(N_ROWS)]}
    elif kind == "logistic pairs":
        columns = {"r": tb.Pairs(FILMS, noise="gumbel")}
        cells = {"r": [[tuple(rng.permutation(FILMS)[:2].tolist()) for _ in range(6)] for _ in range(N_ROWS)]}
    elif kind == "choices":
        columns, cells = {"r": tb.Choice(FILMS)}, {"r": [chosen() for _ in range(N_ROWS)]}
    else:
        columns, cells = several(3, tb.Ranking(ITEMS, context=True), lambda: list(rng.permutation(ITEMS)))
    frame = pd.DataFrame({name: pd.Series(each, dtype=object) for name, each in cells.items()})
    if len(columns) > 2:
        frame = frame.mask(rng.random(frame.shape) < 0.1, None)
    if kind in ("numbers", "censored"):
        frame = frame.astype(float)
    return columns, frame


KINDS = ("yes or no", "ordinal", "categorical", "rankings", "numbers", "censored", "several of a list", "lists")
KINDS += ("pairs", "choices", "logistic pairs", "choices one after another")


def drawn_model(kind: str, n_hidden: int, n_factors: int, size: float, **settings: Any) -> tuple[tb.TBM, pd.DataFrame]:
    """Weights of about `size`, and hidden units that are on in about half of all rows."""
    columns, frame = table(kind)
    rng = np.random.default_rng(n_hidden)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = tb.TBM(columns, n_hidden=n_hidden, n_factors=n_factors, max_epochs=0, random_state=0, **settings)
        objective = "exact" if kind.startswith("choices one") else "likelihood"
        model = model.set_params(objective=objective, verbose=False).fit(frame)
    params = model.params_
    weights = size * rng.normal(size=params.weights.shape)
    bias = -0.5 * weights.sum(axis=1)
    hidden_bias = -bias @ weights - 0.5 * weights.T @ weights.sum(axis=1)
    if model.schema_.listed:  # rows have few of these sites
        hidden_bias = np.zeros(n_hidden)
    as_array = lambda value: jnp.asarray(value, jnp.float32)  # noqa: E731
    params = params._replace(
        weights=as_array(weights),
        site_bias=as_array(bias),
        hidden_bias=as_array(hidden_bias),
        loadings=as_array(0.6 * rng.normal(size=params.loadings.shape)),
        hidden_mean=jnp.full(n_hidden, 0.5, jnp.float32),
    )
    model._adopt(changed(model.model_, params), model.history_, model.converged_)
    return model, frame
