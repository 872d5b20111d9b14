"""One predictive distribution: do all queries of default models agree with each other?

For each table a default model is fitted (`TBM(random_state=seed)`), and the laws of probability are checked between
`predict_proba`, `score_samples`, `sample`, `impute_draws`, `impute`, `prefers` and the explorer. A law holds if its
worst figure is within its bound. `--quick` uses fewer rows and draws, and a small made survey.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import logsumexp

import thurbo as tb
from thurbo.predict.model import cramers_v

Figures = dict[str, float]

# The largest allowed figure of each law; those that end in "slope" are smallest allowed ones.
BOUNDS = {
    "one answer": 1e-4,
    "two answers": 1e-3,
    "sum": 1e-4,
    "sample": 0.02,
    "sample z": 1.2,
    "sample given": 0.02,
    "sample given z": 1.2,
    "draws": 0.02,
    "draws z": 1.2,
    "hidden gate": 0.02,
    "typed": 1e-6,
    "dependence slope": 0.9,
    "mean z": 3.0,
    "explorer": 1e-6,
    "prefers": 0.005,
    "impute": 0.0,
    "file": 0.0,
}


class Size(NamedTuple):
    """How much is checked: pairs of answers, drawn rows, and repeated rows of `impute_draws`."""

    pairs: int = 40
    draws: int = 4000
    tables: int = 10


QUICK = Size(pairs=8, draws=1000, tables=5)


def empty(model: tb.TBM, n: int = 1) -> dict[str, list[Any]]:
    """Rows without any answer."""
    sources = {s for name in model.schema_.modelled for s in model.schema_.source_columns[name] or (name,)}
    return {name: [None] * n for name in sorted(sources)}


def typed(model: tb.TBM, answers: Mapping[str, Any]) -> dict[str, list[Any]]:
    """One row with these answers."""
    return empty(model) | {name: [value] for name, value in answers.items()}


def labelled(model: tb.TBM) -> list[str]:
    """Questions with one label of a few in one column of the table."""
    schema = model.schema_
    return [
        name
        for name in schema.modelled
        if schema[name].labels
        and not schema[name].is_listed
        and schema[name].is_one_label
        and schema.source_columns[name] == (name,)
    ]


def related(model: tb.TBM) -> set[tuple[str, str]]:
    """Gates and their questions: a gate comes first, so that only one order of the two has a probability."""
    found = {(skip.asked_if, name) for skip in model.schema_.skips for name in skip.columns}
    found |= {(a, d) for a, b in found for c, d in found if b == c}
    return found | {(b, a) for a, b in found}


def one_answer(model: tb.TBM, size: Size, rng: np.random.Generator) -> Figures:
    """The score of one answer in an empty row is the log of its probability."""
    worst, nothing = 0.0, empty(model)
    for name in labelled(model):
        chance, labels = model.predict_proba(nothing, name)[0], model.schema_[name].labels
        rows = empty(model, len(labels)) | {name: list(labels)}
        worst = max(worst, float(np.abs(model.score_samples(rows) - np.log(chance)).max()))
    return {"one answer": worst}


def two_answers(model: tb.TBM, size: Size, rng: np.random.Generator) -> Figures:
    """Two answers score as the mean over both orders of P(a) P(b | a); all pairs of labels sum to one."""
    names, apart, worst, total = labelled(model), related(model), 0.0, 0.0
    nothing = empty(model)
    for _ in range(size.pairs):
        a, b = rng.choice(names, 2, replace=False).tolist()
        if (a, b) in apart:
            continue
        labels_a, labels_b = (model.schema_[each].labels for each in (a, b))
        grid = [(x, y) for x in labels_a for y in labels_b]
        rows = empty(model, len(grid)) | {a: [x for x, _ in grid], b: [y for _, y in grid]}
        score = model.score_samples(rows).reshape(len(labels_a), len(labels_b))
        first, second = (np.log(model.predict_proba(nothing, each)[0]) for each in (a, b))
        after = np.log([model.predict_proba(nothing, b, given={a: x})[0] for x in labels_a])
        before = np.log([model.predict_proba(nothing, a, given={b: y})[0] for y in labels_b]).T
        both = logsumexp([first[:, None] + after, second[None, :] + before], axis=0) - np.log(2)
        worst = max(worst, float(np.abs(score - both).max()))
        total = max(total, float(abs(np.exp(score).sum() - 1.0)))
    return {"two answers": worst, "sum": total}


def shares(model: tb.TBM, frame: Any, name: str) -> tuple[np.ndarray, int]:
    """Shares of the labels of a question in a table, and the number of answers."""
    values = np.asarray(frame[name], object)
    counts = np.asarray([sum(value == label for value in values.tolist()) for label in model.schema_[name].labels])
    return counts / max(counts.sum(), 1), int(counts.sum())


def compare(model: tb.TBM, frame: Any, nothing: Any, given: Any, law: str) -> Figures:
    """Largest difference of a label, and the root mean square of z, between drawn rows and probabilities."""
    worst, squares = 0.0, list[float]()
    for name in labelled(model):
        if given is not None and name in given:
            continue
        chance = model.predict_proba(nothing, name, given=given)[0]
        share, n = shares(model, frame, name)
        if n < 200:
            continue
        worst = max(worst, float(np.abs(share - chance).max()) * min(1.0, np.sqrt(n / len(frame))))
        squares += ((share - chance) ** 2 / (chance * (1 - chance) / n)).tolist()
    return {law: worst, f"{law} z": float(np.sqrt(np.mean(squares)))}


def sampled(model: tb.TBM, size: Size, rng: np.random.Generator, data: Any) -> Figures:
    """Frequencies of `sample` are those of `predict_proba`, its dependence is that of the data, means are means."""
    nothing, found = empty(model), {}
    rows = pd.DataFrame(model.sample(size.draws, random_state=int(rng.integers(1 << 30))))
    found |= compare(model, rows, nothing, None, "sample")
    worst = 0.0
    for name in model.schema_.modelled:
        if model.schema_[name].family == "measured" and not model.schema_[name].labels:
            values = rows[name].astype(float).dropna()
            mean = float(np.asarray(model.predict(nothing, [name], statistic="mean")[name])[0])
            worst = max(worst, abs(values.mean() - mean) / (values.std() / np.sqrt(len(values))))
    if worst:
        found["mean z"] = worst
    gates = {skip.asked_if for skip in model.schema_.skips}
    followers = {name for skip in model.schema_.skips for name in skip.columns}
    free = [name for name in labelled(model) if name not in gates | followers]
    name = str(rng.choice(free or labelled(model)))
    given = {name: model.schema_[name].labels[-1]}
    rows_given = pd.DataFrame(model.sample(size.draws, given=given, random_state=int(rng.integers(1 << 30))))
    found |= compare(model, rows_given, nothing, given, "sample given")
    if data is not None and len(labelled(model)) > 3:
        found["dependence slope"] = slope(model, data, rows)
    return found


def _strength(a: np.ndarray, b: np.ndarray, sizes: tuple[int, int]) -> float:
    """Cramér's V of two questions; NaN with few answers."""
    table = np.zeros(sizes)
    np.add.at(table, (a, b), 1.0)
    return float("nan") if table.sum() < 50 else cramers_v(table / table.sum(), float(table.sum()))


def slope(model: tb.TBM, data: Any, rows: Any) -> float:
    """Slope of Cramér's V of all pairs of questions in drawn rows on that in the data, through the origin."""
    names, pairs = labelled(model), list[tuple[float, float]]()
    codes = []
    for frame in (pd.DataFrame(data), rows):
        own = {}
        for name in names:
            place = {label: code for code, label in enumerate(model.schema_[name].labels)}
            own[name] = np.asarray([place.get(value, -1) for value in np.asarray(frame[name], object).tolist()])
        codes.append(own)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            both = []
            for own in codes:
                kept = (own[a] >= 0) & (own[b] >= 0)
                sizes = len(model.schema_[a].labels), len(model.schema_[b].labels)
                both.append(_strength(own[a][kept], own[b][kept], sizes))
            if not np.isnan(both).any():
                pairs.append((both[0], both[1]))
    x, y = np.asarray(pairs).T
    return float(x @ y / (x @ x))


def drawn(model: tb.TBM, size: Size, rng: np.random.Generator, data: Any) -> Figures:
    """Frequencies of `impute_draws` are those of `predict_proba`, also of a hidden gate; `impute` is the mode."""
    frame, names = pd.DataFrame(data), labelled(model)
    gates = [skip.asked_if for skip in model.schema_.skips if skip.asked_if in names]
    answered = frame[names].notna().sum(axis=1).to_numpy()
    worst, squares, found, wrong = 0.0, list[float](), {}, 0
    followers = {name for skip in model.schema_.skips for name in skip.columns}
    for turn in range(3):
        row = int(rng.choice(np.flatnonzero(answered >= np.quantile(answered, 0.5))))
        known = [name for name in names if pd.notna(frame[name].iloc[row])]
        free = [name for name in known if name not in gates and name not in followers]
        hidden = rng.choice(free or known, min(3, len(free or known)), replace=False).tolist()
        if turn == 0 and gates:
            # Somebody who answered the gate with "not asked": the truth is one of the answers that lead nowhere.
            skip = next(skip for skip in model.schema_.skips if skip.asked_if in names)
            past = frame[skip.asked_if].notna() & ~frame[skip.asked_if].isin(skip.values)
            row = int(rng.choice(np.flatnonzero(past))) if past.any() else row
            hidden = [skip.asked_if]
        n_copies = size.draws // size.tables
        one = frame.iloc[[row] * n_copies].reset_index(drop=True)
        one[hidden] = None
        chance = {name: model.predict_proba(one.iloc[:1], name)[0] for name in hidden}
        tables = model.impute_draws(one, size.tables, random_state=int(rng.integers(1 << 30)))
        together, mode = pd.concat(tables), model.impute(one.iloc[:1])
        for name in hidden:
            share, n = shares(model, together, name)
            wrong += model.schema_[name].labels.index(mode[name].iloc[0]) != int(chance[name].argmax())
            difference = float(np.abs(share - chance[name]).max())
            if turn == 0 and gates:
                found["hidden gate"] = difference
                continue
            worst = max(worst, difference)
            squares += ((share - chance[name]) ** 2 / np.maximum(chance[name] * (1 - chance[name]) / n, 1e-9)).tolist()
    if squares:
        found |= {"draws": worst, "draws z": float(np.sqrt(np.mean(squares)))}
    return {**found, "impute": float(wrong)}


def typed_rows(model: tb.TBM, size: Size, rng: np.random.Generator) -> Figures:
    """An answer that is typed in says the same as a condition, and the explorer shows the same numbers."""
    from thurbo.app.explorer import Session

    names, nothing, worst, shown = labelled(model), empty(model), 0.0, 0.0
    session = None
    for _ in range(max(size.pairs // 4, 3)):
        a, b = rng.choice(names, 2, replace=False).tolist()
        label = model.schema_[a].labels[int(rng.integers(len(model.schema_[a].labels)))]
        given = model.predict_proba(nothing, b, given={a: label})
        worst = max(worst, float(np.abs(model.predict_proba(typed(model, {a: label}), b) - given).max()))
        if session is None:
            session = Session.__new__(Session)
            session.schema = model.schema_
        found = session._distributions(model._query(nothing, {a: label}))[b]["chance"]
        shown = max(shown, float(np.abs(np.asarray(found) - given[0][: len(found)]).max()))
    return {"typed": worst, "explorer": shown}


def same_file(model: tb.TBM, size: Size, rng: np.random.Generator, data: Any) -> Figures:
    """Save and load change nothing."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.thurbo")
        model.save(path)
        again = tb.TBM.load(path)
    some, name = pd.DataFrame(data).iloc[:50], labelled(model)[0]
    return {"file": float(np.abs(again.predict_proba(some, name) - model.predict_proba(some, name)).max())}


def of_table(model: tb.TBM, data: Any, size: Size, seed: int) -> Figures:
    """All laws about a table of questions."""
    rng, found = np.random.default_rng(seed), Figures()
    for law in (one_answer, two_answers, typed_rows):
        found |= law(model, size, rng)
    for own in (sampled, drawn, same_file):
        found |= own(model, size, rng, data)
    return found


def of_ratings(model: tb.TBM, users: Any, size: Size, seed: int) -> Figures:
    """Laws about a list of ratings: one and two ratings in an empty list, sums, samples and preferences."""
    rng, (name,) = np.random.default_rng(seed), model.schema_.listed
    column = model.schema_[name]
    items, levels = list(column.labels), list(column.answer_labels)
    nothing, worst, both_worst, total, ratio = {name: [{}]}, 0.0, 0.0, 0.0, 0.0
    for _ in range(max(size.pairs // 4, 3)):
        a, b = (items[place] for place in rng.choice(len(items), 2, replace=False))
        first, second = (np.log(model.predict_proba(nothing, name, items=[each])[0, 0]) for each in (a, b))
        score = model.score_samples({name: [{a: level} for level in levels]})
        worst = max(worst, float(np.abs(score - first).max()))
        after = np.log([model.predict_proba({name: [{a: x}]}, name, items=[b])[0, 0] for x in levels])
        before = np.log([model.predict_proba({name: [{b: y}]}, name, items=[a])[0, 0] for y in levels]).T
        both = logsumexp([first[:, None] + after, second[None, :] + before], axis=0) - np.log(2)
        score = model.score_samples({name: [{a: x, b: y} for x in levels for y in levels]})
        both_worst = max(both_worst, float(np.abs(score - both.reshape(-1)).max()))
        total = max(total, float(abs(np.exp(score).sum() - 1.0)))
        ratio = max(ratio, abs(float((model.prefers(nothing, a, b) + model.prefers(nothing, b, a))[0]) - 1.0))
    some = [items[place] for place in rng.choice(len(items), min(8, len(items)), replace=False)]
    rows = pd.DataFrame(model.sample(size.draws, items=some, random_state=seed))[name]
    chance = model.predict_proba(nothing, name, items=some)[0]
    share = np.asarray([[np.mean([row[item] == level for row in rows]) for level in levels] for item in some])
    z = (share - chance) / np.sqrt(chance * (1 - chance) / len(rows))
    return {
        "one answer": worst,
        "two answers": both_worst,
        "sum": total,
        "prefers": ratio,
        "sample": float(np.abs(share - chance).max()),
        "sample z": float(np.sqrt(np.mean(z**2))),
    }


def of_pairs(model: tb.TBM, size: Size, seed: int) -> Figures:
    """Laws about paired comparisons: `prefers` is the score of winning over that of winning or losing."""
    rng, (name,) = np.random.default_rng(seed), model.schema_.listed
    items, worst = list(model.schema_[name].labels), 0.0
    for _ in range(max(size.pairs // 4, 3)):
        a, b = (items[place] for place in rng.choice(len(items), 2, replace=False))
        won, lost = (model.score_samples({name: [[pair]]})[0] for pair in ((a, b), (b, a)))
        chance = float(model.prefers({name: [[]]}, a, b)[0])
        worst = max(worst, abs(chance - float(np.exp(won - np.logaddexp(won, lost)))))
    return {"prefers": worst}


# ---- tables


def data_folder() -> Path:
    return Path(os.environ["THURBO_DATA"])


def star_wars() -> Any:
    return tb.datasets.load_starwars()


def gss() -> Any:
    return tb.read(data_folder() / "gss-2014" / "GSS_2014_18var.csv")


def flying() -> Any:
    return tb.read(data_folder() / "small-surveys" / "flying-etiquette.csv")


def made_survey(n: int = 400, seed: int = 0) -> Any:
    """A survey of two groups with a gate, ordered levels, a category, a number and gaps."""
    rng = np.random.default_rng(seed)
    group = rng.random(n) < 0.4
    levels = np.asarray(["never", "sometimes", "often"], object)
    code = (rng.normal(size=(n, 3)) + group[:, None] > np.asarray([0.2, 0.4, 0.6])).astype(int)
    frame = pd.DataFrame(
        {
            "drives": np.where(rng.random(n) < 0.3 + 0.4 * group, "Yes", "No"),
            "town": np.asarray(["A", "B", "C"], object)[np.where(group, rng.integers(0, 2, n), rng.integers(0, 3, n))],
            "reads": levels[code[:, 0] + code[:, 1]],
            "sings": levels[code[:, 1] + code[:, 2]],
            "age": np.round(rng.normal(40 + 10 * group, 12)).clip(18, 90),
        }
    )
    frame["parks"] = np.where(frame["drives"] == "Yes", levels[code[:, 0] + code[:, 2]], None)
    for name in ("town", "reads", "sings", "age"):
        frame.loc[rng.random(n) < 0.15, name] = np.nan if name == "age" else None
    schema = tb.Schema(
        {
            "drives": tb.Binary(true="Yes"),
            "town": tb.Categorical(["A", "B", "C"]),
            "reads": tb.Ordinal(levels.tolist()),
            "sings": tb.Ordinal(levels.tolist()),
            "age": tb.Continuous(),
            "parks": tb.Ordinal(levels.tolist()),
        }
    ).with_skips([tb.Skip(["parks"], "drives", ["Yes"])])
    return frame, schema


def made_ratings(n: int = 300, n_items: int = 12, seed: int = 0) -> Any:
    """Ratings 1 to 5 of some of the items by each user, two kinds of users."""
    rng = np.random.default_rng(seed)
    taste, quality = rng.normal(size=(n, 1)) * rng.normal(size=(1, n_items)), rng.normal(size=(1, n_items))
    score = np.clip(np.round(3 + taste + 0.7 * quality + 0.8 * rng.normal(size=(n, n_items))), 1, 5).astype(int)
    user, item = np.nonzero(rng.random((n, n_items)) < 0.6)
    lines = {"user": user, "item": np.asarray([f"item {place}" for place in item]), "score": score[user, item]}
    return tb.from_long(pd.DataFrame(lines), "user", "item", "score")


def made_pairs(n: int = 150, n_items: int = 6, seed: int = 0) -> Any:
    """Paired comparisons of a few items by people of two kinds."""
    rng = np.random.default_rng(seed)
    utility = rng.normal(size=(2, n_items))[rng.integers(0, 2, n)]
    row = np.repeat(np.arange(n), 8)
    a = rng.integers(0, n_items, len(row))
    b = (a + rng.integers(1, n_items, len(row))) % n_items
    wins = utility[row, a] + rng.normal(size=len(row)) > utility[row, b] + rng.normal(size=len(row))
    names = np.asarray([f"item {place}" for place in range(n_items)], object)
    lines = {"who": row, "winner": names[np.where(wins, a, b)], "loser": names[np.where(wins, b, a)]}
    return tb.from_pairs(pd.DataFrame(lines), row="who", winner="winner", loser="loser")


def run(name: str, size: Size, seed: int, options: Mapping[str, Any]) -> Figures:
    """Fit a default model to one table, and check its laws."""
    if name == "ratings":
        users = made_ratings()
        return of_ratings(tb.TBM(random_state=seed, **options).fit(users), users, size, seed)
    if name == "pairs":
        return of_pairs(tb.TBM(random_state=seed, **options).fit(made_pairs()), size, seed)
    frame, schema = TABLES[name]()
    return of_table(tb.TBM(schema, random_state=seed, **options).fit(frame), frame, size, seed)


TABLES: dict[str, Callable[[], Any]] = {
    "made": made_survey, "star wars": star_wars, "gss": gss, "flying": flying,
}  # fmt: skip


def bound(law: str, size: Size) -> float:
    """The bound of a law; fewer draws than 4,000 have larger differences by chance."""
    by_chance = law in ("sample", "sample given", "draws", "hidden gate")
    return BOUNDS[law] * (np.sqrt(Size().draws / size.draws) if by_chance else 1.0)


def holds(law: str, figure: float, size: Size) -> bool:
    return bool(figure >= bound(law, size) if law.endswith("slope") else figure <= bound(law, size))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tables", nargs="*", default=None)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    size = QUICK if chosen.quick else Size()
    usual = ["made", "ratings", "pairs"] if chosen.quick else ["star wars", "gss", "flying", "ratings", "pairs"]
    worst, held, n = Figures(), 0, 0
    for name in chosen.tables or usual:
        began = time.perf_counter()
        found = run(name, size, chosen.seed, {})
        print(f"{name} ({time.perf_counter() - began:.0f} s)")
        for law, figure in found.items():
            is_held = holds(law, figure, size)
            held, n = held + is_held, n + 1
            side = "at least" if law.endswith("slope") else "at most"
            print(f"  {law:18} {figure:10.2g}  {side} {bound(law, size):g}{'' if is_held else '  FAILS'}")
            least = law.endswith("slope")
            worst[law] = figure if law not in worst else (min if least else max)(worst[law], figure)
    print(json.dumps({"worst": worst, "held": held / max(n, 1)}))


if __name__ == "__main__":
    main()
