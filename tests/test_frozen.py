"""Models of every kind answer as when they were frozen: probabilities, predictions, intervals and imputed cells.

`tests/frozen/make.py` fitted them and wrote their answers. What a cell is predicted to be may not change. Other
answers may. Each change that is meant is declared here with its reason.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any

import pytest

import thurbo as tb
from tests.frozen import queries
from tests.frozen.queries import HELD, OTHERS, Case

pytestmark = pytest.mark.filterwarnings("ignore:.*rated or ranked all items already")

# (model, query): why the answer of the current sources is another one. A declared change that is none fails.
EXPECTED_CHANGES: dict[tuple[str, str], str] = {}

# Only in the empty row: with `given=` it has one answer, and counts as a respondent who skipped all other questions
# until queries say how many answers make a respondent (`Schema.compile(least_answers=)`).
TYPED = "the empty row with a condition counts as a respondent who skipped the rest"
EXPECTED_CHANGES |= {
    (name, f"{query}, given"): TYPED
    for name in ("informative", "skips_members", "starwars")
    for query in ("predict_proba", "predict_interval", "predict")
    if (name, query) != ("starwars", "predict")  # the most probable labels are the same
}
EXPECTED_CHANGES[("lists", "segments")] = "k-means starts from fixed seeds, so that segments do not depend on one"

TOLERANCE = 1e-6  # of probabilities, and of other numbers relative to their size
# Single precision differs by more between compilers where numbers of a list are measured.
WIDER = {("lists", query): 2e-5 for query in ("predict, mean", "impute, mean", "predict_interval")}
WIDER[("lists", "predict_interval, given")] = 2e-5
WIDER[("draws", "score_samples")] = 2e-5  # annealed: a difference of sums over many steps
# The mode of a flat density is less certain than the hundredths that it is rounded to.
WIDER |= {("lists", query): 0.0101 for query in ("predict", "predict, mode", "impute, mode")}

QUICK_MODELS = ("labels", "lists", "numbers", "pairs")
QUICK_QUERIES = ("prefers", "similar_items", "segments", "transform", "transform, log-odds")


@cache
def frozen(name: str) -> tuple[Case, dict[str, Any]]:
    return queries.read(name)


@cache
def model(name: str) -> tb.TBM:
    return queries.load(name)


def _params(kinds: tuple[str, ...], quick: Collection[str]) -> list[Any]:
    """Each model with each query that it answers; those that compile for seconds are slow tests."""
    found = []
    for name in queries.names():
        for query in (each for each in kinds if each in frozen(name)[1]):
            marks = () if name in QUICK_MODELS or query in quick else pytest.mark.slow
            found.append(pytest.param(name, query, id=f"{name}: {query}", marks=marks))
    return found


def changes(name: str, query: str) -> list[tuple[float, str]]:
    case, outputs = frozen(name)
    columns = list(outputs[query]) if isinstance(outputs[query], dict) else None
    now = queries.ask(query, model(name), case, columns)
    return list(queries.differences(outputs[query], now, WIDER.get((name, query), TOLERANCE)))


def test_every_kind_of_column_is_frozen() -> None:
    kinds = {column.kind for name in queries.names() for column in model(name).schema_.values()}
    assert kinds >= set(tb.columns.KINDS) - {"id", "ignore"}


def check(name: str, query: str) -> None:
    found = changes(name, query)
    if (name, query) in EXPECTED_CHANGES:
        assert found, "this change is declared, but there is none"
    else:
        assert not found, f"{len(found)} numbers or labels differ, the largest: {max(found)[1]}"


@pytest.mark.parametrize(("name", "query"), _params(HELD, HELD))
def test_cells_are_predicted_as_before(name: str, query: str) -> None:
    check(name, query)


@pytest.mark.parametrize(("name", "query"), _params(OTHERS, QUICK_QUERIES))
def test_other_answers_change_only_where_it_is_meant(name: str, query: str) -> None:
    check(name, query)


def test_declared_changes_name_frozen_answers() -> None:
    unknown = [each for each in EXPECTED_CHANGES if each[1] not in frozen(each[0])[1]]
    assert not unknown


def test_a_change_is_found() -> None:
    frozen_answer = {"a": [0.5, "yes", None, {"x": 100.0}]}
    assert not list(queries.differences(frozen_answer, {"a": [0.5000005, "yes", None, {"x": 100.00005}]}, TOLERANCE))
    for other in ([0.50001, "yes", None, {"x": 100.0}], [0.5, "no", None, {"x": 100.0}], [0.5, "yes", 0, {"x": 100.0}]):
        assert len(list(queries.differences(frozen_answer, {"a": other}, TOLERANCE))) == 1
    assert list(queries.differences(frozen_answer, {"a": [0.5, "yes", None]}, TOLERANCE))
    assert list(queries.differences(frozen_answer, {"a": [0.5, "yes", None, {"x": float("nan")}]}, TOLERANCE))
