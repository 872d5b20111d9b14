"""Do the queries of one model agree with the data? Shares of levels in the data and by queries, after default fits.

    python -m benchmarks.agreement [--only gss starwars asked] [--draws N] [--seed N] [--marginal-weight W] [--held-out]

`gss` is the General Social Survey (needs THURBO_DATA), `starwars` the bundled survey, `asked` its people who saw a
film: many of its questions were asked of them only. Compared are `sample`, `sample(method="gibbs")`, `impute_draws` of
empty rows and `predict_proba` of an empty row: the largest and the mean difference over questions with levels or
categories, of each question the level that is furthest off. With `--held-out`, a quarter of the rows is kept from the
fit, and the mean log-probability of a tenth of their answers, masked, is printed too: with `--marginal-weight`, how the
weight of an empty row in training was chosen (sizes were then fixed: `--size HIDDEN FACTORS`). The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import thurbo as tb
from benchmarks import impute_gss

Table = tuple[pd.DataFrame, Any]


def _asked() -> Table:
    frame, schema = tb.datasets.load_starwars()
    return frame[frame["seen_any"] == "Yes"].reset_index(drop=True), schema


TABLES: dict[str, Callable[[], Table]] = {
    "gss": lambda: (impute_gss.load(), None),
    "asked": _asked,
    "starwars": tb.datasets.load_starwars,
}


def shares(model: tb.TBM, table: Any) -> dict[str, np.ndarray]:
    """Share of each level or category among those who answered; of options, of those ticked."""
    found = {}
    for name, block in model.schema_.compile(table).items():
        code, tier = block.code[block.answered], block.tier[block.answered]
        if block.family == "levels" and len(block.sites) == 1:
            found[name] = np.bincount(code[:, 0], minlength=block.n_cuts + 1) / len(code)
        elif block.family == "levels":
            found[name] = (code == 1).mean(axis=0)
        elif block.family == "utility" and not model.schema_[name].has_items:
            found[name] = (tier == 1).mean(axis=0)
    return found


def empty(model: tb.TBM, n: int) -> pd.DataFrame:
    names = [source for name in model.schema_.modelled for source in model.schema_.source_columns[name]]
    return pd.DataFrame({name: pd.Series([None] * n, dtype=object) for name in names})


def compare(frame: pd.DataFrame, schema: Any, n_draws: int, seed: int, test: Any, settings: Any) -> dict[str, Any]:
    began = time.perf_counter()
    model = tb.TBM(schema, random_state=seed, verbose=False, **settings).fit(frame)
    seconds, data = time.perf_counter() - began, shares(model, frame)
    nobody = empty(model, 1)
    queries = {
        "sample": shares(model, model.sample(n_draws, random_state=seed)),
        "gibbs": shares(model, model.sample(n_draws, random_state=seed, method="gibbs")),
        "impute_draws": shares(model, model.impute_draws(empty(model, n_draws), 1, random_state=seed)[0]),
        "predict_proba": {name: model.predict_proba(nobody, name)[0] for name in data},
    }
    found: dict[str, Any] = {"n_hidden": model.params_.n_hidden, "n_factors": model.params_.n_factors}
    found |= {"objective": model.objective_, "seconds": seconds, "questions": len(data), "queries": {}}
    if test is not None:
        judged = model.evaluate(test, hide=0.1, random_state=seed, logistic=False)
        found["log_score"] = judged.overall["log_score"]
    for query, own in queries.items():
        apart = {name: float(np.abs(own[name] - share).max()) for name, share in data.items()}
        worst = max(apart, key=lambda name: apart[name])
        mean = float(np.mean(list(apart.values())))
        found["queries"][query] = {"largest": apart[worst], "where": worst, "mean": mean, "by_question": apart}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--marginal-weight", type=float)
    parser.add_argument("--size", type=int, nargs=2, metavar=("HIDDEN", "FACTORS"))
    parser.add_argument("--held-out", action="store_true")
    chosen = parser.parse_args()
    settings: dict[str, Any] = dict(zip(("n_hidden", "n_factors"), chosen.size or (), strict=False))
    if chosen.marginal_weight is not None:
        settings["learning"] = tb.Prediction(marginal_weight=chosen.marginal_weight)
    results = {}
    for name in chosen.only:
        (frame, schema), test = TABLES[name](), None
        if chosen.held_out:
            order = np.random.default_rng(100 + chosen.seed).permutation(len(frame))
            test, frame = (frame.iloc[part].reset_index(drop=True) for part in np.split(order, [len(frame) // 4]))
        results[name] = found = compare(frame, schema, chosen.draws, chosen.seed, test, settings)
        size = f"{found['n_hidden']} hidden units, {found['n_factors']} factors, {found['questions']} questions"
        judged = f", held-out log score {found['log_score']:.4f}" if "log_score" in found else ""
        print(f"{name}: {size}, fitted in {found['seconds']:.0f} s{judged}", flush=True)
        for query, own in found["queries"].items():
            print(f"  {query:14s} largest {own['largest']:.3f} ({own['where']}), mean {own['mean']:.3f}", flush=True)
    print(json.dumps({"tables": results}))


if __name__ == "__main__":
    main()
