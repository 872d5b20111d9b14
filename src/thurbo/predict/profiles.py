"""§8 Items known by their attributes: part-worths, importances, shares of choice, and utilities of new items.

The parameters of a profile f are B f, so any profile of known attribute levels has utilities, fitted or not. All
numbers are given the evidence of each row, by mean-field, and averaged over the rows of a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from thurbo._typing import Array
from thurbo.errors import SchemaError
from thurbo.latent.constraints import Gauge
from thurbo.latent.evidence import Evidence
from thurbo.latent.inference.posterior import Belief, summary
from thurbo.latent.rbm import Params
from thurbo.predict import moments
from thurbo.predict.items import only_column
from thurbo.predict.moments import How
from thurbo.table.columns.cells import Block, listing, suggestion
from thurbo.table.columns.listed import Design, as_pairs
from thurbo.table.schema.schema import Schema

LEVEL = 0.95  # of intervals of means


def column(schema: Schema, name: str | None) -> str:
    """The column whose items have attributes: the given one, or the only one there is."""
    held = [each for each, kind in schema.items() if kind.design is not None]
    found = f"{len(held)} columns have items with attributes" if held else "no column has items with attributes"
    lacks = ("its items have no attributes", "give attributes= to the column")
    return only_column(schema, name, held, lacks, (found, "use from_choices(attributes=...), or attributes={...}"))


def coded(schema: Schema, name: str, given: Any) -> tuple[list[Any], np.ndarray]:
    """Names and features of profiles: {name: {attribute: value}}, or a list of {attribute: value}."""
    coding = schema[name].design.coding  # type: ignore[union-attr]
    if not isinstance(given, Mapping):
        given = dict(enumerate(given, 1))
    pairs, known = as_pairs(given), [each.name for each in coding.attributes]
    for item, own in pairs:
        for attribute, _ in own:
            if attribute not in known:
                remedy = f"{suggestion(attribute, known)}the attributes are {listing(known)}"
                raise SchemaError(f"profile {item} has the attribute {attribute}", column=name, remedy=remedy)
    return [item for item, _ in pairs], coding.matrix(pairs)


def with_profiles(params: Params, schema: Schema, name: str, features: np.ndarray) -> Params:
    """The parameters of profiles in the place of sites: B f for each."""
    assert params.effects is not None
    own = np.asarray(features, np.float32) @ np.asarray(params.effects)[schema.effect_slices[name]]
    n, first = len(features), 1 + params.n_hidden
    scale = np.asarray(params.gauge.scale)[schema.slices[name].start]
    return params._replace(
        effects=None,
        presence=None,
        site_bias=jnp.asarray(own[:, 0]),
        weights=jnp.asarray(own[:, 1:first]),
        loadings=jnp.asarray(own[:, first:]),
        gauge=Gauge(jnp.zeros((n, 1), jnp.float32), jnp.full(n, scale, jnp.float32)),
    )


@partial(jax.jit, static_argnames=("how",))
def _beliefs(params: Params, evidence: Evidence, how: How) -> tuple[Array, ...]:
    found = summary(params, evidence, how.n_steps)
    return (found.hidden, found.factors, *(() if found.whitener is None else (found.whitener,)))


def beliefs(params: Params, evidence: Any, how: How) -> Belief:
    """The hidden layer given each row; without evidence one row, at the means over the training table."""
    if evidence is None:
        hidden, n_factors = np.asarray(params.hidden_mean)[None, :], params.n_factors
        whitener = np.eye(n_factors, dtype=np.float32)[None] if n_factors else None
        return Belief(hidden, np.zeros((1, n_factors), np.float32), None, whitener)  # type: ignore[arg-type]
    hidden, factors, *whitener = evidence.by_chunks(lambda rows: _beliefs(params, rows, how))
    return Belief(hidden, factors, None, whitener[0] if whitener else None)


@jax.jit
def _moments(params: Params, *belief: Array) -> tuple[Array, Array]:
    hidden, factors, *whitener = belief
    sites = jnp.arange(params.site_bias.shape[0])
    return Belief(hidden, factors, None, whitener[0] if whitener else None).at(params, sites, together=True)


def chances(params: Params, belief: Belief, noise: str) -> np.ndarray:
    """P(profile is chosen from all of them), [row, profile]; `params` are those of `with_profiles`."""
    leaves = [leaf for leaf in (belief.hidden, belief.factors, belief.whitener) if leaf is not None]
    mean, deviation = moments.in_portions(partial(_moments, params), *map(np.asarray, leaves))
    if noise == "gumbel":
        wide = np.sqrt(1.0 + 6.0 / np.pi**2 * np.maximum(deviation**2 - 1.0, 0.0).mean(axis=1, keepdims=True))
        chance = np.exp(mean / wide - (mean / wide).max(axis=1, keepdims=True))
    else:
        chance = np.asarray(moments.at_moments(moments.largest, (), mean, deviation)[0], np.float64)
    return np.asarray(chance / chance.sum(axis=1, keepdims=True))


def utilities(params: Params, belief: Belief) -> np.ndarray:
    """Mean utility of each profile for each row, [row, profile]; `params` are those of `with_profiles`."""
    found = np.asarray(params.site_bias)[None, :] + np.asarray(belief.hidden) @ np.asarray(params.weights).T
    return np.asarray(found + np.asarray(belief.factors) @ np.asarray(params.loadings).T, np.float64)


def worths(params: Params, schema: Schema, name: str, belief: Belief) -> np.ndarray:
    """Part-worths of each row, [row, feature]: B_α + B_W q + B_V z, in units of the noise, per standardised feature."""
    assert params.effects is not None
    effects = np.asarray(params.effects, np.float64)[schema.effect_slices[name]]
    first = 1 + params.n_hidden
    found = effects[:, 0][None, :] + np.asarray(belief.hidden, np.float64) @ effects[:, 1:first].T
    return np.asarray(found + np.asarray(belief.factors, np.float64) @ effects[:, first:].T)


def _places(design: Design) -> list[tuple[Any, slice]]:
    """Each attribute, and which features are its own."""
    ends = np.cumsum([len(each.features) for each in design.coding.attributes]).tolist()
    return [
        (each, slice(end - len(each.features), end)) for each, end in zip(design.coding.attributes, ends, strict=True)
    ]


def _contrasts(design: Design) -> np.ndarray:
    """From effects of features to what is shown, [shown, feature]: levels relative to their mean, numbers per unit."""
    out = np.zeros((design.matrix.shape[1],) * 2)
    for each, own in _places(design):
        out[own, own] = np.eye(len(each.features)) - 1.0 / len(each.features) if each.levels else np.eye(1) / each.scale
    return out


def errors(
    params: Params, schema: Schema, name: str, block: Block, worth: np.ndarray, parts: Iterable[np.ndarray]
) -> list[np.ndarray]:
    """Standard errors of mean effects, [shown] for each group: (Σ_r I_r (1 + S I_r)⁻¹)⁻¹, as in a mixed model.

    I_r is the information of a row's tasks, by the logit approximation at the row's own utilities; S is the covariance
    of the effects over people in the model. Parameters are those of the leading member.
    """
    design = schema[name].design
    assert params.effects is not None
    assert block.entries is not None
    assert block.tasks is not None
    assert design is not None
    effects = np.asarray(params.effects, np.float64)[schema.effect_slices[name]]
    first, rate = 1 + params.n_hidden, np.asarray(params.hidden_mean, np.float64)
    weights, loadings = effects[:, 1:first] * np.sqrt(rate * (1.0 - rate)), effects[:, first:]
    spread = weights @ weights.T + loadings @ loadings.T
    size, unit = block.tasks.size, 1.0 if block.tasks.noise == "gumbel" else np.pi / np.sqrt(6.0)
    tier = block.tier[:, 0].reshape(-1, size)
    row = block.entries.row.reshape(-1, size)[:, 0]
    features = design.matrix[block.entries.site].reshape(len(tier), size, -1)
    utility = np.where(tier >= 0, unit * np.einsum("tsf,tf->ts", features, worth[row]), -np.inf)
    chance = np.exp(utility - utility.max(axis=1, keepdims=True, initial=-1e300))
    chance = chance / np.maximum(chance.sum(axis=1, keepdims=True), 1e-300)
    around = features - np.einsum("ts,tsf->tf", chance, features)[:, None, :]
    n_features, n_rows = features.shape[2], block.n_rows
    own = np.zeros((n_rows, n_features, n_features))
    np.add.at(own, row, unit**2 * np.einsum("ts,tsf,tsg->tfg", chance, around, around))
    weight = own @ np.linalg.inv(np.eye(n_features) + spread @ own)
    to_shown, found = _contrasts(design), []
    for rows in parts:
        covariance = np.linalg.pinv(weight[rows].sum(axis=0), rcond=1e-9)
        found.append(np.sqrt(np.maximum(np.diag(to_shown @ covariance @ to_shown.T), 0.0)))
    return found


def groups(by: Any, n_rows: int) -> dict[Any, np.ndarray]:
    """Rows that are averaged together, by label; without labels, all rows."""
    if by is None:
        return {"all": np.arange(n_rows)}
    labels = np.asarray(getattr(by, "labels", by), object)
    if labels.shape != (n_rows,):
        raise SchemaError(f"by= has {labels.shape} labels and the table {n_rows} rows", remedy="give one for each row")
    found = dict.fromkeys(label for label in labels.tolist() if label is not None)
    return {label: np.flatnonzero(labels == label) for label in found}


def summarised(
    schema: Schema, name: str, worth: np.ndarray, parts: Mapping[Any, np.ndarray], errors: Sequence[np.ndarray] | None
) -> dict[str, list[Any]]:
    """The long table of `part_worths`: mean, interval of the mean, spread over rows, importance of each attribute."""
    design = schema[name].design
    assert design is not None
    worth = worth @ _contrasts(design).T
    out: dict[str, list[Any]] = {
        each: [] for each in ("group", "attribute", "level", "part_worth", "low", "high", "spread", "importance")
    }
    reach = float(ndtri(0.5 + 0.5 * LEVEL))
    # How far each attribute can move the utility of a profile, [row, attribute].
    found = []
    for each, places in _places(design):
        if each.levels:
            found.append(np.ptp(worth[:, places], axis=1))
        else:  # over the range of the training table, in the user's units
            found.append(np.abs(worth[:, places.start]) * each.scale * np.ptp(design.matrix[:, places.start]))
    ranges = np.stack(found, axis=1)
    for number, (label, rows) in enumerate(parts.items()):
        own = worth[rows]
        mean, spread = own.mean(axis=0), own.std(axis=0, ddof=1 if len(own) > 1 else 0)
        reaches = np.full_like(mean, np.nan) if errors is None else reach * errors[number]
        share = (ranges[rows] / np.maximum(ranges[rows].sum(axis=1, keepdims=True), 1e-12)).mean(axis=0)
        figures = np.stack([mean, mean - reaches, mean + reaches, spread])
        for at, (each, places) in enumerate(_places(design)):
            for place, level in enumerate(each.levels or (None,), places.start):
                values = (label, each.name, level, *figures[:, place], share[at])
                for key, value in zip(out, values, strict=True):
                    out[key].append(value)
    return out
