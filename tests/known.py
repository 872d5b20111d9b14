"""A model of every data type whose parameters are chosen and not learned, and its probabilities by enumeration."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

import thurbo as tb
from thurbo.latent.constraints import Gauge
from thurbo.latent.rbm import Params
from thurbo.predict.model import Member, MemberSettings, Model

TRUST, PARTIES, ISSUES, MEDIA = ("none", "some", "a lot"), ("Blue", "Green", "Red"), ("tax", "health"), ("tv", "net")
SCHEMA = tb.Schema({
    "height": tb.Continuous(location=170.0, scale=8.0),
    "income": tb.Continuous(transform="log", location=10.0, scale=0.5),
    "member": tb.Binary(true="yes", values=("no", "yes")),
    "trust": tb.Ordinal(TRUST),
    "party": tb.Categorical(PARTIES),
    "issues": tb.Ranking(ISSUES, cell_format="text"),
    "media": tb.MultiSelect(MEDIA, cell_format="list"),
})  # fmt: skip
SITES = ("height", "income", "member", "trust", *PARTIES, *ISSUES, *MEDIA)
CUTS = {"member": [0.2], "trust": [-0.5, 0.8], "tv": [0.1], "net": [-0.3]}
SCALE = {"height": 0.8, "income": 0.7}


def known_params(strength: float = 1.0) -> Params:
    """Two hidden units that every site depends on."""
    rng = np.random.default_rng(63)
    weights = strength * rng.choice([-1.0, 1.0], (len(SITES), 2)) * rng.uniform(0.8, 1.6, (len(SITES), 2))
    bias = -0.5 * weights.sum(axis=1) + 0.2 * rng.normal(size=len(SITES))
    hidden_bias = -bias @ weights - 0.5 * (weights**2).sum(axis=0) - weights[:, 0] @ weights[:, 1] / 2
    cuts = np.full((len(SITES), 2), np.inf)
    for site, values in CUTS.items():
        cuts[SITES.index(site), : len(values)] = values
    scale = np.asarray([SCALE.get(site, 1.0) for site in SITES])
    as_array = lambda value: jnp.asarray(value, jnp.float32)  # noqa: E731
    return Params(
        site_bias=as_array(bias),
        weights=as_array(weights),
        hidden_bias=as_array(hidden_bias),
        loadings=jnp.zeros((len(SITES), 0), jnp.float32),
        gauge=Gauge(as_array(cuts), as_array(scale)),
        hidden_mean=jnp.full(2, 0.5, jnp.float32),
    )


def one_member(schema: tb.Schema, params: Params, objective: str, unobserved: Any = "marginalize") -> Model:
    """A model with one member of these parameters; `TBM._adopt` takes it over."""
    member = Member(MemberSettings(params.n_hidden, params.n_factors, 0.0), schema, params)
    return Model(schema, (member,), params, objective=objective, unobserved=unobserved)


def changed(model: Model, params: Params | None = None, schema: tb.Schema | None = None) -> Model:
    """The same model, of one member, with other parameters or another schema."""
    (member,) = model.members
    params, schema = params or model.params, schema or model.schema
    return replace(model, schema=schema, params=params, members=(member._replace(schema=schema, params=params),))


def known_members() -> tb.TBM:
    """An estimator of two members; the second finds the answers more dependent."""
    model, strengths, shares = known_model(), (1.0, 1.4), (0.6, 0.4)
    (only,) = model.model_.members
    members = tuple(only._replace(params=known_params(s), weight=w) for s, w in zip(strengths, shares, strict=True))
    model._adopt(replace(model.model_, members=members, objective="multi-prediction"), [], True)
    return model


def known_model(unobserved: str = "marginalize") -> tb.TBM:
    """The estimator around it, as `load` would build it."""
    model = tb.TBM(SCHEMA, n_hidden=2, unobserved=unobserved, random_state=0, verbose=False)
    model._adopt(one_member(SCHEMA, known_params(), "exact", unobserved), [], True)
    model.n_features_in_, model.frame_kind_ = len(SCHEMA), "pandas"
    model.feature_names_in_ = np.asarray(SCHEMA.names, object)
    return model


def empty_rows(n_rows: int, **cells: Any) -> pd.DataFrame:
    """Rows that say nothing but these cells."""
    frame = pd.DataFrame({name: pd.Series([None] * n_rows, dtype=object) for name in SCHEMA})
    for name, cell in cells.items():
        frame[name] = pd.Series([cell] * n_rows, dtype=object)
    return frame.astype({"height": float, "income": float})


class Oracle:
    """P(h) and P(cell | h) of the definition, in float64, for every state of the two hidden units."""

    def __init__(self, unobserved: str = "marginalize"):
        params = known_params()
        self.h = np.array(list(itertools.product([0.0, 1.0], repeat=2)))
        self.mean = np.asarray(params.site_bias, float) + self.h @ np.asarray(params.weights, float).T
        self.linear = self.h @ np.asarray(params.hidden_bias, float)
        self.unobserved = unobserved

    def own(self, name: str) -> slice:
        return SCHEMA.slices[name]

    def chance(self, name: str, cell: Any) -> np.ndarray:
        """P(cell | h), a density in standard units for a number, [state]."""
        mean = self.mean[:, self.own(name)]
        if name in SCALE:
            z = SCHEMA[name].to_standard(np.asarray([cell]))[0]
            return norm.pdf(z / SCALE[name], mean[:, 0]) / SCALE[name]
        if name in ("member", "trust"):
            ends = np.concatenate([[-np.inf], CUTS[name], [np.inf]])
            code = SCHEMA[name].labels.index(cell)
            return norm.cdf(ends[code + 1] - mean[:, 0]) - norm.cdf(ends[code] - mean[:, 0])
        if name == "media":
            parts = [norm.cdf((1 if m in cell else -1) * (mean[:, i] - CUTS[m][0])) for i, m in enumerate(MEDIA)]
            return np.prod(parts, axis=0)
        if name == "issues":
            best = ISSUES.index(cell.split(" > ")[0])
            return norm.cdf((mean[:, best] - mean[:, 1 - best]) / np.sqrt(2))
        best = PARTIES.index(cell)
        others = [place for place in range(len(PARTIES)) if place != best]
        covariance = np.eye(len(others)) + 1.0
        return np.array([multivariate_normal.cdf(m[best] - m[others], None, covariance) for m in mean])

    def posterior(self, row: dict[str, Any]) -> np.ndarray:
        """P(h | cells), [state]."""
        present = np.ones(len(SITES), bool)
        if self.unobserved == "exclude":
            present[:] = False
            for name in row:
                present[self.own(name)] = True
        log_p = self.linear + 0.5 * (self.mean[:, present] ** 2).sum(axis=1)
        log_p = log_p + sum(np.log(self.chance(name, cell)) for name, cell in row.items())
        return np.exp(log_p - logsumexp(log_p))
