"""From columns to evidence: widths that choices are padded to, which must not matter for anything but speed."""

from __future__ import annotations

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import thurbo as tb
from thurbo.constraints import Gauge, Order
from thurbo.evidence import pack as packing


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
