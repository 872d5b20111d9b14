"""Bad input of every sort through the real command line: status 2, one sentence that helps, and no file left behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file

import thurbo as tb
from thurbo.app import cli

N_ROWS = 24
TOML = """
[columns.person]
kind = "id"
[columns.w]
kind = "weight"
[columns.age]
kind = "continuous"
[columns.wealth]
kind = "continuous"
transform = "log"
[columns.member]
kind = "binary"
true = "yes"
[columns.trust]
kind = "ordinal"
levels = ["none", "some", "a lot"]
[columns.party]
kind = "categorical"
categories = ["Blue", "Green", "Red"]
[columns.films]
kind = "ranking"
items = ["A", "B", "C"]
[columns.rent]
kind = "bounded"
lower = "rent from"
upper = "rent to"
"""
RANKS = '[columns.places]\nkind = "ranking"\nranks = {a = "place a", b = "place b", c = "place c"}\n'
TICKS = '[columns.owns]\nkind = "multiselect"\ncolumns = {car = "car", boat = "boat"}\n'
TIMES = '[columns.time]\nkind = "censored"\nevent = "died"\n'


def good() -> dict[str, list[Any]]:
    """Columns of a table that the schema reads."""
    rng = np.random.default_rng(0)
    place = np.arange(N_ROWS)
    return {
        "person": [f"P{i:02d}" for i in place],
        "w": (0.5 + rng.random(N_ROWS)).round(3).tolist(),
        "age": rng.integers(18, 90, N_ROWS).tolist(),
        "wealth": (1 + 9 * rng.random(N_ROWS)).round(2).tolist(),
        "member": [("no", "yes")[i % 2] for i in place],
        "trust": [("none", "some", "a lot")[i % 3] for i in place],
        "party": [("Blue", "Green", "Red")[i % 3] for i in place],
        "films": [("A > B > C", "B > C = A", "C > A")[i % 3] for i in place],
        "rent from": (100 + place).tolist(),
        "rent to": (120 + place).tolist(),
        "place a": [1 + i % 3 for i in place],
        "place b": [1 + (i + 1) % 3 for i in place],
        "place c": [1 + (i + 2) % 3 for i in place],
        "car": [i % 2 for i in place],
        "boat": [i % 3 // 2 for i in place],
        "time": (1 + place).tolist(),
        "died": [i % 2 for i in place],
    }


class Shop:
    """A directory of good files, and ways to spoil them."""

    def __init__(self, home: Path):
        self.home, self.out, self.n_files = home, home / "out", 0
        self.out.mkdir()
        self.data, self.schema, self.model = home / "good.csv", home / "good.toml", home / "good.thurbo"
        pd.DataFrame(good()).to_csv(self.data, index=False)
        self.schema.write_text(TOML)
        frame, _ = tb.read(self.data)
        # Not trained at all: what is refused is refused before anything is asked of the parameters.
        model = tb.TBM(tb.Schema.from_toml(self.schema), n_hidden=2, max_epochs=0, random_state=0, verbose=False)
        model.fit(frame).save(self.model)

    def path(self, suffix: str) -> Path:
        self.n_files += 1
        return self.home / f"bad{self.n_files}{suffix}"

    def table(self, column: str | None = None, value: Any = None, row: int | None = 3, **columns: Any) -> Path:
        """The good table with one cell changed (with row=None all of a column), or with other columns."""
        data = good() | columns
        if column is not None:
            data[column] = [value if row is None or i == row else cell for i, cell in enumerate(data[column])]
        path = self.path(".csv")
        pd.DataFrame(data).to_csv(path, index=False)
        return path

    def text(self, text: str, suffix: str = ".csv") -> Path:
        path = self.path(suffix)
        path.write_text(text)
        return path

    def bytes(self, data: bytes, suffix: str) -> Path:
        path = self.path(suffix)
        path.write_bytes(data)
        return path

    def toml(self, more: str = "", replaced: tuple[str, str] | None = None) -> Path:
        """The good schema with something added or replaced."""
        text = TOML if replaced is None else TOML.replace(*replaced)
        assert replaced is None or text != TOML
        return self.text(text + more, ".toml")

    def cut(self, suffix: str, share: float = 0.5) -> Path:
        """A file of some format that not complete."""
        whole, short = self.path(suffix), self.path(suffix)
        frame = pd.DataFrame({"x": np.arange(500.0), "y": np.arange(500.0)[::-1]})
        tb.write(frame, whole)
        data = whole.read_bytes()
        short.write_bytes(data[: int(share * len(data))])
        return short

    def stored(self, change: Callable[[dict[str, np.ndarray], dict[str, str]], None]) -> Path:
        """The good model with its arrays or its header changed."""
        from safetensors import safe_open

        path = self.path(".thurbo")
        with safe_open(self.model, framework="numpy") as opened:
            header = dict(opened.metadata())
        arrays = dict(load_file(self.model))
        change(arrays, header)
        save_file(arrays, path, metadata=header)
        return path

    # ---- commands on one bad thing and otherwise good ones

    def fit(self, data: Path | None = None, schema: Path | None = None, *more: str) -> list[Any]:
        return ["fit", data or self.data, "-s", schema or self.schema, "-o", self.out / "m.thurbo", "-q", *more]

    def cell(self, column: str, value: Any, more: str = "", row: int | None = 3) -> list[Any]:
        return self.fit(self.table(column, value, row), self.toml(more))

    def check(self, data: Path | None = None, schema: Path | None = None) -> list[Any]:
        return ["check", data or self.data, "-s", schema or self.schema]

    def ask(self, command: str, *more: Any, data: Path | None = None, to: str = "out.csv") -> list[Any]:
        return [command, self.model, data or self.data, "-o", self.out / to, "-q", *more]

    def given(self, *conditions: str, column: str = "party") -> list[Any]:
        return self.ask("predict", "--column", column, *(each for text in conditions for each in ("--given", text)))

    def sample(self, *more: Any) -> list[Any]:
        return ["sample", self.model, "-o", self.out / "out.csv", "-q", *more]


class Case(NamedTuple):
    """What is wrong, the command that meets it, and what the sentence has to name."""

    title: str
    command: Callable[[Shop], Sequence[Any]]
    words: tuple[str, ...]


def _tampered(arrays: dict[str, np.ndarray], header: dict[str, str]) -> None:
    arrays["weights"] = arrays["weights"] + 1


def _newer(arrays: dict[str, np.ndarray], header: dict[str, str]) -> None:
    header["format"] = "thurbo 99"


def _foreign(arrays: dict[str, np.ndarray], header: dict[str, str]) -> None:
    header.clear()


def _described_otherwise(arrays: dict[str, np.ndarray], header: dict[str, str]) -> None:
    header["description"] = json.dumps(json.loads(header["description"]) | {"objective": "magic"})


CASES = [
    # cells
    Case("a level that is none", lambda s: s.cell("trust", "alot"), ("row P03", '"trust"', '"alot"', "a lot")),
    Case("a category that is none", lambda s: s.cell("party", "Purple"), ("row P03", '"party"', '"Purple"', "Blue")),
    Case("neither of two values", lambda s: s.cell("member", "maybe"), ("row P03", '"member"', '"maybe"')),
    Case("a word for a number", lambda s: s.cell("age", "old"), ("row P03", '"age"', '"old"', "number")),
    Case("an infinite number", lambda s: s.cell("age", "inf"), ("row P03", '"age"', "inf")),
    Case("no logarithm", lambda s: s.cell("wealth", -5), ("row P03", '"wealth"', "-5", "logarithm")),
    Case("an item twice", lambda s: s.cell("films", "A > B > A"), ("row P03", '"films"', '"A"', "twice")),
    Case("an item that is none", lambda s: s.cell("films", "A > Z"), ("row P03", '"films"', '"Z"')),
    Case("an order with a hole", lambda s: s.cell("films", "A > > B"), ("row P03", '"films"')),
    Case("lower above upper", lambda s: s.cell("rent from", 999), ("row P03", "rent", "999", "123")),
    Case("a word for an end", lambda s: s.cell("rent to", "much"), ("row P03", "rent", "much")),
    Case("a rank of nought", lambda s: s.cell("place a", 0, RANKS), ("row P03", "place", "0")),
    Case("an endless rank", lambda s: s.cell("place a", "inf", RANKS), ("row P03", "place", "inf")),
    Case("a word for a rank", lambda s: s.cell("place a", "first", RANKS), ("row P03", "place", '"first"')),
    Case("a tick that is none", lambda s: s.cell("car", "perhaps", TICKS), ("row P03", "car", '"perhaps"')),
    Case("an event that is none", lambda s: s.cell("died", "perhaps", TIMES), ("row P03", "died", "perhaps")),
    Case("a word for a time", lambda s: s.cell("time", "long", TIMES), ("row P03", '"time"', '"long"')),
    Case("a negative weight", lambda s: s.cell("w", -1), ("row P03", '"w"', "-1", "zero or more")),
    Case("a word for a weight", lambda s: s.cell("w", "heavy"), ("row P03", '"w"', "heavy")),
    Case("no weight", lambda s: s.cell("w", None), ("row P03", '"w"', "missing")),
    Case("an infinite weight", lambda s: s.cell("w", "inf"), ("row P03", '"w"', "inf")),
    Case("weights of nought", lambda s: s.cell("w", 0, row=None), ('"w"', "zero", "positive")),
    Case("a huge text", lambda s: s.cell("trust", "x" * 100_000), ("row P03", '"trust"', "xxx...")),
    Case("types mixed", lambda s: s.cell("age", "42 years"), ("row P03", '"age"', '"42 years"')),
    Case("several at once", lambda s: s.check(s.table("trust", "alot", None)), ("at least 20 problems", "1 column")),
    Case("a problem found by check", lambda s: s.check(s.table("trust", "alot")), ("1 problem", "1 column")),
    # whole columns and tables
    Case("one category", lambda s: s.fit(s.table("party", "Red", None), s.toml(replaced=(
        'categories = ["Blue", "Green", "Red"]\n', ""))), ('"party"', "only category", '"Red"', 'kind = "ignore"')),
    Case("three values of two", lambda s: s.fit(s.table("member", "maybe"), s.toml(replaced=('true = "yes"\n', ""))),
         ("row P03", '"member"', "maybe", "two")),
    Case("an empty column", lambda s: s.fit(s.table("party", None, None), s.toml(replaced=(
        'categories = ["Blue", "Green", "Red"]\n', ""))), ('"party"', 'kind = "ignore"')),
    Case("no rows", lambda s: s.fit(s.text(",".join(good()) + "\n")), ("no rows", "at least one")),
    Case("no rows to check", lambda s: s.check(s.text(",".join(good()) + "\n")), ("no rows", "at least one")),
    Case("one row, which tells nothing apart", lambda s: ["fit", s.text("age,party\n30,Red\n"), "-q", "-o",
                                                          s.out / "m.thurbo"], ("no column is left", "Ignore")),
    Case("no rows to ask", lambda s: s.ask("score", data=s.text(",".join(good()) + "\n")), ("no rows",)),
    Case("a column that is not there", lambda s: s.fit(None, s.toml('[columns.trast]\nkind = "binary"\n')),
         ('"trast"', "the table does not")),
    Case("a column less to ask", lambda s: s.ask("score", data=s.text("person,age\nP00,3\n")), ("wealth", "the table")),
    Case("a level never seen", lambda s: s.ask("impute", data=s.table("trust", "alot")), ("P03", '"trust"', '"alot"')),
    Case("nothing to model", lambda s: s.fit(None, s.text('[columns.person]\nkind = "id"\n', ".toml")), ("no column",)),
    # files of data
    Case("a file that is not there", lambda s: s.fit(s.home / "no.csv"), ("no.csv", "no such file")),
    Case("a directory of data", lambda s: s.fit(s.home), ("directory",)),
    Case("an unknown kind of file", lambda s: s.fit(s.text("a", ".xyz")), ('".xyz"', ".parquet")),
    Case("no extension", lambda s: s.fit(s.text("a", "")), ("no extension", ".csv")),
    Case("an empty file", lambda s: s.fit(s.text("")), ("empty",)),
    Case("lines of unequal length", lambda s: s.fit(s.text("a,b\n1,2\n1,2,3\n")), ("row 2", "3 cells")),
    Case("a spreadsheet", lambda s: s.fit(s.bytes(b"PK\x03\x04rest", ".csv")), ("spreadsheet", ".csv")),
    Case("SPSS cut short", lambda s: s.fit(s.cut(".sav", 0.3)), (".sav",)),
    Case("text called SPSS", lambda s: s.fit(s.text("a,b\n1,2\n", ".sav")), (".sav",)),
    Case("Stata cut short", lambda s: s.fit(s.cut(".dta", 0.3)), (".dta",)),
    Case("parquet cut short", lambda s: s.fit(s.cut(".parquet")), (".parquet", "again")),
    Case("feather cut short", lambda s: s.fit(s.cut(".feather")), (".feather", "again")),
    Case("CSV called parquet", lambda s: s.fit(s.text("a,b\n1,2\n", ".parquet")), (".parquet",)),
    # schemas
    Case("no TOML", lambda s: s.check(None, s.text("[columns", ".toml")), ("not TOML", "correct")),
    Case("no text", lambda s: s.check(None, s.bytes(b"\xff\xfe\x00", ".toml")), ("not TOML",)),
    Case("no such schema", lambda s: s.check(None, s.home / "no.toml"), ("no.toml", "check the file name")),
    Case("no columns", lambda s: s.check(None, s.text("a = 1\n", ".toml")), ("columns",)),
    Case("no table", lambda s: s.check(None, s.text("[columns]\nage = 3\n", ".toml")), ('"age"', "kind")),
    Case("no kind", lambda s: s.check(None, s.text("[columns.age]\nx = 1\n", ".toml")), ('"age"', "has no kind")),
    Case("an unknown kind", lambda s: s.check(None, s.toml(replaced=('kind = "ordinal"', 'kind = "ordinel"'))),
         ('"trust"', '"ordinel"', "ordinal")),
    Case("an unknown setting", lambda s: s.check(None, s.toml(replaced=("levels", "lvels"))),
         ('"trust"', '"lvels"', "levels")),
    Case("one level", lambda s: s.check(None, s.toml(replaced=(', "some", "a lot"]', "]"))), ('"trust"', "two")),
    Case("a level twice", lambda s: s.check(None, s.toml(replaced=('"some"', '"none"'))), ('"trust"', "twice")),
    Case("levels that are none", lambda s: s.check(None, s.toml(replaced=('["none", "some", "a lot"]', "3"))),
         ('"trust"', "list")),
    Case("an unknown transform", lambda s: s.check(None, s.toml(replaced=('"log"', '"root"'))), ('"wealth"', "root")),
    Case("a column read twice", lambda s: s.check(None, s.toml('[columns."rent to"]\nkind = "continuous"\n')),
         ('"rent to"', "both")),
    Case("bands that overlap", lambda s: s.check(None, s.toml(
        '[columns.x]\nkind = "banded"\nbands = {a = [0, 10], b = [5, 20]}\n')), ('"x"', "overlap")),
    # models
    Case("no such model", lambda s: ["score", s.home / "no.thurbo", s.data, "-o", s.out / "o.csv"], ("no.thurbo",)),
    Case("a table for a model", lambda s: ["score", s.data, s.data, "-o", s.out / "o.csv"], ("good.csv", "model")),
    Case("half a model", lambda s: ["score", s.bytes(s.model.read_bytes()[:-40], ".thurbo"), s.data, "-o",
                                    s.out / "o.csv"], ("not a complete",)),
    Case("a model altered", lambda s: ["score", s.stored(_tampered), s.data, "-o", s.out / "o.csv"], ("checksum",)),
    Case("words altered", lambda s: ["score", s.stored(_described_otherwise), s.data, "-o", s.out / "o.csv"],
         ("checksum",)),
    Case("a newer model", lambda s: ["report", s.stored(_newer), s.data, "-o", s.out / "o.html"], ("99", "update")),
    Case("arrays of others", lambda s: ["sample", s.stored(_foreign), "-o", s.out / "o.csv"], ("not written by",)),
    # where results go
    Case("nowhere to write", lambda s: s.ask("score", to="no/out.csv"), ("no/out.csv", "directory does not exist")),
    Case("a directory to write", lambda s: ["score", s.model, s.data, "-o", s.home], ("extension",)),
    Case("a format that is none", lambda s: s.ask("impute", to="out.xlsx"), ('".xlsx"', ".csv")),
    Case("a format only read", lambda s: s.ask("impute", to="out.por"), ('".por"', ".sav")),
    Case("no format", lambda s: s.ask("transform", to="out"), ("no extension",)),
    Case("a model nowhere", lambda s: ["fit", s.data, "-o", s.out / "no" / "m.thurbo", "-q"], ("does not exist",)),
    Case("a model in a directory", lambda s: ["fit", s.data, "-o", s.out, "-q"], ("is a directory",)),
    Case("a page of text", lambda s: s.ask("report", to="page.txt"), ("page.txt", ".html")),
    Case("a schema in JSON", lambda s: ["check", s.data, "-o", s.out / "s.json"], ("s.json", ".toml")),
    Case("notes over the model", lambda s: s.fit(None, None, "--checkpoint", s.out / "m.thurbo"), ("--checkpoint",)),
    Case("notes of another fit", lambda s: s.fit(None, None, "--checkpoint", s.model), ("checkpoint", "differ")),
    # conditions
    Case("no condition", lambda s: s.given("old people"), ('"old people"', "age >= 30")),
    Case("half a condition", lambda s: s.given("age >="), ('"age >="', "not complete")),
    Case("a condition on nothing", lambda s: s.given("height >= 3"), ('"height"', "does not name a column", "age")),
    Case("a condition on a level that is none", lambda s: s.given("trust = alot"),
         ('thurbo: column "trust"', '"alot"', "a lot")),
    Case("a condition on what is asked", lambda s: s.given("party = Red"), ('"party"', "asked about")),
    Case("ends the wrong way round", lambda s: s.given("age in [50, 20]"), ("50", "20", "wrong order")),
    Case("half an interval", lambda s: s.given("age in [50"), ("interval",)),
    Case("conditions that clash", lambda s: s.given("age >= 60", "age <= 30"), ('"age"', "60", "30", "remove")),
    Case("orders that clash", lambda s: s.given("films: A > B", "films: B > A"), ('"films"', "A", "B")),
    Case("a condition of one item", lambda s: s.given("films: A > Q"), ('"films"', '"Q"')),
    Case("a word as a bound", lambda s: s.given("age >= old"), ('"age"', "old")),
    Case("a condition to sample", lambda s: s.sample("--given", "trust = alot"), ('"trust"', '"alot"')),
    # questions
    Case("a question not asked", lambda s: s.ask("predict", "--column", "prty"), ('"prty"', '"party"')),
    Case("a question with no answer", lambda s: s.ask("predict", "--column", "person"), ('"person"', "predict")),
    Case("no level of an interval", lambda s: s.ask("predict", "--column", "age", "--level", "1"), ("--level",)),
    Case("a map by nothing", lambda s: s.ask("report", "--colour-by", "mood", to="o.html"), ('"mood"', "choose among")),
    Case("nothing hidden", lambda s: ["evaluate", s.model, s.data, "--hide", "0", "-q"], ("hide", "above 0")),
    Case("all hidden", lambda s: ["evaluate", s.model, s.data, "--hide", "2", "-q"], ("hide", "below 1")),
    # lists
    Case("no row of a long table", lambda s: s.fit(None, None, "--item", "party", "--score", "age"), ()),
    Case("items of no column", lambda s: ["fit", s.data, "--row", "person", "--item", "prty", "-o", s.out / "m.thurbo"],
         ('"prty"', '"party"')),
    Case("scores in words", lambda s: ["fit", s.data, "--row", "person", "--item", "party", "--score", "trust", "-o",
                                       s.out / "m.thurbo"], ('"trust"', '"none"', "numbers")),
    Case("people nowhere", lambda s: ["fit", s.data, "--row", "person", "--item", "party", "--columns",
                                      s.home / "no.csv", "-o", s.out / "m.thurbo"], ("no.csv",)),
    Case("no items to rank", lambda s: s.ask("rank", "--column", "trust"), ('"trust"', "no items", "films")),
    Case("a ranking not there", lambda s: s.ask("rank", "--column", "filns"), ('"filns"', '"films"')),
    Case("no best items", lambda s: s.ask("rank", "--top", "0"), ("--top",)),
    Case("items nowhere", lambda s: s.ask("rank", "--items", s.home / "no.csv"), ("no.csv",)),
    Case("items said twice", lambda s: s.ask("rank", "--items", s.data, "--item-list", "A"), ("--item-list",)),
    # settings
    Case("a seed below nought", lambda s: s.fit(None, None, "--seed", "-1"), ("--seed", "-1")),
    Case("a seed of words", lambda s: s.sample("--seed", "luck"), ("--seed", "luck")),
    Case("a seed too large", lambda s: s.sample("--seed", str(2**32)), ("--seed",)),
    Case("no rows to sample", lambda s: s.sample("-n", "0"), ("-n",)),
    Case("draws below nought", lambda s: s.ask("impute", "--draws", "-2"), ("--draws", "-2")),
    Case("units below nought", lambda s: s.fit(None, None, "--hidden", "-3"), ("--hidden", "-3")),
    Case("units in words", lambda s: s.fit(None, None, "--hidden", "many"), ("--hidden", "many")),
    Case("too many to enumerate", lambda s: s.fit(None, None, "--hidden", "60", "--objective", "exact"),
         ("60", "too many")),
    Case("no epochs", lambda s: s.fit(None, None, "--epochs", "0"), ("--epochs",)),
    Case("no objective", lambda s: s.fit(None, None, "--objective", "fame"), ("--objective", "fame", "likelihood")),
    Case("no such treatment", lambda s: s.fit(None, None, "--unobserved", "hope"), ("--unobserved", "hope")),
    Case("no threads", lambda s: s.ask("score", "--threads", "0"), ("--threads",)),
    Case("all held out", lambda s: s.fit(None, None, "--hold-out", "1"), ("--hold-out",)),
    Case("nowhere said", lambda s: ["score", s.model, s.data], ("--output",)),
    Case("no data said", lambda s: ["fit", "-o", s.out / "m.thurbo"], ("DATA",)),
    Case("an unknown command", lambda s: ["scoer", s.model], ("scoer",)),
    Case("an unknown option", lambda s: s.ask("score", "--fast"), ("--fast",)),
    Case("one word too many", lambda s: s.ask("score", "more"), ("more",)),
]  # fmt: skip


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return Shop(tmp_path_factory.mktemp("malformed"))


def test_there_are_enough_and_each_is_told_apart() -> None:
    titles = [case.title for case in CASES]
    assert len(titles) >= 100
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("case", CASES, ids=[case.title.replace(" ", "-") for case in CASES])
def test_bad_input_gets_one_sentence(case: Case, shop: Shop, capfd: pytest.CaptureFixture[str]) -> None:
    command = [str(each) for each in case.command(shop)]
    before = set(shop.home.rglob("*"))
    capfd.readouterr()
    with pytest.raises(SystemExit) as stop:
        cli.main(command)
    out, err = capfd.readouterr()
    assert stop.value.code == 2, err
    assert err.startswith("thurbo: ")
    assert err.count("\n") == 1
    assert len(err) < 600
    assert "Traceback" not in err
    assert "row None" not in err
    for word in case.words:
        assert word in err, err
    assert set(shop.home.rglob("*")) == before
    assert out == "" or command[0] == "check"
