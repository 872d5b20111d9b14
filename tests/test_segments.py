"""Segments of groups that were planted, of a cloud without groups, and of a model that is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

import thurbo as tb
from tests.known import SCHEMA as KNOWN
from tests.known import known_model, one_member
from thurbo.app import report
from thurbo.app.explorer import Session
from thurbo.errors import ThurboError
from thurbo.predict.answers import from_latent
from thurbo.predict.segments import Segments, segments
from thurbo.table.io.frames import as_table
from thurbo.table.schema.routing import not_applicable

CENTRES = np.asarray([[0.0, 0.0, 5.0], [6.0, 0.0, 0.0], [0.0, 6.0, -5.0]])
SIZES = (60, 90, 150)
SCHEMA = tb.Schema({
    "member": tb.Binary(true="yes"),
    "trust": tb.Ordinal(["none", "some", "a lot"]),
    "party": tb.Categorical(["Blue", "Green", "Red"]),
    "issues": tb.Ranking(["tax", "health", "roads"], cell_format="text"),
    "media": tb.MultiSelect(["tv", "net"], cell_format="list"),
    "income": tb.Continuous(transform="log"),
    "age": tb.Banded({"young": (0, 30), "old": (30, 99), "very old": (99, None)}),
})  # fmt: skip


class Planted:
    """Three groups of rows, 60, 90 and 150, that differ in features and in answers."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.group = np.repeat(np.arange(3), SIZES)
        n = len(self.group)
        self.features = CENTRES[self.group] + rng.normal(size=(n, 3))
        share = np.asarray([0.9, 0.5, 0.1])[self.group]
        self.frame = pd.DataFrame({
            "member": np.where(rng.random(n) < share, "yes", "no"),
            "trust": np.where(rng.random(n) < share, "a lot", rng.choice(["none", "some"], n)),
            "party": np.where(rng.random(n) < share, "Green", rng.choice(["Blue", "Red"], n)),
            "issues": np.where(rng.random(n) < share, "tax > health = roads", "health > tax"),
            "media": [["tv"] if tv else ["net"] for tv in rng.random(n) < share],
            "income": np.exp(10 + 2 * share + 0.1 * rng.normal(size=n)),
            "age": np.where(rng.random(n) < share, "young", "old"),
        })  # fmt: skip
        gone = rng.random(self.frame.shape) < 0.1
        self.frame = self.frame.mask(gone)
        self.schema = SCHEMA.fit(self.frame)
        self.blocks = self.schema.compile(self.frame)

    def cut(self, n: Any = "auto", weight: Any = None) -> Segments:
        return segments(self.schema, self.blocks, self.features, weight, n)


@pytest.fixture(scope="module")
def planted() -> Planted:
    return Planted()


@pytest.fixture(scope="module")
def found(planted: Planted) -> Segments:
    return planted.cut()


def test_planted_groups_are_found(planted: Planted, found: Segments) -> None:
    assert found.n == 3
    assert adjusted_rand_score(found.labels, planted.group) > 0.98
    assert found.labels.min() == 1
    assert np.bincount(found.labels)[1:] == pytest.approx([150, 90, 60], abs=2)  # the largest first
    assert found.stability.min() > 0.95
    assert found.agreement > 0.95
    assert found.silhouette > found.reference_silhouette + 0.2
    assert found.gaps.all()
    assert found.stand_apart
    assert found.verdict.startswith("These 3 segments stand apart")
    assert [record["n"] for record in found.tried] == list(range(2, 11))
    assert max(found.tried, key=lambda record: record["silhouette"])["n"] == 3


def test_profiles_are_the_shares_of_the_table(planted: Planted, found: Segments) -> None:
    for record in found.profiles:
        inside = found.labels == record["segment"]
        assert record["n"] == inside.sum()
        assert record["share"] == pytest.approx(inside.mean())
        assert record["stability"] == found.stability[record["segment"] - 1]
    by_answer = {(each["segment"], each["column"], each["answer"]): each for each in found.answers}
    for segment in (1, 2, 3):
        rows = planted.frame[found.labels == segment]
        for column, answer in (
            ("member", "yes"),
            ("trust", "a lot"),
            ("trust", "none"),
            ("party", "Green"),
            ("age", "old"),
        ):
            record, cells = by_answer[segment, column, answer], rows[column].dropna()
            share, everybody = (cells == answer).mean(), (planted.frame[column].dropna() == answer).mean()
            assert record["value"] == pytest.approx(share)
            assert record["overall"] == pytest.approx(everybody)
            assert record["difference"] == pytest.approx(share - everybody)
            assert record["lift"] == pytest.approx(share / everybody)
            n_all = planted.frame[column].notna().sum()
            error = np.sqrt(everybody * (1 - everybody) * (1 / len(cells) - 1 / n_all))
            assert record["z"] == pytest.approx((share - everybody) / error)
        ticked = rows["media"].dropna()
        assert by_answer[segment, "media", "tv"]["value"] == pytest.approx(np.mean(["tv" in cell for cell in ticked]))
        first = rows["issues"].dropna().str.startswith("tax")
        assert by_answer[segment, "issues", "tax first"]["value"] == pytest.approx(first.mean())
        # A typical income: the mean on the scale that the model uses, here the logarithm.
        assert by_answer[segment, "income", ""]["value"] == pytest.approx(np.exp(np.log(rows["income"]).mean()))
    assert (1, "member", "no") not in by_answer  # of two answers one tells the other


def test_profiles_tell_what_is_over_and_under_represented(found: Segments) -> None:
    largest, middle, smallest = found.profiles  # planted shares of 0.1, 0.5 and 0.9
    over = {(each["column"], each["answer"]) for each in smallest["over"]}
    rises = [("member", "yes"), ("trust", "a lot"), ("party", "Green"), ("issues", "tax first"), ("media", "tv")]
    assert len(over) == 5
    assert over <= {*rises, ("income", ""), ("age", "young")}
    # Who gives one answer less often gives another one: only an option can be lacking, and a number be lower.
    assert {(each["column"], each["answer"]) for each in largest["under"]} == {("income", ""), ("media", "tv")}
    has = {(each["column"], each["answer"]) for each in largest["over"]}
    assert has & {("member", "no"), ("trust", "at most some"), ("age", "old"), ("issues", "health first")} == has - {
        ("media", "net"),
        ("party", "Red"),
        ("party", "Blue"),
    }
    by_answer = {(each["segment"], each["column"], each["answer"]): each["value"] for each in found.answers}
    for each in largest["over"]:
        if each["column"] == "trust":
            assert each["value"] == pytest.approx(by_answer[1, "trust", "none"] + by_answer[1, "trust", "some"])
    for record in found.profiles:
        for side, sign in (("over", 1), ("under", -1)):
            strength = [sign * each["z"] for each in record[side]]
            assert strength == sorted(strength, reverse=True)
            assert all(z >= 2 for z in strength)
            assert len(strength) <= 5
            single = [each["column"] for each in record[side] if each["column"] != "media"]
            assert len(single) == len(set(single))  # one line for each question
    assert max((each["z"] for each in middle["over"]), default=0) < max(each["z"] for each in smallest["over"])


def test_rows_of_weight_zero_move_no_segment(planted: Planted) -> None:
    """Far rows of weight zero are in the nearest segment; all others are where they are without them."""
    extra = np.arange(7)
    weight = np.concatenate([np.zeros(7), np.ones(len(planted.features))])
    far = np.concatenate([1e6 * (1 + planted.features[extra]), planted.features])
    order = np.concatenate([extra, np.arange(len(planted.features))])
    rows = planted.schema.compile(as_table(planted.frame).take(order))
    found = segments(planted.schema, rows, far, weight, "auto")
    alone = planted.cut()
    np.testing.assert_array_equal(found.labels[7:], alone.labels)
    np.testing.assert_allclose(found.stability, alone.stability)
    assert [each["share"] for each in found.profiles] == pytest.approx([each["share"] for each in alone.profiles])
    assert (found.agreement, found.silhouette) == pytest.approx((alone.agreement, alone.silhouette))


def test_rows_count_by_their_weight(planted: Planted) -> None:
    """A weight of two is a row that stands twice; a weight of zero counts nowhere, and has a segment all the same."""
    weight = np.where(planted.group == 0, 2.0, 1.0)
    weight[:5] = 0
    found = planted.cut(3, weight)
    segment = np.bincount(found.labels[planted.group == 0]).argmax()
    record = found.profiles[segment - 1]
    assert record["share"] == pytest.approx(weight[found.labels == segment].sum() / weight.sum())
    inside = (found.labels == segment) & planted.frame["member"].notna().to_numpy()
    is_yes = (planted.frame["member"] == "yes").to_numpy()
    told = next(each for each in found.answers if each["segment"] == segment and each["column"] == "member")
    assert told["value"] == pytest.approx(np.average(is_yes[inside], weights=weight[inside]))
    assert set(found.labels[:5]) == {segment}


def divided(planted: Planted, points: np.ndarray, n: Any) -> Segments:
    return segments(planted.schema, planted.blocks, points, None, n)


ONE_CLOUD = "do not stand apart: there is no gap between them."


def test_a_cloud_has_no_segments_that_stand_apart(planted: Planted) -> None:
    rng = np.random.default_rng(1)
    cloud = rng.normal(size=planted.features.shape)
    found = divided(planted, cloud, "auto")
    assert found.silhouette < found.reference_silhouette + 0.03
    assert found.agreement < 0.8
    assert not found.stand_apart
    assert f"These {found.n} segments {ONE_CLOUD}" in str(found)
    assert ONE_CLOUD in found._repr_html_()
    assert "other places" in found.verdict
    line = divided(planted, cloud[:, :1], 2)
    assert line.agreement > 0.8  # the middle of a line is found again,
    assert line.silhouette < line.reference_silhouette + 0.03  # and is no gap
    assert f"These 2 segments {ONE_CLOUD} Bootstrap samples are cut at the same places." in line.verdict
    for shape in (rng.uniform(size=(300, 1)), np.exp(rng.normal(size=(300, 1))), rng.standard_t(3, (300, 2))):
        odd = divided(planted, shape, 2)  # better separated than normal samples, but there is no gap
        assert not odd.stand_apart
        assert ONE_CLOUD in odd.verdict


def test_groups_that_are_divided_at_random_are_not_said_to_be_a_cloud(planted: Planted) -> None:
    """Eight groups at the corners of a cube, in five segments: each has a gap, but five could be others."""
    rng = np.random.default_rng(0)
    points = rng.integers(0, 2, (300, 3)) + 0.08 * rng.normal(size=(300, 3))
    found = divided(planted, points, 5)
    assert found.silhouette > found.reference_silhouette
    assert found.gaps.any()
    assert found.agreement < 0.8
    assert "bootstrap samples give other segments" in found.verdict
    assert "cloud" not in found.verdict
    assert divided(planted, points, 8).stand_apart


def test_a_group_beside_a_cloud_that_is_cut_is_told_apart(planted: Planted) -> None:
    points = np.where(planted.group[:, None] == 0, [20.0, 0.0], [0.0, 0.0])
    points = points + np.random.default_rng(0).normal(size=(300, 2)) * [0.3, 1.0]
    found = divided(planted, points, 3)
    assert found.gaps.sum() == 1
    assert not found.stand_apart
    alone = 1 + int(found.gaps.argmax())
    assert set(found.labels[planted.group == 0]) == {alone}
    if found.agreement >= 0.8:
        assert f"only segment {alone} has a gap to the others; there is none between the rest" in found.verdict


def test_the_same_seed_gives_the_same_segments(planted: Planted) -> None:
    first, second = planted.cut(4), planted.cut(4)
    np.testing.assert_array_equal(first.labels, second.labels)
    np.testing.assert_array_equal(first.stability, second.stability)
    assert first.profiles == second.profiles


def test_the_number_and_the_verdict_depend_on_the_rows_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thurbo.predict.segments.MOST_SEGMENTS", 4)
    model = known_model()
    frame = model.sample(120, random_state=0)
    found = [model.segments(frame, random_state=seed) for seed in (None, 1)]
    given = model.segments(frame, found[0].n, sample_weight=np.full(120, 3.0))
    page = report.summary(model, frame, seed=5)
    shown = Session(model, frame, seed=6).survey()
    for each in (*found, given):
        np.testing.assert_array_equal(each.labels, found[0].labels)
        assert (each.n, each.verdict, str(each)) == (page["segments"]["n"], page["segments"]["verdict"], str(found[0]))
    assert len(shown["segments"]) == found[0].n
    assert (shown["verdict"], shown["segment"]) == (found[0].verdict, found[0].labels.tolist())


def test_two_groups_are_two_segments_and_a_cloud_is_cut_into_more(planted: Planted) -> None:
    rng = np.random.default_rng(0)
    two = divided(planted, rng.normal(size=(300, 2)) + np.where(np.arange(300)[:, None] < 120, 8.0, 0.0), "auto")
    assert two.n == 2
    assert two.stand_apart
    line = divided(planted, rng.uniform(size=(300, 1)), "auto")
    assert 3 <= line.n <= 6
    assert not line.stand_apart
    assert [record["stand_apart"] for record in line.tried] == [False] * 9


def test_gaps_are_those_of_the_weighted_rows(planted: Planted) -> None:
    """Rows between two groups that count for nothing do not close the gap; doubled by weights, they do."""
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(0, 0.4, (130, 1)), rng.normal(4, 0.4, (130, 1)), rng.uniform(0, 4, (40, 1))])
    for share, apart in ((1e-6, True), (6.0, False)):
        weight = np.where(np.arange(300) < 260, 1.0, share)
        found = segments(planted.schema, planted.blocks, points, weight, 2)
        assert found.gaps.all() == apart


def test_the_order_and_place_of_features_do_not_matter(planted: Planted, found: Segments) -> None:
    moved = planted.features[:, ::-1] - np.asarray([5.0, -7.0, 0.0])
    again = segments(planted.schema, planted.blocks, moved, None, 3)
    assert adjusted_rand_score(again.labels, found.labels) > 0.98


def test_few_rows_and_few_differences(planted: Planted) -> None:
    alike = segments(planted.schema, planted.blocks, np.ones((300, 2)), None, "auto")
    assert alike.n == 1
    assert set(alike.labels) == {1}
    assert "no clear differences" in str(alike)
    small = planted.frame.head(3)
    tiny = segments(planted.schema, planted.schema.compile(small), planted.features[:3], None, "auto")
    assert 1 <= tiny.n <= 3
    for n, words in (
        (0, "not a number of segments"),
        ("many", "not a number"),
        (2, "need at least 2 different rows, but there are 1"),
    ):
        with pytest.raises(ThurboError, match=words):
            segments(planted.schema, planted.blocks, np.ones((300, 2)), None, n)


def test_display(planted: Planted, found: Segments) -> None:
    text, html = str(found), found._repr_html_()
    assert text.startswith("3 segments of 300 rows: agreement")
    assert text.splitlines()[1] == found.verdict
    assert f"<b>{found.verdict}</b>" in html
    assert f"Segment 1: {found.profiles[0]['share']:.1%}" in text
    words = found.profiles[2]["over"][0]["words"]
    assert f"  + {words}" in text
    assert f"<td>{words}</td>" in html
    frame = found.frame
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == ["segment", "column", "answer", "value", "overall", "difference", "lift", "z"]
    assert len(frame) == len(found.answers)
    assert frame["value"].notna().all()
    titled = tb.Schema(SCHEMA, titles={"member": "Do you belong to the club?"}).fit(planted.frame)
    told = segments(titled, planted.blocks, planted.features, None, 3)
    assert "  + Do you belong to the club?: yes" in str(told)
    assert {each["question"] for each in told.answers if each["column"] == "member"} == {"Do you belong to the club?"}
    odd = planted.frame.assign(trust=planted.frame["trust"].replace("some", "<some>"))
    schema = (SCHEMA | {"trust": tb.Ordinal(["none", "<some>", "a lot"])}).fit(odd)
    escaped = segments(schema, schema.compile(odd), planted.features, None, 3)._repr_html_()
    assert "<some>" not in escaped


def test_a_known_model_cuts_its_rows_by_its_hidden_units() -> None:
    """Four states of two hidden units that every answer depends on: rows of one state are together more than not."""
    model, rng = known_model(), np.random.default_rng(0)
    h = rng.integers(0, 2, (400, 2))
    x = model.site_bias_ + h @ model.weights_.T + rng.normal(size=(400, len(model.site_names_)))
    frame = pd.DataFrame(from_latent(KNOWN, model.params_, x.astype(np.float32), np.arange(x.shape[1])))
    found, state = model.segments(frame, n=4, random_state=0), h @ [1, 2]
    assert adjusted_rand_score(found.labels, state) > 0.5
    by_column = {each["column"] for record in found.profiles for each in [*record["over"], *record["under"]]}
    assert by_column <= set(KNOWN)
    weight = np.where(state == 0, 3.0, 1.0)
    weighted = model.segments(frame, n=4, random_state=0, sample_weight=weight)
    assert weighted.profiles[0]["share"] == pytest.approx(weight[weighted.labels == 1].sum() / weight.sum())
    model._adopt(one_member(KNOWN | {"w": tb.Weight()}, model.params_, "exact"), [], True)
    own = model.segments(frame.assign(w=weight), n=4, random_state=0)
    np.testing.assert_array_equal(own.labels, weighted.labels)
    assert own.profiles[0]["share"] == pytest.approx(weighted.profiles[0]["share"])
    with pytest.raises(ThurboError, match="sample_weight"):
        model.segments(frame, sample_weight=[1.0])


def test_rows_with_few_answers_are_a_segment_of_their_own(planted: Planted) -> None:
    """Rows that answered one question of seven say too little to be clustered."""
    frame = planted.frame.copy()
    few = np.zeros(len(frame), bool)
    few[::10] = True
    frame.loc[few, [name for name in frame if name != "member"]] = None
    features = np.where(few[:, None], 0.0, planted.features)
    schema = SCHEMA.fit(planted.frame)
    blocks = schema.compile(frame)
    found = segments(schema, blocks, features, None, range(3, 7))
    assert found.n == 4
    assert found.few_answers is not None
    assert (found.labels == found.few_answers).tolist() == few.tolist()
    assert adjusted_rand_score(found.labels[~few], planted.group[~few]) > 0.98
    assert [record["n"] for record in found.tried] == [3, 4, 5, 6]
    record = found.profiles[found.few_answers - 1]
    assert record["answered"] == pytest.approx(np.mean([block.answered[few] for block in blocks.values()]))
    assert record["answered"] < 0.2
    assert found.stand_apart
    assert found.few_answers == 4
    assert found.verdict.startswith("Segments 1, 2 and 3 stand apart: ")
    assert found.verdict.endswith(" Segment 4 gave few answers.")
    assert segments(schema, blocks, features, None, 4).n == 4
    alone = segments(schema, blocks, features, None, 1)
    assert (alone.n, alone.few_answers) == (1, None)
    pair = segments(schema, blocks, features, None, 2)
    assert pair.verdict == f"All other rows are in one segment. Segment {pair.few_answers} gave few answers."


def test_rows_that_were_not_asked_are_a_segment_of_their_own(planted: Planted) -> None:
    """They answered all that they were asked, and so did not give few answers."""
    frame = planted.frame.fillna({"member": "no"})
    past = np.arange(len(frame)) % 5 == 0
    few = (np.arange(len(frame)) % 7 == 0) & ~past
    frame.loc[past, "member"] = "never"
    frame.loc[past | few, [name for name in frame if name != "member"]] = None
    schema = SCHEMA | {"member": tb.Categorical(["no", "yes", "never"])}
    schema = schema.with_skips([tb.Skip([name for name in schema if name != "member"], "member", ["no", "yes"])])
    schema, table = schema.fit(frame), as_table(frame)
    out = not_applicable(schema, schema.skips, table)
    features = np.where((past | few)[:, None], 0.0, planted.features)
    found = segments(schema, schema.compile(table), features, None, range(4, 7), out)
    assert found.not_asked is not None
    assert found.few_answers is not None
    assert (found.labels == found.not_asked).tolist() == past.tolist()
    assert (found.labels == found.few_answers).tolist() == few.tolist()
    record = found.profiles[found.not_asked - 1]
    assert record["asked"] == pytest.approx(1 / len(schema))
    assert record["answered"] == pytest.approx(1.0)
    assert (record["over"][0]["column"], record["over"][0]["answer"]) == ("member", "never")
    both = f" Segment {found.not_asked} was not asked most questions. Segment {found.few_answers} gave few answers."
    assert found.verdict.endswith(both)
    assert segments(schema, schema.compile(table), features, None, 2, out).few_answers is None


def test_columns_that_follow_from_one_another_are_shown_once(planted: Planted) -> None:
    frame = planted.frame.assign(again=planted.frame["party"].map({"Green": "G", "Blue": "B", "Red": "R"}))
    schema = (SCHEMA | {"again": tb.Categorical()}).fit(frame)
    assert schema.sources == {"party": "party", "again": "party"}
    found = segments(schema, schema.compile(frame), planted.features, None, 3)
    assert {each["column"] for each in found.answers} == set(schema)
    assert "again" not in {each["column"] for record in found.profiles for each in record["over"]}


def test_a_grid_has_two_lines(planted: Planted) -> None:
    columns = {f"grid {k}": tb.Ordinal(["none", "some", "a lot"]) for k in range(5)}
    frame = planted.frame.assign(**dict.fromkeys(columns, planted.frame["trust"]))
    schema = tb.Schema({**SCHEMA, **columns}, determined=[]).fit(frame)
    found = segments(schema, schema.compile(frame), planted.features, None, 3)
    n_lines = [sum(each["column"].startswith("grid") for each in record["over"]) for record in found.profiles]
    assert max(n_lines) == 2
