"""Every public query on every layout: a table, lists of levels, of numbers and of orders, and all of them together."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thurbo as tb
from thurbo.app import report

pytestmark = pytest.mark.usefixtures("few_segments")

N_ROWS, FEW, MANY = 16, 10, 80  # rows, as many as the smallest chunk; items rated; items ranked, few of many
ITEMS = [f"i{k:02d}" for k in range(MANY)]
ASKED = ITEMS[:3]


def _lists(kind: str, n_items: int, rng: np.random.Generator, group: np.ndarray) -> list[Any]:
    """Two groups of rows with opposite tastes, three to six items each; the first items are the best known."""
    taste, known = rng.normal(size=(2, n_items)), 1 / np.arange(1, n_items + 1)
    cells = []
    for g in group:
        own = rng.choice(n_items, rng.integers(3, 7), replace=False, p=known / known.sum())
        value = taste[g, own] + 0.4 * rng.normal(size=len(own))
        if kind == "orders":
            cells.append([ITEMS[item] for item in own[np.argsort(-value)]])
        else:
            levels = np.clip(np.round(3 + 1.5 * value), 1, 5).astype(int).tolist()
            scores = levels if kind == "levels" else (3 * value).tolist()
            cells.append(dict(zip((ITEMS[item] for item in own), scores, strict=True)))
    return cells


def _frame(kind: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    rng = np.random.default_rng(1)
    group = np.arange(N_ROWS) % 2
    table = {
        "fan": np.where(rng.random(N_ROWS) < 0.2 + 0.6 * group, "yes", "no").tolist(),
        "age": (40 + 10 * group + rng.normal(size=N_ROWS)).tolist(),
        "trust": rng.integers(1, 4, N_ROWS).tolist(),
        "party": rng.choice(["Green", "Red", "Blue"], N_ROWS).tolist(),
        "films": [">".join(rng.permutation(["A", "B", "C"])) for _ in range(N_ROWS)],
    }
    columns: dict[str, Any] = {"fan": tb.Binary(), "age": tb.Continuous(), "trust": tb.Ordinal()}
    columns |= {"party": tb.Categorical(), "films": tb.Ranking()}
    for name in ("fan", "age", "party"):
        table[name][3] = None
    lists: dict[str, Any] = {"levels": (tb.Ratings(), FEW), "numbers": (tb.Ratings(by="numbers"), FEW)}
    lists["orders"] = (tb.Ratings(by="order"), MANY)
    if kind == "table":
        return pd.DataFrame(table), columns
    if kind not in MIXED:
        column, n_items = lists[kind]
        return pd.DataFrame({"r": _lists(kind, n_items, rng, group)}), {"r": column}
    # Lists before, between and after the ordinary columns.
    cells = {name: _lists(name, n_items, rng, group) for name, (_, n_items) in lists.items()}
    names = MIXED[kind]
    frame = pd.DataFrame({name: (cells | table)[name] for name in names})
    return frame, {name: (columns | {each: own for each, (own, _) in lists.items()})[name] for name in names}


@cache
def fitted(kind: str) -> tuple[tb.TBM, pd.DataFrame]:
    frame, columns = _frame(kind.removesuffix(", two members"))
    settings: Any = {"n_hidden": 2, "n_factors": 0, "max_epochs": 3, "learning_rate": 0.05}
    if kind.endswith("two members"):
        settings["members"] = 2
    return tb.TBM(columns, random_state=0, verbose=False, **settings).fit(frame), frame


MIXED = {"mixed": ["levels", "fan", "numbers", "age"], "all": ["levels", "fan", "age", "numbers", "party", "orders"]}
KINDS: list[Any] = ["table", "levels", "numbers", "orders", "mixed", "levels, two members"]
KINDS += [pytest.param("all", marks=pytest.mark.slow)]  # takes as long to compile as the others together


def item_columns(model: tb.TBM) -> list[str]:
    return [name for name, column in model.schema_.items() if column.has_items]


def some_items(model: tb.TBM, name: str) -> list[Any]:
    return list(model.schema_[name].labels[:2])


def _transform(model: tb.TBM, frame: pd.DataFrame) -> None:
    features = model.transform(frame)
    assert features.shape == (N_ROWS, 2)
    assert np.isfinite(features).all()


def asked_of(model: tb.TBM) -> list[str] | None:
    """Items to ask about, where there are lists."""
    return ASKED if model.schema_.listed else None


def _predict(model: tb.TBM, frame: pd.DataFrame) -> None:
    own = model.predict(frame)
    assert list(own.columns) == list(frame.columns)
    asked = model.predict(frame, list(model.schema_.listed), items=ASKED) if model.schema_.listed else own
    for name in model.schema_.listed:
        assert all(set(cell) == set(given) for cell, given in zip(own[name], frame[name], strict=True))
        assert all(set(cell) == set(ASKED) for cell in asked[name])
    for name in set(frame) - set(model.schema_.listed):
        assert own[name].notna().all()


def _predict_proba(model: tb.TBM, frame: pd.DataFrame) -> None:
    if set(model.schema_.listed) == set(model.schema_.modelled):
        with pytest.raises(tb.ThurboError, match="say column= and items="):
            model.predict_proba(frame)
    else:
        assert model.predict_proba(frame).shape[0] == N_ROWS
    for name in model.schema_.modelled:
        column = model.schema_[name]
        if column.family == "measured":
            with pytest.raises(tb.ThurboError, match="no labels"):
                model.predict_proba(frame, name, items=asked_of(model))
            continue
        chance = model.predict_proba(frame, name, items=ASKED if column.is_listed else None)
        shape = (N_ROWS, 3, 5) if column.n_cuts and column.is_listed else (N_ROWS, 3)
        assert chance.shape == (shape if column.is_listed else (N_ROWS, len(column.labels)))
        np.testing.assert_allclose(chance.sum(axis=-1), 1.0, atol=1e-6)


def _predict_interval(model: tb.TBM, frame: pd.DataFrame) -> None:
    for name in model.schema_.modelled:
        column = model.schema_[name]
        if not column.is_listed and column.family != "measured" and not column.has_order:
            with pytest.raises(tb.ThurboError, match="no order"):
                model.predict_interval(frame, name)
            continue
        ends = model.predict_interval(frame, name, items=ASKED if column.is_listed else None)
        assert ends.shape == ((N_ROWS, 3, 2) if column.is_listed else (N_ROWS, 2))
        assert (ends[..., 0] <= ends[..., 1]).all()


def _filled(frame: pd.DataFrame, done: pd.DataFrame, model: tb.TBM) -> None:
    for name in frame:
        if name not in model.schema_.listed:
            there = frame[name].notna()
            assert done[name].notna().all()
            assert (done.loc[there, name] == frame.loc[there, name]).all()
            continue
        for old, new in zip(frame[name], done[name], strict=True):
            assert set(ASKED) <= set(new)
            if isinstance(old, dict):
                assert {item: new[item] for item in old} == old
            else:
                assert [item for item in new if item in old] == old


def _impute(model: tb.TBM, frame: pd.DataFrame) -> None:
    _filled(frame, model.impute(frame, items=asked_of(model)), model)
    if model.schema_.listed:
        untouched = model.impute(frame)
        assert all(untouched[name].tolist() == frame[name].tolist() for name in model.schema_.listed)


def _impute_draws(model: tb.TBM, frame: pd.DataFrame) -> None:
    done = model.impute_draws(frame, 2, items=asked_of(model), random_state=0)
    assert len(done) == 2
    for each in done:
        _filled(frame, each, model)


def _sample(model: tb.TBM, frame: pd.DataFrame) -> None:
    rows = model.sample(5, items=asked_of(model), random_state=0)
    assert len(rows) == 5
    assert set(rows.columns) == set(frame.columns)
    for name in model.schema_.listed:
        assert all(set(cell) == set(ASKED) for cell in rows[name])


def _score(model: tb.TBM, frame: pd.DataFrame) -> None:
    value, error = model.score_samples(frame, return_se=True)
    assert value.shape == error.shape == (N_ROWS,)
    assert np.isfinite(value).all()
    assert model.score(frame) == pytest.approx(value.mean())


def _evaluate(model: tb.TBM, frame: pd.DataFrame) -> None:
    found = model.evaluate(frame, hide=0.3, random_state=0)
    assert found.overall["n_cells"] > 0
    tested = {record["column"].partition(":")[0] for record in found.columns}
    assert tested == set(model.schema_.modelled)
    assert str(found)


def _segments(model: tb.TBM, frame: pd.DataFrame) -> None:
    found = model.segments(frame, n=2, random_state=0)
    assert len(found.labels) == N_ROWS
    assert str(found)


def _inequalities(model: tb.TBM, frame: pd.DataFrame) -> None:
    found = model.inequalities(frame, 0)
    assert found.words
    assert found.matrix.shape[1] == len(found.sites)


def _given(model: tb.TBM, frame: pd.DataFrame) -> None:
    name = model.schema_.modelled[0]
    cell = frame[name][0]
    others = [other for other in model.schema_.modelled if other != name] or None
    if others:
        assert len(model.predict(frame, others, given={name: cell}, items=asked_of(model))) == N_ROWS
    assert len(model.sample(3, given={name: cell}, items=asked_of(model), random_state=0)) == 3


def _items(model: tb.TBM, frame: pd.DataFrame) -> None:
    for name in item_columns(model):
        one, two = some_items(model, name)
        best = model.rank(frame, top=2, column=name, exclude_seen=False)
        assert list(best.columns) == ["row", "item", "utility", "place"]
        assert len(best) == 2 * N_ROWS
        chance = model.prefers(frame, one, two, column=name)
        assert ((chance >= 0) & (chance <= 1)).all()
        assert len(model.similar_items(one, top=2, column=name)) == 2


def _diagnostics(model: tb.TBM, frame: pd.DataFrame) -> None:
    with pytest.warns(tb.ConvergenceWarning):  # so few draws cannot be enough
        assert model.diagnostics(frame, rows=2, n_draws=10, random_state=0).rhat.shape == (2, 2)


def _report(model: tb.TBM, frame: pd.DataFrame) -> None:
    summary = report.summary(model, frame)
    assert [column["name"] for column in summary["data"]["columns"]] == list(model.schema_.modelled)
    assert "<html" in report.render(summary)


def _files(model: tb.TBM, frame: pd.DataFrame, path: Any) -> None:
    model.save(path)
    again, first = tb.TBM.load(path), path.read_bytes()
    np.testing.assert_array_equal(again.transform(frame), model.transform(frame))
    again.save(path)
    assert path.read_bytes() == first


QUERIES: dict[str, Callable[[tb.TBM, pd.DataFrame], None]] = {
    "transform": _transform,
    "predict": _predict,
    "predict_proba": _predict_proba,
    "predict_interval": _predict_interval,
    "impute": _impute,
    "impute_draws": _impute_draws,
    "sample": _sample,
    "score_samples and score": _score,
    "evaluate": _evaluate,
    "segments": _segments,
    "inequalities": _inequalities,
    "given": _given,
    "rank, prefers and similar_items": _items,
    "diagnostics": _diagnostics,
    "report": _report,
}


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_query_answers(kind: str, query: str) -> None:
    QUERIES[query](*fitted(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_the_same_after_a_file(kind: str, tmp_path: Any) -> None:
    _files(*fitted(kind), tmp_path / "m.thurbo")


def test_lists_stand_anywhere_and_rankings_are_stored_as_they_need() -> None:
    model, _ = fitted("mixed")
    assert model.schema_.listed == ("levels", "numbers")
    assert model.schema_.modelled == ("levels", "fan", "numbers", "age")
    few = tb.Ratings(by="order").fit(_cells([["a", "b", "c"], ["c", "a", "b"]]))
    assert not few.is_listed  # all of few items: a table
    text = [" > ".join(ITEMS[k : k + 3]) for k in range(MANY - 3)]
    assert tb.Ranking().fit(_cells([*text, *text])).is_listed


def _cells(values: list[Any]) -> Any:
    missing = np.zeros(len(values), bool)
    return tb.columns.Cells("x", np.fromiter(values, object, len(values)), missing, np.arange(len(values)))


def test_items_that_no_column_has_are_refused() -> None:
    model, frame = fitted("levels")
    with pytest.raises(tb.SchemaError, match="columns with items: r"):
        model.impute(frame, items={"rr": ASKED})
    plain = tb.TBM({"a": tb.Binary()}, n_hidden=1, max_epochs=0, random_state=0, verbose=False).fit({"a": [0, 1]})
    with pytest.raises(tb.ThurboError, match="this model has none"):
        plain.predict({"a": [0, 1]}, items=["i00"])


def test_a_long_table_comes_back_with_its_rows_and_lists() -> None:
    long = pd.DataFrame({"who": ["u", "u", "v", "w"], "what": ["a", "b", "a", "b"], "stars": [1, 5, 4, 2]})
    users = tb.from_long(long, row="who", item="what", score="stars")
    model = tb.TBM(n_hidden=1, n_factors=0, max_epochs=1, random_state=0, verbose=False).fit(users)
    filled = model.impute(users)
    assert filled["who"].tolist() == ["u", "v", "w"]
    assert filled["what"].tolist() == [{"a": 1, "b": 5}, {"a": 4}, {"b": 2}]
    assert model.predict(users)["who"].tolist() == ["u", "v", "w"]
