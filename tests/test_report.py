"""The report on a stand-in for a fitted model: right by hand, user text escaped, nothing fetched."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
from collections.abc import Iterator
from html import escape
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import thurbo as tb
from thurbo.app.report import cards as embedding_module
from thurbo.app.report import render, summary
from thurbo.app.report.cards import describe_factors, describe_units, embed, row_map
from thurbo.app.report.pictures import palette
from thurbo.app.report.wording import percent, read_answers
from thurbo.errors import SchemaError
from thurbo.predict.dependence import Dependence
from thurbo.predict.segments import Segments, scaled, segments
from thurbo.table.columns.forms.form import Answers
from thurbo.table.io.frames import as_table

LEVELS = ("hates", "dislikes", "neither", "likes", "loves")


@pytest.fixture(scope="module", autouse=True)
def two_segments() -> Iterator[None]:
    """Two segments, if the rows are different: the rows of fake models are of two kinds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("thurbo.predict.segments.MOST_SEGMENTS", 2)
        yield


class FakeModel:
    """A fitted model whose hidden units are given: enough of TBM for the report."""

    unobserved = "marginalize"
    members_: tuple[Any, ...] = ()
    n_ratings_: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, schema: tb.Schema, log_odds: np.ndarray, weights: np.ndarray) -> None:
        self.schema_, self._log_odds, self.weights_ = schema, log_odds, weights
        self.loadings_ = np.zeros((len(weights), 0))
        self.site_names_ = list(schema.site_names)
        self.history_ = [{"epoch": e, "objective": -2.0 + 1.0 / e, "seconds": 0.1 * e} for e in range(1, 21)]
        self.objective_, self.converged_, self.n_epochs_, self.method_ = "multi-prediction", True, 20, "exact"
        self.time_spent_ = {"reading": 0.5, "compiling": 2.5, "training": 2.0, "total": 5.0}

    def transform(self, table: Any, output: str = "probability") -> np.ndarray:
        return self._log_odds if output == "log_odds" else 1 / (1 + np.exp(-self._log_odds))

    def segments(self, table: Any, n: int, random_state: int = 0) -> Segments:
        points = scaled(self._log_odds, self.weights_.shape[1])
        weight = self.schema_.weights(as_table(table), missing_columns="ignore")
        return segments(self.schema_, self.schema_.compile(table), points, weight, n)

    def dependence(self, table: Any) -> Dependence:
        """Squared correlations of the answers, which stand for shares of uncertainty."""
        values = [each.values for each in read_answers(self.schema_, table)]
        share = np.full((len(values), len(values)), np.nan)
        for i, j in itertools.permutations(range(len(values)), 2):
            both = ~np.isnan(values[i]) & ~np.isnan(values[j])
            x, y = values[i][both], values[j][both]
            share[i, j] = np.corrcoef(x, y)[0, 1] ** 2 if both.sum() > 2 and np.ptp(x) and np.ptp(y) else 0.0
        names = tuple(self.schema_.modelled)
        return Dependence(names, share, share, names)


def fake(n: int = 200, n_hidden: int = 3, seed: int = 0) -> tuple[FakeModel, dict[str, list[Any]]]:
    rng = np.random.default_rng(seed)
    h = rng.random((n, n_hidden)) < [0.7, 0.4, 0.2][:n_hidden]
    columns: dict[str, tb.Column] = {"fan": tb.Binary(values=("No", "Yes")), "age": tb.Continuous()}
    columns |= {f"view of {who}": tb.Ordinal(LEVELS) for who in ("Han", "Leia", "Yoda", "Jar Jar")}
    weights = rng.normal(0, 1.5, (len(columns), n_hidden))
    x = h @ weights.T + rng.normal(size=(n, len(columns)))
    table: dict[str, list[Any]] = {}
    for i, (name, each) in enumerate(columns.items()):
        values: list[Any] = (100 + 10 * x[:, i]).tolist()
        if each.labels:
            cuts = np.quantile(x[:, i], np.linspace(0, 1, len(each.labels) + 1)[1:-1])
            values = [each.labels[code] for code in np.searchsorted(cuts, x[:, i])]
        gone = rng.random(n) < 0.1 * i
        table[name] = [None if missing else value for value, missing in zip(values, gone, strict=True)]
    log_odds = np.where(h, 3.0, -3.0) + rng.normal(0, 0.5, h.shape)
    return FakeModel(tb.Schema(columns).fit(table), log_odds, weights), table


def is_missing(cells: list[Any]) -> np.ndarray:
    return np.array([cell is None for cell in cells])


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    model, table = fake()
    scores = {"accuracy": 0.7, "accuracy_marginal": 0.5, "accuracy_logistic": 0.6}
    scores |= {"log_score": -0.8, "log_score_marginal": -1.1, "log_score_logistic": -0.9}
    held_out = {
        "n_cells": 90,
        "share": 0.1,
        **scores,
        "columns": [{"column": "fan", "answer": "label", "n": 90, **scores}],
    }
    return summary(model, table, title="Films & <fans>", held_out=held_out)


def test_the_summary_is_plain(example: dict[str, Any]) -> None:
    assert json.loads(json.dumps(example, allow_nan=False)) == example


def test_the_summary_counts_the_data(example: dict[str, Any]) -> None:
    _, table = fake()
    data = example["data"]
    assert (data["n_rows"], data["n_columns"]) == (200, 6)
    for record in data["columns"]:
        missing = is_missing(table[record["name"]])
        assert record["share_missing"] == pytest.approx(missing.mean())
        assert data["missing"][record["name"]].get("no answer", 0) == pytest.approx(missing.mean())
        if record["labels"]:
            assert sum(record["counts"]) == (~missing).sum()
    age = next(record for record in data["columns"] if record["name"] == "age")
    # The measured column is shown in the user's units.
    assert age["quantiles"][2] == pytest.approx(np.median([cell for cell in table["age"] if cell is not None]))


def test_the_fit_is_told(example: dict[str, Any]) -> None:
    expected = {"n_members": 1, "n_hidden": 3, "n_sites": 6, "n_epochs": 20, "seconds": 5.0, "converged": True}
    expected["time"] = {"reading": 0.5, "compiling": 2.5, "training": 2.0, "total": 5.0}
    assert "<dd>5.0 s (reading 0.5, compiling 2.5, training 2.0)</dd>" in render(example)
    expected |= {"n_factors": 0, "unobserved": "marginalize", "method": "exact"}
    assert example["fit"] == {"objective": "multi-prediction", **expected}


def test_differences_are_weighted_by_the_posterior() -> None:
    values = np.array([1.0, 1, 1, 0, 0, 0, 0, 1, np.nan, 0, 1, 1, 0, 0])
    on = np.linspace(0.95, 0.05, len(values))
    unit = describe_units([Answers("a", "binary", ("No", "Yes"), values, "")], on[:, None], np.array([[1.5]]), ["a"])[0]
    seen = ~np.isnan(values)
    share_on = (on * values)[seen].sum() / on[seen].sum()
    share_off = ((1 - on) * values)[seen].sum() / (1 - on)[seen].sum()
    effect = (unit["up"] + unit["down"])[0]
    assert (effect["share_on"], effect["share_off"]) == pytest.approx((share_on, share_off))
    assert effect["difference"] == pytest.approx(share_on - share_off)
    assert effect["weight"] == 1.5
    assert unit["share"] == pytest.approx(on.mean())


def test_rows_count_by_their_weight() -> None:
    """A row of weight nought is not there, and one of weight three is there three times; the page says who weighs."""
    model, table = fake()
    times = np.random.default_rng(4).integers(0, 4, 200)
    rows = np.repeat(np.arange(200), times)
    schema = model.schema_ | {"w": tb.Weight()}
    weighted = summary(FakeModel(schema, model._log_odds, model.weights_), {**table, "w": times.tolist()})
    plain = {name: [cells[row] for row in rows] for name, cells in table.items()}
    repeated = summary(FakeModel(model.schema_, model._log_odds[rows], model.weights_), plain)
    assert len(weighted["units"]) == 3
    for one, other in zip(weighted["units"], repeated["units"], strict=True):
        assert one["share"] == pytest.approx(other["share"])
        assert one["strength"] == pytest.approx(other["strength"])
        assert [(e["column"], e["mean_on"]) for e in one["up"] + one["down"]] == [
            (e["column"], pytest.approx(e["mean_on"])) for e in other["up"] + other["down"]
        ]
    for one, other in zip(weighted["data"]["columns"], repeated["data"]["columns"], strict=True):
        if one["labels"]:
            assert np.asarray(one["counts"]) == pytest.approx(np.asarray(other["counts"]) / times.mean(), abs=0.06)
        else:
            assert one["quantiles"] == pytest.approx(other["quantiles"], abs=1.0)  # of numbers around 100 ± 10
    assert (weighted["data"]["weighted_by"], repeated["data"]["weighted_by"]) == ("w", None)
    assert "weighted by w" in render(weighted)
    assert "means are weighted by" not in render(repeated)
    json.dumps(weighted, allow_nan=False)


def test_a_scale_is_said_at_its_most_telling_cut() -> None:
    # Off answers lie on the two lowest levels, on answers on the two highest: the cut between tells all.
    values = np.array([0.0, 1] * 10 + [2.0, 3] * 10)
    on = np.repeat([0.0, 1.0], 20)
    labels = ("never", "rarely", "often", "always")
    unit = describe_units([Answers("q", "ordinal", labels, values, "")], on[:, None], np.ones((1, 1)), ["q"])[0]
    assert unit["up"][0]["statement"] == "at least often"
    assert (unit["up"][0]["share_on"], unit["up"][0]["share_off"]) == (1.0, 0.0)
    assert unit["up"][0]["mean_on"] == 2.5
    assert unit["words"] == "Higher on q"


def test_units_come_most_shared_first_and_split_into_up_and_down(example: dict[str, Any]) -> None:
    shares = [unit["share"] for unit in example["units"]]
    assert shares == sorted(shares, reverse=True)
    for unit in example["units"]:
        assert all(e["difference"] > 0 for e in unit["up"])
        assert all(e["difference"] < 0 for e in unit["down"])


def test_a_unit_that_is_never_on_says_so_without_a_word_of_warning() -> None:
    values = np.array([0.0, 1, 0, 1])
    unit = describe_units([Answers("a", "binary", ("n", "y"), values, "")], np.zeros((4, 1)), np.ones((1, 1)), ["a"])[0]
    assert (unit["up"], unit["down"], unit["share"]) == ([], [], 0.0)
    assert unit["words"] == "No clear differences"


def test_the_map_can_be_coloured_as_asked() -> None:
    model, table = fake(n=200)
    layout = summary(model, table, colour_by=["age", "fan"])["map"]
    age, fan = layout["colourings"]
    assert [age["column"], fan["column"]] == ["age", "fan"]
    assert len(age["labels"]) == 5  # fifths of a measured column
    assert sum(age["counts"]) == (~is_missing(table["age"])).sum()
    assert age["n_missing"] == is_missing(table["age"]).sum()
    assert sum(n for _, _, n in layout["areas"]) == 200
    for colouring in (age, fan):
        for shares in colouring["shares"]:
            assert shares is None or sum(shares) == pytest.approx(1.0, abs=0.01)
    with pytest.raises(SchemaError, match="mood"):
        summary(model, table, colour_by=["mood"])


def test_answers_on_the_map_are_those_of_at_least_five_rows() -> None:
    """Answers of an area by hand, and none where fewer than five rows have one."""
    rng, n = np.random.default_rng(1), 300
    points = np.concatenate([rng.normal(0, 0.05, (n // 2, 2)), rng.normal(3, 2.0, (n // 2, 2))])
    values = np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, 2, n)).astype(float)
    found = row_map(points, np.ones(n, int), [Answers("a", "binary", ("no", "yes"), values, "")], {}, 0, 3000)
    cell = np.floor((np.column_stack([found["x"], found["y"]]) + 0.5) * found["n_across"]).clip(
        0, found["n_across"] - 1
    )
    (colouring,) = found["colourings"]
    shown = 0
    for (column, row, size), shares in zip(found["areas"], colouring["shares"], strict=True):
        own = (cell == [column, row]).all(axis=1)
        assert own.sum() == size
        known = values[own][~np.isnan(values[own])]
        if len(known) < 5:
            assert shares is None
        else:
            shown += 1
            assert shares[1] == pytest.approx(known.mean(), abs=1e-3)
    assert shown >= 1
    assert shown < len(found["areas"])


def test_single_rows_are_told_only_if_asked() -> None:
    model, table = fake(n=60)
    table["view of Han"][7] = "loves"
    quiet, told = summary(model, table), summary(model, table, rows=True)
    assert quiet["map"]["people"] is None
    assert '"people":null' in render(quiet)
    assert "has no answers of single rows" in render(quiet)
    person = told["map"]["people"][7]
    assert person["name"] == "7"
    assert ["view of Han", "loves"] in person["answers"]
    assert len(person["answers"]) == sum(cells[7] is not None for cells in table.values())
    assert "This page holds the answers of single rows" in render(told)


def test_a_large_table_is_mapped_in_part() -> None:
    model, table = fake(n=200)
    layout = summary(model, table, max_points=40)["map"]
    assert (layout["n_points"], len(layout["x"]), len(layout["segment"]), layout["n_rows"]) == (40, 40, 40, 200)


@pytest.mark.parametrize("n_hidden", [1, 2, 5])
def test_the_map_without_opentsne_is_principal_components(n_hidden: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding_module, "find_spec", lambda name: None)
    log_odds = np.random.default_rng(0).normal(size=(80, n_hidden))
    plane, method = embed(log_odds)
    assert method == "principal components"
    assert plane.shape == (80, 2)
    assert np.ptp(plane, axis=0).max() == pytest.approx(1.0)


def test_the_map_is_the_same_every_time_and_keeps_groups_together() -> None:
    pytest.importorskip("openTSNE")
    rng = np.random.default_rng(0)
    log_odds = np.concatenate([rng.normal(-6, 1, (60, 4)), rng.normal(6, 1, (60, 4))])
    plane, method = embed(log_odds, seed=1)
    again, _ = embed(log_odds, seed=1)
    assert method == "t-SNE"
    assert np.array_equal(plane, again)
    middles = plane[:60].mean(axis=0), plane[60:].mean(axis=0)
    assert np.linalg.norm(middles[0] - middles[1]) > 2 * max(plane[:60].std(), plane[60:].std())


class _Page(HTMLParser):
    """Collects what a browser would fetch or run, the ids, and whether tags close."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [v or "" for k, v in attributes if k in {"src", "href", "srcset", "data", "action"}]
        self.ids += [v or "" for k, v in attributes if k == "id"]
        if tag not in {"meta", "input", "link", "br", "img", "wbr"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_fetches_nothing(example: dict[str, Any]) -> None:
    html = render(example)
    page = _Page()
    page.feed(html)
    assert page.open == []
    assert all(link.startswith("#") for link in page.links)
    assert not {"iframe", "link", "object", "embed", "img"} & set(page.tags)
    assert not re.search(r"url\(|@import|https?://", html)
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links} <= set(page.ids)
    # One script of its own, which the policy of the page names by its hash, and a block of data.
    data, script = re.findall(r"<script[^>]*>(.*?)</script>", html, re.S)
    json.loads(data)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert (
        f"default-src &#39;none&#39;; style-src &#39;unsafe-inline&#39;; script-src &#39;sha256-{digest}&#39;" in html
    )


def test_the_page_has_findings_first_and_the_map_last(example: dict[str, Any]) -> None:
    for stand_apart in (False, True):
        html = render(example | {"segments": example["segments"] | {"stand_apart": stand_apart}})
        sections = re.findall(r'<section id="([\w-]+)"', html)
        middle = ["segments", "relations"] if stand_apart else ["relations", "segments"]
        assert sections == ["findings", "warnings", *middle, "trust", "questions", "traits", "map"]
        assert re.findall(r'<a href="#([\w-]+)">', html) == sections  # the contents


def test_user_text_is_escaped() -> None:
    nasty = "<script>alert('x')</script> & \"quotes\""
    codes = np.random.default_rng(0).integers(0, 3, 80)
    table = {nasty: [("a", nasty, "c")[code] for code in codes], "also " + nasty: [nasty] * 80}
    table["other"] = ["high" if code > 1 else "low" for code in codes]
    columns = {nasty: tb.Ordinal(["a", nasty, "c"]), "also " + nasty: tb.Ignore(nasty), "other": tb.Binary()}
    schema = tb.Schema(columns, reasons={nasty: f"a guess: {nasty}"}, titles={nasty: f"The {nasty}"}).fit(table)
    model = FakeModel(schema, np.where(codes > 1, 2.0, -2.0)[:, None], np.ones((2, 1)))
    model.history_[3]["event"] = nasty
    html = render(summary(model, table, title=nasty, rows_are=nasty, columns_are=nasty, source=nasty, rows=True))
    assert html.count("<script") == 2  # those of the page itself
    assert "alert('x')" not in html.replace("\\u003cscript\\u003ealert('x')", "")
    assert "alert(&#39;x&#39;)" in html
    page = _Page()
    page.feed(html)
    assert page.open == []


def test_the_page_shows_what_the_summary_holds(example: dict[str, Any]) -> None:
    html = render(example)
    assert "Films &amp; &lt;fans&gt;" in html
    for unit in example["units"]:
        assert f"Trait {unit['unit']} <small>on for {percent(unit['share'])}" in html
    for each in (*example["findings"], *example["warnings"]):
        assert escape(each["words"].removeprefix(each.get("number", "")).strip(), quote=True)[:60] in html
    assert "This model" in html
    assert '<td class="figure"><b>70\u00a0%</b></td>' in html
    assert "Regression on all others" in html
    model, table = fake()
    untested = render(summary(model, table))
    assert "This model" not in untested
    assert "thurbo evaluate" in untested  # and says that nothing was tested
    assert "Accuracy was not tested" in untested


def test_a_fit_without_history_or_map_still_renders(example: dict[str, Any]) -> None:
    assert "<polyline" not in render(example | {"history": []})
    model, table = fake(n=3)
    assert "No clear differences" in render(summary(model, table))


@pytest.fixture(scope="module")
def every_kind() -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """A question of each kind with several sites: a unit that is on in the first half of the rows only."""
    n = 20
    table: dict[str, list[Any]] = {
        "party": ["red"] * n + ["blue"] * (n - 2) + [tb.one_of("blue", "green"), None],
        "owns": [["car"]] * n + [["car", "boat"]] * (n - 1) + [None],
        "rank": ["a > b > c"] * n + ["c > a > b"] * (n - 2) + ["b = c > a", None],
        "trust": ["low", "high"] * (n - 1) + [tb.at_least("some"), None],
    }
    schema = tb.Schema(
        {
            "party": tb.Categorical(["red", "blue", "green"]),
            "owns": tb.MultiSelect(["car", "boat"]),
            "rank": tb.Ranking(["a", "b", "c"]),
            "trust": tb.Ordinal(["low", "some", "high"]),
        }
    ).fit(table)
    log_odds = np.repeat([9.0, -9.0], n)[:, None]
    model = FakeModel(schema, log_odds, np.arange(9.0)[:, None])
    return summary(
        model, table, what_if=[{"column": "party", "label": "red", "given": "a > b", "probability": 0.25}]
    ), table


def test_questions_of_several_sites_are_counted(every_kind: tuple[dict[str, Any], Any]) -> None:
    found, _ = every_kind
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    data = {record["name"]: record for record in found["data"]["columns"]}
    assert data["party"]["counts"] == [20, 18, 0]  # "one of" is an answer, but no one category
    assert data["owns"]["counts"] == [39, 19]
    assert data["owns"]["labels"] == ["car", "boat"]
    assert data["rank"]["counts"] == [20, 0, 18]  # favourites; a tie on top has none
    assert data["rank"]["words"].startswith("first: a 53")
    assert data["trust"]["counts"] == [19, 0, 19]  # an interval has no one level
    assert all(record["share_missing"] == pytest.approx(1 / 40) for record in data.values())


def test_units_speak_of_each_label(every_kind: tuple[dict[str, Any], Any]) -> None:
    (unit,) = every_kind[0]["units"]
    effects = {effect["column"]: effect for effect in unit["up"] + unit["down"]}
    red, boat = effects["party: red"], effects["owns: boat"]
    assert (red["statement"], boat["statement"], effects["rank: a"]["statement"]) == ("chosen", "selected", "first")
    assert (red["share_on"], red["share_off"]) == pytest.approx((1.0, 0.0), abs=1e-3)
    assert (boat["share_on"], boat["share_off"]) == pytest.approx((0.0, 1.0), abs=1e-3)
    assert (red["weight"], boat["weight"]) == (0.0, 4.0)
    sites = ["party: red", "party: blue", "party: green", "owns: car", "owns: boat", "rank: a", "rank: b", "rank: c"]
    assert [weight["site"] for weight in unit["weights"]] == [*sites, "trust"]


def test_the_map_shows_choices_whole_and_options_one_by_one(every_kind: tuple[dict[str, Any], Any]) -> None:
    by_name = {colouring["column"]: colouring for colouring in every_kind[0]["map"]["colourings"]}
    assert {"party", "rank", "owns: boat"} <= set(by_name)
    assert by_name["party"]["labels"] == ["red", "blue", "green"]
    assert by_name["owns: boat"]["labels"] == ["not selected", "selected"]


def test_the_page_of_every_kind_is_whole_and_asks_what_if(every_kind: tuple[dict[str, Any], Any]) -> None:
    html = render(every_kind[0])
    page = _Page()
    page.feed(html)
    assert page.open == []
    assert re.search(r"<span>boat</span><b>49\u00a0%</b>", html)
    assert "Predictions under conditions" in html
    assert "a &gt; b" in html
    assert "Predictions under conditions" not in render(every_kind[0] | {"what_if": []})


QUESTIONS = {
    "q1": "How satisfied are you with the way democracy works in this country?",
    "q2a": "How much do you trust each of the following?",
    "q2b": "How much do you trust each of the following?",
    "q3": "Which of the following, taking everything into account that you have heard, read or seen during the past "
    "twelve months, comes closest to your own opinion about taxes?",
    "q4": "Which of these do you own?",
}


@pytest.fixture(scope="module")
def coded() -> dict[str, Any]:
    """A file whose columns have codes as names, as SPSS files do, and labels with the questions."""
    rng, n = np.random.default_rng(0), 60
    on = np.repeat([True, False], n // 2)
    table: dict[str, list[Any]] = {
        name: np.where(rng.random(n) < np.where(on, 0.9, 0.1), "yes", "no").tolist() for name in ("q1", "q2a", "q2b")
    }
    table |= {
        "q3": np.where(on, "high", "low").tolist(),
        "q4": [["car"] if o else ["boat"] for o in on],
        "q5": table["q1"],
    }
    columns: dict[str, tb.Column] = {name: tb.Binary(true="yes") for name in ("q1", "q2a", "q2b", "q5")}
    columns |= {"q3": tb.Ordinal(["low", "high"]), "q4": tb.MultiSelect(["car", "boat"])}
    schema = tb.Schema({name: columns[name] for name in sorted(columns)}, titles=QUESTIONS).fit(table)
    log_odds = np.where(on, 5.0, -5.0)[:, None] + rng.normal(size=(n, 1))
    return summary(FakeModel(schema, log_odds, np.ones((len(schema.site_names), 1))), table)


def test_people_read_questions_not_codes(coded: dict[str, Any]) -> None:
    (unit,) = coded["units"]
    effects = {effect["column"]: effect for effect in unit["up"] + unit["down"]}
    assert effects["q4: car"]["words"].startswith("Which of these do you own?: car: 99")
    assert "own?: car" in unit["words"]
    html = render(coded)
    page = _Page()
    page.feed(html)
    assert page.open == []
    names = {name: text["brief"] for name, text in coded["texts"].items()}
    assert names["q1"] == "How satisfied … works in this country"
    assert all(len(text) <= 40 for text in names.values())
    assert f'<li title="q1: {QUESTIONS["q1"]}"><span>{names["q1"]}: <em>yes</em>' in html  # a segment
    assert f'<p class="asked">q3: {QUESTIONS["q3"]}</p>' in html  # the card of the question has its full text
    # A question asked about several things has one text, so the columns keep their names beside it.
    assert names["q2a"] != names["q2b"]
    assert names["q2a"].endswith("(q2a)")
    assert coded["texts"]["q5"] == {"brief": "q5", "full": "q5"}


def test_the_bundled_survey_is_shown_by_its_questions() -> None:
    frame, schema = tb.datasets.load_starwars()
    frame = frame.head(120)
    schema = schema.fit(frame)
    log_odds = np.where(frame["fan"] == "Yes", 4.0, -4.0)[:, None]
    found = summary(FakeModel(schema, log_odds, np.ones((len(schema.site_names), 1))), frame)
    (unit,) = found["units"]
    assert unit["words"].startswith("Higher on fan")
    html = render(found)
    assert '<p class="asked">fan: Do you consider yourself to be a fan of the Star Wars film franchise?</p>' in html
    assert found["texts"]["fan_star_trek"]["brief"] == "fan star trek"
    skipped = next(each for each in found["warnings"] if "not asked of everyone" in each["title"])
    assert "asked only if “seen any” is Yes" in skipped["words"]


def test_answers_that_count_as_missing_are_no_gaps() -> None:
    table = {"how": ["never", "often", "I do not", "I do not", "I do not", None] * 20, "age": list(range(120))}
    schema = tb.Schema({"how": tb.Binary(values=("never", "often"), missing=["I do not"]), "age": tb.Continuous()})
    found = summary(FakeModel(schema.fit(table), np.arange(120.0)[:, None] - 60, np.ones((2, 1))), table)
    assert "8\u00a0% of the answers are missing, 25\u00a0% count as missing (see the notes)." in render(found)
    titles = {each["title"] for each in found["warnings"]}
    assert "Counted as missing" in titles
    assert not any("many missing answers" in title for title in titles)


def test_the_page_says_whether_segments_stand_apart(example: dict[str, Any]) -> None:
    found = example["segments"]
    assert found["n"] == len(found["profiles"]) == 2
    assert f"<p>{found['verdict']}</p>" in render(example)
    rng = np.random.default_rng(0)
    model, table = fake()
    model._log_odds = rng.normal(size=model._log_odds.shape)
    cloud = summary(model, table)
    assert not cloud["segments"]["stand_apart"]
    assert "These 2 segments do not stand apart: there is no gap between them." in render(cloud)
    assert "segment" not in {each["kind"] for each in cloud["findings"]}
    model._log_odds = np.where(np.arange(200)[:, None] < 90, 4.0, -4.0) + rng.normal(size=model._log_odds.shape)
    clear = summary(model, table)
    assert "These 2 segments stand apart: few rows lie between them" in render(clear)
    assert [each["kind"] for each in clear["findings"]][:2] == ["segment", "segment"]


def test_a_factor_counts_on_the_map_as_much_as_units() -> None:
    """One factor separates two groups; the units are on with equal odds whatever the row, or the same for all rows."""
    rng, n = np.random.default_rng(0), 400
    group = np.repeat([0.0, 1.0], n // 2)
    units = np.column_stack([rng.normal(0, 0.2, (n, 3)), rng.normal(9, 1, (n, 3))])  # undetermined, and always on
    factor = 2 * group - 1 + rng.normal(0, 0.2, n)
    points = scaled(np.column_stack([units, factor]), 6)
    centres = [points[group == g].mean(axis=0) for g in (0, 1)]
    apart = np.linalg.norm(centres[0] - centres[1])
    around = np.sqrt(np.square(points[group == 0] - centres[0]).sum(axis=1).mean())
    assert apart > 5 * around
    plane, _ = embed(points)
    assert np.abs(np.corrcoef(plane[:, 0], group)[0, 1]) > 0.9
    # A unit that is known for every row and a factor that is known for every row count the same.
    sure = scaled(np.column_stack([20 * (2 * group - 1), 1.0 * (2 * rng.permutation(group) - 1)]), 1)
    assert sure.std(axis=0) == pytest.approx([1.0, 1.0], abs=1e-6)
    # Weights of rows are repetitions; features that do not vary are removed.
    times = rng.integers(1, 4, n)
    repeated = scaled(np.repeat(np.column_stack([units, factor]), times, axis=0), 6)
    weighted = scaled(np.column_stack([units, factor]), 6, times.astype(float))
    np.testing.assert_allclose(np.repeat(weighted, times, axis=0), repeated, atol=1e-9)
    assert scaled(np.full((5, 2), 3.0), 1).shape == (5, 0)
    assert np.isfinite(scaled(np.asarray([[np.inf, 1.0], [-np.inf, 0.0]]), 1)).all()


def test_colours_are_distinct_and_shares_honest() -> None:
    assert len({colour["light"] for colour in palette(7)}) == 7
    assert [percent(s) for s in (0.0, 0.001, 0.5, 0.999, 1.0)] == [
        "0\u00a0%",
        "<1\u00a0%",
        "50\u00a0%",
        ">99\u00a0%",
        "100\u00a0%",
    ]


def test_kinds_of_missing_are_told_apart_and_what_is_left_out_is_named() -> None:
    n = 40
    table = {
        "trust": [1, 2, 3, 9] * (n // 4),
        "age": [20.0, None] * (n // 2),
        "who": list(range(n)),
    }
    columns = {
        "trust": tb.Ordinal([1, 2, 3], missing={9: "Refused"}),
        "age": tb.Continuous(),
        "who": tb.Ignore("a name"),
    }
    schema = tb.Schema(columns, skips=[]).fit(table)
    found = summary(FakeModel(schema, np.zeros((n, 1)), np.ones((2, 1))), table)
    assert found["data"]["missing"]["trust"] == {"Refused": 0.25}
    assert found["data"]["missing"]["age"] == {"no answer": 0.5}
    assert found["data"]["left_out"] == [{"name": "who", "kind": "ignore", "description": "left out: a name"}]
    html = render(found)
    assert "Refused 25\u00a0%" in html
    assert "“who” (a name)." in html
    assert "“Refused” in 1 question (up to 25\u00a0%)." in html


def test_intervals_count_by_their_middle_or_their_known_end() -> None:
    table = {"age": [20.0, tb.between(30, 50), tb.at_least(60), tb.at_most(10), None]}
    schema = tb.Schema({"age": tb.Continuous()}).fit(table)
    (age,) = read_answers(schema, table)
    assert age.values == pytest.approx([20.0, 40.0, 60.0, 10.0, np.nan], nan_ok=True)
    assert age.share_interval == 0.75
    assert age.share_missing == 0.2


def test_rows_held_out_have_a_curve_of_their_own(example: dict[str, Any]) -> None:
    assert example["history"][0] == {"epoch": 1, "objective": -1.0, "held_out": None, "event": None}
    assert "No rows were held out" in render(example)
    watched = [entry | {"held_out": -1.5 - 0.01 * entry["epoch"]} for entry in example["history"]]
    watched[7]["event"] = "numbers stopped being finite: back to the best epoch"
    html = render(example | {"history": watched})
    assert html.count("<polyline") == 2
    assert "The best on held-out rows was \u22121.510" in html
    assert "Epoch 8: numbers stopped being finite" in html


def test_a_wide_table_and_many_units_make_a_compact_page() -> None:
    rng = np.random.default_rng(0)
    n, n_columns, n_hidden = 60, 300, 30
    table = {f"question {j}": rng.integers(0, 5, n).tolist() for j in range(n_columns)}
    schema = tb.Schema({name: tb.Ordinal([0, 1, 2, 3, 4]) for name in table}).fit(table)
    model = FakeModel(schema, rng.normal(0, 3, (n, n_hidden)), rng.normal(size=(n_columns, n_hidden)))
    html = render(summary(model, table))
    assert html.count('<details class="trait"') == 3
    assert "the 3 traits with the largest differences, of 30." in html
    assert html.count('<details class="card"') == 300
    assert '<details class="card" id="q-1" open' not in html  # folded if there are many
    assert "The 60 of 300 with the strongest relations." in html
    assert len(html) < 1.2e6
    page = _Page()
    page.feed(html)
    assert page.open == []


def test_factors_are_described_by_correlations() -> None:
    rng, n = np.random.default_rng(0), 2000
    factors, rows = rng.normal(size=(n, 2)) * [0.3, 1.0], rng.integers(1, 3, n).astype(float)
    up = 2 * factors[:, 1] + rng.normal(size=n)
    down = np.where(rng.random(n) < 0.2, np.nan, -factors[:, 1] + rng.normal(size=n))
    answers = [
        Answers(name, "continuous", (), v, "") for name, v in (("up", up), ("down", down), ("no", rng.random(n)))
    ]
    first, second = describe_factors(answers, factors, rows)
    assert (first["factor"], second["factor"]) == (2, 1)  # the better determined one first
    assert second["high"] == second["low"] == []
    for name, values, side in (("up", up, "high"), ("down", down, "low")):
        (effect,) = first[side]
        known = np.repeat(~np.isnan(values), rows.astype(int))
        pair = np.repeat(np.stack([values, factors[:, 1]]), rows.astype(int), axis=1)[:, known]
        assert effect["column"] == name
        assert effect["correlation"] == pytest.approx(np.corrcoef(pair)[0, 1])


def test_relations_are_told_by_the_answers_of_the_table() -> None:
    """The pair of answers with the largest phi, its shares by hand, weighted."""
    rng, n = np.random.default_rng(0), 300
    a = rng.integers(0, 3, n)
    b = np.where(rng.random(n) < 0.8, a, rng.integers(0, 3, n))
    weight = rng.integers(1, 4, n)
    levels, others = ["low", "mid", "high"], ["poor", "fair", "good"]
    table = {"a": [levels[k] for k in a], "b": [others[k] for k in b], "w": weight.tolist()}
    schema = tb.Schema({"a": tb.Ordinal(levels), "b": tb.Ordinal(others), "w": tb.Weight()}).fit(table)
    found = summary(FakeModel(schema, rng.normal(size=(n, 1)), np.ones((2, 1))), table)["relations"][0]
    assert found["columns"] == ["a", "b"]
    holds = {}
    for scale, code in ((levels, a), (others, b)):
        holds |= {level: code == k for k, level in enumerate(scale)}
        holds |= {f"at least {scale[1]}": code >= 1, f"at most {scale[1]}": code <= 1}
    x, y = holds[found["answer"]], holds[found["other_answer"]]
    share, of_others = (np.average(y[rows], weights=weight[rows]) for rows in (x, ~x))
    assert (found["share"], found["share_of_others"]) == pytest.approx((share, of_others))
    assert found["n_with_answer"] == x.sum()
    firsts, seconds = ([each for each in holds if each.split()[-1] in scale] for scale in (levels, others))
    phis = [np.corrcoef(np.repeat([holds[i], holds[j]], weight, axis=1))[0, 1] for i in firsts for j in seconds]
    assert np.corrcoef(np.repeat([x, y], weight, axis=1))[0, 1] == pytest.approx(max(phis))
    size = f"{100 * share:.0f}\u00a0% (weighted; base: {x.sum()} answers)"
    assert found["words"].startswith(f"{size} of those who answered “a: {found['answer']}” answered")


def related(columns: dict[str, tb.Column], table: dict[str, list[Any]], **about: Any) -> list[dict[str, Any]]:
    """Relations of a table under a model without hidden structure."""
    n = len(next(iter(table.values())))
    schema = tb.Schema(columns, skips=[], **about).fit(table)
    model = FakeModel(schema, np.random.default_rng(0).normal(size=(n, 1)), np.ones((schema.n_sites, 1)))
    return summary(model, table)["relations"]


def test_columns_that_follow_from_one_another_are_no_finding() -> None:
    rng, n = np.random.default_rng(0), 400
    region = rng.integers(0, 6, n)
    fan = np.where(rng.random(n) < 0.8, region % 2, 1 - region % 2)
    names = {"town": [f"town {k}" for k in region], "coast": [["west", "east"][k % 2] for k in region]}
    table = {**names, "fan": [["no", "yes"][k] for k in fan]}
    columns = {"town": tb.Categorical(), "coast": tb.Categorical(), "fan": tb.Binary()}
    assert {tuple(each["columns"]) for each in related(columns, table)} == {("town", "fan")}
    odd = np.arange(n) < 12  # a few people say otherwise, so the column does not follow, and is still no news
    given = {**table, "coast": [["west", "east"][k % 2 ^ own] for k, own in zip(region, odd, strict=True)]}
    assert {tuple(each["columns"]) for each in related(columns, given, determined=[])} <= {
        ("town", "fan"),
        ("coast", "fan"),
    }
    schema = tb.Schema(columns).fit(table)
    model = FakeModel(schema, rng.normal(size=(n, 1)), np.ones((schema.n_sites, 1)))
    found = summary(model, table)
    drivers = {each["name"]: {own["column"] for own in each["drivers"]} for each in found["data"]["columns"]}
    assert "town" not in drivers["coast"]
    assert found["dependence"]["names"] == ["town", "fan"]
    (words,) = [each["words"] for each in found["warnings"] if "follow" in each["title"]]
    assert "“coast” with “town”" in words


def test_neighbours_of_a_grid_are_no_finding() -> None:
    rng, n, levels = np.random.default_rng(0), 400, ["never", "seldom", "often"]
    code = rng.integers(0, 3, n)
    near = [np.where(rng.random(n) < 0.8, code, rng.integers(0, 3, n)) for _ in range(3)]
    table = {name: [levels[k] for k in own] for name, own in zip(("how", "when", "who"), near, strict=True)}
    table |= {"age": [20 + 20 * int(k) + float(rng.random()) for k in code]}
    columns: dict[str, tb.Column] = {name: tb.Ordinal(levels) for name in ("how", "when")} | {"age": tb.Continuous()}
    columns["who"] = tb.Ordinal(levels)
    pairs = [set(each["columns"]) for each in related(columns, table)]
    assert {"how", "age"} in pairs or {"when", "age"} in pairs
    assert {"how", "when"} not in pairs


@pytest.mark.parametrize("n_with", [29, 30])
def test_no_finding_rests_on_fewer_than_thirty_answers(n_with: int) -> None:
    """Also in segments and in surprises."""
    rare = np.arange(400) < n_with
    other = np.roll(rare, 8)  # not the same question
    table = {"rare": np.where(rare, "yes", "no").tolist(), "other": np.where(other, "a", "b").tolist()}
    columns = {"rare": tb.Binary(), "other": tb.Categorical()}
    found = related(columns, table, determined=[])
    assert len(found) == (n_with >= 30)
    assert all("(base: 30 answers)" in each["words"] or "(base: 370 answers)" in each["words"] for each in found)
    schema = tb.Schema(columns, determined=[]).fit(table)
    model = FakeModel(schema, np.where(rare, 5.0, -5.0)[:, None] + np.linspace(-1, 1, 400)[:, None], np.ones((3, 1)))
    scores = {"accuracy": 0.7, "accuracy_marginal": 0.5, "log_score": -0.8, "log_score_marginal": -1.1}
    tests = [{"column": name, "answer": "label", "n": n, **scores} for name, n in (("rare", n_with), ("other", 200))]
    surprise = {"column": "other", "code": 0, "of": 100, "n": n_with, "share": n_with / 100}
    held_out = {"n_cells": 200, "share": 0.1, **scores, "columns": tests, "surprises": [surprise]}
    kinds = [each["kind"] for each in summary(model, table, held_out=held_out)["findings"]]
    assert kinds.count("surprise") == (n_with >= 30)
    assert kinds.count("accuracy") == 1
    assert kinds.count("segment") <= 1 + (n_with >= 30)


def test_segments_are_named_by_what_they_have() -> None:
    rng, n = np.random.default_rng(0), 300
    first, levels = np.arange(n) < 120, ["never", "sometimes", "often"]
    table = {
        "prays": [levels[k] for k in np.where(first, rng.integers(1, 3, n), 0)],
        "fan": np.where(rng.random(n) < np.where(first, 0.2, 0.9), "yes", "no").tolist(),
        "pets": [["cat"] * bool(own) for own in rng.random(n) < np.where(first, 0.1, 0.6)],
    }
    columns = {"prays": tb.Ordinal(levels), "fan": tb.Binary(true="yes"), "pets": tb.MultiSelect(["cat", "dog"])}
    schema = tb.Schema(columns, skips=[]).fit(table)
    log_odds = np.where(first, 5.0, -5.0)[:, None] + rng.normal(size=(n, 1))
    found = summary(FakeModel(schema, log_odds, np.ones((schema.n_sites, 1))), table)
    names = {each["segment"]: each["name"] for each in found["segments"]["profiles"]}
    assert names == {1: "prays: never; fan: yes", 2: "prays: at least sometimes; fan: no"}
    (words,) = [each["words"] for each in found["findings"] if "segment 2" in each["words"]]
    assert words.startswith(
        "40\u00a0% (120 rows) are segment 2: “prays: at least sometimes” 100\u00a0% (all: 40\u00a0%);"
    )
    assert all(" not " not in each["words"] for each in found["findings"] if each["kind"] == "segment")


def test_who_was_not_asked_is_a_group_and_gave_no_few_answers() -> None:
    rng, n = np.random.default_rng(0), 300
    seen = np.arange(n) % 3 > 0
    weight = np.where(seen, 1.0, 2.0)
    on = rng.random(n) < 0.5
    table: dict[str, list[Any]] = {"seen": np.where(seen, "Yes", "No").tolist(), "w": weight.tolist()}
    for k in range(6):
        said = np.where(rng.random(n) < np.where(on, 0.9, 0.1), "good", "bad")
        table[f"view {k}"] = np.where(seen, said, None).tolist()
    columns: dict[str, tb.Column] = {"seen": tb.Binary(true="Yes"), "w": tb.Weight()}
    columns |= {name: tb.Binary(true="good") for name in table if name.startswith("view")}
    skips = [tb.Skip([name for name in columns if name.startswith("view")], "seen", ["Yes"])]
    schema = tb.Schema(columns, skips=skips).fit(table)
    log_odds = np.where(seen, np.where(on, 5.0, -5.0), 0.0)[:, None] + rng.normal(0, 0.3, (n, 1))
    found = summary(FakeModel(schema, log_odds, np.ones((schema.n_sites, 1))), table, rows_are="people")
    assert "Not asked: seen: No" in {each["name"] for each in found["segments"]["profiles"]}
    (words,) = [each["words"] for each in found["findings"] if "not asked" in each["words"]]
    assert (
        words == "50\u00a0% (weighted; 100 people) answered “seen: No” and were not asked 86\u00a0% of the questions."
    )
    assert "ew answers" not in render(found)
    gone = [each for each in found["warnings"] if "missing" in each["title"]]
    assert gone == []


def test_weights_are_said_with_their_effective_number() -> None:
    model, table = fake()
    weight = np.where(np.arange(200) < 20, 10.0, 1.0)
    found = summary(
        FakeModel(model.schema_ | {"w": tb.Weight()}, model._log_odds, model.weights_), {**table, "w": weight.tolist()}
    )
    (words,) = [each["words"] for each in found["warnings"] if each["title"] == "Weighted"]
    assert f"worth {weight.sum() ** 2 / (weight**2).sum():,.0f} of equal weight" in words


def test_guesses_and_missing_answers_are_warned_of() -> None:
    model, table = fake()
    schema = tb.Schema(dict(model.schema_), reasons={"fan": "a guess: two texts; use Categorical() if not"})
    table["age"] = [None if k % 2 else cell for k, cell in enumerate(table["age"])]
    found = summary(FakeModel(schema, model._log_odds, model.weights_), table)["warnings"]
    assert [each["level"] for each in found] == sorted((each["level"] for each in found), key=["check", "note"].index)
    words = [each["words"] for each in found]
    guess = "“fan” as Binary (two texts; use Categorical() if not). Correct this with thurbo check --edit."
    assert guess in words
    assert any("“age” 5" in each and "of those who may have been asked" in each for each in words)
