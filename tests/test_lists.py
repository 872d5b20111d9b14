"""Rows that list few of many items: the same model as a table that leaves the other items out, whatever the padding."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import thurbo as tb
from tests.small import make_params, order_of
from thurbo.latent.constraints import Gauge, Levels, Linear
from thurbo.latent.constraints.order import CLOSER_SCALE
from thurbo.latent.evidence import LADDER, Buckets, Evidence, list_widths, n_slots
from thurbo.latent.inference.meanfield import mean_field
from thurbo.latent.inference.posterior import log_evidence_exact
from thurbo.latent.packing import pack
from thurbo.latent.rbm import Params
from thurbo.table.columns.cells import Block, Entries
from thurbo.table.columns.listed import tiers

N_ITEMS = 7


@pytest.fixture(scope="module")
def params() -> Params:
    """Seven items with three levels each, two hidden units and a factor."""
    found = make_params(seed=3, n_sites=N_ITEMS, n_hidden=2, n_factors=1, dtype=np.float32)
    cuts = np.sort(np.random.default_rng(0).normal(size=(N_ITEMS, 2)), axis=1)
    return found._replace(gauge=Gauge(jnp.asarray(cuts, jnp.float32), jnp.ones(N_ITEMS, jnp.float32)))


class Lists(NamedTuple):
    """Items that rows list, and whether codes are levels or tiers."""

    start: np.ndarray
    site: np.ndarray
    code: np.ndarray
    are_levels: bool


def pack_lists(lists: Lists, most: int) -> Buckets:
    """The lists as evidence in at most so many widths."""
    entries, code = Entries(lists.start, lists.site), lists.code[:, None].astype(np.int32)
    sites = tuple(f"i{k}" for k in range(N_ITEMS))
    if lists.are_levels:
        return pack([Block(sites, code=code, n_cuts=2, entries=entries)], "exclude", most_widths=most)
    return pack([Block(sites, tier=code, entries=entries)], "exclude", most_widths=most)


def some_lists(seed: int, n_rows: int = 6, levels: bool = True) -> tuple[Lists, np.ndarray]:
    """Lists of one to seven items, and the same as a table [row, item] with −1 for items that are not in the list."""
    rng = np.random.default_rng(seed)
    table = np.full((n_rows, N_ITEMS), -1, np.int8)
    sites, codes, start = [], [], [0]
    for row in range(n_rows):
        own = rng.permutation(N_ITEMS)[: rng.integers(1, N_ITEMS + 1)]
        code = rng.integers(0, 3, len(own))
        code = code if levels else np.unique(code, return_inverse=True)[1]
        table[row, own] = code
        sites += own.tolist()
        codes += code.tolist()
        start.append(len(sites))
    return Lists(np.asarray(start), np.asarray(sites, np.int32), np.asarray(codes, np.int8), levels), table


def dense(table: np.ndarray, levels: bool) -> Evidence:
    """The same rows as a table whose other items are no variables."""
    if levels:
        return Evidence((Levels(jnp.asarray(table)),), None, jnp.asarray(table >= 0))
    order = order_of(table[:, None, :].astype(np.int32), None, N_ITEMS, "gumbel", CLOSER_SCALE)
    return Evidence((order,), None, jnp.asarray(table >= 0))


@pytest.mark.parametrize("levels", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_lists_say_what_a_table_says_that_leaves_the_others_out(params, levels):
    lists, table = some_lists(1, levels=levels)
    ragged = pack_lists(lists, 2)
    for function in (lambda e: mean_field(params, e, 5).log_odds, lambda e: log_evidence_exact(params, e)):
        found = ragged.by_chunks(jax.jit(function))
        np.testing.assert_allclose(found, jax.jit(function)(dense(table, levels)), rtol=2e-4, atol=2e-4)


def test_lists_of_ranks_agree_with_the_inequalities_they_stand_for(params):
    """An order of four items, by its own form and as lines x_above − x_below ≥ 0."""
    lists = Lists(np.asarray([0, 4]), np.asarray([5, 0, 3, 2], np.int32), np.asarray([0, 2, 1, 1], np.int8), False)
    (bucket,) = pack_lists(lists, 1).buckets
    bucket = jax.tree.map(jnp.asarray, bucket)
    seen = bucket.seen(params)
    A, lower, upper = bucket.region(seen.gauge).parts[1].as_linear(0)
    assert A.shape == (4, n_slots(bucket))
    exact = order_of(np.asarray(bucket.constraints[0].tier), bucket.constraints[0].slots, n_slots(bucket))
    mean = seen.site_bias
    line = Linear.of([(A, lower, upper)], n_slots(bucket))
    mass = jax.jit(lambda form: Evidence((form,), bucket.sites, bucket.present).region(seen.gauge).log_mass(mean))
    by_line, by_order = mass(line), mass(exact)
    np.testing.assert_allclose(by_line, by_order, atol=0.02)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000), most=st.sampled_from([1, 3]))
def test_padding_and_the_order_of_rows_change_nothing(params, seed, most):
    lists, _ = some_lists(seed, n_rows=5)
    pull = np.random.default_rng(1).normal(size=(N_ITEMS, 3))
    with_presence = params._replace(presence=jnp.asarray(pull, jnp.float32))
    ask = jax.jit(lambda e: mean_field(with_presence, e, 4).log_odds)
    found = pack_lists(lists, most).by_chunks(ask)
    order = np.random.default_rng(seed).permutation(5)
    entries = np.concatenate([np.arange(lists.start[row], lists.start[row + 1]) for row in order])
    start = np.concatenate([[0], np.cumsum(np.diff(lists.start)[order])])
    other = Lists(start, lists.site[entries], lists.code[entries], True)
    np.testing.assert_allclose(pack_lists(other, 1).by_chunks(ask), found[order], rtol=1e-4, atol=1e-5)


@settings(max_examples=50, deadline=None)
@given(lengths=st.lists(st.integers(0, 5000), min_size=1, max_size=60), most=st.integers(1, 6))
def test_widths_hold_every_list_and_are_few(lengths, most):
    found = list_widths(np.asarray(lengths), most)
    assert len(found) <= most
    assert found[-1] >= max(lengths)
    assert set(found.tolist()) <= set(LADDER)
    # No single width is better than what was chosen.
    slots = found[np.searchsorted(found, lengths)].sum()
    assert slots <= len(lengths) * next(step for step in LADDER if step >= max(*lengths, 1))


def test_rows_of_a_bucket_keep_their_places():
    lists, _ = some_lists(4, n_rows=6)
    ragged = pack_lists(lists, 3)
    index = np.asarray([4, 0, 5])
    lengths = np.diff(lists.start)
    taken = ragged.rows(index)
    assert isinstance(taken, Buckets)
    found = taken.by_chunks(lambda bucket: bucket.present.sum(axis=1))
    np.testing.assert_array_equal(found, lengths[index])
    batches = list(ragged.batches([np.arange(len(place)) for place in ragged.places], 16))
    assert len(batches) == ragged.n_batches(16)
    real = sorted(ragged.places[bucket][row] for bucket, rows, ok in batches for row in rows[ok])
    assert real == list(range(6))


def test_tiers_run_without_a_gap_and_keep_ties():
    row, score = np.asarray([0, 0, 0, 1, 2, 2]), np.asarray([5.0, 1.0, 5.0, 3.0, -1.0, -2.0])
    np.testing.assert_array_equal(tiers(row, score), [1, 0, 1, 0, 1, 0])


# ---- from tables to fitted models


def likes(n_users: int = 60, n_items: int = 24, seed: int = 0) -> pd.DataFrame:
    """Two tastes: users of each rate items of their own half higher."""
    rng = np.random.default_rng(seed)
    user, item = (
        np.repeat(np.arange(n_users), 10),
        np.concatenate([rng.permutation(n_items)[:10] for _ in range(n_users)]),
    )
    taste = (user % 2) == (item % 2)
    rating = np.clip(np.round(3 + np.where(taste, 1.5, -1.5) + 0.7 * rng.normal(size=len(user))), 1, 5).astype(int)
    return pd.DataFrame({"user": [f"u{u}" for u in user], "film": [f"f{i:02d}" for i in item], "rating": rating})


@pytest.fixture(scope="module")
def fitted():
    long = likes()
    people = pd.DataFrame({"user": [f"u{u}" for u in range(60)], "even": [u % 2 == 0 for u in range(60)]})
    users = tb.from_long(long, row="user", item="film", score="rating", columns=people)
    schema = tb.Schema.infer(users) | {"film": tb.Ratings(settings=tb.ListSettings(item_decay=1.0))}
    model = tb.TBM(schema, n_hidden=2, n_factors=1, learning_rate=0.03, random_state=0, verbose=False)
    return model.fit(users), users, long


def test_people_are_told_what_is_taken_for_what(fitted):
    model, _, _ = fitted
    assert {name: type(column).__name__ for name, column in model.schema_.items()} == {
        "user": "Id", "even": "Binary", "film": "Ratings"
    }  # fmt: skip
    assert model.schema_["film"].levels == (1, 2, 3, 4, 5)
    assert model.weights_.shape == (1 + 24, 2)
    cuts = np.asarray(model.params_.gauge.cuts)[1:]
    np.testing.assert_allclose(np.diff(cuts, axis=1), np.broadcast_to(np.diff(cuts[:1], axis=1), (24, 3)), rtol=1e-4)


def test_rank_finds_the_taste_of_a_row_and_leaves_out_what_it_has(fitted):
    model, users, long = fitted
    best = model.rank(users, top=3)
    assert list(best.columns) == ["row", "item", "utility", "place"]
    assert len(best) == 180
    own = (best["row"].str[1:].astype(int) % 2) == (best["item"].str[1:].astype(int) % 2)
    assert own.mean() > 0.9
    listed = set(zip(long["user"], long["film"], strict=True))
    assert not any(pair in listed for pair in zip(best["row"], best["item"], strict=True))
    assert (best.groupby("row")["utility"].diff().dropna() <= 0).all()
    again = model.rank(users, top=3, exclude_seen=False, items=["f00", "f01"])
    assert set(again["item"]) == {"f00", "f01"}
    pairs = pd.DataFrame({"user": ["u3", "u3", "u8"], "film": ["f01", "f00", "f00"]})
    asked = model.rank(users, items=pairs)
    assert asked[["row", "item", "place"]].values.tolist() == [["u3", "f01", 1], ["u3", "f00", 2], ["u8", "f00", 1]]
    chance = model.prefers(users, "f00", "f01")
    assert chance[8] > 0.8 > 0.2 > chance[3]
    near = model.similar_items("f00", top=5)
    assert (near["item"].str[1:].astype(int) % 2 == 0).all()


def test_new_rows_ordinary_columns_and_files_too(fitted, tmp_path):
    model, users, _ = fitted
    new = tb.from_long(
        pd.DataFrame({"user": ["x"] * 3, "film": ["f01", "f03", "f04"], "rating": [5, 5, 1]}), "user", "film", "rating",
        columns=pd.DataFrame({"user": ["x"], "even": [None]}),
    )  # fmt: skip
    assert (model.rank(new, top=4)["item"].str[1:].astype(int) % 2 == 1).all()
    model.save(tmp_path / "m.thurbo")
    again = tb.TBM.load(tmp_path / "m.thurbo")
    np.testing.assert_array_equal(again.transform(users), model.transform(users))
    chance = model.predict_proba(users, "even")[:, 1]
    even = np.asarray([int(name[1:]) % 2 == 0 for name in users.rows])
    assert chance[even].mean() > 0.75 > 0.25 > chance[~even].mean()


def test_same_seed_same_model_and_polars_and_sparse_alike():
    long = likes(20)
    settings_ = {"n_hidden": 1, "n_factors": 1, "max_epochs": 2, "random_state": 1, "verbose": False}
    first = tb.TBM(**settings_).fit(tb.from_long(long, "user", "film", "rating"))
    second = tb.TBM(**settings_).fit(tb.from_long(pl.from_pandas(long), "user", "film", "rating"))
    np.testing.assert_array_equal(first.weights_, second.weights_)
    users, films = pd.factorize(long["user"], sort=True), pd.factorize(long["film"], sort=True)
    sparse = scipy.sparse.csr_array((long["rating"].to_numpy(float), (users[0], films[0])))
    third = tb.TBM(**settings_).fit(sparse)
    np.testing.assert_allclose(third.weights_, first.weights_, atol=1e-6)
    assert isinstance(first.rank(tb.from_long(long, "user", "film", "rating"), top=1), pd.DataFrame)


def test_cells_of_lists_are_read_one_by_one():
    column = tb.Ratings().fit(cells([{"a": 1, "b": 3}, ["b", "c"], None]))
    assert column.items == ("a", "b", "c")
    assert column.levels == (1, 2, 3)
    block = column.encode(cells([{"c": 2}, None]))
    assert block.entries.start.tolist() == [0, 1, 1]
    assert (block.entries.site.tolist(), block.code.tolist()) == ([2], [[1]])


def cells(values):
    return tb.columns.Cells("x", np.fromiter(values, object, len(values)), np.asarray([v is None for v in values]),
                            np.arange(len(values)))  # fmt: skip


BAD = {
    "no such column": (lambda f: tb.from_long(f, "usr", "film", "rating"), ("usr", "user")),
    "a score that is no number": (lambda f: tb.from_long(f.assign(rating="x"), "user", "film", "rating"), ("x", "num")),
    "an infinite score": (lambda f: tb.from_long(f.assign(rating=np.inf), "user", "film", "rating"), ("inf", "row 0")),
    "a row without a name": (
        lambda f: tb.from_long(f.assign(user=None), "user", "film", "rating"),
        ("missing", "user"),
    ),
    "an item twice": (
        lambda f: tb.TBM(max_epochs=1).fit(tb.from_long(pd.concat([f, f.head(1)]), "user", "film", "rating")),
        ("twice", "u0", "film"),
    ),
    "two lines for one row": (
        lambda f: tb.from_long(f, "user", "film", "rating", columns=pd.DataFrame({"user": ["u0", "u0"], "a": [1, 2]})),
        ("u0", "more than one line"),
    ),
    "a score that is no level": (
        lambda f: tb.TBM({"film": tb.Ratings(levels=[1, 2, 3, 4])}).fit(tb.from_long(f, "user", "film", "rating")),
        ("5", "1 < 2", "film"),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_lists_are_refused_with_place_and_remedy(name):
    make, words = BAD[name]
    with pytest.raises(tb.ThurboError) as caught:
        make(likes(4))
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_unknown_items_are_named_or_left_out(fitted):
    model, _, _ = fitted
    new = pd.DataFrame({"user": ["x", "x"], "film": ["f01", "new"], "rating": [5, 3]})
    table = tb.from_long(new, "user", "film", "rating", columns=pd.DataFrame({"user": ["x"], "even": [True]}))
    with pytest.raises(tb.SchemaError, match=r'row x, column "film": item "new"'):
        model.transform(table)
    with pytest.raises(tb.SchemaError, match="no item"):
        model.similar_items("nothing")


@pytest.mark.slow
def test_orders_alone_are_enough():
    """Lists from best to worst, without scores: only who stands above whom is learned."""
    long = likes(40).sort_values(["user", "rating"], ascending=[True, False])
    users = tb.from_long(long, "user", "film")
    schema = tb.Schema.infer(users) | {"film": tb.Ratings(settings=tb.ListSettings(item_decay=1.0, presence=False))}
    model = tb.TBM(schema, n_hidden=2, n_factors=0, max_epochs=150, learning_rate=0.05, random_state=0, verbose=False)
    model.fit(users)
    assert model.schema_["film"].by == "order"
    best = model.rank(users, top=3)
    own = (best["row"].str[1:].astype(int) % 2) == (best["item"].str[1:].astype(int) % 2)
    assert own.mean() > 0.9


def test_who_lists_nothing_prefers_as_the_model_alone_does(fitted):
    """Without evidence the difference of two utilities is normal given h, and h has two units: enumerate them."""
    model, _, _ = fitted
    nobody = pd.DataFrame({"user": ["x"], "even": [None], "film": [{}]})
    chance = model.prefers(nobody, "f00", "f01")[0]
    params = model.params_
    w, v, a = (np.asarray(x)[1:3] for x in (params.weights, params.loadings, params.site_bias))
    a = a - np.asarray(params.gauge.cuts)[1:3, 0]
    h = np.asarray([[0, 0], [0, 1], [1, 0], [1, 1]], float)
    prior = np.exp(h @ np.asarray(params.hidden_bias))
    mean = (a[0] - a[1]) + h @ (w[0] - w[1])
    exact = (prior * norm.cdf(mean / np.sqrt(2 + ((v[0] - v[1]) ** 2).sum()))).sum() / prior.sum()
    assert abs(chance - exact) < 0.05  # one normal for a mixture of four
