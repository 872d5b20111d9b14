"""PrefLib's files: both headers read alike, what is read is written again, and bad files say where and why."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thurbo as tb
from thurbo.errors import ThurboError
from thurbo.table.io.long import Preferences, read_orders, write_orders

NEW = """# FILE NAME: 00000-00000001.toi
# TITLE: Lunch
# DESCRIPTION:
# DATA TYPE: toi
# MODIFICATION TYPE: original
# PUBLICATION DATE: 2022-09-16
# NUMBER ALTERNATIVES: 3
# NUMBER VOTERS: 9
# NUMBER UNIQUE ORDERS: 3
# ALTERNATIVE NAME 1: Soup
# ALTERNATIVE NAME 2: Bread, with butter
# ALTERNATIVE NAME 3: Salad: green
5: 1,{2,3}
3: 3
1: 2, 1, 3
"""
OLD = """3
1,Soup
2,Bread, with butter
3,Salad: green
9,9,3
5,1,{2,3}
3,3
1,2,1,3
"""
SOUP, BREAD, SALAD = "Soup", "Bread, with butter", "Salad: green"
ORDERS = [[[SOUP], [BREAD, SALAD]], [[SALAD]], [[BREAD], [SOUP], [SALAD]]]


def file(folder: Path, text: str, kind: str = "toi") -> Path:
    path = folder / f"lunch.{kind}"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("text", [NEW, OLD, NEW.replace("\n", "\r\n"), "\ufeff" + OLD])
def test_both_headers_are_read(tmp_path: Path, text: str) -> None:
    frame, schema = tb.read_preferences(file(tmp_path, text))
    assert isinstance(frame, pd.DataFrame)
    assert frame["order"].tolist() == ORDERS
    assert frame["weight"].tolist() == [5, 3, 1]
    assert schema["order"].labels == (SOUP, BREAD, SALAD)
    assert isinstance(schema["weight"], tb.Weight)
    assert schema.weights(frame).tolist() == [5, 3, 1]
    assert schema.fit(frame) == schema  # nothing is left to find out, so that any rows can be asked about
    assert schema.compile(frame)["order"].tier.tolist() == [[1, 0, 0], [-1, -1, 0], [1, 2, 0]]
    assert schema.titles == ({"order": "Lunch"} if text.startswith("#") else {})


def test_a_row_for_each_voter(tmp_path: Path) -> None:
    frame, schema = tb.read_preferences(file(tmp_path, NEW), per="voter")
    assert list(frame.columns) == list(schema) == ["order"]
    assert frame["order"].tolist() == [ORDERS[0]] * 5 + [ORDERS[1]] * 3 + [ORDERS[2]]


@pytest.mark.slow
def test_what_is_read_can_be_fitted(tmp_path: Path) -> None:
    text = NEW.replace("NUMBER VOTERS: 9", "NUMBER VOTERS: 100").replace("5: 1,{2,3}", "96: 1,{2,3}")
    frame, schema = tb.read_preferences(file(tmp_path, text))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.ConvergenceWarning)
        model = tb.TBM(schema, n_hidden=1, max_epochs=20, learning_rate=0.2, random_state=0, verbose=False).fit(frame)
    best = model.predict_proba(pd.DataFrame({"order": [None], "weight": [1]}, dtype=object), "order")[0]
    assert best[0] > 0.8  # 96 of 100 voters have soup first; of the three rows it is one


@pytest.mark.parametrize("text", [NEW, OLD])
def test_what_is_read_is_written_the_same(tmp_path: Path, text: str) -> None:
    frame, schema = tb.read_preferences(file(tmp_path, text))
    written = tb.write_preferences(frame, tmp_path / "again.toi", schema)
    again, same = tb.read_preferences(written)
    pd.testing.assert_frame_equal(again, frame)
    assert same == schema
    assert same.titles == schema.titles


_ORDER = st.tuples(
    st.permutations(range(4)), st.lists(st.booleans(), min_size=4, max_size=4), st.integers(min_value=1, max_value=4)
)


@given(st.lists(_ORDER, min_size=1, max_size=5))
def test_any_orders_survive_a_file(tmp_path_factory: pytest.TempPathFactory, drawn: Any) -> None:
    items = ("a", "b b", "c, {1}", "#: d")
    orders: dict[Any, int] = {}
    for permuted, ties, length in drawn:
        tiers: list[list[str]] = []
        for place in permuted[:length]:
            if tiers and ties[place]:
                tiers[-1].append(items[place])
            else:
                tiers.append([items[place]])
        order = tuple(tuple(sorted(tier, key=items.index)) for tier in tiers)
        orders[order] = orders.get(order, 0) + 1
    path = tmp_path_factory.mktemp("orders") / "made.toi"
    write_orders(path, Preferences(items, tuple(orders), tuple(orders.values())))
    found = read_orders(path)
    assert found.items == items
    assert dict(zip(found.orders, found.counts, strict=True)) == orders
    assert list(found.counts) == sorted(found.counts, reverse=True)


def test_rankings_of_every_form_are_written(tmp_path: Path) -> None:
    """From ranks in columns of polars; equal orders are counted, a row without ranks is left out."""
    frame = pl.DataFrame({"tea": [1, 1, 2, None], "milk": [2, 2, 1, None], "beer": [None, None, 2, None]})
    schema = {"drink": tb.Ranking(ranks={"Tea": "tea", "Milk": "milk", "Beer": "beer"})}
    path = tb.write_preferences(frame, tmp_path / "drinks.toi", schema)
    again, _ = tb.read_preferences(path)
    assert again["order"].tolist() == [[["Tea"], ["Milk"]], [["Milk"], ["Tea", "Beer"]]]
    assert again["weight"].tolist() == [2, 1]
    text = tb.write_preferences({"x": ["a > b", "b > a", "a > b"]}, tmp_path / "x.soc", {"x": tb.Ranking()})
    assert text.read_text().endswith("2: 1,2\n1: 2,1\n")


def test_alternatives_of_one_name_are_told_apart(tmp_path: Path) -> None:
    text = NEW.replace(": Salad: green", ": Soup").replace(": Bread, with butter", ":")
    assert read_orders(file(tmp_path, text)).items == ("Soup (1)", "2", "Soup (3)")


BAD = {
    "unknown alternative": (NEW, "3: 3", "3: 7", 14, "alternative 7 is not named"),
    "ranked twice": (NEW, "2, 1, 3", "2, 1, 2", 15, "alternative 2 is ranked twice"),
    "no number": (NEW, "3: 3", "3: x", 14, '"x" is not a number of an alternative'),
    "no count": (NEW, "3: 3", "three: 3", 14, '"three" is not a number of voters'),
    "no sign": (NEW, "3: 3", "3 3", 14, "is not an order"),
    "open brace": (NEW, "{2,3}", "{2,3", 13, "is not an order"),
    "empty": (NEW, "3: 3", "3:", 14, "the order is empty"),
    "voters": (NEW, "VOTERS: 9", "VOTERS: 10", 8, "the header says 10 voters, but there are 9"),
    "orders": (NEW, "ORDERS: 3", "ORDERS: 4", 9, "the header says 4 different orders, but there are 3"),
    "alternatives": (NEW, "ALTERNATIVES: 3", "ALTERNATIVES: 2", 7, "the header says 2 alternatives but names 3"),
    "named twice": (NEW, "NAME 3", "NAME 2", 12, "alternative 2 is named twice"),
    "kind": (NEW, "DATA TYPE: toi", "DATA TYPE: soc", 4, 'the data type "soc" does not match the extension .toi'),
    "old voters": (OLD, "9,9,3", "9,8,3", 5, "the header says 8 voters, but there are 9"),
    "old counts": (OLD, "9,9,3", "9,9", 5, "does not hold three counts: voters, sum of votes and different orders"),
    "old name": (OLD, "1,Soup", "Soup", 2, "is not an alternative"),
    "old first line": (OLD, "3\n1,S", "three\n1,S", 1, '"three" is not a number of alternatives'),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_says_where_what_and_what_to_do(tmp_path: Path, case: str) -> None:
    text, old, new, line, words = BAD[case]
    assert old in text
    with pytest.raises(ThurboError) as caught:
        tb.read_preferences(file(tmp_path, text.replace(old, new, 1)))
    message = str(caught.value)
    assert message.startswith(f"line {line} of ")
    assert words in message
    assert "; " in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("kind", "order", "words"),
    [
        ("soc", "1,{2,3}", "line 13.*is a tie; rename the file to .toc"),
        ("soi", "1,{2,3}", "line 13.*is a tie; rename the file to .toi"),
        ("soc", "1,2", "line 13.*alternative 3 is not ranked; rename the file to .soi"),
        ("toc", "{1,2}", "line 13.*alternative 3 is not ranked; rename the file to .toi"),
    ],
)
def test_a_kind_of_file_holds_what_it_promises(tmp_path: Path, kind: str, order: str, words: str) -> None:
    text = NEW.replace("toi", kind).replace("1,{2,3}", order)
    with pytest.raises(ThurboError, match=words):
        tb.read_preferences(file(tmp_path, text, kind))


def test_what_cannot_be_read_or_written_is_refused(tmp_path: Path) -> None:
    cases: dict[str, Any] = {
        "no such file": lambda: tb.read_preferences(tmp_path / "none.soc"),
        "it is empty": lambda: tb.read_preferences(file(tmp_path, "")),
        "use one of .soc": lambda: tb.read_preferences(tmp_path / "x.cat"),
        "there are no orders below": lambda: tb.read_preferences(file(tmp_path, NEW[: NEW.index("5: ")])),
        "the file ends": lambda: tb.read_preferences(file(tmp_path, "3\n1,a\n")),
        "not one of order, voter": lambda: tb.read_preferences(file(tmp_path, NEW), per="row"),  # type: ignore[arg-type]
        "row 1: .soc files cannot hold ties; write .toc": lambda: tb.write_preferences(
            {"x": ["a > b", "a = b"]}, tmp_path / "x.soc", {"x": tb.Ranking()}
        ),
        "hold only complete orders": lambda: tb.write_preferences(
            {"x": ["a > b", "a"]}, tmp_path / "x.soc", {"x": tb.Ranking()}
        ),
        "the weight 1.5 is not a whole number of voters": lambda: tb.write_preferences(
            {"x": ["a > b"], "w": [1.5]}, tmp_path / "x.soc", {"x": tb.Ranking(), "w": tb.Weight()}
        ),
        "has no Ranking column": lambda: tb.write_preferences(
            {"x": [1.5, 2]}, tmp_path / "x.soc", {"x": tb.Continuous()}
        ),
        "no row has a ranking": lambda: tb.write_preferences(
            {"x": [None]}, tmp_path / "x.soc", {"x": tb.Ranking(["a", "b"])}
        ),
        "is a statement": lambda: tb.write_preferences(
            {"x": [tb.one_of("a", "b")]}, tmp_path / "x.soi", {"x": tb.Ranking(["a", "b", "c"])}
        ),
    }
    for words, call in cases.items():
        with pytest.raises(ThurboError, match=words):
            call()
    assert not (tmp_path / "x.soc").exists()


def test_names_are_read_in_any_encoding(tmp_path: Path) -> None:
    path = tmp_path / "old.soc"
    path.write_bytes("1\n1,Käse\n1,1,1\n1,1\n".encode("cp1252"))
    assert read_orders(path).items == ("Käse",)
    assert np.asarray(read_orders(path).counts).tolist() == [1]
