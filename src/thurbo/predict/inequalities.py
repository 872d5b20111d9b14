"""§3, Eq. (5) The evidence of a row as inequalities: as text, and as ⟨A, b, c⟩.

All are in latent units, in which residuals have unit variance; the text also shows a number in its own units.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import numpy as np

from thurbo.latent.evidence import Buckets
from thurbo.latent.rbm import Params
from thurbo.table.schema.schema import Schema


@dataclass(frozen=True)
class Inequalities:
    """b ≤ A x ≤ c of one row, with the name of each column of A, and the same as text.

    `mass` is the method that computes P(e | h) of such a row. "One of these" is a union, so it is only in the text.
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
        return "\n".join([*(self.words or ("no inequalities",)), f"(probability: {self.mass})"])

    def _repr_html_(self) -> str:
        lines = "".join(f"<li>{escape(text)}</li>" for text in self.words)
        return f"<ul>{lines}</ul><p>probability: {escape(self.mass)}</p>"


def inequalities(params: Params, schema: Schema, evidence: Buckets, row: int) -> Inequalities:
    """The inequalities of one row of evidence, on the sites of that row."""
    (own,) = evidence.rows(np.array([row])).on_device().buckets
    seen = own.seen(params)
    region = own.region(seen.gauge)
    at = np.arange(schema.n_sites) if own.sites is None else np.asarray(own.sites).reshape(-1)
    names = schema.site_names
    sites = tuple(names[site] for site in at)
    scale = np.asarray(seen.gauge.scale, np.float64).reshape(-1)

    def in_units(slot: int, low: float, high: float) -> str:
        own = schema[schema.site_columns[at[slot]]].form.own_units(low, high, scale[slot])
        return f"{own} in its own units" if own else ""

    triples, words, masses = list[list[np.ndarray]](), list[str](), list[str]()
    for part in region.parts:
        said = part.describe(0, sites, in_units)
        words += said
        masses += [part.mass] if said else []
        if part.is_convex:
            triples.append([np.asarray(each, np.float64) for each in part.as_linear(0)])
    matrix, lower, upper = (np.concatenate(each) for each in zip(*triples, strict=True))
    if own.sites is not None:  # without padding
        real = np.asarray(own.present)[0] | (np.arange(len(at)) < int((evidence.shared >= 0).sum()))
        sites, matrix = tuple(name for name, kept in zip(sites, real, strict=True) if kept), matrix[:, real]
    return Inequalities(sites, matrix, lower, upper, tuple(words), ", ".join(dict.fromkeys(masses)) or "exact")
