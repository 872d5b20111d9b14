"""What to maximise: likelihood, prediction of hidden cells, or both, on the questions of a real survey.

    python -m benchmarks.objectives [--hidden 100] [--rows 27713] [--quick]

Fits to the ordinal, categorical and binary questions of Afrobarometer round 4, without 1,000 respondents who judge:
a fifth of their answers hidden and predicted from the rest (log score and accuracy by type of question), and all their
answers together, log P(e) per answer by annealed importance sampling from both sides. Needs THURBO_DATA. The last line
is JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np

import thurbo as tb
from benchmarks.afrobarometer import column, load
from benchmarks.flat_settings import grouped

TYPES = ("ordinal", "categorical", "binary")
N_JUDGES = 1000
VARIANTS: dict[str, dict[str, Any]] = {
    "likelihood": {"objective": "likelihood"},
    "multi-prediction": {"objective": "multi-prediction"},
    "both, 0.02 likelihood": {"objective": "multi-prediction", "likelihood_weight": 0.02},
    "both, 0.1 likelihood (default)": {"objective": "multi-prediction", "likelihood_weight": 0.1},
    "both, 0.5 likelihood": {"objective": "multi-prediction", "likelihood_weight": 0.5},
}


def judge(model: tb.TBM, judges: Any, types: dict[str, str]) -> dict[str, Any]:
    """Hidden answers by type of question, and log P(e) per answer."""
    records = model.evaluate(judges, hide=0.2, random_state=0, logistic=False).columns
    found: dict[str, Any] = {}
    for kind in TYPES:
        own = [r for r in records if types[r["column"]] == kind]
        n = np.asarray([r["n"] for r in own], float)
        for measure in ("log_score", "accuracy", "log_score_marginal"):
            found.setdefault(kind, {})[measure] = float(np.average([r[measure] for r in own], weights=n))
    score = model.score_samples(judges, method="annealed")
    found["log_evidence"] = float(score.sum() / judges.notna().to_numpy().sum())
    return found


def main() -> None:
    """Print a table for people and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hidden", type=int, default=100)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--only", help="some of the variants, by number from 0")
    parser.add_argument("--quick", action="store_true", help="3,000 rows, 20 units and 20 epochs")
    arguments = parser.parse_args()
    survey = load()
    names = survey.names(*TYPES)
    types = {q["name"]: q["type"] for q in survey.questions}
    schema = {q["name"]: column(q) for q in survey.questions if q["name"] in names}
    order = np.random.default_rng(0).permutation(len(survey.frame))
    n_rows = 3000 if arguments.quick else arguments.rows or len(order)
    judges = survey.frame.loc[order[:N_JUDGES], names].reset_index(drop=True)
    train = survey.frame.loc[order[N_JUDGES:n_rows], names].reset_index(drop=True)
    settings: dict[str, Any] = {"n_hidden": 20 if arguments.quick else arguments.hidden, "n_factors": 0}
    settings |= {"random_state": 0, "verbose": False, "validation_fraction": 0.0}
    settings["max_epochs"] = 20 if arguments.quick else arguments.epochs or "auto"
    chosen = list(VARIANTS)
    if arguments.only:
        chosen = [chosen[int(i)] for i in arguments.only.split(",")]
    found = {}
    print(f"{len(train)} rows, {len(names)} questions, {settings['n_hidden']} hidden units; nats an answer, accuracy")
    header = "".join(f"{kind:>18}" for kind in TYPES)
    print(f"{'objective':<32}{header}{'log P(e)':>12}{'gap':>7}{'s':>6}", flush=True)
    for name in chosen:
        started = time.perf_counter()
        model = tb.TBM(schema, **grouped(settings | VARIANTS[name])).fit(train)
        seconds = time.perf_counter() - started
        found[name] = judge(model, judges, types) | {"seconds": seconds, "converged": model.converged_}
        by_type = "".join(
            f"{found[name][kind]['log_score']:>11.3f} {found[name][kind]['accuracy']:.3f} " for kind in TYPES
        )
        gap = model.history_[-1].get("gap", float("nan"))
        print(f"{name:<32}{by_type}{found[name]['log_evidence']:>12.4f}{gap:>7.3f}{seconds:>6.0f}", flush=True)
        events = [record["event"] for record in model.history_ if "event" in record]
        for event in events:
            print(f"    {event}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
