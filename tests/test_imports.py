"""Imports point one way, and importing stays light: the architecture page, held by walking the source.

The table below is the architecture. A module that is not in it fails the test: add it, with its imports.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import thurbo

SOURCE = Path(thurbo.__file__).parent

# Each part of the library, and the parts it may import; everything may import errors.
_SHARED = {"_typing", "_runtime", "_programs", "_concurrency"}
_TABLES = {"table.columns", "table.io", "table.guess", "table.schema"}
_LATENT = {
    f"latent.{name}"
    for name in ("truncnorm", "masses", "constraints", "rbm", "presence", "evidence", "packing", "inference")
}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "_typing": set(),
    "_runtime": set(),
    "_programs": {"_runtime"},
    "_concurrency": set(),
    "parallel": {"_runtime"},
    # From files and cells to rows, on the host.
    "table": set(),
    "table.columns": set(),
    "table.io": {"table.columns"},
    "table.guess": {"table.columns", "table.io"},
    "table.schema": {"table.columns", "table.io", "table.guess"},
    "table.datasets": _TABLES,
    # The model of the paper, on the device.
    "latent": {"_runtime"},
    "latent.truncnorm": {"_typing"},
    "latent.masses": {"_typing", "latent.truncnorm"},
    "latent.constraints": {"_typing", "latent.truncnorm", "latent.masses"},
    "latent.rbm": {"_typing", "latent.constraints"},  # for Gauge, the cuts and scales among its parameters
    "latent.presence": {"_typing", "_runtime"},
    "latent.evidence": {"_typing", "_concurrency", "latent.constraints", "latent.rbm"},
    "latent.packing": {"_typing", "latent.masses", "latent.constraints", "latent.rbm", "latent.evidence"},
    "latent.inference": _SHARED | _LATENT - {"latent.inference"},
    # Where the two meet, and what people see.
    "predict": _SHARED | _LATENT | _TABLES,
    "fit": _SHARED | _LATENT | _TABLES | {"predict", "parallel"},  # held-out answers weigh members by their predictions
    "metrics": _TABLES,
    "pooling": _TABLES,
    # The public face.
    "parts": _TABLES | {"fit"},
    "queries": _SHARED | _LATENT | _TABLES | {"fit", "predict", "parts"},
    "item_queries": _LATENT | _TABLES | {"predict", "queries", "parts"},
    "tbm": _SHARED | _LATENT | _TABLES | {"parallel", "fit", "predict", "queries", "item_queries", "model_file"},
    "model_file": _LATENT | _TABLES | {"fit", "predict"},
    "imputer": _TABLES | {"queries", "tbm"},
    "cross_evaluation": _SHARED | _TABLES | {"fit", "predict", "tbm"},
    "app": set(),
    "app.report": _TABLES | {"_concurrency", "predict", "cross_evaluation"},
    "app.server": set(),
    "app.explorer": _TABLES | {"predict", "app.report", "app.server"},
    "app.editor": _TABLES,
    "app.demo": _TABLES | {"table.datasets", "fit", "predict", "tbm", "app.report"},  # fit: objectives
    "app.cli": _TABLES
    | {
        "table.datasets",
        "fit",
        "tbm",
        "parts",
        "parallel",
        "app.report",
        "app.explorer",
        "app.editor",
        "app.server",
        "app.demo",
    },
}
FLOORS = ("table", "latent", "app")  # their parts are rows of the table above
FILES_ALONE = {"thurbo.table", "thurbo.table.io", "thurbo.table.io.files"}  # bytes on a disk, no tables

_TRAINING = ("masking", "planning", "objective", "start", "trainer", "course", "fitting")
DEVICE_SIDE = _LATENT | {f"thurbo.fit.{name}" for name in _TRAINING}
HOST_SIDE = {"errors", *_TABLES, "table.datasets", "metrics", "pooling"}
FRAMES = {"pandas", "polars", "narwhals", "pyarrow"}
HEAVY = {"jax", "sklearn", "matplotlib", *FRAMES}
# frames.py reads dataframe libraries and makes their frames; file readers and the bundled survey return frames.
_FILES = {f"thurbo.table.io.{name}" for name in ("read_write", "text", "codebook", "scan")}
MAY_KNOW_FRAMES = {"thurbo.table.io.frames", "thurbo.table.datasets", *_FILES, "thurbo.app.cli.results"}
MOST_MODULES, DEEPEST = 140, 18  # modules, and modules in a chain of imports
LONG_FILE, LONG_FUNCTION = 900, 100  # lines from which a warning is printed


def _name(path: Path) -> str:
    parts = ["thurbo", *path.relative_to(SOURCE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _part(module: str) -> str:
    """The row of the table a module belongs to: thurbo.table.io.text is in "table.io"; the package itself is ""."""
    _, *rest = module.split(".")
    return ".".join(rest[: 2 if rest and rest[0] in FLOORS else 1])


def _statements(node: ast.AST, late: bool = True) -> Iterator[ast.Import | ast.ImportFrom]:
    """Import statements, those inside functions if `late`; those for the type checker alone are no dependency."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from _statements(ast.Module([other], []), late)
        elif isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif late or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _statements(child, late)


@cache
def _imports(module: str, late: bool = True) -> frozenset[str]:
    """Full names of what a module imports, `from thurbo import rbm` counted as thurbo.rbm."""
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found = set()
    for statement in _statements(_tree(path), late):
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


@pytest.mark.parametrize("module", [m for m in MODULES if {m, _part(m)} & DEVICE_SIDE])
def test_the_device_side_never_reaches_tables(module: str) -> None:
    reached = _reach(module) - FILES_ALONE
    through = {name for name in reached if _outside(name) & FRAMES or _part(name) in _TABLES}
    assert not through, f"{module} reaches tables through {sorted(through)}"


@pytest.mark.parametrize("module", sorted(MODULES))
def test_few_files_know_dataframe_libraries(module: str) -> None:
    known = _outside(module) & FRAMES
    allowed = any(module == name or module.startswith(f"{name}.") for name in MAY_KNOW_FRAMES)
    assert not known or allowed, f"{module} imports {sorted(known)}; use thurbo.table.io.frames instead"


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
    code = "from thurbo.app.cli import main\ntry: main(['--help'])\nexcept SystemExit as done: assert done.code == 0"
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


@pytest.mark.parametrize("part", ["table.columns", "latent.constraints"])
def test_what_differs_by_type_is_a_method_of_the_type(part: str) -> None:
    folder = part.replace(".", "/")
    own, found = _kinds(thurbo.Column) if part == "table.columns" else _classes(folder), []
    for module, path in MODULES.items():
        if _part(module) != part:
            found += [f"{module}:{line} {name}" for line, name in _tested_classes(_tree(path)) if name in own]
    assert not found, f"class tests outside {folder}/: {found}; ask the class for what differs"


def test_no_two_modules_share_a_name() -> None:
    names = [path.stem for path in MODULES.values() if path.stem != "__init__"]
    twice = {name for name in names if names.count(name) > 1}
    assert not twice


def test_no_two_classes_share_a_name() -> None:
    names = [node.name for path in MODULES.values() for node in ast.walk(_tree(path)) if isinstance(node, ast.ClassDef)]
    assert not {name for name in names if names.count(name) > 1}


def test_the_modules_are_few() -> None:
    assert len(MODULES) <= MOST_MODULES


@cache
def _chain(module: str) -> tuple[str, ...]:
    """The longest chain of imports that begins with this module; imports inside functions do not count."""
    own = {name for name in _imports(module, late=False) if name in MODULES and name not in ("thurbo", module)}
    return (module, *max((_chain(name) for name in sorted(own)), key=len, default=()))


def test_chains_of_imports_are_short() -> None:
    longest = max(map(_chain, MODULES), key=len)
    assert len(longest) <= DEEPEST, f"{len(longest)} modules: {' > '.join(longest)}"


def _layout() -> set[str]:
    """Modules and folders in the layout of the architecture page, one on a line, two blanks for each folder."""
    page = (SOURCE.parent.parent / "docs" / "architecture.md").read_text("utf-8")
    lines = page.partition("src/thurbo/\n")[2].partition("```")[0].splitlines()
    found, folders = set(), ["thurbo"]
    for line in filter(None, lines):
        name = line.split()[0]
        depth = (len(line) - len(line.lstrip())) // 2
        found.add(".".join([*folders[:depth], name.rstrip("/")]))
        if name.endswith("/"):
            folders[depth:] = [name.rstrip("/")]
    return found


def test_the_layout_on_the_architecture_page_is_that_of_the_sources() -> None:
    assert _layout() == set(MODULES) - {"thurbo"}


def test_long_files_and_functions_are_pointed_out() -> None:
    for module, path in MODULES.items():
        functions = [node for node in ast.walk(_tree(path)) if isinstance(node, ast.FunctionDef)]
        sizes = [(f"{module}.{node.name}", node.end_lineno - node.lineno + 1, LONG_FUNCTION) for node in functions]
        sizes.append((module, path.read_text("utf-8").count("\n"), LONG_FILE))
        for name, lines, most in sizes:
            if lines > most:
                warnings.warn(f"{name} has {lines} lines; more than {most} are hard to read", stacklevel=1)


def test_the_top_level_stays_small() -> None:
    entries = {path.name for path in SOURCE.iterdir() if not path.name.startswith(("_", "."))}
    assert len(entries) <= 20, sorted(entries)
