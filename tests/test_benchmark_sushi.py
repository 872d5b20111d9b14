"""The sushi benchmark's own parts on made data: its reader, Plackett–Luce and the mixture's EM."""

from __future__ import annotations

from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks import sushi


def test_reader_keeps_orders_with_their_people_and_refuses_what_is_no_order(tmp_path):
    rng = np.random.default_rng(0)
    orders = np.stack([rng.permutation(10) for _ in range(3)])
    lines = ["10 1", *("0 10 " + " ".join(map(str, order)) for order in orders)]
    (tmp_path / "sushi3a.5000.10.order").write_text("\n".join(lines) + "\n")
    people = "7\t0\t2\t355\t0\n8\t1\t0\t214\t26\n9\t1\t5\t99\t1\n"
    (tmp_path / "sushi3.udata").write_text(people)
    data = sushi.read(tmp_path)
    assert (data.order == orders).all()
    assert data.gender.tolist() == ["male", "female", "female"]
    assert data.age.tolist() == ["30-39", "15-19", "60-"]
    frame = data.rows(np.array([2, 0])).frame(with_people=True)
    assert frame.iloc[0][sushi.ITEMS[orders[2, 0]]] == 1
    assert frame.iloc[1][sushi.ITEMS[orders[0, 9]]] == 10
    assert frame["age"].tolist() == ["60-", "30-39"]
    assert data.frame(True, with_ranks=False)[list(sushi.ITEMS)].isna().all(axis=None)
    (tmp_path / "sushi3.udata").write_text(people[: people.index("9")])
    with pytest.raises(ValueError, match="3 orders of 2 people"):
        sushi.read(tmp_path)
    (tmp_path / "sushi3a.5000.10.order").write_text("10 1\n0 10 0 1 2 3 4 5 6 7 8 8\n")
    with pytest.raises(ValueError, match="not an order"):
        sushi.read(tmp_path)


def test_folds_part_the_rows_by_their_number():
    held = [sushi.split(23, fold)[1] for fold in range(sushi.N_FOLDS)]
    assert sorted(np.concatenate(held).tolist()) == list(range(23))
    train, test = sushi.split(23, 2)
    assert (test % 5 == 2).all()
    assert not set(train) & set(test)


def test_plackett_luce_is_a_distribution_of_choices_one_after_another():
    utility = jnp.asarray([[0.0, 1.0, -0.5, 2.0], [0.3, 0.3, 0.3, 0.3]], jnp.float32)
    orders = np.array(list(permutations(range(4))))
    value = sushi.plackett_luce(utility, sushi.one_hot(orders))
    np.testing.assert_allclose(jnp.exp(value).sum(axis=1), 1.0, rtol=1e-5)
    w = np.exp(np.asarray(utility[0], float))
    a, b, c, d = orders[13]
    expected = w[a] / w.sum() * w[b] / (w.sum() - w[a]) * w[c] / (w[c] + w[d])
    assert float(value[0, 13]) == pytest.approx(np.log(expected), abs=1e-5)
    assert float(value[1, 0]) == pytest.approx(-np.log(24), abs=1e-5)


def test_em_never_lowers_the_likelihood_and_finds_two_kinds_of_people():
    rng = np.random.default_rng(1)
    kinds = np.array([[3.0, 2.0, 1.0, 0.0, -1.0], [-1.0, 0.0, 1.0, 2.0, 3.0]])
    who = rng.integers(0, 2, 400)
    orders = sushi.one_hot(np.argsort(-(kinds[who] + rng.gumbel(size=(400, 5))), axis=1))
    single, _ = sushi.fit_mixture(jax.random.key(0), orders, 1, 60)
    mixture, course = sushi.fit_mixture(jax.random.key(0), orders, 2, 60)
    assert (np.diff(np.asarray(course)) > -1e-5).all()
    assert course[-1] > course[0] + 0.1
    assert jnp.exp(mixture.log_weight).sum() == pytest.approx(1.0, abs=1e-5)
    truth = sushi.Mixture(jnp.log(jnp.full(2, 0.5, jnp.float32)), jnp.asarray(kinds, jnp.float32))
    means = [float(sushi.log_likelihood(m, orders).mean()) for m in (single, truth, mixture)]
    assert means[0] + 0.3 < means[1] < means[2] + 0.01
