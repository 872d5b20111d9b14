"""The chain rule over the predictive distribution: conditions, statements and lists beside other questions."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thurbo as tb
from thurbo.predict import chain

LEVELS = ["low", "mid", "high"]


@cache
def survey() -> tuple[pd.DataFrame, tb.TBM]:
    """Two groups of people; a few epochs of several members are enough for laws that hold for any parameters."""
    rng, n = np.random.default_rng(0), 240
    group = rng.random(n) < 0.5
    code = (rng.normal(size=(n, 2)) + group[:, None] > 0.3).sum(axis=1)
    likes = rng.random((n, 3)) < np.where(group, 0.7, 0.3)[:, None]
    frame = pd.DataFrame(
        {
            "party": np.asarray(["a", "b", "c"], object)[np.where(group, rng.integers(0, 2, n), rng.integers(0, 3, n))],
            "trust": np.asarray(LEVELS, object)[code],
            "likes": [[name for name, has in zip("XYZ", row, strict=True) if has] for row in likes],
        }
    )
    schema = tb.Schema(
        {"party": tb.Categorical(list("abc")), "trust": tb.Ordinal(LEVELS), "likes": tb.MultiSelect(list("XYZ"))}
    )
    return frame, tb.TBM(schema, members=2, max_epochs=3, random_state=0, verbose=False).fit(frame)


@cache
def with_list() -> tb.TBM:
    """A yes/no question beside ratings of three items."""
    rng, n = np.random.default_rng(1), 220
    group = rng.random(n) < 0.5
    cells = []
    for person in group:
        score = np.clip(np.round(2 + person + 0.6 * rng.normal(size=3)), 1, 3).astype(int)
        cells.append({f"i{k}": int(score[k]) for k in range(3) if rng.random() < 0.8})
    table = {"fan": np.where(rng.random(n) < 0.3 + 0.4 * group, "yes", "no").tolist(), "films": cells}
    schema = {"fan": tb.Binary(true="yes"), "films": tb.Ratings(levels=[1, 2, 3])}
    return tb.TBM(schema, members=2, max_epochs=3, random_state=0, verbose=False).fit(table)


@pytest.mark.parametrize("ticked", [["X"], ["Y"], ["X", "Z"], []])
def test_a_condition_on_several_options_holds_in_every_row(ticked: list[str]) -> None:
    rows = survey()[1].sample(20, given={"likes": ticked}, random_state=0)
    assert all(sorted(cell) == ticked for cell in rows["likes"])


def test_statements_hold_in_every_row() -> None:
    given = {"party": tb.one_of("a", "b"), "trust": tb.at_least("mid")}
    rows = survey()[1].sample(30, given=given, random_state=0)
    assert set(rows["party"]) <= {"a", "b"}
    assert set(rows["trust"]) <= {"mid", "high"}
    assert len(survey()[1].sample(0, given={"party": "a"})) == 0


def test_rows_with_statements_are_completed() -> None:
    frame = survey()[0].iloc[:6].copy()
    frame["party"] = frame["party"].astype(object)
    frame.at[0, "party"] = tb.one_of("a", "b")
    frame.loc[[0, 1], "trust"] = None
    for done in survey()[1].impute_draws(frame, 3, random_state=0):
        assert done["trust"].isin(LEVELS).all()
        assert done["party"].iloc[0] == frame["party"].iloc[0]


def test_scores_of_a_question_beside_a_list_sum_to_one() -> None:
    rows: dict[str, list[Any]] = {"fan": [], "films": []}
    for fan in ("yes", "no"):
        for a in (1, 2, 3):
            for b in (1, 2, 3):
                rows["fan"].append(fan)
                rows["films"].append({"i0": a, "i1": b})
    assert np.exp(with_list().score_samples(rows)).sum() == pytest.approx(1.0, abs=1e-5)


def test_questions_beside_lists_are_drawn_and_completed() -> None:
    model = with_list()
    rows = model.sample(40, random_state=0)
    assert set(rows["fan"]) <= {"yes", "no"}
    assert all(set(cell) == {"i0", "i1", "i2"} and set(cell.values()) <= {1, 2, 3} for cell in rows["films"])
    table = {"fan": [None, "yes", None], "films": [{"i0": 3}, {}, {"i0": 1, "i1": 1, "i2": 2}]}
    for done in model.impute_draws(table, 2, random_state=0):
        assert set(done["fan"]) <= {"yes", "no"}
        assert done["fan"][1] == "yes"


def test_predictions_do_not_depend_on_the_order_of_lines() -> None:
    from thurbo.table.columns.forms import Lines

    query = survey()[1]._query(survey()[0].iloc[:20])
    there, back = np.arange(20), np.arange(20)[::-1]
    first, second = (query.about("trust", Lines(each, np.zeros_like(each))).probabilities() for each in (there, back))
    np.testing.assert_allclose(first, second[::-1], atol=1e-6)


def test_orders_are_pairs_with_gates_first() -> None:
    columns = {name: tb.Binary(values=(0, 1)) for name in "abcd"}
    schema = tb.Schema(columns).with_skips([tb.Skip(["b"], "c", [1]), tb.Skip(["d"], "b", [1])])
    for order in chain.orders_of(schema):
        assert order.index("c") < order.index("b") < order.index("d")
    free = chain.orders_of(tb.Schema(columns))
    assert all(one == other[::-1] for one, other in zip(free[::2], free[1::2], strict=True))


def test_shares_are_moved_to_their_target() -> None:
    rng = np.random.default_rng(0)
    chance = rng.dirichlet([1, 2, 3], size=4000)
    target = np.broadcast_to([0.5, 0.3, 0.2], chance.shape)
    np.testing.assert_allclose(chain.with_shares(chance, target).mean(axis=0), [0.5, 0.3, 0.2], atol=0.005)
    one = chance[:1]
    np.testing.assert_allclose(chain.with_shares(one, target[:1]), one, atol=0.05)  # one row keeps most of its own
    np.testing.assert_allclose(chain.sharpened(chance, chance, 1.4), chance, atol=1e-12)
