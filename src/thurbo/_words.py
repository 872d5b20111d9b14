"""Inequalities in words: shared by the columns, which read them, and the constraints, which hold them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def inequality(coefficients: Mapping[str, float], lower: float, upper: float) -> str:
    """lower ≤ Σ coefficient · name ≤ upper: "0.5 <= age - 2 income"; an infinite end is left out."""
    terms = []
    for name, value in coefficients.items():
        size = "" if abs(value) == 1 else f"{abs(value):.4g} "
        terms += ["-" if value < 0 else "+", f"{size}{name}"]
    terms = terms[1:] if terms[0] == "+" else [f"-{terms[1]}", *terms[2:]]
    below = "" if np.isneginf(lower) else f"{lower:.4g} <= "
    return f"{below}{' '.join(terms)}{'' if np.isposinf(upper) else f' <= {upper:.4g}'}"
