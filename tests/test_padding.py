"""Tables in a shape that others share: what is added changes nothing, and similar tables have the same shape."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import thurbo as tb
from thurbo.fit import members, planning, trainer
from thurbo.fit import objective as objectives
from thurbo.fit.fitting import Data
from thurbo.fit.masking import RandomCells
from thurbo.fit.planning import Plan
from thurbo.fit.settings import FitSettings
from thurbo.latent import packing
from thurbo.latent.constraints import Gauge, Order
from thurbo.latent.constraints.grouped import Groups, runs_of
from thurbo.latent.evidence import Buckets, Evidence
from thurbo.latent.packing import Padding
from thurbo.latent.rbm import Params
from thurbo.predict import model
from thurbo.predict.member import MemberQuery
from thurbo.predict.moments import How
from thurbo.table.schema.schema import Schema

LABELS = {"party": "abc", "region": "ABCDEFGH", "news": "xyzw"}
ITEMS = ["p", "q", "r"]


class Table(NamedTuple):
    schema: Schema
    blocks: dict[str, Any]
    evidence: Buckets


@cache
def table(n_rows: int = 40, with_ranking: bool = True, seed: int = 0) -> Table:
    """Columns of all kinds, in an order that has to be changed."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "party": rng.choice(list(LABELS["party"]), n_rows),
            "fan": rng.choice(["yes", "no"], n_rows),
            "region": rng.choice(list(LABELS["region"]), n_rows),
            "trust": rng.integers(1, 6, n_rows),
            "age": rng.normal(40, 10, n_rows),
            "films": [" > ".join(rng.permutation(ITEMS)) for _ in range(n_rows)],
            "news": rng.choice(list(LABELS["news"]), n_rows),
        }
    )
    columns: dict[str, Any] = {name: tb.Categorical(list(LABELS[name])) for name in LABELS}
    columns |= {"fan": tb.Binary(true="yes"), "trust": tb.Ordinal([1, 2, 3, 4, 5]), "age": tb.Continuous()}
    if with_ranking:
        columns["films"] = tb.Ranking(ITEMS)
    columns = {name: columns[name] for name in frame if name in columns}
    frame = frame[list(columns)].mask(rng.random((n_rows, len(columns))) < 0.2)
    schema = tb.Schema(columns).fit(frame)
    blocks = dict(schema.compile(frame))
    return Table(schema, blocks, packing.pack(blocks.values(), "marginalize").on_host())


def padding_of(evidence: Buckets) -> Padding:
    found = Padding.of(evidence)
    assert found is not None
    return found


def random_params(schema: Schema, n_hidden: int = 3, n_factors: int = 2) -> Params:
    rng, n = np.random.default_rng(1), schema.n_sites
    cuts = np.where(np.arange(4)[None] < schema.n_cuts[:, None], np.sort(rng.normal(size=(n, 4)), axis=1), np.inf)
    draw = lambda *shape: jnp.asarray(0.5 * rng.normal(size=shape), jnp.float32)  # noqa: E731
    scale = jnp.asarray(np.where(schema.is_measured, 0.8, 1.0), jnp.float32)
    gauge = Gauge(jnp.asarray(cuts, jnp.float32), scale)
    return Params(
        draw(n), draw(n, n_hidden), draw(n_hidden), draw(n, n_factors), gauge, jnp.full(n_hidden, 0.5, jnp.float32)
    )


@jax.jit
def objective(params: Params, evidence: Evidence, masked: Any) -> tuple[Any, Params]:
    """The objective of training, of all rows, and its gradient."""
    plan = Plan(marginal_weight=0.3)

    def total(params: Params) -> Any:
        value, alone, _ = objectives.prediction_and_marginal(params, evidence, masked, plan)
        return value.sum() + alone.sum()

    return jax.value_and_grad(total)(params)


def test_what_is_added_changes_neither_the_objective_nor_its_gradient() -> None:
    own = table()
    padding, params = padding_of(own.evidence), random_params(own.schema)
    (evidence,) = own.evidence.buckets
    evidence = evidence.hide(np.zeros(evidence.observed.shape, bool), "marginalize")
    masked = RandomCells()(jax.random.key(0), jax.tree.map(jnp.asarray, evidence))
    wide = jnp.asarray(padding.sites(np.asarray(masked).T, False).T)
    value, slope = objective(params, evidence, masked)
    padded_value, padded_slope = objective(padding.params(params), padding.evidence(evidence), wide)
    np.testing.assert_allclose(padded_value, value, rtol=1e-5)
    added = np.setdiff1d(np.arange(padding.n_slots), padding.place)
    assert len(added) > 20
    for name in ("site_bias", "weights", "loadings"):
        found = np.asarray(getattr(padded_slope, name))
        assert not found[added].any()
        np.testing.assert_allclose(found[padding.place], getattr(slope, name), rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(padded_slope.hidden_bias, slope.hidden_bias, rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(
        np.asarray(padded_slope.gauge.cuts)[padding.place, :4], slope.gauge.cuts, rtol=2e-4, atol=2e-4
    )


def begun(own: Table) -> tuple[Padding, trainer.TrainState, trainer.Layout, Plan]:
    """A member of a population before training, in the common shape."""
    chosen = replace(_chosen(), n_chains=4)
    data, padding = Data(own.schema, own.blocks, own.evidence, np.ones(own.evidence.n_rows)), padding_of(own.evidence)
    key = jax.random.key(0)
    shared = members.Shared(chosen, data, (3, 2), padding)
    return padding, *shared.start(key, model.MemberSettings(3, 1, 0.1)), shared.plan


def _chosen() -> FitSettings:
    return planning.flat({**tb.TBM().get_params(), "objective": "multi-prediction"})


def test_sites_that_are_added_stay_at_zero_and_rows_that_are_added_are_not_drawn() -> None:
    own = table()
    padding, state, layout, plan = begun(own)
    rows = padding.table(own.evidence)
    (bucket,) = rows.buckets
    assert bucket.n_rows == packing.ROWS[0] > rows.n_rows == 40
    other = jax.tree.map(
        lambda leaf: np.concatenate([leaf[:40], leaf[:1].repeat(len(leaf) - 40, axis=0)]), bucket.constraints
    )
    nonsense = bucket._replace(constraints=jax.tree.map(lambda leaf: _changed(leaf, 40), other))
    schedule = trainer.Schedule(jnp.float32(0.02), jnp.float32(1e9), jnp.float32(2e9))
    found = []
    for each in (bucket, nonsense):
        changed = Buckets((each,), rows.places, rows.shared)
        weight = jnp.ones(bucket.n_rows, jnp.float32)
        moved, info = trainer.epoch(
            jax.random.key(1), state, changed, weight, layout, schedule, plan, 16 * padding.n_slots, 1.0
        )
        found.append((moved, info))
        assert int(moved.step) == 3  # batches of 16 rows
    jax.tree.map(np.testing.assert_array_equal, *found)
    added, learned = np.setdiff1d(np.arange(padding.n_slots), padding.place), found[0][0].learnable
    for name in ("site_bias", "weights", "loadings", "first_cut", "log_gaps", "log_scale"):
        values = np.asarray(getattr(learned, name))
        assert not values[added].any(), name
    assert np.abs(np.asarray(learned.weights)[padding.place]).sum() > 0


def _changed(leaf: np.ndarray, n_rows: int) -> np.ndarray:
    """Rows beyond the first ones with other content."""
    leaf = np.array(leaf)
    leaf[n_rows:] = leaf[:1] if leaf.dtype == bool else np.zeros_like(leaf[:1])
    return leaf


def test_parameters_and_sites_come_back_as_they_were() -> None:
    own = table()
    padding, params = padding_of(own.evidence), random_params(own.schema)
    back = padding.own_params(padding.params(params), 4)
    jax.tree.map(np.testing.assert_array_equal, back, params)
    assert sorted(np.unique(padding.place)) == sorted(padding.place)


def test_predictions_are_the_same_in_the_common_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    own = table()
    how = How(method="mean-field", n_steps=5)
    question = MemberQuery(random_params(own.schema), own.schema, own.blocks, own.evidence, how)
    for hidden in (np.zeros(0, np.int64), own.evidence.shared[own.schema.slices["region"]]):
        padded = question.moments(own.evidence, hidden)
        monkeypatch.setattr(Padding, "of", classmethod(lambda *_: None))
        expected = MemberQuery(question.params, own.schema, own.blocks, own.evidence, how).moments(own.evidence, hidden)
        monkeypatch.undo()
        for found, wanted in zip(padded[:2], expected[:2], strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def shape_of(evidence: Buckets) -> Any:
    """What decides which program is compiled."""
    wide = padding_of(evidence).table(evidence)
    leaves, tree = jax.tree.flatten(wide.buckets)
    return tree, [(leaf.shape, leaf.dtype) for leaf in leaves]


def test_tables_of_similar_size_have_one_shape() -> None:
    other = {
        "gender": tb.Categorical(["m", "f", "other"]),
        "happy": tb.Ordinal([1, 2, 3]),
        "married": tb.Binary(true="yes"),
        "income": tb.Continuous(),
        "state": tb.Categorical(list("ABCDEFG")),
    }
    rng, n = np.random.default_rng(5), 300
    frame = pd.DataFrame(
        {
            "gender": rng.choice(["m", "f", "other"], n),
            "happy": rng.integers(1, 4, n),
            "married": rng.choice(["yes", "no"], n),
            "income": rng.normal(size=n),
            "state": rng.choice(list("ABCDEFG"), n),
        }
    )
    schema = tb.Schema(other).fit(frame)
    second = packing.pack(schema.compile(frame).values(), "marginalize").on_host()
    first = table(with_ranking=False).evidence
    assert first.buckets[0].constraints[0].n_slots != second.buckets[0].constraints[0].n_slots
    assert shape_of(first) == shape_of(second)


def test_lists_large_tables_and_conditions_between_cells_keep_their_own_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    own = table()
    lists = tb.from_long(pd.DataFrame({"u": [1, 1, 2], "i": list("aba"), "s": [1, 2, 3]}), "u", "i", "s")
    schema = tb.Schema({"i": tb.Ratings()}).fit(lists)
    assert Padding.of(packing.pack(schema.compile(lists).values(), "exclude")) is None
    assert Padding.of(packing.pack(own.blocks.values(), "exclude")) is None
    monkeypatch.setattr(packing, "MOST_SLOTS", 20)
    assert Padding.of(own.evidence) is None


@pytest.mark.parametrize("sizes", [(3, 3, 3), (2, 2, 4), (4, 2), (3,)])
def test_groups_one_after_another_are_slices(sizes: tuple[int, ...]) -> None:
    most, n_slots, first = max(sizes), sum(sizes) + 5, 2
    ends = first + np.cumsum(sizes)
    slots = tuple(
        tuple(range(end - size, end)) + (-1,) * (most - size) for end, size in zip(ends.tolist(), sizes, strict=True)
    )
    assert runs_of(slots) is not None
    tier: Any = np.zeros((4, len(sizes), most), np.int32)
    groups: Groups = Order(tier, slots, n_slots)
    rng = np.random.default_rng(0)
    by_slot, by_item = rng.normal(size=(4, n_slots)), rng.normal(size=tier.shape)
    real = np.asarray(slots) >= 0
    items, expected = np.asarray(groups.to_items(jnp.asarray(by_slot))), groups.to_items(by_slot)
    np.testing.assert_allclose(items[:, real], expected[:, real], rtol=1e-6)
    assert (items[:, ~real] == 1.0).all()
    np.testing.assert_allclose(groups.to_slots(jnp.asarray(by_item), -7.0), groups.to_slots(by_item, -7.0), rtol=1e-6)
    np.testing.assert_allclose(groups.add_to_slots(jnp.asarray(by_item)), groups.to_slots(by_item, 0.0), rtol=1e-6)


@pytest.mark.parametrize("slots", [((0, 1), (3, 4)), ((1, 0),), ((-1, 0), (1, 2)), ((0, 1), (2, -1), (3, 4), (5, -1))])
def test_other_groups_are_no_runs(slots: tuple[tuple[int, ...], ...]) -> None:
    assert runs_of(slots) is None
