"""Long tables on the command line: fit, rank and ask by names that are said or remembered, or one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import thurbo as tb
from tests.test_cli import run
from thurbo.app.cli import tables as long

pytestmark = pytest.mark.usefixtures("few_segments")

N_USERS, N_ITEMS = 16, 9
SIZES = ("--hidden", "1", "--factors", "0", "--epochs", "2", "--objective", "multi-prediction", "--quiet")


def ratings() -> pd.DataFrame:
    """Numbers for users, far apart, and for movies: each user rates six of nine."""
    rng = np.random.default_rng(0)
    user = np.repeat(1000 + 7919 * np.arange(N_USERS), 6)
    movie = np.concatenate([rng.permutation(N_ITEMS)[:6] for _ in range(N_USERS)])
    rating = 1 + ((user + movie) % 2) * 2 + rng.integers(0, 2, len(user))
    return pd.DataFrame({"user": user, "movie": movie, "rating": rating, "when": np.arange(len(user))})


class Shelf(NamedTuple):
    """Files, a model of them, and what `fit` said."""

    home: Path
    data: Path
    people: Path
    model: Path
    users: Any
    said: str


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    home = tmp_path_factory.mktemp("lists")
    data, people, model = home / "ratings.csv", home / "people.csv", home / "m.thurbo"
    frame = ratings()
    frame.to_csv(data, index=False)
    known = pd.DataFrame({"user": frame["user"].unique()})
    known.assign(keen=np.where(np.arange(N_USERS) % 2, "yes", "no")).to_csv(people, index=False)
    names = ("--row", "user", "--item", "movie", "--score", "rating", "--columns", str(people))
    said = _run("fit", str(data), *names, "-o", str(model), *SIZES)
    users = tb.from_long(frame, "user", "movie", "rating", columns=tb.read(people)[0])
    return Shelf(home, data, people, model, users, said)


def _run(*arguments: str) -> str:
    """What a command that succeeds says; for fixtures, which may not use capsys."""
    import contextlib
    import io

    from thurbo.app import cli

    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as stop:
        cli.main(list(arguments))
    assert stop.value.code == 0
    return out.getvalue()


def test_fit_takes_a_long_table_and_people_for_one(shelf: Shelf) -> None:
    assert "rows        16\n" in shelf.said
    assert "columns     2 of 3 modelled, 10 sites\n" in shelf.said
    assert "missing cells excluded" in shelf.said
    schema = tb.TBM.load(shelf.model).schema_
    assert {name: column.kind for name, column in schema.items()} == {
        "user": "id",
        "keen": "binary",
        "movie": "ratings",
    }
    assert schema["movie"].score == "rating"
    assert schema["movie"].levels == (1, 2, 3, 4)


def test_rank_reads_the_next_table_by_the_names_of_the_fit(
    shelf: Shelf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out = tb.TBM.load(shelf.model), tmp_path / "out.csv"
    files = (str(shelf.model), str(shelf.data), "--columns", str(shelf.people), "-o", str(out), "-q")

    def ranked(*more: str) -> pd.DataFrame:
        assert run("rank", *files, *more, capsys=capsys) == (0, "", "")
        return pd.read_csv(out)

    found = ranked("--top", "2")
    expected = model.rank(shelf.users, top=2)
    assert found[["row", "item", "place"]].equals(expected[["row", "item", "place"]])
    assert found["utility"].to_numpy() == pytest.approx(expected["utility"].to_numpy())
    seen = set(map(tuple, ratings()[["user", "movie"]].to_numpy().tolist()))
    assert not seen & set(map(tuple, found[["row", "item"]].to_numpy().tolist()))
    assert len(ranked("--include-seen", "--top", "20")) == N_USERS * N_ITEMS
    assert set(ranked("--include-seen", "--item-list", "3, 5")["item"]) == {3, 5}
    # A file of items, with and without a header; and one of pairs.
    for text in ("movie\n3\n5\n", "3\n5\n"):
        (tmp_path / "items.csv").write_text(text)
        assert set(ranked("--include-seen", "--items", str(tmp_path / "items.csv"))["item"]) == {3, 5}
    (tmp_path / "items.csv").write_text("movie,user\n3,1000\n5,1000\n")
    assert sorted(ranked("--items", str(tmp_path / "items.csv"))[["row", "item"]].to_numpy().tolist()) == [
        [1000, 3], [1000, 5]
    ]  # fmt: skip


def test_transform_and_predict_too(shelf: Shelf, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = tb.TBM.load(shelf.model), tmp_path / "out.csv"
    other = tmp_path / "other.csv"
    ratings().rename(columns={"user": "who", "movie": "what", "rating": "stars"}).to_csv(other, index=False)
    pd.read_csv(shelf.people).rename(columns={"user": "who"}).to_csv(tmp_path / "people.csv", index=False)
    names = ("--row", "who", "--item", "what", "--score", "stars", "--columns", str(tmp_path / "people.csv"))
    assert run("transform", str(shelf.model), str(other), *names, "-o", str(out), "-q", capsys=capsys) == (0, "", "")
    found = pd.read_csv(out)
    assert found["who"].tolist() == shelf.users.rows.tolist()
    assert found[["hidden0"]].to_numpy() == pytest.approx(model.transform(shelf.users))
    files = (str(shelf.model), str(shelf.data), "--columns", str(shelf.people), "-o", str(out), "-q")
    assert run("predict", *files, "--column", "keen", capsys=capsys) == (0, "", "")
    found = pd.read_csv(out)
    assert found["yes"].to_numpy() == pytest.approx(model.predict_proba(shelf.users, "keen")[:, 1])


def test_a_schema_says_it_all(shelf: Shelf, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("--row", "user", "--item", "movie", "--score", "rating")
    toml = tmp_path / "s.toml"
    status, out, _ = run("check", str(shelf.data), *names, "-o", str(toml), capsys=capsys)
    assert status == 0
    assert "16 rows, 2 columns" in out
    assert "Ratings" in out
    table, schema = long.read_long(shelf.data, long.LongNames(), tb.Schema.from_toml(toml))
    assert table.lists["movie"].scores == "rating"
    assert schema.fit(table)["movie"].levels == (1, 2, 3, 4)
    assert run("check", str(shelf.data), "-s", str(toml), capsys=capsys)[0] == 0


def test_a_table_that_looks_long_is_told(shelf: Shelf, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--row user --item movie" in run("check", str(shelf.data), capsys=capsys)[1]
    assert "--row" not in run("check", str(shelf.people), capsys=capsys)[1]
    rng = np.random.default_rng(0)
    twice = pd.DataFrame({"a": rng.integers(0, 9, 200), "b": rng.integers(0, 9, 200)})
    assert long.hint(twice) == ""
    assert long.hint(twice.drop_duplicates().assign(c=1.5)).startswith("If each line")


def test_files_may_hold_lists_in_their_cells(tmp_path: Path) -> None:
    schema = tb.Schema({"who": tb.Id(), "films": tb.Ratings()})
    for cells in (["b", "a"], ["c"]), ({"a": 5, "b": 3}, {"c": 4}):
        tb.write(pd.DataFrame({"who": [1, 2], "films": list(cells)}), tmp_path / "t.parquet")
        frame, found = long.read_long(tmp_path / "t.parquet", long.LongNames(), schema)
        fitted = found.fit(frame)
        block = fitted.compile(frame)["films"]
        if fitted["films"].is_listed:
            assert block.entries.start.tolist() == [0, 2, 3]
        else:  # orders of few items are a table: b, a, c by first appearance
            assert block.tier.tolist() == [[1, 0, -1], [-1, -1, 0]]
    with pytest.raises(tb.SchemaError, match=r"row 7.*\[3\] of item \"a\" is not a number"):
        schema.fit({"who": [7], "films": [{"a": [3]}]})


def test_check_names_every_row_that_cannot_be_read(
    shelf: Shelf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.toml").write_text(
        '[columns.user]\nkind = "id"\n[columns.movie]\nkind = "ratings"\nlevels = [1, 2, 3]\nscore = "rating"\n'
    )
    status, out, err = run("check", str(shelf.data), "--details", "-s", str(tmp_path / "s.toml"), capsys=capsys)
    assert status == 2
    wrong = ratings().query("rating == 4")["user"].nunique()
    assert wrong > 1
    assert err.startswith(f"thurbo: {wrong} problems in 1 column")
    assert all(f"row {user}" in out for user in ratings().query("rating == 4")["user"])


def test_rankings_of_ordinary_tables_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.DataFrame({"name": ["Ann", "Bob"] * 6, "films": ["A > B", "C > B > A"] * 6})
    frame["name"] += [str(i) for i in range(12)]
    schema = {"name": tb.Id(), "films": tb.Ranking(["A", "B", "C"])}
    model = tb.TBM(schema, n_hidden=0, max_epochs=0, random_state=0, verbose=False).fit(frame)
    model.save(tmp_path / "m.thurbo")
    frame.to_csv(tmp_path / "t.csv", index=False)
    files = (str(tmp_path / "m.thurbo"), str(tmp_path / "t.csv"), "-o", str(tmp_path / "o.csv"), "-q")
    status, out, warning = run("rank", *files, "--column", "films", capsys=capsys)
    assert (status, out) == (0, "")
    assert "6 of 12 rows have rated or ranked all items already" in warning
    found = pd.read_csv(tmp_path / "o.csv")
    assert found["row"].tolist() == frame["name"][::2].tolist()  # of the others no item is left
    assert set(found["item"]) == {"C"}


def test_lists_from_best_to_worst() -> None:
    """Without a score the lines are an order, and codes of people's files stay what they are."""
    frame = pd.DataFrame({"who": [1, 1, 2], "what": ["b", "a", "c"]})
    levels = ["low", "some", "high"]
    people = pd.DataFrame({"who": [1, 2], "trust": pd.Categorical(["low", "high"], levels, ordered=True)})
    table = tb.from_long(frame, "who", "what", columns=people)
    schema = tb.Schema.infer(table).fit(table)
    assert {name: column.kind for name, column in schema.items()} == {
        "who": "id",
        "trust": "ordinal",
        "what": "ratings",
    }
    assert schema["trust"].levels == tuple(levels)
    assert schema["what"].encode(table.cells("what")).tier.tolist() == [[0, 1, -1], [-1, -1, 0]]  # a, b, c


def test_cells_from_best_to_worst_are_an_order_however_few() -> None:
    data = {"films": [["b", "a"], ["c", "a", "b"], None], "age": [1.0, 2.0, 3.0]}
    schema = tb.Schema({"films": tb.Ratings()}).fit(data)
    assert (schema["films"].by, schema["films"].levels) == ("order", None)
    assert schema["films"].items == ("b", "a", "c")
    assert schema.compile(data)["films"].tier.tolist() == [[1, 0, -1], [0, 1, 2], [-1, -1, -1]]
    scores = {"films": [{"a": 1, "b": 2}, {"c": 3}]}
    block = tb.Schema({"films": tb.Ratings()}).fit(scores).compile(scores)["films"]
    assert (block.code[:, 0].tolist(), block.entries.site.tolist()) == ([0, 1, 2], [0, 1, 2])
    levels = tb.Schema({"films": tb.Ratings(["a", "b", "c"], [1, 2, 3], by="levels")})
    with pytest.raises(tb.SchemaError, match=r"best to worst.*1 < 2 < 3.*give {item: score}"):
        levels.compile(data)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"by": "stars"}, "stars"),
        ({"items": ["a", "a"]}, "distinct values"),
        ({"levels": [3, 1]}, "increasing order"),
        ({"score": 3}, "not the name of a column"),
    ],
)
def test_settings_of_lists_are_checked_and_go_to_files(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(tb.SchemaError, match=words):
        tb.Ratings(**settings)
    column = tb.Ratings(items=["a", 2], levels=[1, 2.5], by="levels", score="stars")
    assert tb.Schema.from_dict(tb.Schema({"x": column}).to_dict())["x"] == column


def test_tables_and_columns_of_lists_are_shown_in_a_line(shelf: Shelf) -> None:
    assert repr(shelf.users) == "Table of 16 rows: user, keen, movie (96 entries of 9 items)"
    column = tb.TBM.load(shelf.model).schema_["movie"]
    assert repr(column) == ("Ratings(items=(0, 1, 2, ... 9 in all), levels=(1, 2, 3, 4), by='levels', score='rating')")


class Bad(NamedTuple):
    """A command on the files of the shelf, and what the sentence has to name."""

    command: str
    more: tuple[str, ...]
    words: tuple[str, ...]


KNOWN = ("--columns", "PEOPLE")
BAD = {
    "rows not named": Bad("fit", ("--item", "movie"), ("--row",)),
    "items not named": Bad("fit", ("--row", "user"), ("--item",)),
    "a column that is not there": Bad("fit", ("--row", "user", "--item", "film"), ('"film"', "movie")),
    "people without the name": Bad(
        "fit", ("--row", "when", "--item", "movie", "--columns", "PEOPLE"), ('"when"', "the same column name")
    ),
    "a score of words": Bad("fit", ("--row", "movie", "--item", "user", "--score", "NOTE"), ("NOTE",)),
    "people forgotten": Bad("rank", (), ('"keen"', "--columns")),
    "an item that is none": Bad("rank", (*KNOWN, "--item-list", "77"), ('"77"', "items of the training table")),
    "items twice": Bad("rank", (*KNOWN, "--item-list", "3", "--items", "PEOPLE"), ("--items", "--item-list")),
    "pairs of nobody": Bad("rank", (*KNOWN, "--items", "NOBODY"), ("no row", "99")),
    "nothing to rank": Bad("rank", (*KNOWN, "--top", "0"), ("--top",)),
    "a column without items": Bad("rank", (*KNOWN, "--column", "keen"), ('"keen"', "movie")),
    "an item predicted that is none": Bad(
        "predict", (*KNOWN, "--column", "movie", "--item-list", "3,77"), ('"77"', "items of the training table")
    ),
    "items of a column that has none": Bad(
        "predict", (*KNOWN, "--column", "keen", "--item-list", "3"), ('"keen"', "--item-list")
    ),
    "gaps of nobody known": Bad("impute", (), ('"keen"', "--columns")),
    "items that are none": Bad("impute", (*KNOWN, "--item-list", ","), ("--item-list", "commas")),
    "new rows of no item": Bad("sample", ("--item-list", "77"), ('"77"', "items of the training table")),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_said_in_one_sentence(
    name: str, shelf: Shelf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, more, words = BAD[name]
    (tmp_path / "nobody.csv").write_text("user,movie\n99,3\n")
    files = {"PEOPLE": str(shelf.people), "NOBODY": str(tmp_path / "nobody.csv")}
    inputs = {"fit": [shelf.data], "sample": [shelf.model]}.get(command, [shelf.model, shelf.data])
    out = tmp_path / {"fit": "o.thurbo", "report": "o.html"}.get(command, "o.csv")
    status, said, err = run(
        command, *map(str, inputs), *(files.get(each, each) for each in more), "-o", str(out), "-q", capsys=capsys
    )
    assert (status, said) == (2, ""), err
    assert err.startswith("thurbo: ")
    assert err.count("\n") == 1
    assert all(word in err for word in words), err
    assert not out.exists()


def test_python_says_the_same(shelf: Shelf) -> None:
    model = tb.TBM.load(shelf.model)
    drawn = model.sample(2, given={"keen": "yes"}, items=[3, 5], random_state=0)
    assert all(set(cell) == {3, 5} for cell in drawn["movie"])
    assert set(drawn["keen"]) == {"yes"}
    with pytest.raises(tb.ThurboError, match="needs items"):
        model.predict_proba(shelf.users, "movie")
    assert model.predict_proba(shelf.users, "movie", items=[3, 5]).shape == (N_USERS, 2, 4)
    assert list(model.predict(shelf.users).columns) == ["user", "keen", "movie"]
    with pytest.raises(tb.ThurboError, match="from_long"):
        model.transform(ratings().assign(keen="yes"))
    from thurbo.app import report

    assert "movie" in report.render(report.summary(model, shelf.users))
    assert set(model.rank(shelf.users, items=pd.Series([3, 5]))["item"]) <= {3, 5}
    with pytest.raises(tb.SchemaError, match="give a list"):
        model.rank(shelf.users, items="3")


class Asked(NamedTuple):
    """Runs a command on the files of the shelf and reads the table that it writes."""

    shelf: Shelf
    out: Path
    capsys: pytest.CaptureFixture[str]

    def __call__(self, command: str, *more: str) -> pd.DataFrame:
        inputs = (str(self.shelf.data), "--columns", str(self.shelf.people)) if command != "sample" else ()
        said = run(command, str(self.shelf.model), *inputs, "-o", str(self.out), "-q", *more, capsys=self.capsys)
        assert (said[0], said[2]) == (0, ""), said
        return tb.read(self.out)[0]


@pytest.fixture(params=["o.csv", pytest.param("o.parquet", marks=pytest.mark.slow)])
def asked(request: Any, shelf: Shelf, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Asked:
    return Asked(shelf, tmp_path / request.param, capsys)


def _as_lines(users: Any, cells: Any) -> list[tuple[Any, ...]]:
    """Cells {item: score} as lines, in order."""
    return [(user, *pair) for user, cell in zip(users, cells, strict=True) for pair in cell.items()]


def _tuples(frame: pd.DataFrame, *names: str) -> list[tuple[Any, ...]]:
    return list(frame[list(names)].itertuples(index=False, name=None))


LINE = ("user", "movie", "rating")


def test_predictions_of_lists_are_long(asked: Asked) -> None:
    model, users = tb.TBM.load(asked.shelf.model), asked.shelf.users
    found = asked("predict", "--column", "movie")
    assert tuple(found.columns) == LINE
    assert _tuples(found, *LINE) == _as_lines(users.rows, model.predict(users, "movie", "auto")["movie"])
    assert set(_tuples(found, "user", "movie")) == set(_tuples(ratings(), "user", "movie"))
    found = asked("predict", "--column", "movie", "--item-list", "3, 5", "--given", "keen = yes")
    expected = model.predict(users, "movie", "auto", given="keen = yes", items=[3, 5])["movie"]
    assert _tuples(found, *LINE) == _as_lines(users.rows, expected)
    assert len(found) == 2 * N_USERS


def test_imputed_lists_say_what_was_filled(asked: Asked) -> None:
    model, users, before = tb.TBM.load(asked.shelf.model), asked.shelf.users, ratings()
    found = asked("impute", "--item-list", "3,5")
    assert list(found.columns) == [*LINE, "filled", "keen"]
    assert _tuples(found, *LINE) == _as_lines(users.rows, model.impute(users, items=[3, 5])["movie"])
    filled = found["filled"].astype(str) == "True"
    assert set(_tuples(found[~filled], *LINE)) == set(_tuples(before, *LINE))
    assert set(found[filled]["movie"]) == {3, 5}
    as_it_was = asked("impute")
    assert set(_tuples(as_it_was, *LINE)) == set(_tuples(before, *LINE))
    assert set(as_it_was["filled"].astype(str)) == {"False"}


def test_draws_of_lists_are_stacked(asked: Asked) -> None:
    found = asked("impute", "--item-list", "3,5", "--draws", "2")
    assert list(found.columns) == [".imp", ".id", *LINE, "filled", "keen"]
    parts = [part.reset_index(drop=True) for _, part in found.groupby(".imp")]
    assert [_tuples(part, ".id", "user", "movie") for part in parts] == 3 * [_tuples(parts[0], ".id", "user", "movie")]
    filled = parts[0]["filled"].astype(str) == "True"
    assert parts[0]["rating"].isna().equals(filled)
    assert all(part["rating"].isin([1, 2, 3, 4]).all() for part in parts[1:])
    assert set(_tuples(parts[2][~filled], *LINE)) == set(_tuples(ratings(), *LINE))


def test_new_rows_with_lists_are_long(asked: Asked) -> None:
    found = asked("sample", "--rows", "3", "--item-list", "3,5", "--given", "keen = yes")
    assert list(found.columns) == [*LINE, "keen"]
    assert _tuples(found, "user", "movie") == [(row, item) for row in range(3) for item in (3, 5)]
    assert found["rating"].isin([1, 2, 3, 4]).all()
    assert set(found["keen"]) == {"yes"}
    assert len(asked("sample", "--rows", "3")) == 3 * N_ITEMS


def test_rows_with_lists_are_scored(asked: Asked) -> None:
    model, users = tb.TBM.load(asked.shelf.model), asked.shelf.users
    found = asked("score")
    assert found["user"].tolist() == users.rows.tolist()
    assert found["log_probability"].to_numpy() == pytest.approx(model.score_samples(users))


def test_evaluate_and_report_read_long_tables(shelf: Shelf, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = (str(shelf.model), str(shelf.data), "--columns", str(shelf.people), "-q")
    out, page = tmp_path / "o.csv", tmp_path / "o.html"
    status, said, err = run("evaluate", *files, "--hide", "0.3", "-o", str(out), capsys=capsys)
    assert (status, err) == (0, "")
    assert "movie" in said
    assert set(pd.read_csv(out)["column"]) == {"keen", "movie", "movie: pairs"}
    status, _, err = run("report", *files, "--no-test", "-o", str(page), capsys=capsys)
    assert (status, err) == (0, "")
    html = page.read_text()
    assert "Liked together" in html
    assert "Map of the catalogue" in html


@pytest.mark.slow
@pytest.mark.parametrize("n_items", [4, 80])
def test_orders_are_written_by_place(n_items: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of few items, which are kept as a table, and of few out of many."""
    rng, files = np.random.default_rng(0), {name: str(tmp_path / name) for name in ("t.csv", "m.thurbo", "o.csv")}
    what = np.concatenate([rng.permutation(n_items)[:3] for _ in range(99)])
    frame = pd.DataFrame({"who": np.repeat(np.arange(99), 3), "what": [f"i{k:02d}" for k in what]})
    frame.to_csv(files["t.csv"], index=False)
    table = tb.from_long(frame, "who", "what")
    model = tb.TBM(tb.Schema.infer(table), n_hidden=1, n_factors=0, max_epochs=1, random_state=0, verbose=False)
    model.fit(table).save(files["m.thurbo"])
    assert model.schema_["what"].is_listed == (n_items == 80)
    items = [f"i{k:02d}" for k in sorted(set(what.tolist()))[:2]]
    more = ("-o", files["o.csv"], "-q", "--item-list", ",".join(items))
    for inputs in (("predict", files["m.thurbo"], files["t.csv"], "--column", "what"),
                   ("sample", files["m.thurbo"], "--rows", "99")):  # fmt: skip
        assert run(*inputs, *more, capsys=capsys) == (0, "", "")
        found = pd.read_csv(files["o.csv"])
        assert list(found.columns) == ["who", "what", "place"]
        assert found["place"].tolist() == [1, 2] * 99
        assert all(set(own) == set(items) for _, own in found.groupby("who")["what"])
    status, _, err = run("impute", files["m.thurbo"], files["t.csv"], *more, capsys=capsys)
    assert (status, err) == (0, "")
    found = pd.read_csv(files["o.csv"])
    kept = found[~found["filled"]]
    assert _tuples(kept, "who", "what") == _tuples(frame, "who", "what")  # the order of each row does not change
    assert set(found["what"][found["filled"]]) <= set(items)
