"""Which items a list has: units given what is shown against enumeration, probabilities, training, and `rank`."""

from __future__ import annotations

import itertools
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_ndtr
from scipy.stats import binomtest, norm
from sklearn.base import clone

import thurbo as tb
from thurbo.fit import choices
from thurbo.fit.choices import HIDDEN, SHOWN, Batch, Lists
from thurbo.latent.rbm import Presence, listed_chances

N_ITEMS, N_GROUPS, PER_LIST = 24, 2, 6


@pytest.fixture(scope="module")
def small() -> Presence:
    rng = np.random.default_rng(0)
    parts = rng.normal(-1, 0.5, 5), 0.4 * rng.normal(size=(5, 3)), rng.normal(size=3), -0.2, 1.7
    return Presence(*(jnp.asarray(part, jnp.float32) for part in parts))


def shown_of(small: Presence, items: list[int]) -> tuple[Any, Any]:
    """Σ W over the shown items, and their number, as one row."""
    return small.weights[np.asarray(items, int)].sum(axis=0)[None], jnp.asarray([len(items)], jnp.float32)


def enumerated(small: Presence, items: list[int]) -> Iterator[tuple[np.ndarray, float]]:
    """Each state h with its probability given the shown items."""
    _, w, gamma, _, scale = (np.asarray(part, np.float64) for part in small)
    pull = gamma + scale * w[items].sum(axis=0) / np.sqrt(max(len(items), 1))
    states = np.asarray(list(itertools.product([0.0, 1.0], repeat=3)))
    weight = np.exp(states @ pull)
    yield from zip(states, weight / weight.sum(), strict=True)


@pytest.mark.parametrize("items", [[], [2], [0, 3], [0, 1, 2, 4]])
def test_units_given_what_is_shown_are_those_of_enumeration(small: Presence, items: list[int]):
    q = sum(chance * state for state, chance in enumerated(small, items))
    np.testing.assert_allclose(small.hidden(*shown_of(small, items))[0], q, atol=1e-6)
    w = np.asarray(small.weights, np.float64)
    alpha = np.asarray(small.site_bias, np.float64) + float(small.length) * np.log1p(len(items))
    found = np.asarray(listed_chances(small, *shown_of(small, items)))[0]
    np.testing.assert_allclose(found, norm.cdf(alpha + w @ q), atol=1e-6)  # as documented: at the mean of h
    exact = sum(chance * norm.cdf(alpha + w @ state) for state, chance in enumerated(small, items))
    rest = np.setdiff1d(np.arange(5), items)
    np.testing.assert_allclose(found[rest], exact[rest], atol=0.02)  # near the mean over h


def test_the_objective_is_the_log_probability_of_all_items_that_are_not_shown(small: Presence):
    code = np.asarray([[SHOWN, 0, HIDDEN, 0, SHOWN], [0, HIDDEN, 0, 0, 0]], np.uint8)
    found = choices.log_likelihood(small, Batch(jnp.asarray(code), jnp.ones(2, jnp.float32), None, None))
    for row, value in zip(code, found, strict=True):
        chance = norm.ppf(np.asarray(listed_chances(small, *shown_of(small, np.flatnonzero(row == SHOWN))))[0])
        terms = np.where(row == HIDDEN, log_ndtr(chance), log_ndtr(-chance))
        assert float(value) == pytest.approx(terms[row != SHOWN].sum(), abs=1e-4)


def test_a_sample_of_items_stands_for_the_whole_catalogue():
    rng, n = np.random.default_rng(0), 20
    times = np.zeros(n, int)
    for _ in range(300):
        items, counts, column = choices._some_items(np.asarray([7, 3, 7]), n, rng)
        assert items[column].tolist() == [7, 3, 7]
        assert (counts[np.isin(items, [3, 7])] == 1).all()
        assert counts.sum() == pytest.approx(n)
        times[items] += 1
    others = np.delete(times, [3, 7])
    assert (times[[3, 7]] == 300).all()
    assert min(binomtest(int(each), 300, 6 / 18).pvalue for each in others) > 2e-5


def test_a_random_number_of_items_of_each_list_is_shown(monkeypatch: pytest.MonkeyPatch):
    lists = made(400, 0)
    for most in (choices.MOST_ITEMS, 4):
        monkeypatch.setattr(choices, "MOST_ITEMS", most)
        batch = lists.batch(np.arange(400), np.random.default_rng(0), 410)
        code = np.asarray(batch.code)
        assert (np.asarray(batch.weight) == np.repeat([1, 0], [400, 10])).all()
        assert ((code > 0).sum(axis=1) == np.repeat([PER_LIST, 0], [400, 10])).all()
        counts = np.bincount((code[:400] == SHOWN).sum(axis=1), minlength=PER_LIST + 1)
        assert min(binomtest(int(each), 400, 1 / (PER_LIST + 1)).pvalue for each in counts) > 2e-5
        items = np.arange(N_ITEMS) if batch.items is None else np.asarray(batch.items)
        assert set(items[np.flatnonzero(code[3])].tolist()) == set(lists.item[3 * PER_LIST : 4 * PER_LIST].tolist())


def made(n_rows: int, seed: int) -> Lists:
    """Lists of items of one of two halves of the catalogue."""
    rng = np.random.default_rng(seed)
    half = N_ITEMS // N_GROUPS
    item = [np.sort(rng.permutation(half)[:PER_LIST]) + half * (row % N_GROUPS) for row in range(n_rows)]
    start = np.arange(n_rows + 1) * PER_LIST
    return Lists(start, np.concatenate(item), np.ones(n_rows, np.float32), N_ITEMS)


@pytest.mark.parametrize("most", [choices.MOST_ITEMS, 4])
def test_training_finds_which_items_go_together(most: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(choices, "MOST_ITEMS", most)  # of which the others are sampled
    found, _ = choices.train(made(600, 0), 0, 60, None, lambda record: None)
    new, half = made(200, 1), N_ITEMS // N_GROUPS  # lists that were not in the training table
    batch = new.batch(np.arange(200), np.random.default_rng(2), 200)
    items = np.arange(N_ITEMS) if batch.items is None else np.asarray(batch.items)
    code = np.zeros((200, N_ITEMS), int)
    code[:, items] = np.asarray(batch.code)
    shown = (code == SHOWN).astype(np.float32)
    chance = np.asarray(listed_chances(found, shown @ np.asarray(found.weights), shown.sum(axis=1)))
    own = (np.arange(N_ITEMS)[None, :] // half) == (np.arange(200) % N_GROUPS)[:, None]
    some = shown.sum(axis=1) > 0
    assert chance[some][own[some]].mean() > 4 * chance[some][~own[some]].mean()
    expected, hidden = chance[shown == 0].sum(), (code == HIDDEN).sum()  # a probability: it counts the hidden items
    assert expected == pytest.approx(hidden, rel=0.12)


def test_training_is_repeatable_and_ends_in_time():
    lists = made(60, 0)
    one, two = (choices.train(lists, 3, 2, None, lambda record: None)[0] for _ in range(2))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
    records: list[dict[str, Any]] = []
    assert not choices.train(lists, 3, 9, time.perf_counter(), records.append)[1]
    assert [record["done"] for record in records] == [0]

    def interrupt(record: dict[str, Any]) -> None:
        if record["done"] == 2:
            raise KeyboardInterrupt

    with pytest.warns(tb.errors.ConvergenceWarning, match="interrupted"):
        kept, goes_on = choices.train(lists, 3, 9, None, interrupt)
    assert not goes_on
    np.testing.assert_array_equal(kept.weights, one.weights)


def users(n_rows: int, seed: int) -> dict[str, Any]:
    """A table of lists with scores."""
    lists, rng = made(n_rows, seed), np.random.default_rng(seed)
    rows = np.split(lists.item, lists.start[1:-1])
    return {"film": [{f"f{item}": int(rng.integers(1, 4)) for item in own} for own in rows]}


SETTINGS: dict[str, Any] = {"n_hidden": 1, "n_factors": 1, "max_epochs": 8, "random_state": 0, "verbose": False}


@pytest.fixture(scope="module")
def models() -> tuple[tb.TBM, tb.TBM]:
    """The same fit without and with a model of which items rows have."""
    table = users(120, 0)
    fits = (tb.TBM({"film": tb.Ratings(presence=how)}, **SETTINGS) for how in (None, "model"))
    with pytest.warns(tb.errors.ConvergenceWarning, match="too few"):
        plain, both = (model.fit(table) for model in fits)
    return plain, both


def test_what_scores_say_is_learned_as_without(models: tuple[tb.TBM, tb.TBM]):
    plain, both = models
    for a, b in zip(*(jax.tree.leaves(each.params_) for each in models), strict=True):
        np.testing.assert_array_equal(a, b)
    assert plain.history_[-1]["objective"] == both.history_[-1]["objective"]


def test_rank_by_choice_gives_probabilities_of_new_items(models: tuple[tb.TBM, tb.TBM]):
    model, table = models[1], users(10, 1)
    found = model.rank(table, top=N_ITEMS, by="choice")
    assert list(found) == ["row", "item", "probability", "place"]
    assert len(found["row"]) == 10 * (N_ITEMS - PER_LIST)
    for row, own in enumerate(table["film"]):
        mine = found["row"] == row
        assert set(own).isdisjoint(found["item"][mine])
        chance = found["probability"][mine]
        assert (np.diff(chance, prepend=1, append=0) < 0).all()
        numbers = [int(item[1:]) for item in found["item"][mine]]
        members = model.model_.presence["film"]
        sites = {label: place for place, label in enumerate(model.schema_["film"].labels)}
        places = [sites[item] for item in own]
        every = np.mean([listed_chances(each, *shown_of(each, places))[0] for each in members], axis=0)
        np.testing.assert_allclose(chance, every[[sites[f"f{number}"] for number in numbers]], rtol=1e-5)
    whole = model.rank(table, top=N_ITEMS, by="choice", exclude_seen=False)
    seen = [item in table["film"][row] for row, item in zip(whole["row"], whole["item"], strict=True)]
    assert (whole["probability"][seen] == 1).all()
    assert len(whole["row"]) == 10 * N_ITEMS
    few = model.rank(table, items=["f1", "f2"], by="choice", exclude_seen=False)
    assert set(few["item"]) == {"f1", "f2"}
    pairs = model.rank(table, items={"row": [0, 0, 3], "film": ["f1", "f20", "f5"]}, by="choice")
    assert pairs["row"].tolist() == [0, 0, 3]
    nobody = model.rank({"film": [None]}, top=3, by="choice")  # of whom nothing is known
    assert len(nobody["item"]) == 3


def test_it_is_saved_cloned_and_pickled(models: tuple[tb.TBM, tb.TBM], tmp_path: Path):
    model, table = models[1], users(5, 2)
    expected = model.rank(table, by="choice")
    model.save(tmp_path / "m.thurbo")
    for copy in (tb.TBM.load(tmp_path / "m.thurbo"), pickle.loads(pickle.dumps(model))):
        found = copy.rank(table, by="choice")
        np.testing.assert_array_equal(found["probability"], expected["probability"])
        np.testing.assert_array_equal(found["item"], expected["item"])
    assert clone(model).schema["film"].presence == "model"
    model.schema_.to_toml(tmp_path / "s.toml")
    assert tb.Schema.from_toml(tmp_path / "s.toml")["film"].has_presence
    assert np.asarray(model.model_.presence["film"][0].scale).shape == ()


def test_errors_say_what_to_do(models: tuple[tb.TBM, tb.TBM]):
    (plain, model), table = models, users(2, 1)
    with pytest.raises(tb.SchemaError, match=r'does not predict which items.*presence="model"'):
        plain.rank(table, by="choice")
    with pytest.raises(tb.ThurboError, match="by='likes'"):
        plain.rank(table, by="likes")  # type: ignore[arg-type]
    with pytest.raises(tb.SchemaError, match="no probability of choice"):
        model.rank(table, by="choice", items={"new": {"genre": "war"}})
    with pytest.raises(tb.SchemaError, match="presence='yes' is not understood"):
        tb.Ratings(presence="yes")  # type: ignore[arg-type]
    for each in (model, clone(model)):
        with pytest.raises(tb.ThurboError, match="cannot go on learning; use fit"):
            each.partial_fit(table)


def test_purchases_without_scores_need_no_ratings():
    table = {"film": [dict.fromkeys(own, 1) for own in users(60, 0)["film"]]}
    schema = {"film": tb.Ratings(presence="model")}
    model = tb.TBM(schema, random_state=0).fit(table)  # with every default: there are no scores to learn
    assert not model.members_
    assert (model.rank(table, top=1, by="choice")["probability"] > 0.2).all()
    popular = {"film": [{**own, "hit": 1} for own in table["film"]]}
    model = tb.TBM(schema, max_epochs=0, random_state=0).fit(popular)  # before training: how many rows have an item
    found = model.rank({"film": [{}]}, top=N_ITEMS + 1, by="choice")
    assert found["item"][0] == "hit"
    number = dict(zip(model.schema_["film"].labels, model.n_ratings_["film"], strict=True))
    np.testing.assert_allclose(found["probability"], [(number[item] + 0.5) / 62 for item in found["item"]], rtol=1e-5)
