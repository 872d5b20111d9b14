"""Rows in few bytes say what the packed rows say, whatever the types of the columns and the statements in cells."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import thurbo as tb
from thurbo.fit import stream
from thurbo.fit.fitting import Data
from thurbo.latent import packing
from thurbo.latent.evidence import widened
from thurbo.table.io import scan as scanning
from thurbo.table.io.frames import as_table
from thurbo.table.io.scan import TableSource
from thurbo.table.schema.routing import with_answered

N = 200
LEVELS = [1.0, 2.0, 3.0]
expand = jax.jit(widened, static_argnames=("slots",))


def mixed() -> dict[str, np.ndarray]:
    """Cells of all families, some of them statements; what is rare is in rows that no sample has."""
    rng = np.random.default_rng(0)
    labels = np.asarray(list("abcd"), object)
    items = np.asarray(list("uvwxyz"))
    lower = rng.normal(size=N).round(3)
    cells: dict[str, list] = {
        "q": rng.choice(LEVELS, N).tolist(),
        "r": rng.choice(LEVELS, N).tolist(),
        "sex": rng.choice(["m", "f"], N).tolist(),
        "age": rng.integers(18, 30, N).tolist(),
        "income": rng.normal(size=N).tolist(),
        "party": rng.choice(labels, N).tolist(),
        "order": [" > ".join(rng.permutation(items)[: rng.integers(2, 7)]) for _ in range(N)],
        "news": [";".join(rng.permutation(["tv", "web"])[: rng.integers(0, 3)]) for _ in range(N)],
        "low": lower.tolist(),
        "high": (lower + rng.random(N).round(3)).tolist(),
    }
    found = {name: np.asarray([*values, None], object)[:-1] for name, values in cells.items()}
    for values in found.values():
        values[rng.random(N) < 0.1] = None
    found["q"][180], found["income"][181] = tb.one_of(2.0, 3.0), tb.between(0, 1)
    found["party"][182], found["party"][183] = tb.top_set("a", "b"), tb.one_of("a", "c")
    return found


def schema() -> tb.Schema:
    return tb.Schema(
        {
            "q": tb.Ordinal(LEVELS),
            "r": tb.Ordinal(LEVELS),
            "sex": tb.Binary(true="m"),
            "age": tb.Continuous(),
            "income": tb.Continuous(),
            "party": tb.Categorical(list("abcd")),
            "order": tb.Ranking(list("uvwxyz")),
            "news": tb.MultiSelect(["tv", "web"], sep=";"),
            "ends": tb.Bounded(lower="low", upper="high"),
        }
    )


@pytest.mark.parametrize("in_file", [False, True])
def test_rows_at_rest_say_what_packed_rows_say(in_file: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "PIECE", 64)
    monkeypatch.setattr(stream, "FEW_PATTERNS", 20)
    table = as_table(mixed())
    sample = np.arange(120)
    first = schema().fit(table.take(sample))
    second = with_answered(first, table.take(sample), alone=True).read_ordinals("utilities")
    readings = []
    for name, each in (("given", first), ("utilities, missing", second)):
        blocks = each.compile(table.take(sample))
        packed = packing.pack(blocks.values(), "marginalize", most_widths=0)
        readings.append(stream.RowReading(name, Data(each, blocks, packed, np.ones(len(sample)))))
    store = stream.RowStore(most=1000 if in_file else 10**9)
    whole = stream.WholeTable(TableSource(table), sample, store=store)
    whole.read(readings, {})
    assert store._file._rolled == in_file
    kinds = {name: codec.direct for name, codec in readings[0].codecs.items()}
    assert kinds["income"] == "lower"
    assert kinds["order"] == "tier"
    assert kinds["ends"] == "ends"
    for reading in readings:
        for unobserved in ("marginalize", "exclude"):
            _check(whole, reading, packing.pack(reading.schema.compile(table).values(), unobserved, most_widths=0))


def _check(whole: stream.WholeTable, reading: stream.RowReading, packed: Any) -> None:
    (wanted,) = packed.buckets
    unobserved = "marginalize" if wanted.present is None else "exclude"
    parts, first = [], 0
    for record, rows in whole.store.spans([(0, N)]):
        parts.append((record, rows, np.arange(first, first + len(rows))))
        first += len(rows)
    coded = reading.coded(parts, N, 1.0)
    found = expand(reading.patterns(unobserved), coded, slots=reading.slots)
    assert jax.tree.structure(found) == jax.tree.structure(wanted)  # the same program: depth, width and form of orders
    for own, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert own.dtype == other.dtype
        assert np.array_equal(own, other, equal_nan=own.dtype.kind == "f")


def test_a_question_takes_one_byte_in_two_readings() -> None:
    rng = np.random.default_rng(0)
    names = [f"q{number}" for number in range(12)]
    table = as_table({name: rng.choice(LEVELS, N) for name in names})
    first = tb.Schema({name: tb.Ordinal(LEVELS) for name in names}).fit(table)
    readings = []
    for name, each in (("given", first), ("utilities", first.read_ordinals("utilities"))):
        blocks = each.compile(table)
        readings.append(stream.RowReading(name, Data(each, blocks, packing.pack(blocks.values(), "marginalize"), None)))
    whole = stream.WholeTable(TableSource(table), np.arange(N))
    whole.read(readings, {})
    assert whole.store.n_bytes == N * (len(names) + 4)  # and a weight


def test_a_column_that_says_too_many_things_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MOST_PATTERNS", 4)
    column = tb.Ordinal(LEVELS)
    sets = [tb.one_of(*pair) for pair in ((1.0, 2.0), (2.0, 3.0))]
    block = tb.Schema({"q": column}).compile({"q": np.asarray([*LEVELS, *sets], object)})["q"]
    with pytest.raises(tb.SchemaError, match="different statements"):
        stream.Codec(block).encode(block)
