"""From columns to evidence: widths that choices are padded to, which must not matter for anything but speed."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import thurbo as tb
from tests.known import changed
from thurbo.latent import packing
from thurbo.latent.constraints import Box, Gauge, Order
from thurbo.predict import moments


@pytest.mark.parametrize("price", [0, 1, 7, 40, 1000])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_widths_are_the_cheapest_of_all_ways_to_pad(seed: int, price: int) -> None:
    lengths = np.random.default_rng(seed).integers(2, 12, 30).tolist()
    sizes = sorted(set(lengths))

    def cost(chosen: tuple[int, ...]) -> int:
        padded = sum(min(width for width in chosen if width >= length) for length in lengths)
        return padded + price * len(chosen)

    ways = [(*some, sizes[-1]) for n in range(len(sizes)) for some in combinations(sizes[:-1], n)]
    assert cost(tuple(packing.widths(lengths, price))) == min(map(cost, ways))
    assert packing.widths([], price) == []


def test_how_choices_are_put_together_changes_no_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    widths = {"two": 2, "three": 3, "five": 5}
    labels = {name: [f"{name} {i}" for i in range(n)] for name, n in widths.items()}
    frame = pd.DataFrame({name: rng.choice([*own, None], 12) for name, own in labels.items()})
    schema = tb.Schema({name: tb.Categorical(tuple(own)) for name, own in labels.items()})
    mean = rng.normal(size=(12, sum(widths.values())))
    gauge = Gauge(jnp.zeros((mean.shape[1], 0)), jnp.ones(mean.shape[1]))
    mass = jax.jit(lambda evidence: evidence.region(gauge).log_mass(jnp.asarray(mean)))
    found = {}
    for price in (0, 10_000):
        monkeypatch.setattr(packing, "LABELS_OF_A_PROGRAM", price)
        blocks = schema.compile(frame)
        evidence = packing.pack(blocks.values(), "marginalize", np.float64).buckets[0]
        orders = [part for part in evidence.constraints if isinstance(part, Order)]
        found[len(orders)] = np.asarray(mass(evidence))
        assert all((np.asarray(part.tier) >= 0).any() for part in orders)
    assert sorted(found) == [1, 3]
    np.testing.assert_allclose(found[1], found[3], rtol=1e-8)


def test_answers_are_counted_once_however_many_slots_they_have() -> None:
    frame = pd.DataFrame({"party": ["a", None, "b"], "fan": ["no", "yes", None], "films": ["x > y", "z > x", None]})
    schema = tb.Schema(
        {"party": tb.Categorical(["a", "b", "c"]), "fan": tb.Binary(true="yes"), "films": tb.Ranking(["x", "y", "z"])}
    )
    (evidence,) = packing.pack(schema.fit(frame).compile(frame).values(), "marginalize").buckets
    evidence = jax.tree.map(jnp.asarray, evidence)
    assert evidence.observed.sum(axis=1).tolist() == [6, 3, 3]
    assert evidence.n_answers(evidence.observed).tolist() == [3, 2, 1]


def test_conditions_on_a_ranking_use_the_program_of_the_training_table() -> None:
    """Whatever rows or conditions rank: the same program, and the same probabilities as by a program of their own."""
    rng, n = np.random.default_rng(0), 60
    drinks = [" > ".join(rng.permutation(["tea", "coffee", "milk", "water"])) for _ in range(n)]
    age = rng.integers(1, 5, n)
    frame = pd.DataFrame({"drinks": drinks, "fan": rng.choice(["yes", "no"], n), "age": age})
    schema = {"drinks": tb.Ranking(), "fan": tb.Binary(), "age": tb.Ordinal([1, 2, 3, 4])}
    model = tb.TBM(schema, n_hidden=3, max_epochs=0, objective="multi-prediction", random_state=0).fit(frame)
    weights = jnp.asarray(rng.normal(size=model.weights_.shape), jnp.float32)
    model._adopt(changed(model.model_, model.params_._replace(weights=weights)), [], True)
    assert model.model_.order_shapes == {"drinks": (4, 1, "permutation")}
    nothing = frame[:1].assign(drinks=None)

    def ask(rows: pd.DataFrame, given: str | None = None) -> np.ndarray:
        return np.asarray(model.predict_proba(rows, "fan", given=given, method="mean-field"))

    ask(frame)
    of_table = moments.all_moments.n_compiled
    ask(frame[1:2])
    n_compiled = moments.all_moments.n_compiled
    assert n_compiled <= of_table + 1  # one row has a program of its own
    questions = [(frame[:1], None), (nothing, None), (nothing, "drinks: tea > milk"), (frame[:9], "drinks: milk > tea")]
    shared = [ask(*each) for each in questions]
    assert moments.all_moments.n_compiled == n_compiled
    wider = frame[:3].assign(
        drinks=["tea = coffee = milk > water", "tea > coffee", None]
    )  # the training table has no ties
    shared.append(ask(wider))
    model.model_ = replace(model.model_, order_shapes={})
    own = [ask(*each) for each in (*questions, (wider,))]
    for one, other in zip(shared, own, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    assert moments.all_moments.n_compiled > n_compiled


def test_only_numbers_without_intervals_are_known_to_be_exact() -> None:
    """A missing number says nothing; a censored one is an interval."""
    frame = pd.DataFrame({"x": [0.5, None, 2.0], "y": [1.0, 2.0, None]})
    for column, expected in ((tb.Continuous(), ()), (tb.Censored(limits=(None, 2.0)), None)):
        schema = tb.Schema({"x": tb.Continuous(), "y": column})
        (evidence,) = packing.pack(schema.fit(frame).compile(frame).values(), "marginalize").buckets
        (box,) = evidence.constraints
        assert isinstance(box, Box)
        assert box.exact == expected
        np.testing.assert_array_equal(box.observed, frame.notna())
