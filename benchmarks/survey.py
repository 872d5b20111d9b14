"""A whole survey: which country features tell apart, and how well hidden answers are filled in.

    python -m benchmarks.survey [--quick] [--validate] [--only impute|country] [--figure FILE]

Afrobarometer round 4 (27,713 respondents, 20 countries, 2008) in place of the paper's Pew survey, which is not freely
to be had: its file as it came and the description of 227 questions beside it. Place, language, ethnic group, party and
interviewer are not among them. Country: multinomial logistic regression on the log-odds of hidden units and the factor
means, random 80/20 splits of the rows, features learned from all rows without their country; "strict" leaves out the
questions that some country was not asked. Imputation: the cells of r4_mask.npz, a tenth of the answers, all hidden at
once from a model that never saw them. `--validate` leaves both tests alone: it hides other cells beside those, and
splits the training rows of the first split. Needs THURBO_DATA. The last line is JSON.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtr

import thurbo as tb
from benchmarks import survey_baselines as peers
from benchmarks import tempering
from benchmarks.afrobarometer import Survey, column, load
from benchmarks.classify import classify, error
from benchmarks.flat_settings import grouped

COUNTRY: dict[str, Any] = {"n_hidden": 100, "n_factors": 0, "likelihood_weight": 0.0, "ordinals": "utilities"}
COUNTRY |= {"masking": "neighbours", "weight_decay": 0.05, "batch_size": 500, "max_epochs": 60}
COUNTRY |= {"validation_fraction": 0.0}
UNOBSERVED = ("exclude", "marginalize")  # for the country task; the first is the one whose figures are headlines
IMPUTE: dict[str, Any] = {"n_hidden": 300, "n_factors": 150, "likelihood_weight": 0.0, "ordinals": "utilities"}
IMPUTE |= {"learning_rate": 4e-3, "weight_decay": 0.03, "batch_size": 500, "max_epochs": 60, "validation_fraction": 0.0}
IMPUTE |= {"marginal_weight": 0.0}  # only answers given other answers are scored
QUICK_COUNTRY: dict[str, Any] = {"max_epochs": 30}
QUICK_IMPUTE: dict[str, Any] = {"n_hidden": 100, "n_factors": 0, "max_epochs": 15}
N_FITS, N_QUICK_FITS = 2, 1
N_SPLITS, N_QUICK_SPLITS = 5, 2
N_SVD = 100
PENALTIES = (1e-4, 1e-3, 1e-2)
VALIDATION_SEED, VALIDATION_SHARE = 1, 0.1
N_ON_MAP = 5000


def say(text: str = "") -> None:
    """One line, at once: a run on another machine may be cut short."""
    print(text, flush=True)


# ---- the model


def read_as(question: dict[str, Any], ordinals: str) -> tb.columns.Column:
    """A question as thurbo takes it; of ordered levels, between cuts or with a utility for each."""
    if question["type"] == "ordinal" and ordinals == "utilities":
        return tb.Categorical(tuple(map(float, question["levels"])), ordered=True, unseen="missing")
    return column(question)


class Fitted(NamedTuple):
    """A model and the seconds that it took to train."""

    model: tb.TBM
    seconds: float


def fit(frame: pd.DataFrame, questions: list[dict[str, Any]], settings: dict[str, Any]) -> Fitted:
    """Learn from a table of these questions, and of nothing else."""
    settings = dict(settings)
    how = settings.pop("ordinals", "cuts")
    schema = {q["name"]: read_as(q, how) for q in questions}
    model = tb.TBM(schema, **grouped({"random_state": 0, "verbose": False} | settings))
    say(f"  learning from {len(frame):,} rows, {len(schema)} questions: {json.dumps(settings)}")
    started = time.perf_counter()
    model.fit(frame[list(schema)])
    seconds = time.perf_counter() - started
    sizes = f"{model.params_.n_hidden} hidden units, {model.params_.n_factors} factors"
    say(f"  {sizes}, {model.n_epochs_} epochs: {seconds:.0f} s")
    for event in (record["event"] for record in model.history_ if "event" in record):
        say(f"    {event}")
    return Fitted(model, seconds)


def fill_in(model: tb.TBM, shown: pd.DataFrame, hidden: np.ndarray, questions: list[dict[str, Any]]) -> peers.Guesses:
    """P(label) of every hidden cell given the answers shown, medians of numbers; one mean-field for all cells of a row.

    What `predict_proba` says of each column in turn, since the cells it must not see are not there anyway; in NumPy,
    where 227 questions of as many lengths compile nothing.
    """
    belief = model._query(shown, method="mean-field").lead.known
    assert belief is not None  # no inequalities tie these questions to one another
    cuts, found = np.asarray(model.params_.gauge.cuts, float), dict[str, np.ndarray]()
    for position, q in enumerate(questions):
        name, rows = q["name"], np.flatnonzero(hidden[:, position])
        asked, sites = model.schema_[name], model.schema_.slices[name]
        if not len(rows):
            found[name] = np.zeros((0, 1))
        elif asked.family == "measured":
            guess = model.predict(shown.iloc[rows], columns=[name], statistic="median", method="mean-field")
            found[name] = np.asarray(guess[name], float)
        else:
            mean, deviation = (np.asarray(part[rows, sites], float) for part in (belief.mean, belief.deviation))
            if asked.family == "levels":
                found[name] = between_cuts(mean, deviation, cuts[sites.start, : len(asked.labels) - 1])
            else:
                found[name] = largest(mean, deviation)
    return found


def between_cuts(mean: np.ndarray, deviation: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """P(level) of one site, [row, level]."""
    below = ndtr((cuts[None, :] - mean) / deviation)
    return np.diff(below, axis=1, prepend=0.0, append=1.0)


def largest(mean: np.ndarray, deviation: np.ndarray, n_nodes: int = 40) -> np.ndarray:
    """P(each utility is the largest), [row, label], by Gauss and Hermite over the value of the largest."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    chance = np.empty_like(mean)
    for label in range(mean.shape[1]):
        value = mean[:, label, None] + deviation[:, label, None] * nodes
        others = [ndtr((value - mean[:, o, None]) / deviation[:, o, None]) for o in range(mean.shape[1]) if o != label]
        chance[:, label] = np.prod(others, axis=0) @ weights
    return chance / chance.sum(axis=1, keepdims=True)


# ---- countries


def splits(n_rows: int, n_splits: int, within: np.ndarray | None = None) -> list[tuple[np.ndarray, np.ndarray]]:
    """Random four fifths to learn from and the fifth left, seeds 0, 1, …; of some rows only if `within` says."""
    found = []
    for seed in range(n_splits):
        rows = np.arange(n_rows) if within is None else within
        order = np.random.default_rng([seed, len(rows)]).permutation(rows)
        found.append((order[len(rows) // 5 :], order[: len(rows) // 5]))
    return found


def country_errors(features: np.ndarray, country: np.ndarray, parts: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Per cent wrong of each split; the ridge is chosen on an eighth of the first split's training rows."""
    labels = np.unique(country, return_inverse=True)[1]
    learn, _ = parts[0]
    inner, held = learn[len(learn) // 8 :], learn[: len(learn) // 8]

    def wrong(train: np.ndarray, test: np.ndarray, penalty: float, **how: int) -> float:
        return error(classify(features, labels, train, penalty, **how)[test], labels[test])

    best = min(PENALTIES, key=lambda penalty: wrong(inner, held, penalty, n_steps=40))
    return np.asarray([wrong(train, test, best) for train, test in parts])


def countries(
    survey: Survey, settings: dict[str, Any], chosen: argparse.Namespace, n_splits: int, ways: tuple[str, ...]
) -> dict[str, Any]:
    """Errors of our features, by each of these `unobserved`, and of others; by all questions and by the strict ones."""
    parts = splits(len(survey.frame), n_splits)
    if chosen.validate:
        parts = splits(len(survey.frame), n_splits, within=parts[0][0])
    found: dict[str, Any] = {"fits": {}}
    left_out = [f"{q['name']} ({', '.join(q['unasked_in'])})" for q in survey.questions if "unasked_in" in q]
    say(f"country error in %, mean and spread of {n_splits} random 80/20 splits"
        f"{' of the training rows' if chosen.validate else ''}; strict leaves out {len(left_out)} questions "
        f"that a country was not asked: {', '.join(left_out)}")  # fmt: skip
    for suffix, strict in {"": False, "_strict": True}.items():
        if chosen.questions == ("all" if strict else "strict"):
            continue
        names = set(survey.names(strict=strict))
        questions = [q for q in survey.questions if q["name"] in names]
        frame = survey.frame[[q["name"] for q in questions]]
        features: dict[str, Callable[[], np.ndarray]] = {}
        titles = dict(FEATURES)
        for number, unobserved in enumerate(ways):
            fitted = fit(frame, questions, settings | {"unobserved": unobserved})
            ours = fitted.model.transform(frame, output="log_odds")
            name = f"country_{unobserved}" if number else "country"
            features[name], titles[name] = lambda ours=ours: ours, f"thurbo, {unobserved}"
            found["fits"].setdefault("strict" if strict else "all", fitted)
        if not chosen.no_baselines:
            table = peers.one_hot(frame, questions).table
            features["svd"] = lambda table=table: peers.svd_features(table, N_SVD)
            features["missing"] = lambda frame=frame: peers.missingness(frame)
            features["onehot"] = lambda table=table: table
        for name, make in features.items():
            started = time.perf_counter()
            made = make()
            errors = country_errors(made, survey.country, parts)
            found[f"{name}_error{suffix}"] = float(errors.mean())
            found[f"{name}_error{suffix}_sd"] = float(errors.std())
            say(f"  {'strict' if strict else 'all':<8}{titles[name]:<28}{made.shape[1]:>6} features"
                f"{errors.mean():>8.2f} ± {errors.std():.2f}{time.perf_counter() - started:>8.0f} s")  # fmt: skip
    return found


FEATURES = {"svd": "SVD of one-hot", "missing": "missingness alone", "onehot": "one-hot answers"}


# ---- filling in


def imputation(survey: Survey, settings: dict[str, Any], chosen: argparse.Namespace, n_fits: int) -> dict[str, Any]:
    """Scores of ours and others on the hidden cells: of one model as it is, and of the mean of several, tempered."""
    hidden, told = survey.mask, survey.frame.notna().to_numpy()
    if chosen.validate:
        drawn = np.random.default_rng(VALIDATION_SEED).random(survey.frame.shape) < VALIDATION_SHARE
        hidden = drawn & told & ~survey.mask
    shown = survey.frame.mask(hidden | survey.mask)
    questions = survey.questions
    say(f"imputation of {int(hidden.sum()):,} cells{' for validation' if chosen.validate else ''}")
    apart = tempering.rows_apart(len(shown))
    learn = shown.drop(index=apart)
    judged, held = tempering.to_judge_by(shown.iloc[apart])
    found: dict[str, Any] = {"seconds": 0.0}
    guesses, tried = dict[str, np.ndarray](), dict[str, np.ndarray]()

    def take(title: str, key: str, given: peers.Guesses) -> None:
        found[f"impute{key}"] = peers.score(survey.frame, shown, hidden, questions, given)
        found[f"calibration{key}"] = peers.calibration(survey.frame, hidden, questions, given)
        say(line(title, found[f"impute{key}"]))
        errors = ", ".join(f"{kind} {value:.4f}" for kind, value in found[f"calibration{key}"].items())
        say(f"    expected calibration error, ten bins of the likeliest label's probability: {errors}")

    say(line("", None))
    for seed in range(n_fits):
        fitted = fit(learn, questions, settings | {"random_state": settings.get("random_state", 0) + seed})
        found["seconds"] += fitted.seconds
        started = time.perf_counter()
        own = fill_in(fitted.model, shown, hidden, questions)
        for into, part in ((guesses, own), (tried, fill_in(fitted.model, judged.mask(held), held, questions))):
            into.update({name: into.get(name, 0.0) + chance / n_fits for name, chance in part.items()})
        say(f"  filled in {time.perf_counter() - started:.0f} s")
        if seed == 0:
            take("thurbo, one fit, as it is", "_one", own)
    power = found["power"] = tempering.powers(judged, held, questions, tried)
    say("  powers: " + ", ".join(f"{kind} {value:.3f}" for kind, value in power.items()))
    take(f"thurbo, mean of {n_fits} to these powers", "", tempering.tempered(questions, guesses, power))
    others: dict[str, Any] = {}
    if not chosen.no_baselines:
        by_name = {"marginals": peers.marginals, f"SVD {N_SVD} + logistic": peers.by_regression}
        for name, method in by_name.items():
            filled = method(shown, hidden, questions)
            others[name] = peers.score(survey.frame, shown, hidden, questions, filled)
            say(line(name, others[name]))
        if not chosen.validate and chosen.rows is None:  # they were measured on the cells of the mask alone
            for name, scores in peers.recorded().items():
                others[f"{name}, recorded"] = scores
                say(line(f"{name}, recorded", scores))
    found["baselines"] = others
    return found


def line(name: str, scores: peers.Scores | None) -> str:
    """One method: accuracy / log score / SMAE by type of question."""
    kinds = list(peers.TYPES.values())
    if scores is None:
        return f"  {'accuracy / log score / SMAE':<44}" + "".join(f"{kind:>24}" for kind in kinds)

    def cell(kind: str) -> str:
        given = scores.get(kind, {})
        shown = (f"{value:.3f}" for value in (given.get(m) for m in MEASURES) if value is not None)
        return " / ".join(shown) or "–"

    return f"  {name:<44}" + "".join(f"{cell(kind):>24}" for kind in kinds)


MEASURES = ("accuracy", "log_score", "smae")


def draw_map(path: Path, features: np.ndarray, survey: Survey) -> None:
    """A t-SNE map of respondents, coloured by their country, which the features never saw."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from openTSNE import TSNE

    rows = np.random.default_rng(0).permutation(len(features))[:N_ON_MAP]
    part = features[rows].astype(np.float64)
    part = (part - part.mean(axis=0)) / np.maximum(part.std(axis=0), 1e-6)
    places = np.asarray(TSNE(random_state=0, n_jobs=-1).fit(part))
    figure, axes = plt.subplots(figsize=(9, 7))
    for number, code in enumerate(np.unique(survey.country[rows])):
        own = survey.country[rows] == code
        name = survey.country_names.get(int(code), f"country {code}")
        axes.scatter(*places[own].T, s=3, color=plt.get_cmap("tab20")(number % 20), label=name)
    axes.set_axis_off()
    axes.legend(markerscale=4, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)
    say(f"map of {len(rows):,} respondents: {path}")


def main(words: list[str] | None = None) -> None:
    """Print tables for people and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="100 hidden units, fewer epochs, splits and fits, for two cores"
    )
    parser.add_argument("--validate", action="store_true", help="other cells and rows than the test's, to choose by")
    parser.add_argument("--only", choices=("impute", "country"), help="one of the two tasks")
    parser.add_argument("--figure", type=Path, help="write a t-SNE map of the respondents to this file")
    parser.add_argument("--unobserved", choices=UNOBSERVED, help="both for the country task, otherwise")
    parser.add_argument("--ordinals", choices=("cuts", "utilities"))
    parser.add_argument("--hidden", type=int)
    parser.add_argument("--factors", type=int)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--set", type=json.loads, default={}, help="JSON of TBM parameters to change")
    parser.add_argument("--fits", type=int, help="models whose predictions of hidden cells are averaged")
    parser.add_argument("--splits", type=int)
    parser.add_argument("--seed", type=int, default=0, help="of the fits; averaged ones take one each")
    parser.add_argument("--questions", choices=("all", "strict"), help="of the country task; both, otherwise")
    parser.add_argument("--rows", type=int, help="so many respondents, drawn at random")
    parser.add_argument("--no-baselines", action="store_true", help="nothing but thurbo")
    chosen = parser.parse_args(words)
    if "THURBO_DATA" not in os.environ:
        parser.error("set THURBO_DATA to the folder that holds afrobarometer-r4")
    if chosen.figure and chosen.only == "impute":
        parser.error("--figure draws the features of the country task; leave out --only impute")
    if chosen.figure and chosen.questions == "strict":
        parser.error("--figure draws the features of all questions; leave out --questions strict")
    if chosen.figure and not all(map(importlib.util.find_spec, ("matplotlib", "openTSNE"))):
        parser.error("--figure needs matplotlib and openTSNE: pip install 'thurbo[report]'")
    survey = load()
    if chosen.rows is not None:
        survey = survey.rows(np.sort(np.random.default_rng(0).permutation(len(survey.frame))[: chosen.rows]))
    given = {
        "ordinals": chosen.ordinals,
        "n_hidden": chosen.hidden,
        "n_factors": chosen.factors,
        "max_epochs": chosen.epochs,
    }
    changed = {key: value for key, value in given.items() if value is not None} | chosen.set
    ways = (chosen.unobserved,) if chosen.unobserved else UNOBSERVED[: 1 if chosen.quick else 2]
    result: dict[str, Any] = {}
    if chosen.only != "impute":
        n_splits = chosen.splits or (N_QUICK_SPLITS if chosen.quick else N_SPLITS)
        settings = COUNTRY | {"random_state": chosen.seed} | (QUICK_COUNTRY if chosen.quick else {}) | changed
        found = countries(survey, settings, chosen, n_splits, ways)
        fits = found.pop("fits")
        result |= found | {f"seconds{'_strict' if k == 'strict' else ''}": each.seconds for k, each in fits.items()}
        if chosen.figure:
            draw_map(chosen.figure, fits["all"].model.transform(survey.frame, output="log_odds"), survey)
    if chosen.only != "country":
        if chosen.unobserved:
            changed["unobserved"] = chosen.unobserved
        n_fits = chosen.fits or (N_QUICK_FITS if chosen.quick else N_FITS)
        settings = IMPUTE | {"random_state": n_fits * chosen.seed} | (QUICK_IMPUTE if chosen.quick else {}) | changed
        found = imputation(survey, settings, chosen, n_fits)
        result["seconds_impute"] = found.pop("seconds")
        result = found | {"seconds": result["seconds_impute"]} | result
    result["validate"] = chosen.validate
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
