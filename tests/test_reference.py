"""The reference pages document every public name, once, and name nothing that does not exist."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import thurbo as tb

PAGES = sorted((Path(__file__).parents[1] / "docs" / "reference").glob("*.md"))
DIRECTIVE = re.compile(r"^\.\. auto(class|function|method|module):: (\S+)\n((?:   :.*\n)*)", re.M)
# Added to estimators by scikit-learn, whose documentation describes them.
BORROWED = re.compile(r"set_\w+_request|get_metadata_routing|set_output")


def looked_up(path: str) -> Any:
    """The object of a dotted name: as much of it as can be imported, then attributes."""
    parts = path.split(".")
    for n in range(len(parts), 0, -1):
        try:
            thing = import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for name in parts[n:]:
            thing = getattr(thing, name)
        return thing
    raise ModuleNotFoundError(path)


def documented() -> list[tuple[str, Any]]:
    """Dotted name and object of everything on the pages; a module counts with the members that are listed."""
    things = []
    for page in PAGES:
        for kind, path, options in DIRECTIVE.findall(page.read_text(encoding="utf-8")):
            things.append((path, looked_up(path)))
            members = re.search(r":members:(.*)", options)
            if kind == "module" and members:
                names = [name.strip() for name in members[1].split(",") if name.strip()]
                module = looked_up(path)
                names = names or [
                    name
                    for name, thing in vars(module).items()
                    if not name.startswith("_") and getattr(thing, "__module__", None) == path
                ]
                things += [(f"{path}.{name}", getattr(module, name)) for name in names]
    return things


def test_every_public_name_is_documented_once() -> None:
    counts = Counter(id(thing) for _, thing in documented())
    names = {
        name: getattr(tb, name)
        for name in tb.__all__
        if name != "__version__" and not inspect.ismodule(getattr(tb, name))
    }
    assert len(names) > 40
    assert {name: counts[id(thing)] for name, thing in names.items() if counts[id(thing)] != 1} == {}


def test_every_method_of_the_estimator_is_documented_once() -> None:
    counts = Counter(path for path, _ in documented())
    methods = [
        name
        for name in dir(tb.TBM)
        if not name.startswith("_") and not BORROWED.fullmatch(name) and callable(getattr(tb.TBM, name))
    ]
    assert len(methods) > 25
    assert {name: counts[f"thurbo.TBM.{name}"] for name in methods if counts[f"thurbo.TBM.{name}"] != 1} == {}


def test_nothing_is_documented_twice() -> None:
    counts = Counter(path for path, _ in documented())
    assert [path for path, n in counts.items() if n > 1] == []


def test_the_index_lists_every_page() -> None:
    index = (PAGES[0].parents[1] / "api.md").read_text(encoding="utf-8")
    assert [page.stem for page in PAGES if f"(reference/{page.name})" not in index] == []
