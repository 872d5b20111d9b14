"""The examples in docstrings of the public surface run as they are written.

Methods of `TBM` share the `model` and `table` of the example of the class, so that one fit serves them all.
"""

from __future__ import annotations

import dataclasses
import doctest
from importlib import import_module
from typing import Any

import pytest

import thurbo as tb

MODULES = (
    "thurbo.tbm",
    "thurbo.queries",
    "thurbo.item_queries",
    "thurbo.cross_evaluation",
    "thurbo.fit.settings",
    "thurbo.table.columns.ordinal",
    "thurbo.table.columns.censored",
    "thurbo.table.columns.categorical",
    "thurbo.table.columns.censored",
    "thurbo.table.columns.tasks",
    "thurbo.table.columns.continuous",
    "thurbo.table.columns.ignore",
    "thurbo.table.columns.listed",
    "thurbo.table.columns.multiselect",
    "thurbo.table.columns.ordinal",
    "thurbo.table.columns.tasks",
    "thurbo.table.columns.ranking",
    "thurbo.table.columns.statements",
)
FINDER = doctest.DocTestFinder(exclude_empty=True)


@pytest.fixture(scope="module")
def shared() -> dict[str, Any]:
    """Names that the example of `TBM` defines."""
    assert tb.TBM.__doc__ is not None
    example = doctest.DocTestParser().get_doctest(tb.TBM.__doc__, {}, "TBM", None, None)
    assert doctest.DocTestRunner().run(example, clear_globs=False).failed == 0
    return {name: example.globs[name] for name in ("tb", "table", "model")}


@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module: str, shared: dict[str, Any]) -> None:
    examples = [each for each in FINDER.find(import_module(module), extraglobs=shared) if each.examples]
    assert examples, f"{module} has no examples"
    runner = doctest.DocTestRunner()
    for example in examples:
        if example.name.endswith(".TBM"):
            continue  # run already, for all
        assert runner.run(example).failed == 0, example.name


PUBLIC = [name for name in dir(tb.TBM) if not name.startswith("_") and not name.endswith("_")]
INHERITED = {"fit_transform", "get_metadata_routing", "set_output"}  # scikit-learn's own


@pytest.mark.parametrize("name", [n for n in PUBLIC if n not in INHERITED and not n.endswith("_request")])
def test_every_method_says_what_it_takes_and_returns(name: str) -> None:
    method = getattr(tb.TBM, name)
    text = method.__doc__ or ""
    names = [each for each in method.__code__.co_varnames[: method.__code__.co_argcount] if each not in {"self", "cls"}]
    assert not names or "Parameters\n" in text
    assert name == "save" or "Returns\n" in text
    for each in names:
        assert f"{each} :" in text or f"{each}, " in text or f", {each} :" in text, f"{name} does not describe {each}"


COLUMNS = [
    "Continuous",
    "Bounded",
    "Banded",
    "Censored",
    "Binary",
    "Ordinal",
    "Categorical",
    "MultiSelect",
    "Ranking",
    "Ratings",
    "Inequality",
    "Ignore",
    "Id",
    "Weight",
]


@pytest.mark.parametrize("name", COLUMNS)
def test_every_column_type_describes_its_settings(name: str) -> None:
    column = getattr(tb, name)
    text = column.__doc__ or ""
    for section in ("Parameters\n", "Notes\n", "Examples\n"):
        assert section in text, f"{name} has no section {section}"
    for each in dataclasses.fields(column):
        assert each.name in text.split("Notes\n")[0], f"{name} does not describe {each.name}"
