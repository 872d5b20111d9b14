"""Imports point one way, and importing stays light: the architecture page, held by walking the source.

The table below is the architecture. A module that is not in it fails the test: add it, with its imports.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import thurbo

SOURCE = Path(thurbo.__file__).parent

# Each part of the library, and the parts it may import; everything may import errors.
_MATHEMATICS = {"_typing", "_runtime", "_programs", "normal", "constraints", "whitening", "rbm", "evidence"}
_TABLES = {"columns", "io", "schema"}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "_typing": set(),
    "_runtime": set(),
    "_programs": {"_runtime"},
    "_words": set(),
    "_threads": set(),
    "_once": set(),
    # The mathematics, on the device.
    "normal": {"_typing", "_runtime"},
    "constraints": {"_typing", "_runtime", "_words", "normal"},
    "whitening": {"_typing"},
    "rbm": {"_typing", "_runtime", "constraints", "whitening"},  # for Gauge, the cuts and scales among its parameters
    "evidence": {"_typing", "_runtime", "_once", "constraints", "rbm"},
    "inference": _MATHEMATICS,
    "learning": _MATHEMATICS | {"inference", "io"},  # io.store: a checkpoint is a file
    # Tables, on the host.
    "columns": {"_words"},
    "io": {"columns"},
    "schema": {"columns", "io"},
    "datasets": _TABLES,
    "analysis": _TABLES,
    # Where the two meet, and what people see.
    "queries": _MATHEMATICS | _TABLES | {"inference", "_threads", "_once"},
    "estimators": _MATHEMATICS | _TABLES | {"inference", "learning", "queries", "_once"},
    "report": _TABLES | {"estimators", "queries", "_threads"},  # queries.scaling: one scale for maps and segments
    "explorer": _TABLES | {"queries", "report"},
    "demo": _TABLES | {"datasets", "learning", "estimators", "queries", "report"},  # learning: settings of objectives
    "cli": _TABLES | {"datasets", "learning", "estimators", "report", "explorer", "demo"},
}
FILES_ALONE = {"thurbo.io", "thurbo.io.files", "thurbo.io.store"}  # bytes on a disk, no tables

DEVICE_SIDE = {"normal", "constraints", "whitening", "rbm", "evidence", "inference", "learning"}
HOST_SIDE = {"errors", *_TABLES, "datasets", "analysis"}
FRAMES = {"pandas", "polars", "narwhals", "pyarrow"}
HEAVY = {"jax", "sklearn", "matplotlib", *FRAMES}
# table.py reads dataframe libraries and build.py makes their frames; file readers and the bundled survey return frames.
_FILES = {"thurbo.io.read", "thurbo.io.write", "thurbo.io.text", "thurbo.io.statistical", "thurbo.io.rewrite"}
MAY_KNOW_FRAMES = {"thurbo.io.table", "thurbo.io.build", "thurbo.datasets", *_FILES, "thurbo.cli.longform"}


def _name(path: Path) -> str:
    parts = ["thurbo", *path.relative_to(SOURCE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _part(module: str) -> str:
    """The row of the table a module belongs to: "thurbo.io.table" is in "io"; the package itself is ""."""
    return module.split(".")[1] if "." in module else ""


def _statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Import statements, late ones included; those for the type checker alone are no dependency."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from _statements(ast.Module([other], []))
        elif isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        else:
            yield from _statements(child)


@cache
def _imports(module: str) -> frozenset[str]:
    """Full names of what a module imports, `from thurbo import rbm` counted as thurbo.rbm."""
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found = set()
    for statement in _statements(_tree(path)):
        if isinstance(statement, ast.Import):
            found |= {alias.name for alias in statement.names}
            continue
        base = statement.module or ""
        if statement.level:
            parents = package.split(".")
            base = ".".join([*parents[: len(parents) - statement.level + 1], *([base] if base else [])])
        for alias in statement.names:
            inner = f"{base}.{alias.name}"
            found.add(inner if inner in MODULES else base)
    return frozenset(found)


def _inside(module: str) -> set[str]:
    return {name for name in _imports(module) if name.split(".")[0] == "thurbo"}


def _outside(module: str) -> set[str]:
    return {top for name in _imports(module) if (top := name.split(".")[0]) != "thurbo"}


@cache
def _reach(module: str) -> frozenset[str]:
    """All modules of thurbo that importing this one can bring in, packages on the way included."""
    seen, waiting = set(), [module]
    while waiting:
        current = waiting.pop()
        if current in seen or current not in MODULES:
            continue
        seen.add(current)
        parent = current.rpartition(".")[0]
        waiting += [*_inside(current), *([parent] if parent else [])]
    return frozenset(seen)


def test_the_table_itself_points_one_way() -> None:
    assert list(TopologicalSorter(MAY_IMPORT).static_order())
    assert {name for allowed in MAY_IMPORT.values() for name in allowed} <= set(MAY_IMPORT)


@pytest.mark.parametrize("module", [m for m in MODULES if m != "thurbo"])
def test_imports_follow_the_table(module: str) -> None:
    part = _part(module)
    assert part in MAY_IMPORT, f"{module} is not in the table of parts: add it, with what it may import"
    targets = {_part(name) for name in _inside(module)} - {"", part, "errors"}
    assert targets <= MAY_IMPORT[part], f"{module} imports {sorted(targets - MAY_IMPORT[part])} against the layers"


@pytest.mark.parametrize("module", [m for m in MODULES if _part(m) in HOST_SIDE])
def test_the_host_side_never_reaches_jax(module: str) -> None:
    through = {name for name in _reach(module) if _outside(name) & {"jax", "jaxlib", "optax"}}
    assert not through, f"{module} reaches JAX through {sorted(through)}"


@pytest.mark.parametrize("module", [m for m in MODULES if _part(m) in DEVICE_SIDE])
def test_the_device_side_never_reaches_tables(module: str) -> None:
    reached = _reach(module) - FILES_ALONE
    through = {name for name in reached if _outside(name) & FRAMES or _part(name) in _TABLES}
    assert not through, f"{module} reaches tables through {sorted(through)}"


@pytest.mark.parametrize("module", sorted(MODULES))
def test_few_files_know_dataframe_libraries(module: str) -> None:
    known = _outside(module) & FRAMES
    allowed = any(module == name or module.startswith(f"{name}.") for name in MAY_KNOW_FRAMES)
    assert not known or allowed, f"{module} imports {sorted(known)}; use thurbo.io.table and thurbo.io.build instead"


def test_the_package_imports_nothing_of_its_own() -> None:
    assert not _inside("thurbo")
    assert _outside("thurbo") <= set(sys.stdlib_module_names)


def _loaded_by(code: str) -> set[str]:
    """The heavy libraries that are loaded once `code` has run in a fresh interpreter."""
    tail = f"\nimport sys; print('loaded:', *(set(sys.modules) & {HEAVY!r}))"
    done = subprocess.run([sys.executable, "-c", code + tail], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("loaded:")[2].split())


def test_importing_thurbo_is_light() -> None:
    assert _loaded_by("import thurbo; dir(thurbo); thurbo.__version__") == set()


def test_asking_for_help_is_light() -> None:
    code = "from thurbo.cli import main\ntry: main(['--help'])\nexcept SystemExit as done: assert done.code == 0"
    assert _loaded_by(code) == set()
    assert _loaded_by(code.replace("['--help']", "['demo', '--help']")) == set()


def test_columns_and_schema_load_no_device_or_dataframe_library() -> None:
    assert _loaded_by("import thurbo; thurbo.Schema, thurbo.Ordinal") <= {"narwhals"}


def test_every_public_name_exists() -> None:
    for name in thurbo.__all__:
        assert getattr(thurbo, name) is not None


def _classes(folder: str) -> set[str]:
    """Names of the classes that a folder defines."""
    found = set()
    for path in (SOURCE / folder).rglob("*.py"):
        found |= {node.name for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ClassDef)}
    return found


def _kinds(base: type) -> set[str]:
    """Names of a class and of all that derive from it."""
    return {base.__name__}.union(*map(_kinds, base.__subclasses__()))


def _tested_classes(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and class name of every isinstance or issubclass in a module."""
    for node in ast.walk(tree):
        is_test = isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"isinstance", "issubclass"}
        if is_test:
            for name in ast.walk(node.args[1]):
                if isinstance(name, ast.Name | ast.Attribute):
                    yield node.lineno, name.id if isinstance(name, ast.Name) else name.attr


@pytest.mark.parametrize("folder", ["columns", "constraints"])
def test_what_differs_by_type_is_a_method_of_the_type(folder: str) -> None:
    own, found = _kinds(thurbo.Column) if folder == "columns" else _classes(folder), []
    for module, path in MODULES.items():
        if _part(module) != folder:
            found += [f"{module}:{line} {name}" for line, name in _tested_classes(_tree(path)) if name in own]
    assert not found, f"class tests outside {folder}/: {found}; ask the class for what differs"


def test_no_two_modules_share_a_name() -> None:
    names = [path.stem for path in MODULES.values() if path.stem != "__init__"]
    twice = {name for name in names if names.count(name) > 1}
    assert not twice


def test_files_and_functions_stay_short() -> None:
    long = []
    for module, path in MODULES.items():
        text = path.read_text("utf-8")
        functions = [node for node in ast.walk(_tree(path)) if isinstance(node, ast.FunctionDef)]
        sizes = [(f"{module}.{node.name}", node.end_lineno - node.lineno + 1, 70) for node in functions]
        sizes.append((module, text.count("\n"), 450))
        long += [f"{name}: {lines} lines" for name, lines, most in sizes if lines > most]
    assert not long


def test_the_top_level_stays_small() -> None:
    entries = {path.name for path in SOURCE.iterdir() if not path.name.startswith(("_", "."))}
    assert len(entries) <= 20, sorted(entries)
