"""Questions that are asked only after certain answers: found in simulated and real surveys, and only where they are.

Simulations count how often the rule finds skip logic that is there, and how often it finds some where there is none.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import thurbo as tb

N_COLUMNS = 8
Simulation = Callable[[np.random.Generator], dict[str, np.ndarray]]


def _answers(rng: np.random.Generator, n_rows: int) -> dict[str, np.ndarray]:
    """Questions with two to five labels that share one trait."""
    trait, columns = rng.standard_normal(n_rows), {}
    for number in range(N_COLUMNS):
        n_labels = int(rng.integers(2, 6))
        x = 0.8 * trait + rng.standard_normal(n_rows)
        code = np.searchsorted(np.quantile(x, np.linspace(0, 1, n_labels + 1)[1:-1]), x)
        columns[f"q{number}"] = np.asarray([f"label {each}" for each in code], object)
    return columns


def _missing(cells: np.ndarray, gone: np.ndarray) -> None:
    cells[gone] = None


def with_skip(rng: np.random.Generator) -> tuple[dict[str, np.ndarray], tb.Skip]:
    """q3, q4 and q5 are asked only after some answers to q1; a few answer anyway, and cells are missing at random."""
    n_rows = int(rng.integers(250, 1500))
    table = _answers(rng, n_rows)
    labels = sorted(set(table["q1"]))
    out = rng.choice(labels, int(rng.integers(1, len(labels))), replace=False)
    skipped = np.isin(table["q1"], out)
    for name in ("q3", "q4", "q5"):
        _missing(table[name], skipped & (rng.random(n_rows) > rng.uniform(0, 0.03)))
    for name in table:
        _missing(table[name], rng.random(n_rows) < rng.uniform(0, 0.2))
    values = [label for label in labels if label not in out]
    return table, tb.Skip(("q3", "q4", "q5"), "q1", values)


def at_random(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Each cell is missing completely at random, some questions nearly always."""
    table = _answers(rng, int(rng.integers(60, 1500)))
    for cells in table.values():
        _missing(cells, rng.random(len(cells)) < rng.choice([0.02, 0.2, 0.5, 0.8, 0.95]))
    return table


def by_dropping_out(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """People stop at some question, and blocks are missing together at random."""
    n_rows = int(rng.integers(60, 1500))
    table = _answers(rng, n_rows)
    stop = np.where(rng.random(n_rows) < 0.4, rng.integers(1, N_COLUMNS, n_rows), N_COLUMNS)
    block = rng.random(n_rows) < rng.uniform(0.1, 0.6)
    for place, (name, cells) in enumerate(table.items()):
        _missing(cells, (place >= stop) | (block & (name in ("q4", "q5", "q6"))))
    return table


def by_weak_dependence(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The log-odds that an answer is missing change by up to 1.5 over the labels of another question."""
    n_rows = int(rng.integers(60, 1500))
    table = _answers(rng, n_rows)
    whole = {name: cells.copy() for name, cells in table.items()}
    for name, cells in table.items():
        codes = np.unique(whole[f"q{rng.integers(N_COLUMNS)}"], return_inverse=True)[1]
        log_odds = rng.uniform(-3, 0) + rng.uniform(-1.5, 1.5) * codes / codes.max()
        if name != "q0":
            _missing(cells, rng.random(n_rows) < 1 / (1 + np.exp(-log_odds)))
    return table


WITHOUT = [at_random, by_dropping_out, by_weak_dependence]


def _schema(table: dict[str, np.ndarray]) -> tb.Schema:
    labels = {name: sorted({each for each in cells if each is not None}) for name, cells in table.items()}
    few = {name: each for name, each in labels.items() if len(each) > 1}
    return tb.Schema({name: tb.Categorical(each) for name, each in few.items()}).fit({k: table[k] for k in few})


def _times_found(n: int, first: int = 0) -> int:
    """Simulations in which exactly the simulated skip is found, and nothing else."""
    found = 0
    for seed in range(first, first + n):
        table, skip = with_skip(np.random.default_rng(seed))
        found += _schema(table).skips == (skip,)
    return found


def _times_nothing(simulate: Simulation, n: int) -> int:
    return sum(_schema(simulate(np.random.default_rng(seed))).skips == () for seed in range(n))


def test_simulated_skip_logic_is_found() -> None:
    assert _times_found(10) >= 9


@pytest.mark.parametrize("simulate", WITHOUT)
def test_nothing_is_found_without_skip_logic(simulate: Simulation) -> None:
    assert _times_nothing(simulate, 8) >= 7


@pytest.mark.slow
def test_skip_logic_is_found_in_95_of_100_simulations() -> None:
    assert _times_found(100, 1000) >= 95


@pytest.mark.slow
@pytest.mark.parametrize("simulate", WITHOUT)
def test_nothing_is_found_in_95_of_100_without(simulate: Simulation) -> None:
    assert _times_nothing(simulate, 100) >= 95
