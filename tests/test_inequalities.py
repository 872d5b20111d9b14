"""Inequality columns, overlapping statements and conditions, from the table to every query of the estimator."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

import thurbo as tb
from tests.known import changed
from thurbo.errors import InfeasibleEvidence, SchemaError, ThurboError
from thurbo.latent import packing

N = 160


def frame() -> pd.DataFrame:
    """Utilities and a number that share one cause; statements compare them where they are truly so."""
    rng = np.random.default_rng(0)
    cause = rng.integers(0, 2, N)
    z = rng.normal(size=(N, 4)) + 1.6 * cause[:, None] * np.array([1, -1, 1, 0.5])
    order = np.argsort(-z[:, :3], axis=1)
    films = [" > ".join(np.array(["A", "B", "C"])[row]) for row in order]
    films = [text if rng.random() < 0.7 else None for text in films]
    said = [
        [({"films.A": 1, "films.B": -1}, ">=" if a > b else "<=", 0.0), ({"income": 1.0}, ">=", 5 + 2 * w - 1.0)]
        if rng.random() < 0.3
        else None
        for a, b, _, w in z
    ]
    income = np.where(rng.random(N) < 0.3, np.nan, 5 + 2 * z[:, 3])
    likes = np.where(rng.random(N) < 0.2, None, np.where(cause + 0.5 * rng.normal(size=N) > 0.5, "yes", "no"))
    return pd.DataFrame({"films": films, "income": income, "likes": likes, "said": pd.Series(said, dtype=object)})


SCHEMA = tb.Schema(
    {
        "films": tb.Ranking(["A", "B", "C"]),
        "income": tb.Continuous(),
        "likes": tb.Binary(true="yes"),
        "said": tb.Inequality(),
    }
)


@pytest.fixture(scope="module")
def model() -> tb.TBM:
    """Weights as training gives them, up to noise: training through the masses of lines takes long to compile."""
    own = tb.TBM(SCHEMA, n_hidden=2, max_epochs=0, random_state=0, verbose=False).fit(frame())
    params = own.params_
    sites = np.asarray([[0.8, 0.3], [-0.8, 0.2], [0.7, -0.4], [0.4, 0.5], [1.2, 0.1]])
    bias = np.asarray(params.site_bias) - sites.mean(axis=1)
    params = params._replace(weights=jnp.asarray(sites, jnp.float32), site_bias=jnp.asarray(bias, jnp.float32))
    own._adopt(changed(own.model_, params), [], True)
    return own


def blank(n: int = 1, **cells) -> pd.DataFrame:
    table = pd.DataFrame({name: pd.Series([None] * n, dtype=object) for name in SCHEMA})
    table["income"] = np.nan
    for name, value in cells.items():
        table[name] = value if name == "income" else pd.Series([value] * n, dtype=object)
    return table


@pytest.mark.slow
def test_a_table_with_inequalities_is_learned_from():
    half = frame().head(N // 2)
    model = tb.TBM(SCHEMA, n_hidden=2, max_epochs=6, batch_size=40, learning_rate=0.08, random_state=0).fit(half)
    assert "settled" in model.history_[-1]
    assert np.isfinite(model.score_samples(frame().head(N // 2))).all()
    # People who like it prefer A: the order alone tells.
    better = model.predict_proba(blank(films="A > B"), "likes")[0, 1]
    worse = model.predict_proba(blank(films="B > A"), "likes")[0, 1]
    assert better > worse + 0.05


@pytest.mark.slow
def test_prediction_is_trained_through_inequalities_too():
    model = tb.TBM(SCHEMA, n_hidden=2, max_epochs=40, batch_size=40, random_state=0, objective="multi-prediction")
    model.fit(frame())
    assert model.converged_
    better, worse = (model.predict_proba(blank(films=said), "likes")[0, 1] for said in ("A > B", "B > A"))
    assert better > worse + 0.2


@pytest.mark.slow
def test_an_inequality_says_what_the_cell_of_its_own_column_says(model):
    """A > B as a ranking, as a statement, in `given` and as a line: one posterior, up to the error of its mass."""
    line = [({"films.A": 1, "films.B": -1}, ">=", 0)]
    exact = model.predict_proba(blank(films="A > B"), "likes")
    np.testing.assert_allclose(model.predict_proba(blank(films=tb.prefers("A", "B")), "likes"), exact, rtol=1e-6)
    for given in ({"films": tb.prefers("A", "B")}, "films: A > B", ["films: A > B"]):
        np.testing.assert_allclose(model.predict_proba(blank(), "likes", given=given), exact, rtol=1e-6)
    np.testing.assert_allclose(model.predict_proba(blank(said=line), "likes"), exact, atol=1e-4)
    np.testing.assert_allclose(model.predict_proba(blank(), "likes", given={"said": line}), exact, atol=1e-4)
    np.testing.assert_allclose(
        model.score_samples(blank(said=line)), model.score_samples(blank(films="A > B")), atol=1e-4
    )


@pytest.mark.slow
def test_scores_of_lines_have_error_bars(model):
    line = [({"films.A": 1, "films.B": -1, "income": 0.2}, ">=", 1.5), ({"films.B": 1, "films.C": 0.3}, "<=", 0.4)]
    value, error = model.score_samples(blank(said=line), return_se=True)
    assert np.isfinite(value).all()
    assert 0 < error[0] < 0.05
    assert model.score_samples(blank(films="A > B"), return_se=True)[1][0] == 0


@pytest.mark.slow
def test_a_line_about_a_number_says_what_its_cell_says(model):
    line = [({"income": 2.0}, "in", (8.0, 14.0))]
    exact = model.predict_proba(blank(), "likes", given="income in [4, 7]")
    np.testing.assert_allclose(model.predict_proba(blank(said=line), "likes"), exact, atol=1e-4)


def test_a_line_about_a_number_is_in_its_own_units(model):
    A, b, c = model.inequalities(blank(said=[({"income": 2.0}, "in", (8.0, 14.0))]), 0)
    location, scale = model.scales_["income"]
    np.testing.assert_allclose((b / A[:, 3] * scale + location)[0], 4.0, rtol=1e-5)
    np.testing.assert_allclose((c / A[:, 3] * scale + location)[0], 7.0, rtol=1e-5)


@pytest.mark.slow
def test_preferences_that_are_no_weak_order_merge_into_lines(model):
    """A > C and B > C leave A and B apart; A > B beside them makes one chain; all by the same probabilities."""
    both = model.predict_proba(blank(), "likes", given=["films: A > C", "films: B > C"])
    split = [model.score_samples(blank(films=text))[0] for text in ("A > B > C", "B > A > C")]
    joined = model.score_samples(blank(films=[tb.prefers("A", "C"), tb.prefers("B", "C")]))[0]
    assert abs(np.logaddexp(*split) - joined) < 1e-3
    parts = [model.predict_proba(blank(films=text), "likes")[0] for text in ("A > B > C", "B > A > C")]
    weight = np.exp(split - np.logaddexp(*split))
    np.testing.assert_allclose(both[0], weight @ np.array(parts), atol=1e-3)
    # A cell and a line about the same slots: the ranking of the cell and the line hold together.
    line = [({"films.B": 1, "films.C": -1}, ">=", 0)]
    np.testing.assert_allclose(
        model.score_samples(blank(films="A > B", said=line)), model.score_samples(blank(films="A > B > C")), atol=0.02
    )


@pytest.mark.slow
def test_gaps_are_filled_beside_inequalities(model):
    table = model.impute(frame())
    assert table[["films", "income", "likes"]].notna().all().all()
    kept = frame()["income"].notna()
    assert (table["income"][kept] == frame()["income"][kept]).all()


@pytest.mark.slow
def test_gibbs_and_mean_field_meet_the_exact_answer(model):
    line = [({"films.A": 1, "films.B": -1, "income": 0.2}, ">=", 1.5)]
    exact = model.predict_proba(blank(said=line), "likes", method="exact")
    np.testing.assert_allclose(model.predict_proba(blank(said=line), "likes", method="gibbs"), exact, atol=0.06)
    np.testing.assert_allclose(model.predict_proba(blank(said=line), "likes", method="mean-field"), exact, atol=0.1)


def test_inequalities_of_a_row_in_words_and_as_a_triple(model):
    table = blank(films="A > B", income=[9.0], likes="yes")
    found = model.inequalities(table, 0)
    assert found.sites == ("films.A", "films.B", "films.C", "income", "likes")
    assert "0 <= films.A - films.B" in found.words
    assert any(text.startswith("income = ") and "(9 in its own units)" in text for text in found.words)
    assert found.mass == "exact"
    A, b, c = found
    assert A.shape == (3, 5)
    assert b.shape == c.shape == (3,)
    assert "separation" in model.inequalities(blank(said=[({"films.A": 1}, ">=", 0)]), 0).mass
    assert "no inequalities" in str(model.inequalities(blank(), 0))
    one_of = model.inequalities(blank(films=tb.one_of("A", "B")), 0)
    assert one_of.words == ("max(films.A, films.B) >= max(films.C)",)
    with pytest.raises(ThurboError, match="row=3 is not one of the 1 rows"):
        model.inequalities(blank(), 3)


@pytest.mark.parametrize("method", ["gibbs", "modes"])
@pytest.mark.slow
def test_samples_satisfy_what_is_given(model, method):
    given = ["films: A > B", "income in [4, 7]", "likes = yes"]
    rows = model.sample(100, given=given, method=method, random_state=0)
    assert rows["income"].between(4 - 1e-4, 7 + 1e-4).all()
    assert (rows["likes"] == "yes").all()
    assert all(text.index("A") < text.index("B") for text in rows["films"])
    line = {"said": [({"films.C": 1, "films.A": -1}, ">=", 0.5)]}
    rows = model.sample(50, given=line, method=method, random_state=0)
    assert all(text.index("C") < text.index("A") for text in rows["films"])


@pytest.mark.slow
def test_conditional_samples_have_the_conditional_probabilities(model):
    given = ["films: A > B", "income >= 6"]
    exact = model.predict_proba(blank(), "likes", given=given, method="exact")[0, 1]
    rows = model.sample(1000, given=given, random_state=1)
    assert binomtest(int((rows["likes"] == "yes").sum()), 1000, float(exact)).pvalue > 2e-5


def test_modes_are_less_noisy_than_samples(model):
    noisy = model.sample(200, random_state=0)["income"].std()
    assert model.sample(200, method="modes", random_state=0)["income"].std() < noisy
    with pytest.raises(ThurboError, match="method='hot'"):
        model.sample(1, method="hot")


BAD = [
    (
        {"said": [({"films.A": 1, "films.B": -1}, ">=", 0.5), ({"films.B": 1, "films.A": -1}, ">=", 0.5)]},
        ("row 0", "no value satisfies all of", "0.5 <= films.A - films.B", "0.5 <= films.B - films.A", "remove one"),
    ),
    (
        {"films": "A > B > C", "said": [({"films.C": 1, "films.A": -1, "income": 0.0}, ">=", 0.1)]},
        ("films.A >= films.B", "films.B >= films.C", "0.1 <= films.C - films.A", '"said", "films"'),
    ),
    (
        {"income": [5.0], "said": [({"income": 1.0}, ">=", 6.0), ({"films.A": 1}, ">=", 0)]},
        ("the cell of income", '"said", "income"'),
    ),
    ({"said": [({"films.A": 1, "films.B": -1}, "in", (0, 0))]}, ("row 0", 'column "said"', "empty or a point")),
    ({"said": [({"films.A": 1}, "=", 0)]}, ('"="', "equations are not supported")),
    ({"said": [({"films.A": float("nan")}, ">=", 0)]}, ("row 0", 'column "said"', "not a finite number")),
    ({"said": [({"films.A": 1}, ">=", float("inf"))]}, ("not a finite number",)),
    ({"said": [({"films.Z": 1}, ">=", 0)]}, ("row 0", "no site is called", "films.A")),
    ({"films": [tb.prefers("A", "B"), tb.prefers("B", "A")]}, ("row 0", "form a cycle")),
    ({"films": tb.one_of("A", "B"), "said": [({"films.A": 1}, ">=", 0)]}, ('column "films"', "top_set")),
]


@pytest.mark.parametrize(("cells", "words"), BAD, ids=range(len(BAD)))
def test_contradictions_and_nonsense_are_refused_before_sampling(model, cells, words):
    with pytest.raises((InfeasibleEvidence, SchemaError)) as caught:
        model.predict_proba(blank(**cells), "likes")
    for word in words:
        assert word in str(caught.value)


def test_conditions_that_clash_or_ask_about_themselves_are_refused(model):
    with pytest.raises(InfeasibleEvidence, match=r"at_least\(8\) and at_most\(4\)"):
        model.sample(1, given=["income >= 8", "income <= 4"])
    with pytest.raises(SchemaError, match="the column that is asked about"):
        model.predict_proba(blank(), "likes", given="likes = yes")
    between = model.predict_proba(blank(), "likes", given=["income >= 4", "income <= 7"])
    np.testing.assert_array_equal(between, model.predict_proba(blank(), "likes", given="income in [4, 7]"))


def test_exclude_counts_the_sites_that_lines_name():
    schema = SCHEMA.fit(frame())
    blocks = schema.compile(blank(said=[({"films.A": 1, "income": -1.0}, ">=", -20)]))
    reading = packing.MergeLabels(schema.names, schema.site_names, [0])
    evidence = packing.pack(blocks.values(), "exclude", reading=reading).buckets[0]
    assert np.asarray(evidence.present)[0].tolist() == [True, False, False, True, False]


def test_the_same_model_after_a_file(model, tmp_path):
    model.save(tmp_path / "m.thurbo")
    again = tb.TBM.load(tmp_path / "m.thurbo")
    line = blank(said=[({"films.A": 1, "income": 0.3}, "in", (0.5, 4))])
    np.testing.assert_array_equal(again.score_samples(line), model.score_samples(line))
    assert jax.tree.structure(again.params_) == jax.tree.structure(model.params_)
