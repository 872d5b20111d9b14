"""How the documentation is built: `make docs`, warnings are errors.

Pages are Markdown (MyST), the reference comes from docstrings, the gallery runs the scripts in examples/.
"""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path
from typing import Any

import thurbo

# The examples draw into files, never on a screen.
os.environ.setdefault("MPLBACKEND", "agg")

project = "thurbo"
author = "thurbo contributors"
copyright = "thurbo contributors"
version = release = thurbo.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_gallery.gen_gallery"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
default_role = "code"  # docstrings write `name` for code
exclude_patterns = ["_build", "gallery/*.ipynb", "gallery/*.py"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
python_maximum_signature_line_length = 88

html_theme = "pydata_sphinx_theme"
html_title = "thurbo"
# Only the reference and the gallery have pages below them; elsewhere a side column would be empty.
html_sidebars = {page.stem: [] for page in Path(__file__).parent.glob("*.md")}
html_sidebars |= {"research/*": []} | {name: ["sidebar-nav-bs.html"] for name in ("api", "reference/*", "gallery/*")}
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "abort_on_example_error": True,
}

warnings.filterwarnings("ignore", category=DeprecationWarning)


def plain_docstrings(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Let docstrings stay plain text: what would be taken for markup is escaped, tables become lists."""
    done, example = [], False
    for line in _definitions(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))  # until the next blank line
        done.append(line if example or line.startswith(".. ") else _escaped(line))
    lines[:] = done


def _escaped(line: str) -> str:
    """`weights_` is no link target and |x| no substitution, outside of `code`."""
    parts = re.split(r"(`+[^`]*`+)", line)
    return "".join(
        part if i % 2 else re.sub(r"(?<=\w)_(?=\W|$)", r"\\_", part).replace("|", "\\|") for i, part in enumerate(parts)
    )


def _definitions(lines: list[str]) -> list[str]:
    """Aligned `name   meaning` lines, with their continuations, as a definition list."""
    done: list[str] = []
    inside = False
    for line in lines:
        entry = re.match(r"([\w*]+) {2,}(\S.*)", line)
        if entry:
            done += ["", entry[1], f"    {entry[2]}"]
            inside = True
        elif inside and line.startswith(" "):
            done.append(f"    {line.strip()}")
        else:
            done += ["", line] if inside and line else [line]
            inside = False
    return done


def sentences_of_properties(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Keep napoleon from reading "Whether groups exist: stable ones" as a type and its description."""
    if what in ("property", "attribute", "data"):
        lines[:0] = ["..", ""]  # an empty comment


def skip_borrowed(app: Any, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn adds by itself: those docstrings point into its own pages."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing|set_output", name) else None


def setup(app: Any) -> None:
    """Connect the hooks: one before napoleon (priority 500), one after it."""
    app.connect("autodoc-process-docstring", sentences_of_properties, priority=400)
    app.connect("autodoc-process-docstring", plain_docstrings, priority=900)
    app.connect("autodoc-skip-member", skip_borrowed)
