"""§3, Eq. (5) What a row says, as inequalities: in words for people, as ⟨A, b, c⟩ for everything else.

All in latent units, where residuals have unit variance; a number's own units stand beside them in the words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

import numpy as np

from thurbo.columns import Column, MeasuredColumn
from thurbo.columns.column import LinearRow
from thurbo.constraints import JointRegion, Region
from thurbo.constraints.one_of import OneOfRegion
from thurbo.evidence import Evidence
from thurbo.rbm import Params
from thurbo.schema import Schema


@dataclass(frozen=True)
class Inequalities:
    """b ≤ A x ≤ c of one row, with the name of each column of A, and the same in words.

    `mass` says how P(e | h) is found for such a row. "One of these" is a union, so it is in the words alone.
    """

    sites: tuple[str, ...]
    matrix: np.ndarray  # A, [inequality, site]
    lower: np.ndarray  # b
    upper: np.ndarray  # c
    words: tuple[str, ...]
    mass: str

    def __iter__(self):  # type: ignore[no-untyped-def]
        """A, b, c = model.inequalities(X, row)."""
        return iter((self.matrix, self.lower, self.upper))

    def __str__(self) -> str:
        return "\n".join([*(self.words or ("nothing is said",)), f"(probability: {self.mass})"])

    def _repr_html_(self) -> str:
        lines = "".join(f"<li>{escape(text)}</li>" for text in self.words)
        return f"<ul>{lines}</ul><p>probability: {escape(self.mass)}</p>"


def inequalities(params: Params, schema: Schema, evidence: Evidence, row: int) -> Inequalities:
    """The inequalities of one row of evidence."""
    region = evidence.rows(np.array([row])).region(params.gauge)
    parts: tuple[Region, ...] = region.parts if isinstance(region, JointRegion) else (region,)
    sites = schema.site_names
    triples, words, masses = [], [], []
    scale = np.asarray(params.gauge.scale, np.float64)
    for part in parts:
        if isinstance(part, OneOfRegion) and bool(part.order.speaks[0].any()):
            words += _one_of(part, sites)
            masses.append(part.mass)
            continue
        A, b, c = (np.asarray(each, np.float64) for each in part.as_linear(0))
        triples.append((A, b, c))
        words += [_words(line, low, high, schema, sites, scale) for line, low, high in zip(A, b, c, strict=True)]
        masses += [part.mass] if len(A) else []
    matrix, lower, upper = (np.concatenate(each) for each in zip(*triples, strict=True))
    return Inequalities(sites, matrix, lower, upper, tuple(words), ", ".join(dict.fromkeys(masses)) or "exact")


def _words(
    line: np.ndarray, low: float, high: float, schema: Mapping[str, Column], sites: tuple[str, ...], scale: np.ndarray
) -> str:
    named = np.flatnonzero(line)
    text = str(LinearRow(0, {sites[slot]: float(line[slot]) for slot in named}, low, high))
    if len(named) == 1 and low == high:
        text = f"{sites[named[0]]} = {low / line[named[0]]:.4g}"
    column = schema.get(sites[named[0]])
    if len(named) == 1 and isinstance(column, MeasuredColumn):
        ends = column.to_user(np.array([low, high]) * scale[named[0]])
        own = f"{ends[0]:.6g}" if low == high else f"{ends[0]:.6g} to {ends[1]:.6g}"
        text = f"{text} ({own} in its own units)"
    return text


def _one_of(part: OneOfRegion, sites: tuple[str, ...]) -> list[str]:
    """max over the candidates ≥ max over the rest."""
    order, found = part.order, []
    slots = (tuple(range(order.n_slots)),) if order.slots is None else order.slots
    for codes, places in zip(np.asarray(order.tier[0]), slots, strict=True):
        if codes.max() > 0:
            above, below = (", ".join(sites[places[i]] for i in np.flatnonzero(codes == code)) for code in (1, 0))
            found.append(f"max({above}) >= max({below})")
    return found
