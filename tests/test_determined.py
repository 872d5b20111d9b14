"""Columns that follow from one another: found where they do, with exceptions, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thurbo as tb
from thurbo.app.cli import main
from thurbo.errors import SchemaError
from thurbo.table.schema.determined import EXPLAINED, Determined, sources

N = 3000


def inferred(table: dict[str, Any]) -> tb.Schema:
    """As detected; countries are categories, although there are many."""
    schema = tb.Schema.infer(pd.DataFrame(table))
    return schema | {"country": tb.Categorical()} if "country" in table else schema


def found(table: dict[str, Any], **about: Any) -> dict[tuple[str, str], Determined]:
    schema = inferred(table).fit(pd.DataFrame(table), **about)
    return {(each.column, each.by): each for each in schema.determined}


def table(seed: int = 0, n: int = N) -> dict[str, Any]:
    """Countries in regions, ages in bands, amounts in bands with their middles, and answers that follow from none."""
    rng = np.random.default_rng(seed)
    country = rng.integers(0, 150, n) * rng.integers(0, 2, n)  # half of all rows in one country
    age, income = rng.integers(18, 91, n), np.exp(rng.normal(10, 1, n)).round(2)
    ends = np.asarray([10_000, 20_000, 40_000, 80_000])
    band = np.searchsorted(ends, income, side="right")
    made = {
        "country": [f"country {k}" for k in country],
        "region": [f"region {k % 7}" for k in country],
        "age": age,
        "age group": np.asarray(["18-29", "30-49", "50-64", "65+"])[np.searchsorted([30, 50, 65], age, side="right")],
        "income": income,
        "income group": np.asarray(["a", "b", "c", "d", "e"])[rng.permutation(5)][band],
        "income middle": np.asarray([5e3, 15e3, 3e4, 6e4, 1e5])[band],
        "fan": rng.choice(["Yes", "No"], n),
        "rare": np.where(rng.random(n) < 0.01, "Yes", "No"),
    }
    made["likes"] = np.where(rng.random(n) < 0.8, made["fan"], rng.choice(["Yes", "No"], n))
    return made


def test_recodes_bands_and_middles_are_found_and_nothing_else() -> None:
    rules = found(table())
    assert set(rules) == {
        ("region", "country"),
        ("age group", "age"),
        ("income group", "income"),
        ("income group", "income middle"),
        ("income middle", "income"),
        ("income middle", "income group"),
    }
    assert all(each.accuracy > 0.98 for each in rules.values())
    ages = rules["age group", "age"]
    assert ages.intervals
    assert ages.given == (29.5, 49.5, 64.5)
    assert ages.answers == ("18-29", "30-49", "50-64", "65+")
    assert ages.predict([18, 29, 30, 90, np.nan]) == ["18-29", "18-29", "30-49", "65+", None]
    regions = rules["region", "country"]
    assert not regions.intervals
    assert regions.predict(["country 8", "country 0", "Atlantis"]) == ["region 1", "region 0", None]


def test_exceptions_are_counted_out_of_sample() -> None:
    made, rng = table(), np.random.default_rng(1)
    wrong = rng.random(N) < 0.03
    made["region"] = np.where(wrong, rng.permutation(made["region"]), made["region"])
    made["age group"] = np.where(wrong, rng.permutation(made["age group"]), made["age group"])
    rules = found(made)
    right = {"region": np.asarray(made["region"]) == table()["region"]}
    right["age group"] = np.asarray(made["age group"]) == table()["age group"]
    for name, by in (("region", "country"), ("age group", "age")):
        assert rules[name, by].accuracy == pytest.approx(right[name].mean(), abs=0.02)
        assert rules[name, by].accuracy < 1
    assert rules["age group", "age"].given == (29.5, 49.5, 64.5)
    made["region"] = np.where(rng.random(N) < 0.2, rng.permutation(made["region"]), made["region"])
    assert ("region", "country") not in found(made)


@pytest.mark.parametrize("seed", range(5))
def test_chance_and_rare_answers_determine_nothing(seed: int) -> None:
    """Constants, near-constants, and columns with an answer of its own for most rows."""
    rng, n = np.random.default_rng(seed), 300
    noise = {f"q{k}": rng.choice(["a", "b", "c"], n, p=[0.96, 0.03, 0.01]) for k in range(8)}
    noise |= {"place": [f"place {k}" for k in rng.integers(0, 90, n)], "x": rng.normal(size=n)}
    noise |= {"hardly": np.where(np.arange(n) < 6, "yes", "no"), "again": np.where(np.arange(n) < 6, "yes", "no")}
    assert not found(noise)


def test_rows_count_by_their_weight() -> None:
    made, weight = table(), np.where(np.arange(N) < N // 2, 1.0, 0.0)
    made["region"] = np.where(weight > 0, made["region"], "region 0")
    assert ("region", "country") not in found(made)
    assert found(made, sample_weight=weight)["region", "country"].accuracy > 0.9
    twice = found(table(), sample_weight=np.full(N, 2.0))
    assert twice == found(table())


def test_a_set_of_options_determines() -> None:
    rng = np.random.default_rng(0)
    small, large = rng.random((2, 400)) < 0.4
    made = {"children": [["small"] * bool(a) + ["large"] * bool(b) for a, b in zip(small, large, strict=True)]}
    made["parent"] = np.where(small | large, "Yes", "No").tolist()
    schema = tb.Schema({"children": tb.MultiSelect(["small", "large"]), "parent": tb.Binary()}).fit(made)
    (rule,) = schema.determined
    assert (rule.column, rule.by, rule.accuracy) == ("parent", "children", 1.0)
    assert rule.predict([[], ["large"], ["large", "small"]]) == ["No", "Yes", "Yes"]


def test_a_file_keeps_them_and_can_switch_them_off(tmp_path: Path) -> None:
    frame = pd.DataFrame(table())
    schema = inferred(table()).fit(frame)
    assert ("age group", "age") in {(each.column, each.by) for each in tb.Schema.infer(frame).determined}
    schema.to_toml(tmp_path / "schema.toml")
    assert tb.Schema.from_toml(tmp_path / "schema.toml").determined == schema.determined
    assert tb.Schema.from_dict(json.loads(json.dumps(schema.to_dict()))).determined == schema.determined
    none = tb.Schema(dict(schema), determined=[])
    none.to_toml(tmp_path / "none.toml")
    assert tb.Schema.from_toml(tmp_path / "none.toml").fit(frame).determined == ()
    assert tb.Schema(dict(schema)).fit(frame).determined == schema.determined


def test_changed_columns_have_no_rule() -> None:
    schema = inferred(table()).fit(table())
    changed = schema | {"age": tb.Ignore()}
    assert {each.column for each in schema.determined} - {each.column for each in changed.determined} == {"age group"}
    rule = Determined("region", "country", 0.99, ("a",), ("b",))
    with pytest.raises(SchemaError, match="determined names it"):
        tb.Schema({"region": tb.Categorical()}, determined=[rule])
    with pytest.raises(SchemaError, match="in determined does not have"):
        Determined.from_dict({"column": "region"})


def test_one_column_stands_for_those_that_belong_together() -> None:
    pairs = [("region", "country"), ("band", "age"), ("age", "band"), ("continent", "region"), ("continent", "country")]
    rules = [Determined(column, by, 1.0, (), ()) for column, by in pairs]
    names = ["region", "fan", "country", "continent", "age", "band"]
    together = dict.fromkeys(("region", "country", "continent"), "country") | dict.fromkeys(("age", "band"), "age")
    assert sources(names, rules) == together


def test_check_names_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pd.DataFrame(table()).to_csv(tmp_path / "table.csv", index=False)
    with pytest.raises(SystemExit):
        main(["check", str(tmp_path / "table.csv")])
    shown = capsys.readouterr().out
    assert "Belong together" in shown
    assert "age group with age" in shown


def test_many_columns_take_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only pairs that pass the search are examined."""
    rng, n = np.random.default_rng(0), 2000
    made = {f"q{k}": rng.integers(1, 6, n).astype(str) for k in range(60)}
    made |= {f"q{k} again": np.where(rng.random(n) < 0.01, "1", made[f"q{k}"]) for k in range(3)}
    examined = list[Any]()
    from thurbo.table.schema import determined

    real = determined._rule
    monkeypatch.setattr(determined, "_rule", lambda *given: examined.append(given) or real(*given))
    columns: dict[str, tb.Column] = {name: tb.Ordinal([*"12345"]) for name in made}
    rules = tb.Schema(columns).fit(made).determined
    assert {(each.column, each.by) for each in rules} >= {(f"q{k} again", f"q{k}") for k in range(3)}
    assert len(rules) == 6
    assert len(examined) == 2 * len(rules)
    assert all(each.accuracy > EXPLAINED for each in rules)
