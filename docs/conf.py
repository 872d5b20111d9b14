"""How the documentation is built: `make docs`, warnings are errors.

Pages are Markdown (MyST), the reference comes from docstrings, and the gallery runs every script in examples/.
"""

from __future__ import annotations

import os
import re
import sys
import warnings

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
