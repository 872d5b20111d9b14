"""Fit small models of every column type, and freeze what they answer: `python -m tests.frozen.make [name ...]`.

Each model becomes `NAME.thurbo`, the rows it is asked about and all its answers `NAME.json`. `tests/test_frozen.py`
asks again. Tables are made here, or are a part of the bundled survey.

The files are made once. After a change that is meant to change answers, `--answers` asks the same models again and
keeps their parameters.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import thurbo as tb
from tests.frozen import queries
from tests.frozen.queries import Case

Columns = dict[str, list[Any]]
Groups = Sequence[Sequence[str]]
EXACT: dict[str, Any] = {"n_hidden": 3, "max_epochs": 12, "learning_rate": 0.05}
N_ASKED = 14  # rows of the training table in a case, with more holes; an empty row and one answer follow
HOLES = 0.25
MARGIN = 1e-5  # between the two most probable labels of a cell: noise must not decide between them
WEIGHT = "weight"  # a column without holes


class Made(NamedTuple):
    """A model to fit, its table, and what its queries need."""

    model: tb.TBM
    table: Columns
    more: dict[str, Any]
    together: Groups = ()  # columns of one question


def _rng() -> np.random.Generator:
    return np.random.default_rng(31)


def _with_holes(table: Columns, share: float, rng: np.random.Generator, together: Groups = ()) -> Columns:
    """The table with cells left empty at random; columns that are one question are empty together."""
    gone = {name: rng.random(len(cells)) < share for name, cells in table.items()}
    for first, *others in together:
        gone |= dict.fromkeys(others, gone[first])
    return {name: _only(cells, ~gone[name]) for name, cells in table.items()}


def _only(cells: list[Any], where: np.ndarray) -> list[Any]:
    return [cell if is_there else None for cell, is_there in zip(cells, where, strict=True)]


def _asked(table: Columns, together: Groups) -> Columns:
    """Rows of the training table with more holes, an empty row, and one with a single answer."""
    some = {name: cells[:N_ASKED] for name, cells in table.items()}
    rows = _with_holes(some, HOLES, np.random.default_rng(7), together)
    if WEIGHT in rows:
        rows[WEIGHT] = some[WEIGHT]
    for place, (name, cells) in enumerate(rows.items()):
        if name == WEIGHT:
            cells += [1.0, 1.0]
            continue
        first = next(cell for cell in table[name] if cell is not None)
        cells += [None, first if place == 0 else None]
    return rows


def _traits(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=n)


def _cut(x: np.ndarray, cuts: list[float], labels: list[Any]) -> list[Any]:
    return [labels[code] for code in np.digitize(x, cuts)]


def numbers() -> Made:
    """Numbers in every form: as they are, logarithms, ranks, rounded, two ends, bands, censored."""
    rng, n = _rng(), 80
    trait = _traits(n, rng)
    noisy = lambda: trait + 0.7 * rng.normal(size=n)  # noqa: E731
    centre, width = 20 + 4 * noisy(), rng.uniform(0, 3, n).round(1)
    time_left = np.exp(1 + 0.5 * noisy())
    table = {
        "age": np.round(45 + 12 * noisy(), 1).tolist(),
        "income": np.round(np.exp(3 + 0.6 * noisy()), 2).tolist(),
        "hours": np.round(np.exp(1 + noisy()), 2).tolist(),
        "rooms": np.maximum(np.round(3 + 1.4 * noisy()), 1).astype(int).tolist(),
        "trips": np.maximum(np.round(np.exp(0.5 + noisy()) - 1), 0).astype(int).tolist(),
        "from": np.round(centre - width, 1).tolist(),
        "to": np.round(centre + width, 1).tolist(),
        "band": _cut(noisy(), [-0.8, 0.3], ["18-29", "30-59", "60+"]),
        "time": np.round(np.minimum(time_left, 5), 2).tolist(),
        "over": (time_left < 5).tolist(),
        "dose": np.round(np.clip(50 + 30 * noisy(), 0, 100), 1).tolist(),
    }
    columns = {
        "age": tb.Continuous(),
        "income": tb.Continuous("log"),
        "hours": tb.Continuous("rank-normal"),
        "rooms": tb.Continuous(rounded=True),
        "trips": tb.Continuous("rank-normal", rounded=True),
        "price": tb.Bounded(lower="from", upper="to"),
        "band": tb.Banded({"18-29": (18, 30), "30-59": (30, 60), "60+": (60, None)}),
        "time": tb.Censored("over"),
        "dose": tb.Censored(limits=(0, 100)),
    }
    both = [("from", "to"), ("time", "over")]
    return Made(tb.TBM(columns, **EXACT), _with_holes(table, 0.1, rng, both), {"given": {"age": 61.5}}, both)


def _labels(n: int, rng: np.random.Generator) -> tuple[Columns, dict[str, Any]]:
    """Answers in words: one of two, of an order, of several, some of several, and an order of items."""
    trait, other = rng.normal(size=(2, n))
    noisy = lambda size=0.7: trait + size * rng.normal(size=n)  # noqa: E731
    party = np.stack([noisy(), other, rng.normal(size=n)], axis=1)
    media = np.stack([noisy() > 0, other > 0.3, rng.random(n) < 0.4], axis=1)
    issues = np.stack([noisy(), other, rng.normal(size=n)], axis=1)
    tokens = np.asarray(["tax", "health", "school"])
    table = {
        "fan": _cut(noisy(), [0.2], ["no", "yes"]),
        "trust": _cut(noisy(), [-0.7, 0.5], ["none", "some", "a lot"]),
        "score": _cut(noisy() + other, [-1, 0, 1], [1, 2, 3, 4]),
        "party": [["Green", "Red", "Blue"][k] for k in party.argmax(axis=1)],
        "school": _cut(noisy(), [-1, 0, 1], ["low", "mid", "high", "top"]),
        "media": [[name for name, on in zip(["tv", "radio", "net"], row, strict=True) if on] for row in media.tolist()],
        "issues": [" > ".join(tokens[order]) for order in np.argsort(-issues, axis=1)],
    }
    columns = {
        "fan": tb.Binary(true="yes"),
        "trust": tb.Ordinal(["none", "some", "a lot"]),
        "score": tb.Ordinal(),
        "party": tb.Categorical(),
        "school": tb.Categorical(["low", "mid", "high", "top"], ordered=True),
        "media": tb.MultiSelect(["tv", "radio", "net"]),
        "issues": tb.Ranking(["tax", "health", "school"]),
    }
    return _with_holes(table, 0.1, rng), columns


OF_LABELS: dict[str, Any] = {"given": {"fan": "yes"}, "pairs": {"issues": ["tax", "health"]}}


def labels() -> Made:
    """Answers in words, with weights of the rows, by exact inference."""
    rng = _rng()
    table, columns = _labels(80, rng)
    weight = rng.uniform(0.5, 2, 80).round(2).tolist()
    return Made(tb.TBM({**columns, WEIGHT: tb.Weight()}, **EXACT), {**table, WEIGHT: weight}, OF_LABELS)


def exclude() -> Made:
    """Some of these questions, where a cell that is missing is no part of the row's model."""
    table, columns = _labels(80, _rng())
    names = ("fan", "score", "party", "media")
    model = tb.TBM({name: columns[name] for name in names}, unobserved="exclude", **EXACT)
    return Made(model, {name: table[name] for name in names}, {"given": {"fan": "yes"}})


def factors() -> Made:
    """Answers and numbers by mean-field inference: hidden units and factors, trained by prediction."""
    rng = _rng()
    table, columns = _labels(120, rng)
    level = np.asarray([{"none": -1, "some": 0, "a lot": 1}.get(cell, 0) for cell in table["trust"]])
    table["age"] = np.round(45 + 8 * level + 6 * rng.normal(size=120)).tolist()
    columns["age"] = tb.Continuous("rank-normal", rounded=True)
    sizes: dict[str, Any] = {"n_hidden": 6, "n_factors": 2, "objective": "multi-prediction", "max_epochs": 12}
    return Made(tb.TBM(columns, learning_rate=0.03, **sizes), table, OF_LABELS)


def inequalities() -> Made:
    """Inequalities between cells, beside two numbers and an order."""
    rng, n = _rng(), 60
    trait = _traits(n, rng)
    now, before = (np.round(50 + 10 * trait + 6 * rng.normal(size=n), 1) for _ in range(2))
    says = rng.random(n) < 0.3
    table: Columns = {
        "now": [None if gone else cell for cell, gone in zip(now.tolist(), says, strict=True)],
        "before": before.tolist(),
        "fan": _cut(trait + rng.normal(size=n), [0], ["no", "yes"]),
        "change": [
            [({"now": 1, "before": -1}, ">=" if up else "<=", 0)] if told else None
            for up, told in zip(now >= before, says, strict=True)
        ],
    }
    columns = {"now": tb.Continuous(), "before": tb.Continuous(), "fan": tb.Binary(), "change": tb.Inequality()}
    return Made(tb.TBM(columns, **EXACT), table, {"given": {"fan": "yes"}})


def _routed(n: int) -> tuple[Columns, tb.Schema]:
    """A question that leads to others; some leave these empty, or a page of three others."""
    rng = _rng()
    trait = _traits(n, rng)
    flies = _cut(trait + 0.7 * rng.normal(size=n), [-0.2, 0.8], ["never", "some", "often"])
    asked = (np.asarray(flies) != "never") & (rng.random(n) > 0.1)
    page = rng.random(n) > np.where(trait > 0, 0.4, 0.1)
    noisy = lambda: trait + 0.7 * rng.normal(size=n)  # noqa: E731
    rude = _cut(noisy(), [-0.5, 0.5], ["no", "a bit", "very"])
    seat = [["window", "aisle"][k] for k in (noisy() > 0).astype(int)]
    table = {
        "flies": _only(flies, rng.random(n) > 0.15),
        "rude": _only(rude, asked),
        "seat": _only(seat, asked),
        "gender": _only(_cut(noisy(), [0], ["m", "f"]), page),
        "age": _only(np.round(45 + 10 * noisy()).tolist(), page),
        "region": _only(_cut(noisy(), [-0.5, 0.5], ["east", "west", "south"]), page & (rng.random(n) > 0.05)),
        "height": _only(np.round(170 + 8 * noisy()).tolist(), rng.random(n) > 0.1),
    }
    columns: dict[str, Any] = {
        "flies": tb.Ordinal(["never", "some", "often"]),
        "rude": tb.Ordinal(["no", "a bit", "very"]),
        "seat": tb.Categorical(),
        "gender": tb.Binary(),
        "age": tb.Continuous("rank-normal", rounded=True),
        "region": tb.Categorical(),
        "height": tb.Continuous(),
    }
    return table, tb.Schema(columns, skips=[tb.Skip(["rude", "seat"], "flies", ["some", "often"])])


def skips() -> Made:
    """A question that leads to others, and one member."""
    table, schema = _routed(120)
    return Made(tb.TBM(schema, **EXACT), table, {"given": {"gender": "f"}})


def informative() -> Made:
    """One member to which it is evidence which pages of the survey a row has answered."""
    table, schema = _routed(120)
    return Made(tb.TBM(schema, missing="informative", **EXACT), table, {"given": {"gender": "f"}})


def skips_members() -> Made:
    """The default model of the same survey: four members, two of which know which pages were answered."""
    table, schema = _routed(240)
    return Made(tb.TBM(schema, max_epochs=12), table, {"given": {"gender": "f"}})


def starwars() -> Made:
    """The default model of a part of the bundled survey: an order, some of several, and skipped questions."""
    frame, every = tb.datasets.load_starwars(everything=True)
    names = ["seen_any", "fan", "seen", "films", "Han Solo", "Yoda", "shot_first", "gender", "age"]
    routed = tb.Skip([name for name in names if name in every.skips[0].columns], "seen_any", ["Yes"])
    schema = tb.Schema({name: every[name] for name in names}, skips=[routed])
    parts = [[name for name in frame if name.startswith(start)] for start in ("seen: ", "rank: ")]
    own = [name for name in frame if name in names or any(name in group for group in parts)]
    table = frame[own].head(240).astype(object)
    cells = {name: table[name].where(table[name].notna(), None).tolist() for name in own}
    pair = ["The Phantom Menace", "A New Hope"]
    more = {"given": {"gender": "Female"}, "pairs": {"films": pair}}
    return Made(tb.TBM(schema, max_epochs=12), cells, more, parts)


def _tastes(n: int, n_items: int, rng: np.random.Generator) -> np.ndarray:
    person, item = rng.normal(size=(n, 2)), rng.normal(size=(n_items, 2))
    return person @ item.T + 0.5 * rng.normal(size=n_items) + 0.5 * rng.normal(size=(n, n_items))


def _ratings(n: int, n_items: int, fewest: int, most: int, rng: np.random.Generator) -> list[dict[str, float]]:
    taste, cells = _tastes(n, n_items, rng), []
    for row in taste:
        own = rng.choice(n_items, rng.integers(fewest, most + 1), replace=False)
        cells.append({f"i{k:02d}": float(row[k]) for k in sorted(own.tolist())})
    return cells


def _levels(cell: dict[str, float]) -> dict[str, int]:
    return {item: int(np.clip(round(3 + value), 1, 5)) for item, value in cell.items()}


ASKED = ["i00", "i03", "i07"]


def _of_lists(*names: str) -> dict[str, Any]:
    asked = dict.fromkeys(names, ASKED)
    return {"items": asked, "added": asked, "pairs": dict.fromkeys(names, ASKED[:2])}


def draws() -> Made:
    """Ratings of a list: the default model, with draws of the parameters from their posterior distribution."""
    cells = [_levels(cell) for cell in _ratings(220, 16, 8, 12, _rng())]
    column = tb.Ratings(levels=[1, 2, 3, 4, 5], settings=tb.ListSettings(draws=3))
    return Made(tb.TBM({"r": column}, max_epochs=4), {"r": cells}, _of_lists("r"))


def lists() -> Made:
    """Ratings by levels and by numbers, orders of few out of many, and an ordinary question, in one member."""
    rng, n = _rng(), 60
    levels = [_levels(cell) for cell in _ratings(n, 10, 3, 6, rng)]
    scores = [{item: round(value, 2) for item, value in cell.items()} for cell in _ratings(n, 10, 3, 6, rng)]
    orders = [sorted(cell, key=lambda item: -cell[item]) for cell in _ratings(n, 24, 3, 5, rng)]
    fan = ["yes" if np.mean(list(cell.values())) > 3 else "no" for cell in levels]
    columns = {"r": tb.Ratings(), "fan": tb.Binary(), "n": tb.Ratings(by="numbers"), "o": tb.Ratings(by="order")}
    table: Columns = {"r": levels, "fan": fan, "n": scores, "o": orders}
    return Made(tb.TBM(columns, **EXACT), table, _of_lists("r", "n", "o") | {"given": {"fan": "yes"}})


def _best(task: np.ndarray, utility: np.ndarray) -> list[str]:
    order = np.argsort(-utility)
    return [f"i{task[k]}" for k in order]


def _tasks(n: int, n_tasks: int, size: int, write: Callable[[list[str]], str], rng: np.random.Generator) -> list[Any]:
    taste = _tastes(n, 5, rng)
    cells = []
    for row in taste:
        shown = [rng.choice(5, size, replace=False) for _ in range(n_tasks)]
        cells.append([write(_best(task, row[task] + rng.normal(size=size))) for task in shown])
    return cells


def pairs() -> Made:
    """Paired comparisons with ties, beside an ordinary question."""
    rng, n = _rng(), 60
    write = lambda order: " = ".join(order) if rng.random() < 0.15 else " > ".join(order)  # noqa: E731
    cells = _tasks(n, 6, 2, write, rng)
    fan = [["no", "yes"][sum(task.startswith("i0") for task in cell) > 1] for cell in cells]
    more = {"items": {"p": ["i0", "i1"]}, "pairs": {"p": ["i0", "i1"]}, "given": {"fan": "yes"}}
    return Made(
        tb.TBM({"p": tb.Pairs(), "fan": tb.Binary()}, n_hidden=2, max_epochs=12), {"p": cells, "fan": fan}, more
    )


def choices() -> Made:
    """Choices from shown sets of items with attributes: hidden units and a factor, by mean-field inference."""
    rng = _rng()
    features = {
        f"i{k}": {"brand": brand, "price": price}
        for k, (brand, price) in enumerate([("A", 1.0), ("B", 2.0), ("C", 1.5), ("A", 3.0), ("B", 1.0)])
    }
    cells = _tasks(60, 5, 3, lambda order: f"{order[0]} > {' = '.join(order[1:])}", rng)
    profiles = {"cheap B": {"brand": "B", "price": 1.2}, "dear A": {"brand": "A", "price": 3.0}}
    more = {"items": {"c": ["i0", "i1", "i2"]}, "pairs": {"c": ["i0", "i1"]}, "profiles": profiles}
    sizes: dict[str, Any] = {"n_hidden": 3, "n_factors": 2, "objective": "multi-prediction", "max_epochs": 12}
    return Made(tb.TBM({"c": tb.Choice(attributes=features)}, **sizes), {"c": cells}, more)


def best_worst() -> Made:
    """The best and the worst of shown sets, with logistic noise, beside an ordinary question."""
    rng, n = _rng(), 60
    cells = _tasks(n, 4, 3, lambda order: f"{order[0]} > {' = '.join(order[1:-1])} > {order[-1]}", rng)
    trust = [[1, 2, 3][min(sum(task.startswith("i2") for task in cell), 2)] for cell in cells]
    more = {"items": {"b": ["i0", "i1", "i2"]}, "pairs": {"b": ["i0", "i1"]}, "given": {"trust": 3}}
    columns = {"b": tb.BestWorst(noise="gumbel"), "trust": tb.Ordinal()}
    return Made(tb.TBM(columns, n_hidden=2, max_epochs=12), {"b": cells, "trust": trust}, more)


_EVERY = (numbers, labels, exclude, factors, inequalities, skips, informative, skips_members, starwars, draws, lists)
MODELS: dict[str, Callable[[], Made]] = {each.__name__: each for each in (*_EVERY, pairs, choices, best_worst)}


def fit(name: str) -> None:
    """Fit a model; write it and the rows that it will be asked about."""
    made = MODELS[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.ConvergenceWarning)
        made.model.set_params(random_state=0, verbose=False).fit(made.table).save(queries.model_file(name))
    queries.write(name, Case(_asked(made.table, made.together), **made.more), {})


def freeze(name: str) -> None:
    """Write what a model answers."""
    (case, _), model, outputs = queries.read(name), queries.load(name), {}
    for query in (*queries.HELD, *queries.OTHERS):
        found = queries.ask_what_there_is(query, model, case)
        if found is not None:
            outputs[query] = found
    for column, chances in outputs.get("predict_proba", {}).items():
        if _smallest_margin(np.asarray(chances)) < MARGIN:
            raise SystemExit(f"{name}, {column}: two labels are equally probable in a row; change its seed or its rows")
    queries.write(name, case, outputs)


def _smallest_margin(chances: np.ndarray) -> float:
    """By how much the most probable label is ahead of the second; of options, how far each is from one half."""
    if np.allclose(chances.sum(axis=-1), 1.0, atol=1e-4):
        ordered = np.sort(chances, axis=-1)
        return float((ordered[..., -1] - ordered[..., -2]).min())
    return float(np.abs(chances - 0.5).min())


def main(arguments: list[str]) -> None:
    names = [each for each in arguments if not each.startswith("-")] or list(MODELS)
    if "--answers" not in arguments:
        for name in names:
            fit(name)
            print(f"{name}: fitted", flush=True)
    jax.config.update("jax_enable_x64", True)  # as the tests do: random orders of cells depend on it
    for name in names:
        freeze(name)
        sizes = [path.stat().st_size for path in (queries.model_file(name), queries.answers_file(name))]
        print(f"{name}: {sizes[0]} + {sizes[1]} bytes", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
