"""The generative benchmark's own parts on small models: annealing and EM against enumeration, shares, the tables."""

from __future__ import annotations

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from benchmarks import generative
from benchmarks import generative_baselines as other

import thurbo as tb


def small_rbm(seed, n_visible=9, n_hidden=5, spread=1.0):
    rng = np.random.default_rng(seed)
    shapes = ((n_visible, n_hidden), (n_visible,), (n_hidden,))
    return other.RBM(*(jnp.asarray(spread * rng.normal(size=shape), jnp.float32) for shape in shapes))


def all_images(n):
    return np.asarray(list(product((0.0, 1.0), repeat=n)), np.float32)


def exact_log_partition(rbm):
    """By the definition: the sum over all states of both layers."""
    w, b, c = (np.asarray(each, np.float64) for each in rbm)
    v, h = all_images(len(b)).astype(float), all_images(len(c)).astype(float)
    return np.logaddexp.reduce((v @ w @ h.T + (v @ b)[:, None] + (h @ c)[None, :]).ravel())


def exact_samples(rbm, n, seed):
    v = all_images(rbm.weights.shape[0])
    log_p = np.asarray(other.log_unnormalised(rbm, jnp.asarray(v)), np.float64)
    p = np.exp(log_p - np.logaddexp.reduce(log_p))
    return jnp.asarray(v[np.random.default_rng(seed).choice(len(v), n, p=p / p.sum())])


@pytest.mark.parametrize("seed", [0, 1])
def test_annealing_brackets_the_partition_function_of_a_small_rbm(seed):
    rbm = small_rbm(seed)
    truth, base = exact_log_partition(rbm), jnp.zeros(9, jnp.float32)
    many = other.log_partition(jax.random.key(seed), rbm, base, exact_samples(rbm, 500, seed), 500)
    assert many.forward == pytest.approx(truth, abs=0.05)
    assert many.reverse == pytest.approx(truth, abs=0.05)
    # With few temperatures both ends are far off, each on its own side.
    few = [other.log_partition(jax.random.key(k), rbm, base, exact_samples(rbm, 8, k), 2) for k in range(40)]
    assert np.mean([each.forward for each in few]) < truth < np.mean([each.reverse for each in few])


def test_sweeps_leave_the_distribution_of_an_rbm_alone():
    rbm, n = small_rbm(2, spread=0.7), 20_000
    before = exact_samples(rbm, n, 0)
    after = other.swept(jax.random.key(1), before, rbm, 7)
    share = np.asarray(before).mean(axis=0)
    z = (np.asarray(after).mean(axis=0) - share) / np.sqrt(2 * share * (1 - share) / n)
    assert np.abs(z).max() < 5


def test_training_approaches_the_likelihood_of_the_rbm_that_made_the_images():
    rbm = small_rbm(3, spread=1.5)
    images = np.asarray(exact_samples(rbm, 2000, 3)).astype(bool)
    settings = other.Training(epochs=400, batch=200, n_chains=200, n_sweeps=3, rate=0.2, warm_up=20)
    trained = other.train_rbm(images, 8, 0, settings)
    scores = other.score_rbm(trained, images, 0, 300, 200, 50)
    truth = np.asarray(other.log_unnormalised(rbm, jnp.asarray(images, jnp.float32))) - exact_log_partition(rbm)
    independent = float(other.mixture_scores(other.fit_mixture(images, 1, 0), jnp.asarray(images, jnp.float32)).mean())
    assert (scores.lower <= scores.estimate).all()
    assert (scores.estimate <= scores.upper).all()
    assert scores.estimate.mean() > truth.mean() - 0.03
    assert truth.mean() > independent + 0.1


def test_em_never_lowers_its_objective_and_mixtures_sum_to_one():
    rng = np.random.default_rng(0)
    centres = rng.random((3, 8))
    images = rng.random((400, 8)) < centres[rng.integers(0, 3, 400)]
    v, mixture = jnp.asarray(images, jnp.float32), other.fit_mixture(images, 4, 0, n_steps=0)
    course = []
    for _ in range(30):
        mixture, objective = other.em_step(mixture, v, other.PRIOR)
        course.append(float(objective))
    assert np.diff(course).min() > -1e-3  # single precision of a sum over 400 rows
    assert course[-1] > course[0] + 1
    assert np.exp(other.mixture_scores(mixture, jnp.asarray(all_images(8)))).sum() == pytest.approx(1, abs=1e-4)
    one = other.fit_mixture(images, 1, 0)
    share = (images.sum(axis=0) + other.PRIOR) / (len(images) + 2 * other.PRIOR)
    assert np.allclose(jax.nn.sigmoid(one.log_odds[0]), share, atol=1e-5)


def test_shares_of_digits_are_compared_either_way():
    even = np.full(10, 0.1)
    doubled = np.where(np.arange(10) == 3, 0.2, 0.8 / 9)
    assert generative.share_ratio(np.stack([even, even])) == pytest.approx(1)
    assert generative.share_ratio(np.stack([doubled, even])) == pytest.approx(2)
    assert generative.share_ratio(np.stack([even, doubled])) == pytest.approx(2)


def test_held_out_rows_are_not_trained_on_and_unreadable_tables_are_skipped(monkeypatch, capsys):
    frame = pd.DataFrame({"number": np.arange(50)})

    def unreadable():
        raise OSError("no such file")

    tables = {"made": lambda: (frame, tb.Schema({"number": tb.Continuous()})), "absent": unreadable}
    monkeypatch.setattr(generative, "TABLES", tables)
    data = generative.survey("made", 0)
    assert len(data.held) == 10
    assert sorted([*data.train["number"], *data.held["number"]]) == list(range(50))
    assert generative.all_tables(generative.QUICK._replace(tables=("absent",)), [0]) == {}
    assert "absent: skipped" in capsys.readouterr().out
