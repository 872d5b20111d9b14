"""§4.3 Missing cells drawn one after another, each from its predictive distribution given the cells before it.

Training by prediction makes the distribution of a cell given *any subset* of the others right; nobody trained the joint
distribution of the parameters, from which Gibbs sampling draws. Draws by the chain rule, with the cells of each row in
an order of its own, use the trained distributions only, so that samples agree with `predict_proba` and with the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from thurbo.columns.block import Block
from thurbo.errors import SchemaError
from thurbo.evidence import Evidence
from thurbo.evidence.pack import pack
from thurbo.io.table import as_table
from thurbo.queries import distributions
from thurbo.queries.features import How
from thurbo.queries.kept_shares import N_AVERAGED, N_PILOT, N_PILOTS, Offsets, average, first_sites
from thurbo.queries.not_asked import Routes
from thurbo.rbm import Params
from thurbo.schema import Schema

ARRAYS = ("lower", "upper", "point", "code", "code_high", "tier", "one_of", "log_jacobian")


def draw(
    rng: np.random.Generator,
    params: Params,
    schema: Schema,
    blocks: Mapping[str, Block],
    missing: Mapping[str, np.ndarray],
    how: How,
    rows: np.ndarray | None = None,
    routed: bool = True,
    offsets: Offsets | None = None,
) -> np.ndarray:
    """Latent values x [row, site] that decode to the missing cells; other sites are zero.

    `blocks` say what is known of each row; `missing` are the rows [row] of each column to draw. With `rows`, these
    rows are drawn, in that order, some of them several times. Columns are shared by all rows, and no inequality
    involves several of them. With `routed`, gates are drawn before the questions that they decide about, and cells of
    questions that the row is then not asked are not drawn. `offsets` count in proportion to the share of a row's cells
    that are missing.
    """
    rows = np.arange(next(iter(blocks.values())).n_rows) if rows is None else rows
    missing = {name: gone[rows] for name, gone in missing.items() if gone[rows].any()}
    names, n_rows = list(missing), len(rows)
    x = np.zeros((n_rows, schema.n_sites))
    if not names:
        return x
    in_turn = [name for name in names if schema[name].has_context]
    if in_turn:
        problem = "a ranking with context is drawn choice by choice, given the hidden units"
        raise SchemaError(problem, column=in_turn[0], remedy='use method="exact"')
    # One more row, with all cells: the tiers of its orders fix the shapes of the evidence from the first step.
    known = {name: _longer(block, rows) for name, block in blocks.items()}
    mean, deviation = _moments(params, schema, known, how)
    whole = mean + deviation * rng.standard_normal(mean.shape)
    cells = _cells(schema, known, names)
    for cell in cells:
        _tell(known, schema, params, cell, np.asarray([n_rows]), whole[-1:])
    routes = Routes(schema, params, blocks, rows) if routed else None
    chance = rng.random((n_rows, len(cells)))
    if routes is not None:
        chance += [routes.depth.get(cell.name, 0) for cell in cells]
    order = np.where(np.stack([missing[cell.name] for cell in cells], axis=1), chance, np.inf)
    turn = np.argsort(order, axis=1, kind="stable")  # the cells of each row in its own order
    n_missing = np.isfinite(order).sum(axis=1)
    all_cuts, strength = (
        np.asarray(params.gauge.cuts, np.float64),
        n_missing / len(_cells(schema, known, schema.modelled)),
    )
    for step in range(int(n_missing.max())):
        mean, deviation = _moments(params, schema, known, how)
        drawn = mean[:-1] + deviation[:-1] * rng.standard_normal((n_rows, schema.n_sites))
        for place, cell in enumerate(cells):
            asked = True if routes is None else routes.left(cell.name, n_rows)
            now = np.flatnonzero((turn[:, step] == place) & (step < n_missing) & asked)
            if len(now):
                if offsets is not None:
                    first, own = cell.sites.start, all_cuts[cell.sites]
                    offsets.seen(first, mean[now, cell.sites], deviation[now, cell.sites])
                    drawn[now, cell.sites] = offsets.moved(first, drawn[now, cell.sites], own, strength[now])
                x[now, cell.sites] = drawn[now, cell.sites]
                _tell(known, schema, params, cell, now, drawn[now])
                if routes is not None:
                    routes.tell(cell.name, now, drawn[now])
    return x


class _Cell(NamedTuple):
    """What is drawn at once: an answer, or one option of several; its column, its sites there and in the model."""

    name: str
    own: slice
    sites: slice


def blank(schema: Schema, n_rows: int) -> tuple[dict[str, Block], dict[str, np.ndarray]]:
    """Rows without any answer: what is known of them, and their missing cells."""
    blocks = schema.compile(as_table({" ": [None] * n_rows}), missing_columns="ignore")
    return blocks, {name: np.ones(n_rows, bool) for name in schema.modelled}


def keep_shares(params: Params, schema: Schema, how: How, shares: Mapping[str, np.ndarray]) -> Offsets:
    """Offsets by which drawn rows keep the shares of labels [site, label] of the training table."""
    starts = {name: schema.slices[name].start for name in shares}
    choices = [name for name in shares if schema[name].family == "utility"]
    wanted, found = first_sites(shares, starts, choices), [Offsets(is_pilot=True)]
    cuts = np.asarray(params.gauge.cuts, np.float64)
    for number in range(N_PILOTS):
        rng = np.random.default_rng(number)
        draw(rng, params, schema, *blank(schema, N_PILOT), how, offsets=found[-1])
        found.append(found[-1].learn(wanted, cuts, rng))
    return average(found[-N_AVERAGED:])


def _cells(schema: Schema, blocks: Mapping[str, Block], names: Sequence[str]) -> list[_Cell]:
    """A column of levels has one cell for each of its sites, and any other column one cell."""
    cells: list[_Cell] = []
    for name in names:
        first, n_sites = schema.slices[name].start, len(schema[name].sites)
        step = 1 if blocks[name].family == "levels" else n_sites
        own = [slice(at, at + step) for at in range(0, n_sites, step)]
        cells += [_Cell(name, each, slice(first + each.start, first + each.stop)) for each in own]
    return cells


def _moments(params: Params, schema: Schema, blocks: Mapping[str, Block], how: How) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of x at every site given what is known, [row, site] each."""
    evidence, sites = pack(blocks.values(), how.unobserved), np.arange(schema.n_sites, dtype=np.int32)
    own = np.zeros(schema.n_sites, bool)

    def chunk(rows: Evidence) -> Any:
        return distributions.all_moments(params, distributions.hidden(rows, own, how), sites, how, False)

    return evidence.by_chunks(chunk)


def _longer(block: Block, rows: np.ndarray) -> Block:
    """Some rows of a block, with arrays of its own and one more row that says nothing."""
    nothing = {"lower": -np.inf, "upper": np.inf, "code": -1, "code_high": -1, "tier": -1}
    parts: dict[str, Any] = {}
    for name in ARRAYS:
        own = getattr(block, name)
        last = np.full((1, *own.shape[1:]), nothing.get(name, 0), own.dtype)
        parts[name] = np.concatenate([own[rows], last])
    return replace(block, **parts)


def _tell(
    known: dict[str, Block], schema: Schema, params: Params, cell: _Cell, rows: np.ndarray, x: np.ndarray
) -> None:
    """Put what x [row, site] says of a cell into the block of its column, in place."""
    column, block = schema[cell.name], known[cell.name]
    cuts, scale = (np.asarray(each, np.float64)[cell.sites] for each in (params.gauge.cuts, params.gauge.scale))
    if block.family == "levels":
        code = (x[:, cell.sites, None] > cuts[None, :, :]).sum(axis=-1)
        block.code[rows, cell.own] = block.code_high[rows, cell.own] = code
        return
    cells = as_table(column.decode_columns(cell.name, x[:, cell.sites], cuts, scale))
    said = Schema({cell.name: column}).compile(cells)[cell.name]
    for each in ARRAYS:
        getattr(block, each)[rows] = getattr(said, each)
