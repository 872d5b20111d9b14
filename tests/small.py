"""Small models and evidence in both languages: the oracle's and thurbo's."""

from __future__ import annotations

import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.oracle import Model
from thurbo.latent.constraints import Box, Gauge, Levels, OneOf, Order, RepeatedChoice
from thurbo.latent.constraints.grouped import form_of, shape_of
from thurbo.latent.evidence import Buckets, Evidence
from thurbo.latent.inference import meanfield, posterior
from thurbo.latent.inference.posterior import expectation, hidden_probability
from thurbo.latent.rbm import Params

UNOBSERVED = ("marginalize", "exclude")
# For tests that take long: either reading of a missing cell without and with factors; the other two pairs are slow.
CROSSED = [("marginalize", 0), ("exclude", 1)]
CROSSED += [pytest.param(*pair, marks=pytest.mark.slow) for pair in (("exclude", 0), ("marginalize", 1))]
# For tests of what both readings share.
EITHER = [pytest.param("marginalize", marks=pytest.mark.slow), "exclude"]
# Random draws that a test takes at full optimisation are divided by this otherwise.
FEWER = 1 if os.environ.get("THURBO_TEST_OPTIMISED") == "1" else 4
# For a program that runs longer than it takes to compile, where conftest.py compiles without optimisation.
RUNS_LONG = {} if os.environ.get("THURBO_TEST_OPTIMISED") == "1" else {"xla_backend_optimization_level": 1}

# One program each: dispatched piece by piece they would be dozens.
mean_field = jax.jit(meanfield.mean_field, static_argnames=("n_steps", "damping", "mass"))
log_evidence_exact = jax.jit(posterior.log_evidence_exact)


def one_table(evidence: Evidence) -> Buckets:
    """A table without lists: slot i is site i."""
    return Buckets((evidence,), (np.arange(evidence.n_rows),), np.arange(evidence.constraints[0].n_slots))


@jax.jit
def exact_posterior(params, evidence):
    """P(h_k = 1 | e) of every row, by thurbo's own enumeration."""
    return expectation(hidden_probability, params, evidence, "exact")[0]


@partial(jax.jit, static_argnames="question")
def ask(region, question, *arguments):
    """A method of a region."""
    return getattr(region, question)(*arguments)


def make_params(seed=0, n_sites=6, n_hidden=3, n_factors=0, size=0.7, dtype=np.float64) -> Params:
    """Half of the sites measured with a scale of their own, the others with one to three cuts."""
    rng = np.random.default_rng(seed)
    n_cuts = n_cuts_of(n_sites)
    cuts = np.full((n_sites, 3), np.inf)
    for i, count in enumerate(n_cuts):
        cuts[i, :count] = np.sort(rng.normal(size=count))
    scale = np.where(n_cuts == 0, rng.uniform(0.5, 1.5, n_sites), 1.0)
    as_array = lambda value: jnp.asarray(value, dtype)  # noqa: E731
    return Params(
        site_bias=as_array(0.3 * rng.normal(size=n_sites)),
        weights=as_array(size * rng.normal(size=(n_sites, n_hidden))),
        hidden_bias=as_array(0.5 * rng.normal(size=n_hidden)),
        loadings=as_array(0.6 * rng.normal(size=(n_sites, n_factors))),
        gauge=Gauge(as_array(cuts), as_array(scale)),
        hidden_mean=as_array(np.full(n_hidden, 0.5)),
    )


def n_cuts_of(n_sites: int) -> np.ndarray:
    return np.arange(n_sites) % 4


def to_oracle(params: Params) -> Model:
    return Model(
        *(np.asarray(a, np.float64) for a in (params.site_bias, params.weights, params.hidden_bias, params.loadings))
    )


def make_evidence(
    params: Params, seed=1, n_rows=5, missing=0.3, unobserved="marginalize", points_only=False
) -> Evidence:
    """Points and intervals on measured sites, levels elsewhere, holes everywhere."""
    rng = np.random.default_rng(seed)
    n_sites, dtype = params.site_bias.shape[0], params.weights.dtype
    n_cuts = np.isfinite(np.asarray(params.gauge.cuts)).sum(axis=1)
    shape = (n_rows, n_sites)
    seen = rng.random(shape) >= missing
    measured = seen & (n_cuts == 0)
    centre, width = rng.normal(size=shape), rng.uniform(0.1, 2.0, shape)
    point = measured & ((rng.random(shape) < 0.5) | points_only)
    lower = np.where(point, centre, np.where(rng.random(shape) < 0.3, -np.inf, centre - width))
    upper = np.where(point, centre, np.where((rng.random(shape) < 0.3) & np.isfinite(lower), np.inf, centre + width))
    lower, upper = np.where(measured, lower, -np.inf), np.where(measured, upper, np.inf)
    code = np.where(seen & (n_cuts > 0), rng.integers(0, np.maximum(n_cuts, 1) + 1, shape), -1)
    present = jnp.asarray(measured | (code >= 0)) if unobserved == "exclude" else None
    box = Box(jnp.asarray(lower, dtype), jnp.asarray(upper, dtype), jnp.asarray(point))
    return Evidence((box, Levels(jnp.asarray(code, jnp.int32))), None, present)


def consecutive(tier):
    """Tiers renumbered 0, 1, … along the last axis; −1 stays, and an order of fewer than two tiers becomes all −1."""
    tier = np.asarray(tier)
    flat = tier.reshape(-1, tier.shape[-1])
    out = np.full(flat.shape, -1, np.int32)
    for row, codes in enumerate(flat):
        seen = codes >= 0
        levels, number = np.unique(codes[seen], return_inverse=True)
        if len(levels) > 1:
            out[row, seen] = number
    return out.reshape(tier.shape)


def order_of(tier, slots=None, n_slots=0, mass="exact", gumbel_scale=1.0) -> Order:
    """An order from any integer codes `[row, order, item]`: gaps allowed, negative takes no part."""
    tier = consecutive(tier)
    depth, width = shape_of(tier)
    has_one_top = depth == 2 and bool(((tier == 1).sum(axis=-1) <= 1).all())
    form = form_of(tier, slots)
    return Order(jnp.asarray(tier), slots, n_slots, depth, width, has_one_top, False, False, mass, gumbel_scale, form)


def one_of(tier, slots=None, n_slots=0) -> OneOf:
    """From codes 1 (candidate), 0 (the rest) and −1."""
    tier = consecutive(tier)
    return OneOf(jnp.asarray(tier), slots, n_slots, 2, int((tier == 1).sum(axis=-1).max(initial=1)))


def repeated_choice(tier, slots=None, n_slots=0) -> RepeatedChoice:
    """From integer codes `[row, order, item]`, without ties above the lowest tier."""
    return RepeatedChoice(jnp.asarray(consecutive(tier)), slots, n_slots, alone=True)


def rows_for_oracle(params: Params, evidence: Evidence):
    """(lower, upper, point, present) of every row, in latent units, from the definitions of Eqs (6), (7)."""
    box, levels = evidence.constraints
    cuts, scale = np.asarray(params.gauge.cuts, np.float64), np.asarray(params.gauge.scale, np.float64)
    for r in range(evidence.n_rows):
        lower, upper = np.asarray(box.lower[r], np.float64) / scale, np.asarray(box.upper[r], np.float64) / scale
        for i, level in enumerate(np.asarray(levels.code[r])):
            if level >= 0:
                ends = np.concatenate([[-np.inf], cuts[i], [np.inf]])
                lower[i], upper[i] = ends[level], ends[level + 1]
        present = np.ones(len(lower), bool) if evidence.present is None else np.asarray(evidence.present[r])
        yield lower, upper, np.asarray(box.point[r]), present


def log_scale_of_points(params: Params, evidence: Evidence) -> np.ndarray:
    """Σ log scale over the points of each row: density in x less density in standard units."""
    point = np.asarray(evidence.constraints[0].point)
    return point @ np.log(np.asarray(params.gauge.scale, np.float64))


def as_ragged(evidence: Evidence, rng: np.random.Generator, n_sites: int, extra: int = 0) -> Evidence:
    """The same rows with slots shuffled row by row, and `extra` absent slots of arbitrary sites at the end."""
    n_rows = evidence.n_rows
    order = np.stack([rng.permutation(n_sites) for _ in range(n_rows)])
    pad = rng.integers(0, n_sites, (n_rows, extra))

    def shuffled(leaf, filler):
        leaf = np.take_along_axis(np.asarray(leaf), order, axis=1)
        return jnp.asarray(np.concatenate([leaf, np.full((n_rows, extra), filler, leaf.dtype)], axis=1))

    box, levels = evidence.constraints
    present = np.ones((n_rows, n_sites), bool) if evidence.present is None else evidence.present
    return Evidence(
        (
            Box(shuffled(box.lower, -np.inf), shuffled(box.upper, np.inf), shuffled(box.point, False)),
            Levels(shuffled(levels.code, -1)),
        ),
        jnp.asarray(np.concatenate([order, pad], axis=1), jnp.int32),
        shuffled(present, False),
    )
