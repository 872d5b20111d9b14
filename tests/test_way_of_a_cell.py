"""docs/architecture.md says which functions a cell passes from file to file: they are called, in this order."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import thurbo as tb
from tests.known import TRUST, one_member
from thurbo.latent.constraints import Gauge
from thurbo.latent.rbm import Params
from thurbo.table.io.read_write import read_frame

DOCS = Path(__file__).parent.parent / "docs" / "architecture.md"
COMPILED = "mean_field"  # is called only where its program is not kept on disk


def way() -> list[tuple[str, str]]:
    """Module and name of every function of the section."""
    section = DOCS.read_text(encoding="utf-8").split("## The way of a cell")[1].split("\n## ")[0]
    return [(f"thurbo.{module}", name) for name, module in re.findall(r"\| `([\w.]+)` \| `([\w.]+)` \|", section)]


def model() -> tb.TBM:
    """Two ordered questions that depend on three hidden units."""
    schema = tb.Schema({"trust": tb.Ordinal(TRUST), "hope": tb.Ordinal(TRUST)})
    weights, cuts = jnp.asarray([[1.5, -1.0, 0.5], [1.0, -1.5, 1.0]]), jnp.asarray([[-0.5, 0.8], [-0.2, 0.6]])
    params = Params(
        site_bias=jnp.zeros(2),
        weights=weights,
        hidden_bias=jnp.zeros(3),
        loadings=jnp.zeros((2, 0)),
        gauge=Gauge(cuts, jnp.ones(2)),
        hidden_mean=jnp.full(3, 0.5),
    )
    found = tb.TBM(schema, verbose=False)
    found._adopt(one_member(schema, params, "multi-prediction"), [], True)
    found.n_features_in_, found.frame_kind_ = 2, "pandas"
    return found


def test_a_cell_goes_the_documented_way(tmp_path: Path) -> None:
    functions, called = way(), list[tuple[str, str]]()
    assert 20 <= len(functions) <= 25
    for module, name in functions:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        assert callable(found)
    path, estimator = tmp_path / "survey.csv", model()
    path.write_text("trust,hope\nsome,a lot\nnone,none\na lot,\n,some\n")

    def profile(frame: Any, event: str, _: Any) -> None:
        key = frame.f_globals.get("__name__", ""), frame.f_code.co_qualname
        if event == "call" and key in functions and key not in called:
            called.append(key)

    sys.setprofile(profile)
    try:
        filled = estimator.impute(read_frame(path), method="mean-field")
        tb.write(filled, tmp_path / "filled.csv", like=path)
    finally:
        sys.setprofile(None)
    assert [key for key in called if key[1] != COMPILED] == [key for key in functions if key[1] != COMPILED]
    lines = (tmp_path / "filled.csv").read_text().splitlines()
    assert lines[:3] == ["trust,hope", "some,a lot", "none,none"]
    assert lines[3].split(",")[1] in TRUST
    assert lines[4].split(",")[0] in TRUST
    assert np.all([cell in TRUST for line in lines[1:] for cell in line.split(",")])
