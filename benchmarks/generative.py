"""Log-likelihood of data that no fit has seen: digits beside a binary RBM, and rows of surveys by four models.

    python -m benchmarks.generative [--quick] [--part mnist default rbm mixture tables] [--seeds N] [--seed S]
                                    [--save DIR] [--validate] [--set JSON] [--rbm JSON]

MNIST, binarised at 127, 500 hidden units, log P per test image in nats: thurbo with the settings below ("mnist") and
with every default of `TBM(n_hidden=500, objective="likelihood")` ("default"), both bracketed by annealed importance
sampling from two ends; a binary RBM of as many units by persistent chains with its log Z bracketed in the same way
("rbm"); a mixture of Bernoullis with the best number of components, and independent pixels ("mixture"). A linear
classifier that was trained on real digits names 5,000 samples of the free chains: "share_ratio" is the largest
ratio between the share of a digit among them and among the images, either way.

Tables ("tables"): a fifth of the rows, at most 200, of Star Wars, GSS 2014 and 30 questions of Afrobarometer round 4
(if it can be read) is held out. Their log P per row by likelihood, by exact likelihood with few units, by the chain
rule of the default model, and by independent columns. `--quick` is meant for two cores: 10,000 images, 100 units, 25
test images, one seed. With `--validate`, the last sixth of the training images takes the place of the test images:
settings are chosen with it. Data: $THURBO_DATA. The last line is JSON; figures are means over seeds, with 95 %
intervals over seeds.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pandas as pd

import thurbo as tb
from benchmarks import afrobarometer, impute_gss, mnist
from benchmarks import generative_baselines as other
from benchmarks.flat_settings import grouped
from benchmarks.ledger import interval_of
from thurbo.table.io.frames import as_table

PARTS = ("mnist", "default", "rbm", "mixture", "tables")
OURS: dict[str, Any] = {"batch_size": 500, "max_epochs": 300, "learning_rate": 0.05, "weight_decay": 0.0}
OURS |= {"n_chains": 5000, "n_negative_steps": 10, "validation_fraction": 0.0}
N_SAMPLES, PENALTY = 5000, 3e-4  # images of free chains, and the ridge of the classifier that names them


class Size(NamedTuple):
    """How much of everything."""

    n_images: int = 60_000
    n_hidden: int = mnist.N_HIDDEN
    n_test: int = 100
    n_seeds: int = 3
    ours: Mapping[str, Any] = OURS
    rbm: other.Training = other.Training(epochs=300, n_sweeps=10, rate=0.3)
    n_temperatures: int = 20_000  # of the RBM, each way
    n_chains: int = 1000
    mixtures: tuple[int, ...] = (50, 100, 200, 500, 1000)
    n_exact: int = 8  # hidden units of the exact likelihood of tables
    tables: tuple[str, ...] = ("starwars", "gss", "r4")


QUICK = Size(
    n_images=10_000,
    n_hidden=100,
    n_test=25,  # annealing takes 5 s per image on two cores
    n_seeds=1,
    ours=OURS | {"max_epochs": 100, "n_chains": 1000, "n_negative_steps": 5},
    rbm=other.Training(epochs=100, n_chains=1000, rate=0.6),
    n_temperatures=3000,
    n_chains=200,
    mixtures=(50, 100, 200),
    n_exact=5,
    tables=("starwars", "gss"),
)


def say(text: str) -> None:
    print(text, flush=True)


# ---- digits


class Digits(NamedTuple):
    """Binary images to learn from with their labels, and those to be scored."""

    images: np.ndarray
    labels: np.ndarray
    test: np.ndarray


def digits(size: Size, validate: bool) -> Digits:
    """The first training images, and test images that a seed of its own draws."""
    images, labels, test, _ = mnist.load()
    if validate:
        images, labels, test = images[:50_000], labels[:50_000], images[50_000:]
    chosen = np.random.default_rng(0).permutation(len(test))[: size.n_test]
    return Digits(images[: size.n_images], labels[: size.n_images], test[chosen])


def settings_of_digits(size: Size, changed: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Parameters of TBM for part "mnist"."""
    own = {"objective": "likelihood", "n_hidden": size.n_hidden, "n_factors": 0}
    return grouped(own | dict(size.ours) | dict(changed or {}))


class Fitted(NamedTuple):
    """A model and the seconds that its fit took."""

    model: tb.TBM
    seconds: float


def fit(X: Any, *schema: Any, **settings: Any) -> Fitted:
    """Fit a model; what it warns of is printed, once each."""
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        model = tb.TBM(*schema, verbose=False, **settings).fit(X)
    seconds = time.perf_counter() - started
    for text in dict.fromkeys(str(each.message) for each in caught if issubclass(each.category, UserWarning)):
        say(f"    warning: {text}")
    return Fitted(model, seconds)


def bracketed(model: tb.TBM, X: Any) -> other.Scores:
    """log P of each row by annealed importance sampling from both ends."""
    found = model.score_samples(X, method="annealed", return_bounds=True)
    return other.Scores(*(np.asarray(each, np.float64) for each in found))


def class_shares(images: np.ndarray, samples: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Share of each digit among samples, named by a linear classifier of pixels, and among the labels: [2, digit].

    A digit that does not occur counts as half an image.
    """
    (named,) = mnist.classify(images.astype(np.float32), labels, [samples.astype(np.float32)], PENALTY)
    return np.stack([np.maximum(np.bincount(each, minlength=10), 0.5) / len(each) for each in (named, labels)])


def share_ratio(shares: np.ndarray) -> float:
    """The largest ratio between two shares of a class, either way."""
    return float(np.exp(np.abs(np.log(shares[0]) - np.log(shares[1])).max()))


Run = Callable[[int], tuple[other.Scores, float, dict[str, Any]]]  # of a seed: scores, seconds, further figures


def thurbo_run(data: Digits, settings: Mapping[str, Any], save: Path | None) -> Run:
    """Ours: fit, score, and name samples of the free chains."""

    def run(seed: int) -> tuple[other.Scores, float, dict[str, Any]]:
        model, seconds = fit(data.images, random_state=seed, **settings)
        if save is not None:
            save.parent.mkdir(parents=True, exist_ok=True)
            model.save(save.with_name(f"{save.name}-{seed}.thurbo"))
        say(f"    seed {seed}: fitted in {seconds:.0f} s; scores are next")
        started = time.perf_counter()
        scores = bracketed(model, data.test)
        scoring = time.perf_counter() - started
        samples = np.asarray(model.sample(N_SAMPLES, method="gibbs", random_state=seed))
        shares = class_shares(data.images, samples, data.labels)
        say("    digits in samples (%): " + " ".join(f"{100 * each:.1f}" for each in shares[0]))
        say("    digits in images (%):  " + " ".join(f"{100 * each:.1f}" for each in shares[1]))
        more = {"converged": bool(model.converged_), "share_ratio": share_ratio(shares)}
        return scores, seconds, more | {"shares": shares[0].tolist(), "scoring_seconds": scoring}

    return run


def rbm_run(data: Digits, size: Size) -> Run:
    """The binary RBM."""

    def run(seed: int) -> tuple[other.Scores, float, dict[str, Any]]:
        trained = other.train_rbm(data.images, size.n_hidden, seed, size.rbm)
        scores = other.score_rbm(trained, data.test, seed, size.n_temperatures, size.n_chains, 1000)
        shares = class_shares(data.images, np.asarray(trained.chains) > 0, data.labels)
        return scores, trained.seconds, {"share_ratio": share_ratio(shares)}

    return run


def of_digits(name: str, run: Run, seeds: Sequence[int]) -> dict[str, Any]:
    """Means over test images and seeds, with the interval over seeds."""
    values, bounds, seconds, more = [], [], [], []
    for seed in seeds:
        scores, took, own = run(seed)
        values.append(float(scores.estimate.mean()))
        bounds.append([float(scores.lower.mean()), float(scores.upper.mean())])
        seconds.append(took)
        more.append(own)
        error, (lower, upper) = scores.estimate.std(ddof=1) / np.sqrt(len(scores.estimate)), bounds[-1]
        say(f"  {name}, seed {seed}: {values[-1]:.2f} ± {error:.2f} over images, bounds {lower:.2f} to {upper:.2f}, "
            f"shares of digits within a factor {own['share_ratio']:.2f}, {took:.0f} s to train")  # fmt: skip
    lower, upper = np.mean(bounds, axis=0)
    found = {"log_likelihood": float(np.mean(values)), "lower": float(lower), "upper": float(upper)}
    found |= {"interval": list(interval_of(values)), "by_seed": values, "seconds": float(np.mean(seconds))}
    return found | {"share_ratio": max(own["share_ratio"] for own in more), "seeds": more}


def mixtures(data: Digits, size: Size, seed: int) -> dict[str, Any]:
    """The mixture of Bernoullis that is best on held-out training images, and independent pixels."""
    started = time.perf_counter()
    best, held = other.choose_mixture(data.images, size.mixtures, seed)
    seconds = time.perf_counter() - started
    test = jnp.asarray(data.test, jnp.float32)
    value, independent = (
        float(other.mixture_scores(each, test).mean()) for each in (best, other.fit_mixture(data.images, 1, seed))
    )
    say("  mixture of Bernoullis, log P of held-out training images: "
        + ", ".join(f"{n} components {score:.1f}" for n, score in held.items()))  # fmt: skip
    say(f"  mixture of {len(best.log_share)}: {value:.2f}, independent pixels: {independent:.2f}, {seconds:.0f} s")
    figures = {"mixture": value, "mixture_components": len(best.log_share), "mixture_held_out": held}
    return figures | {"mixture_seconds": seconds, "independent": independent}


def all_digits(size: Size, chosen: argparse.Namespace, seeds: Sequence[int]) -> dict[str, Any]:
    """The parts that are about images."""
    data, found = digits(size, chosen.validate), dict[str, Any]()
    place = {name: None if chosen.save is None else chosen.save / name for name in ("mnist", "default")}
    if "mnist" in chosen.part:
        settings = settings_of_digits(size, chosen.set)
        found |= of_digits("thurbo", thurbo_run(data, settings, place["mnist"]), seeds)
    defaults = {"objective": "likelihood", "n_hidden": size.n_hidden}
    for name, title, run in (
        ("default", "thurbo, every default", thurbo_run(data, defaults, place["default"])),
        ("rbm", "binary RBM", rbm_run(data, size)),
    ):
        if name in chosen.part:
            figures = of_digits(title, run, seeds)
            prefixed = {f"{name}_{key}": value for key, value in figures.items()}
            found |= prefixed | ({"rbm": figures["log_likelihood"]} if name == "rbm" else {})
    if "mixture" in chosen.part:
        found |= mixtures(data, size, seeds[0])
    return found


# ---- tables


class Survey(NamedTuple):
    """A table, its schema, and which rows are held out."""

    frame: pd.DataFrame
    schema: tb.Schema
    is_held: np.ndarray

    @property
    def train(self) -> pd.DataFrame:
        return self.frame[~self.is_held].reset_index(drop=True)

    @property
    def held(self) -> pd.DataFrame:
        return self.frame[self.is_held].reset_index(drop=True)


HELD, MOST_HELD = 0.2, 200  # share of the rows, and how many are scored at most
N_R4_ROWS, N_R4_COLUMNS = 3000, 30


def r4() -> tuple[pd.DataFrame, tb.Schema]:
    """Some rows and questions of the Afrobarometer."""
    survey = afrobarometer.load()
    names = np.random.default_rng(1).permutation(survey.names(strict=True))[:N_R4_COLUMNS].tolist()
    rows = np.sort(np.random.default_rng(0).permutation(len(survey.frame))[:N_R4_ROWS])
    columns = {q["name"]: afrobarometer.column(q) for q in survey.questions if q["name"] in names}
    return survey.rows(rows).frame[list(columns)], tb.Schema(columns)


def gss() -> tuple[pd.DataFrame, tb.Schema]:
    """As pandas reads it: `tb.read` needs pyarrow, which few machines with a GPU have."""
    frame = impute_gss.load()
    return frame, tb.Schema.infer(frame)


def star_wars() -> tuple[pd.DataFrame, tb.Schema]:
    """With the ranking of the films and the choices of several answers."""
    return tb.datasets.load_starwars(everything=True)


TABLES: dict[str, Callable[[], Any]] = {"starwars": star_wars, "gss": gss, "r4": r4}


def survey(name: str, seed: int) -> Survey:
    """A table with a fifth of its rows held out by a seed."""
    frame, schema = TABLES[name]()
    order = np.random.default_rng(seed).permutation(len(frame))
    is_held = np.zeros(len(frame), bool)
    is_held[order[: min(int(HELD * len(frame)), MOST_HELD)]] = True
    return Survey(frame, schema, is_held)


def n_answers(model: tb.TBM, frame: pd.DataFrame) -> int:
    """Cells that are scored."""
    return int(sum(block.answered.sum() for block in model.schema_.compile(as_table(frame)).values()))


def of_table(data: Survey, size: Size, seed: int) -> dict[str, Any]:
    """log P per held-out row by four models, which are fitted to the other rows."""
    train, held = data.train, data.held
    models: dict[str, tuple[dict[str, Any], str]] = {
        "log_likelihood": ({"objective": "likelihood"}, "annealed"),
        "exact": ({"objective": "exact", "n_hidden": size.n_exact}, "exact"),
        "chain_rule": ({}, "sequential"),
        "independent": ({"objective": "exact", "n_hidden": 0, "n_factors": 0}, "exact"),
    }
    found: dict[str, Any] = {"n_rows": len(held), "seconds": {}}
    for key, (settings, method) in models.items():
        model, seconds = fit(train, data.schema, random_state=seed, **settings)
        started = time.perf_counter()
        if method == "annealed":
            scores = bracketed(model, held)
            found |= {"lower": float(scores.lower.mean()), "upper": float(scores.upper.mean())}
            found |= {"n_hidden": int(model.weights_.shape[1]), "n_answers": n_answers(model, held)}
            value = scores.estimate
        else:
            value = np.asarray(model.score_samples(held, method=method), np.float64)
        found[key], found["seconds"][key] = float(value.mean()), seconds
        found[f"{key}_error"] = float(value.std(ddof=1) / np.sqrt(len(value)))
        say(f"    {key}: {found[key]:.2f}; {seconds:.0f} s to train, {time.perf_counter() - started:.0f} s to score")
    return found


def all_tables(size: Size, seeds: Sequence[int]) -> dict[str, Any]:
    """Every table that can be read, over seeds of the split and of the fits."""
    found = {}
    for name in size.tables:
        try:
            survey(name, 0)
        except (OSError, ImportError, ValueError) as problem:
            say(f"  {name}: skipped, it cannot be read here ({problem})")
            continue
        every = [of_table(survey(name, seed), size, seed) for seed in seeds]
        means = {key: float(np.mean([own[key] for own in every])) for key in every[0] if key != "seconds"}
        ways = ("log_likelihood", "exact", "chain_rule", "independent")
        per_row = means["n_answers"] / means["n_rows"]
        answer = {way: means[way] / per_row for way in ways}
        seconds = {way: float(np.mean([own["seconds"][way] for own in every])) for way in ways}
        interval = list(interval_of([own["log_likelihood"] for own in every]))
        found[name] = means | {"interval": interval, "per_answer": answer, "seconds": seconds}
        say(f"  {name}: {means['n_rows']:.0f} rows held out, {per_row:.1f} answers each")
        for way in ways:
            bounds = f", bounds {means['lower']:.2f} to {means['upper']:.2f}" if way == "log_likelihood" else ""
            say(f"    {way.replace('_', ' '):<16}{means[way]:>9.2f} ± {means[f'{way}_error']:.2f} per row, "
                f"{answer[way]:.3f} per answer{bounds}, {seconds[way]:.0f} s")  # fmt: skip
    return found


# ---- the command


def report(images: Mapping[str, Any]) -> None:
    """The digits as a table for people."""
    rows = {
        "thurbo": ("log_likelihood", "lower", "upper", "seconds"),
        "thurbo, every default": ("default_log_likelihood", "default_lower", "default_upper", "default_seconds"),
        "binary RBM": ("rbm", "rbm_lower", "rbm_upper", "rbm_seconds"),
        "mixture of Bernoullis": ("mixture", "mixture", "mixture", "mixture_seconds"),
        "independent pixels": ("independent", "independent", "independent", ""),
    }
    say(f"\n{'':<26}{'log P per image':>16}{'lower':>10}{'upper':>10}{'training, s':>14}")
    for title, (value, lower, upper, seconds) in rows.items():
        if value in images:
            taken = f"{images[seconds]:>14.0f}" if seconds in images else ""
            say(f"{title:<26}{images[value]:>16.2f}{images[lower]:>10.2f}{images[upper]:>10.2f}{taken}")


def main(words: Sequence[str] | None = None) -> None:
    """Print tables for people and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="10,000 images, 100 units, one seed, for two cores")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=PARTS, help="some of it (default: all)")
    parser.add_argument("--seeds", type=int, help="how many (default 3)")
    parser.add_argument("--seed", type=int, default=0, help="the first of them")
    parser.add_argument("--save", type=Path, help="write fitted models of digits to this folder")
    parser.add_argument("--validate", action="store_true", help="leave the test images alone")
    parser.add_argument("--set", type=json.loads, default={}, help="JSON of settings of part mnist to change")
    parser.add_argument("--rbm", type=json.loads, default={}, help="JSON of settings of the RBM to change")
    chosen = parser.parse_args(words)
    size = QUICK if chosen.quick else Size()
    size = size._replace(rbm=size.rbm._replace(**chosen.rbm))
    seeds = range(chosen.seed, chosen.seed + (chosen.seeds or size.n_seeds))
    result: dict[str, Any] = {}
    if set(chosen.part) - {"tables"}:
        result["mnist"] = all_digits(size, chosen, seeds)
        report(result["mnist"])
    if "tables" in chosen.part:
        result["tables"] = all_tables(size, seeds)
    say(json.dumps(result))


if __name__ == "__main__":
    main()
