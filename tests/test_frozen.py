"""Models of every kind answer as when they were frozen: probabilities, predictions, intervals and imputed cells.

`tests/frozen/make.py` fitted them and wrote their answers. What a cell is predicted to be may not change. Other
answers may. Each change that is meant is declared here with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from typing import Any, NamedTuple

import pytest

import thurbo as tb
from tests.frozen import queries
from tests.frozen.queries import HELD, OTHERS, STATISTICS, Case

pytestmark = pytest.mark.filterwarnings("ignore:.*rated or ranked all items already")


class Change(NamedTuple):
    """Why an answer of the current sources is another one, and where: nothing else may differ.

    rows     of the case, None if all
    columns  how the columns of the answer begin, None if all
    """

    reason: str
    rows: frozenset[int] | None = None
    columns: tuple[str, ...] | None = None

    def allows(self, line: str) -> bool:
        """Whether a difference, such as "['gender'][15][0]: 0.5 was frozen, 0.6 now", is part of this change."""
        path = re.match(r"(\['[^']*'\]|\[\d+\])*", line)
        names, places = (re.findall(each, path[0] if path else "") for each in (r"\['([^']*)'\]", r"\[(\d+)\]"))
        fits = self.columns is None or any(name.startswith(self.columns) for name in names)
        return fits and (self.rows is None or (bool(places) and int(places[0]) in self.rows))


# (model, query): what is meant to differ. A declared change that is none fails.
EXPECTED_CHANGES: dict[tuple[str, str], tuple[Change, ...]] = {}


def meant(model: str, change: Change, *queries: str) -> None:
    for query in queries:
        EXPECTED_CHANGES[model, query] = (*EXPECTED_CHANGES.get((model, query), ()), change)


# Empty cells are evidence only in rows of at least two answers, conditions included (older files do not say how many).
# Follow-up questions, which some are not asked, do not count.
ONE_ANSWER = "one answer is no respondent who skipped all other questions"
FEW = {
    "informative": Change(ONE_ANSWER, frozenset({15})),
    "skips_members": Change(ONE_ANSWER, frozenset({6, 15})),
    "starwars": Change(ONE_ANSWER, frozenset({6, 8, 10, 11, 15})),
}
# With a condition, the empty row has one answer, and so has one that answers a follow-up question only.
EMPTY = {"informative": {14}, "skips_members": {6, 14}, "starwars": {14}}
for name, change in FEW.items():
    meant(name, change, "predict_proba", "predict, mean", "impute, mean", "impute, flags")
    meant(name, Change(ONE_ANSWER, frozenset(EMPTY[name])), "predict_proba, given")
for name in ("informative", "skips_members"):  # the other one has no numbers
    meant(name, FEW[name], "predict_interval")
    meant(name, Change(ONE_ANSWER, frozenset(EMPTY[name])), "predict_interval, given", "predict, given")
for name in ("skips_members", "starwars"):  # of the other one, labels and medians are the same
    meant(name, FEW[name], "predict", *(f"{q}, {each}" for q in ("predict", "impute") for each in STATISTICS[:3]))
meant("informative", FEW["informative"], "transform", "transform, log-odds", "score_samples")
# Three items for each row, in one long table.
meant(
    "starwars", Change(ONE_ANSWER, frozenset({*range(18, 21), *range(24, 27), *range(30, 36), *range(45, 48)})), "rank"
)
meant("starwars", Change(ONE_ANSWER, frozenset({*range(12, 21), *range(27, 30)})), "rank, unseen")

# Which questions were answered says who was asked: this is certain, and no part of what calibration weakens.
ROUTING = "routing acts after calibration"
for name, gate in (("skips_members", "flies"), ("starwars", "seen_any")):
    meant(name, Change(ROUTING, columns=(gate,)), "predict_proba", "predict_proba, given", "predict, given")
meant("skips_members", Change(ROUTING, columns=("flies",)), "predict_interval, given", "impute, flags")

INTEGRAL = "P(a above b) is an integral over the hidden layer, not Φ of a mean and a variance"
for name in ("best_worst", "draws", "factors", "labels", "lists", "pairs", "starwars"):
    meant(name, Change(INTEGRAL), "prefers")
CHAIN = "rows are scored by the chain rule over what is predicted, by all members"
for name in ("choices", "draws", "factors", "skips_members", "starwars"):
    meant(name, Change(CHAIN), "score_samples")
for name in FEW:
    meant(name, Change("what is not asked for is unknown, and no evidence"), "dependence")
meant("lists", Change("k-means starts from fixed seeds, so that segments do not depend on one"), "segments")

TREES = "direct effects of answers, which this file has, are replaced by trees, which it has not"
for query in ("predict_proba", "predict_proba, given", "predict, median", "predict, mean", "impute, flags"):
    meant("starwars", Change(TREES, columns=("fan", "Han Solo")), query)
for query in ("impute, median", "impute, mean"):
    meant("starwars", Change(TREES, columns=("Han Solo",)), query)

TOLERANCE = 1e-6  # of probabilities, and of other numbers relative to their size
# Single precision differs by more between compilers where numbers of a list are measured.
WIDER = {("lists", query): 2e-5 for query in ("predict, mean", "impute, mean", "predict_interval")}
WIDER[("lists", "predict_interval, given")] = 2e-5
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
    found, declared = changes(name, query), EXPECTED_CHANGES.get((name, query), ())
    others = [each for each in found if not any(change.allows(each[1]) for change in declared)]
    assert not others, f"{len(others)} numbers or labels differ, the largest: {max(others)[1]}"
    for change in declared:
        assert any(change.allows(each[1]) for each in found), f"declared, but nothing has changed: {change}"


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
