"""§3 Overlapping inequalities are merged into one `Linear` constraint per row.

A line is one inequality. It includes the orders of its slots (pair by pair), so that every slot belongs to one
constraint; boxes are added when cuts and scales are known. An infeasible row is an error that names the lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from thurbo.constraints.linear import Linear
from thurbo.constraints.masses.feasible import System, conflict, interior
from thurbo.errors import InfeasibleEvidence, SchemaError

if TYPE_CHECKING:
    from thurbo.columns.column import Block


class Reading(NamedTuple):
    """Names of the columns and sites, labels of the rows, and the cuts.

    `cuts` [site, cut] are those of the model, None before training.
    """

    columns: Sequence[str]
    sites: Sequence[str]
    rows: Sequence[Any] | np.ndarray
    cuts: np.ndarray | None = None


class Line(NamedTuple):
    """b ≤ Σ coefficient · slot ≤ c, and its source."""

    coefficients: Mapping[int, float]
    lower: float
    upper: float
    words: str
    column: str


def merge(blocks: Sequence[Block], reading: Reading, dtype: Any) -> tuple[Linear, dict[tuple[int, int], np.ndarray]]:
    """All lines of all rows as one constraint, and which orders they include: {(row, first slot): their slots}."""
    place = {site: slot for slot, site in enumerate(reading.sites)}
    first = np.cumsum([0, *(len(block.sites) for block in blocks)])
    lines: dict[int, list[Line]] = {}
    for block, column in zip(blocks, reading.columns, strict=True):
        for each in block.linear:
            coefficients = {place[site]: value for site, value in each.coefficients.items()}
            lines.setdefault(each.row, []).append(Line(coefficients, each.lower, each.upper, str(each), column))
    taken: dict[tuple[int, int], np.ndarray] = {}
    systems: list[System | None] = [None] * (len(blocks[0].code) if blocks else 0)
    known: dict[tuple, np.ndarray | None] = {}
    for row, said in lines.items():
        named = {slot for line in said for slot in line.coefficients}
        for number, block in enumerate(blocks):
            own = np.arange(first[number], first[number + 1])
            if block.has_tiers and named.intersection(own.tolist()) and (block.tier[row] > 0).any():
                if block.one_of[row]:
                    raise SchemaError(
                        "one_of and an inequality on the same labels cannot be combined",
                        row=reading.rows[row],
                        column=reading.columns[number],
                        remedy="use top_set(...), or remove one of the two",
                    )
                said += _pairs(block.tier[row], own, reading.sites, reading.columns[number])
                taken[row, int(first[number])] = own
        slots = sorted({slot for line in said for slot in line.coefficients})
        boxes = _boxes(row, slots, blocks, first, reading)
        systems[row] = _checked(row, said, boxes, reading, known)
    # A row's constraint holds its lines; the boxes are those of its cells, for any learned cuts.
    return Linear.of(systems, len(reading.sites), dtype), taken


def _pairs(tier: np.ndarray, own: np.ndarray, sites: Sequence[str], column: str) -> list[Line]:
    """An order as lines: every member of a tier above every member of the tier below."""
    found = []
    for height in range(int(tier.max()), 0, -1):
        for above in np.flatnonzero(tier == height):
            for below in np.flatnonzero(tier == height - 1):
                words = f"{sites[own[above]]} >= {sites[own[below]]}"
                found.append(Line({int(own[above]): 1.0, int(own[below]): -1.0}, 0.0, np.inf, words, column))
    return found


def _boxes(row: int, slots: Sequence[int], blocks: Sequence[Block], first: np.ndarray, reading: Reading) -> list[Line]:
    """The boxes of these slots from their own cells, in standard units; levels only if the cuts are known."""
    found = []
    for slot in slots:
        number = int(np.searchsorted(first, slot, side="right")) - 1
        block, site = blocks[number], slot - int(first[number])
        lower, upper = float(block.lower[row, site]), float(block.upper[row, site])
        if block.code[row, site] >= 0 and reading.cuts is not None:
            ends = np.r_[-np.inf, reading.cuts[slot, : block.n_cuts], np.inf]
            lower, upper = ends[block.code[row, site]], ends[block.code_high[row, site] + 1]
        if np.isfinite(lower) or np.isfinite(upper):
            words = f"the cell of {reading.sites[slot]}"
            found.append(Line({slot: 1.0}, lower, upper, words, reading.columns[number]))
    return found


def _checked(
    row: int, lines: list[Line], boxes: list[Line], reading: Reading, known: dict[tuple, np.ndarray | None]
) -> System:
    """The lines of a row and a point that satisfies them and the boxes; raises an error if there is none."""
    every = lines + boxes
    system = _system(every, len(reading.sites))
    key = (system.matrix.tobytes(), system.lower.tobytes(), system.upper.tobytes())
    if key not in known:
        known[key] = _inside(system)
    if known[key] is None:
        clash = [every[number] for number in conflict(_loosened(system))]
        columns = dict.fromkeys(line.column for line in clash)
        raise InfeasibleEvidence(
            f"no value satisfies all of: {'; '.join(line.words for line in clash)}",
            row=reading.rows[row],
            column='", "'.join(columns),
            remedy="remove one of them",
        )
    n = len(lines)
    return System(system.matrix[:n], system.lower[:n], system.upper[:n], known[key])


def _system(lines: Sequence[Line], n_slots: int) -> System:
    matrix = np.zeros((len(lines), n_slots))
    for number, line in enumerate(lines):
        for slot, value in line.coefficients.items():
            matrix[number, slot] = value
    return System(matrix, np.array([line.lower for line in lines]), np.array([line.upper for line in lines]))


def _inside(system: System) -> np.ndarray | None:
    """An interior point, after the exactly known values are substituted."""
    fixed = np.flatnonzero(system.lower == system.upper)
    slots = system.matrix[fixed].argmax(axis=1)
    value = np.zeros(system.matrix.shape[1])
    value[slots] = system.lower[fixed]
    shift = np.delete(system.matrix @ value, fixed)
    matrix = np.delete(system.matrix, fixed, axis=0)
    matrix[:, slots] = 0.0
    point = interior(System(matrix, np.delete(system.lower, fixed) - shift, np.delete(system.upper, fixed) - shift))
    return None if point is None else point + value


def _loosened(system: System) -> System:
    """A point as a narrow box, so that a linear program can have a margin."""
    width = np.where(system.lower == system.upper, 1e-4 * np.maximum(1.0, np.abs(system.lower)), 0.0)
    return System(system.matrix, system.lower - width, system.upper + width)
