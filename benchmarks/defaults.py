"""Every setting left alone: `TBM(random_state=seed)` on real surveys, against regressions and boosting per column.

    python -m benchmarks.defaults [--quick] [--tables a,b] [--seeds 3] [--most 12] [--jobs 1] [--cache DIR] [--keep DIR]
                                  [--tuned] [--baselines-only]

A file is read by `tb.read` as it comes. 10 % of its answers are hidden, the model is fitted to what is left, and each
hidden answer is predicted from the rest of its row. Seed s gives the mask and the seed of the fit. There are as many
masks as --seeds says, and more of a table with few answers, so that its calibration error is not mostly chance: as many
as hide 6,000 binary and ordinal answers, up to twelve ("n_masks"). The baselines see the same cells: the shares of each
column, logistic (ridge) regressions and gradient boosting of each column on all others, and the mean of these two
("both"). "log_score" is the mean over all hidden answers of all masks (nats), "interval" its 95 % interval over
respondents; "difference" is that to the best baseline, with its interval; a table is ahead or behind if that interval
excludes zero. These counts and "mean_gain" are those of all tables with baselines. A table with a column of weights is
fitted and scored with them, and so are its baselines. "ece" is the expected calibration error of the "n_ece" hidden
binary and ordinal answers. "ece_noise" is its mean for a perfectly calibrated model, by simulation, and "ece_p" the
share of simulations in which it is at least "ece": a p-value of perfect calibration. Several masks can hide the same
answer, so that only "n_distinct" of the answers are different ones. A simulation draws one uniform number for each of
these and calls the answer right under every mask whose confidence is above it. "stacked" is the log score of the best
weighted mean of the model and both regressions, with weights chosen on the hidden answers themselves: what could still
be gained. With --tuned, "tuned" is the log score of 10 hidden units and 5 factors with a weight decay of 0.2.

"stackoverflow" are 4,000 developers. r4 (described by its schema file) and r4-raw (as read) are 6,000 respondents of
the Afrobarometer, of which 30 columns are scored; r4-whole is all of it with the mask of `benchmarks.survey`, without
baselines. Other tasks have measures of their own (`defaults_tasks`). --quick takes one mask of the six small surveys.
With --cache, predictions of the baselines are kept in files, so that later runs only fit the model. With --keep, so are
the results of each mask: a run that was interrupted goes on from them. Data: $THURBO_DATA.
The last line is JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import multiprocessing
import os
import pickle
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from scipy.special import logsumexp

import thurbo as tb
from benchmarks import afrobarometer
from benchmarks.defaults_tasks import TASKS
from benchmarks.defaults_tasks import summary as task_summary
from thurbo.fit.members import stack
from thurbo.predict import baseline, evaluation
from thurbo.predict.evaluation import overall
from thurbo.predict.member import MemberQuery
from thurbo.table.columns.cells import Block
from thurbo.table.columns.forms.form import Normal, Tested, calibration_of_labels, difference, line_weight, pooled
from thurbo.table.io.frames import as_table

SHARE = 0.1
RIVALS = {"marginal": "_marginal", "logistic": "_logistic", "boosting": "_boosting", "both": "_both"}
FILES = {
    "starwars": "starwars/StarWars.csv",
    "flying": "small-surveys/flying-etiquette.csv",
    "comma": "small-surveys/comma-survey.csv",
    "weather": "small-surveys/weather-check.csv",
    "steak": "small-surveys/steak-risk-survey.csv",
    "thanksgiving": "small-surveys/thanksgiving-2015.csv",
    "gss": "gss-2014/GSS_2014_18var.csv",
    "religion": "small-surveys/religion-survey.csv",
    "masculinity": "small-surveys/masculinity-survey.csv",
    "midwest": "small-surveys/region-midwest.csv",
    "stackoverflow": "stackoverflow-2016/sample.csv.xz",
}
SMALL = tuple(FILES)[:6]
R4 = ("r4", "r4-raw", "r4-whole")
N_R4_ROWS, N_R4_COLUMNS = 6000, 30
LIMITS = baseline.Limits(20_000, 50_000_000, 5000)  # regressions on all features of the Afrobarometer
TUNED: dict[str, Any] = {"n_hidden": 10, "n_factors": 5, "weight_decay": 0.2}
CALIBRATED = ("binary", "ordinal")  # kinds whose answers count in the calibration error
NUMBERS = (baseline.ridge, baseline.boosted_numbers)  # what they give is a normal distribution
N_SIMULATED = 2000  # perfectly calibrated models
ENOUGH_ANSWERS, MOST_MASKS = 6000, 12  # answers for a calibration error, and masks that a table may have for them

Trial = TypeVar("Trial", bound=evaluation.ColumnTrial)


class Masked(NamedTuple):
    """A table with hidden answers."""

    name: str
    seed: int
    schema: tb.Schema  # as read: give it to TBM
    shown: pd.DataFrame  # without the hidden answers: give it to fit
    frame: pd.DataFrame  # as read
    hidden: dict[str, np.ndarray]  # by column of the schema, [row] whether its answer is hidden
    score: Callable[[tb.TBM], list[Tested]]  # of a model that was fitted to `shown`; baselines included

    def figures(self, model: tb.TBM) -> dict[str, float]:
        """Log scores of a fitted model and of the baselines, and the calibration error of the model."""
        tests = self.score(model)
        found = overall(tests, SHARE)
        scores = {name: found[f"log_score{rival}"] for name, rival in RIVALS.items()}
        return {"log_score": found["log_score"], **scores, "ece": calibration(tests).error}


class Calibration(NamedTuple):
    """The calibration error of hidden answers; None without any."""

    error: float | None
    noise: float | None  # mean error of models that are perfectly calibrated
    p: float | None  # share of such models whose error is at least as large
    n: int  # answers
    n_distinct: int  # different answers among them: one may be hidden by several masks


def masked_tables(names: Sequence[str] = SMALL, seed: int = 0, cache: Path | None = None) -> Iterator[Masked]:
    """Tables as they are read, with a tenth of the answers hidden by a seed."""
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if name in R4:
                yield _afrobarometer(name, seed, cache)
            else:
                frame, schema = _read(Path(os.environ["THURBO_DATA"]) / FILES[name])
                yield hide(name, frame, schema, seed, cache)


def _read(path: Path) -> tuple[pd.DataFrame, tb.Schema]:
    """A file as it comes; one that is compressed as it comes out."""
    if path.suffix != ".xz":
        return tb.read(path)
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / path.stem
        plain.write_bytes(lzma.decompress(path.read_bytes()))
        return tb.read(plain)


def _afrobarometer(name: str, seed: int, cache: Path | None) -> Masked:
    """Some rows and columns of the survey, or all with the mask that other figures have."""
    if name == "r4-raw":
        frame, schema = tb.read(afrobarometer.folder() / "afrobarometer_r4.zsav")
    else:
        survey = afrobarometer.load()
        frame, schema = survey.frame, tb.Schema({q["name"]: afrobarometer.column(q) for q in survey.questions})
        if name == "r4-whole":
            mask = dict(zip(frame, survey.mask.T, strict=True))
            return hide(name, frame, schema, seed, cache, mask, baselines=())
    rows = np.sort(np.random.RandomState(0).permutation(len(frame))[:N_R4_ROWS])
    few = frame.iloc[rows].reset_index(drop=True)
    few.attrs = dict(frame.attrs)
    columns = np.random.RandomState(1).permutation(schema.modelled)[:N_R4_COLUMNS].tolist()
    return hide(name, few, schema, seed, cache, scored=columns)


def hide(
    name: str,
    frame: pd.DataFrame,
    schema: tb.Schema,
    seed: int,
    cache: Path | None = None,
    mask: Mapping[str, np.ndarray] | None = None,
    scored: Sequence[str] | None = None,
    baselines: tuple[str, ...] = evaluation.BASELINES,
) -> Masked:
    """A table with a tenth of its answers hidden, or those of a mask, from a frame with its schema.

    Only the columns `scored` are predicted, by default all.
    """
    table = as_table(frame)
    fitted = schema.fit(table)  # labels that only hidden answers have stay labels, as in a questionnaire
    blocks = fitted.compile(table)
    hidden = evaluation.choose(fitted, blocks, SHARE, np.random.RandomState(seed))
    if mask is not None:
        hidden = {each: mask[each] & fitted[each].form.scorable(blocks[each]) for each in hidden}
    hidden = evaluation.hideable(table, fitted, blocks, hidden)
    shown = frame.copy()
    for column, rows in evaluation.empty_cells(table, fitted, blocks, hidden).items():
        shown[column] = shown[column].mask(rows)
    shown.attrs = dict(frame.attrs)
    path = None if cache is None or not baselines else cache / f"{name}-{seed}-{fingerprint(shown, hidden)}.npz"
    wanted, weight = tuple(hidden) if scored is None else tuple(scored), schema.weights(table)
    weight = np.ones(table.n_rows) if weight is None else weight

    def score(model: tb.TBM) -> list[Tested]:
        rest, blocks = model._query(shown), model.schema_.compile(frame)
        return _tests(rest, blocks, hidden, wanted, baselines, path, weight)

    return Masked(name, seed, fitted, shown, frame, hidden, score)


def fingerprint(shown: pd.DataFrame, hidden: Mapping[str, np.ndarray]) -> str:
    """A name for what the baselines see."""
    found = hashlib.sha256(pd.util.hash_pandas_object(shown.astype(str), index=False).to_numpy().tobytes())
    for name, rows in hidden.items():
        found.update(name.encode() + rows.tobytes())
    return found.hexdigest()[:12]


class Kept(evaluation.ColumnTrial):
    """A column whose baselines are kept from an earlier run."""

    store: dict[str, np.ndarray]
    n_asked = 0

    def _regress(self, kind: str, function: Any, *about: Any) -> Any:
        self.n_asked += 1
        key = f"{self.name}/{self.n_asked}/{kind}"
        if key not in self.store:
            found = super()._regress(kind, function, *about)
            if found is None:
                return None
            self.store[key] = np.stack(found) if isinstance(found, Normal) else found
        found = self.store[key]
        return Normal(*found) if function in NUMBERS else found


def _tests(
    rest: MemberQuery,
    blocks: Mapping[str, Block],
    hidden: Mapping[str, np.ndarray],
    scored: Sequence[str],
    baselines: tuple[str, ...],
    path: Path | None,
    weight: np.ndarray,
) -> list[Tested]:
    """Scores of the hidden answers by a fitted model and by the baselines, which are computed once for each mask."""
    store: dict[str, np.ndarray] = {}
    if path is not None and path.exists():
        with np.load(path) as kept:
            store = dict(kept)
    n_kept, tests = len(store), list[Tested]()
    for trial in trials(Kept, rest, blocks, hidden, scored, baselines, weight):
        trial.store = store
        column = rest.schema[trial.name]
        tests += column.form.test(trial)
        if path is not None and len(store) > n_kept:  # after each column: regressions of a large survey take long
            n_kept = len(store)
            save(path, store)
    return tests


def trials(
    kind: type[Trial],
    rest: MemberQuery,
    blocks: Mapping[str, Block],
    hidden: Mapping[str, np.ndarray],
    scored: Iterable[str],
    baselines: tuple[str, ...],
    weight: np.ndarray | None = None,
) -> Iterator[Trial]:
    """The columns with hidden answers, each as a trial of some kind; what regressions see has no hidden answer."""
    features = {name: baseline.features(rest.schema[name], blocks[name], ~hidden[name]) for name in hidden}
    for name in scored:
        if hidden[name].any():
            own = line_weight(blocks[name], np.ones(rest.evidence.n_rows) if weight is None else weight)
            yield kind(name, rest, blocks[name], hidden[name], own, features, baselines, LIMITS)


def save(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays to a file, which is there as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.npz")
    np.savez_compressed(part, **arrays)
    part.replace(path)


def calibration(tests: Sequence[Tested]) -> Calibration:
    """Calibration error of all binary and ordinal answers, beside that of simulated models which are calibrated."""
    chosen = [test for test in tests if test.kind in CALIBRATED and test.confidence]
    if not chosen:
        return Calibration(None, None, None, 0, 0)
    sure, right = (np.concatenate([getattr(test, part)[""] for test in chosen]) for part in ("confidence", "right"))
    answer = pd.MultiIndex.from_tuples([(test.about, test.answer, row) for test in chosen for row in test.row.tolist()])
    which, distinct = answer.factorize()  # an answer that several masks hide is right or wrong under all of them
    rng, n_distinct = np.random.default_rng(0), len(distinct)
    perfect = [calibration_of_labels(sure, rng.random(n_distinct)[which] < sure) for _ in range(N_SIMULATED)]
    error = calibration_of_labels(sure, right)
    as_large = np.asarray(perfect) > error - 1e-12  # or equal but for rounding
    return Calibration(error, float(np.mean(perfect)), float(as_large.mean()), len(sure), n_distinct)


def fit(one: Masked, **settings: Any) -> tuple[tb.TBM, float]:
    """The model with every setting left alone, and the seconds of its fit."""
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = tb.TBM(one.schema, random_state=one.seed, verbose=False, **settings).fit(one.shown)
    return model, time.perf_counter() - started


def summary(
    by_seed: Sequence[Sequence[Tested]], seconds: Sequence[float], tuned: Sequence[Sequence[Tested]] = ()
) -> dict[str, Any]:
    """The figures of one table over its masks."""
    tests = pooled(test for tests in by_seed for test in tests)
    cells, found = [test for test in tests if test.score], overall(tests, SHARE)
    best = overall(pooled(test for tests in tuned for test in tests), SHARE) if tuned else None
    calibrated = calibration(tests)
    return {
        "log_score": found["log_score"],
        "interval": _interval(cells),
        **{name: found[f"log_score{rival}"] for name, rival in RIVALS.items()},
        "tuned": None if best is None else best["log_score"],
        "ece": calibrated.error,
        "ece_noise": calibrated.noise,
        "ece_p": calibrated.p,
        "n_ece": calibrated.n,
        "n_distinct": calibrated.n_distinct,
        "n_masks": len(by_seed),
        "seconds": float(np.median(seconds)),
        "n": found["n_cells"],
        "accuracy": found["accuracy"],
        "by_kind": _by_kind(cells),
        "stacked": _stacked(cells),
        **_compared(by_seed, cells, found),
    }


def _compared(by_seed: Sequence[Sequence[Tested]], cells: Sequence[Tested], found: Mapping[str, Any]) -> dict[str, Any]:
    """The difference to the best baseline; nothing without regressions."""
    rivals = [name for name in ("logistic", "boosting", "both") if found[f"log_score{RIVALS[name]}"] is not None]
    if not rivals:
        return {}
    better = max(rivals, key=lambda name: found[f"log_score{RIVALS[name]}"])
    mean, _, low, high = _difference(cells, RIVALS[better])
    by_mask = [_difference([t for t in each if t.score], RIVALS[better])[0] for each in by_seed]
    return {
        "better": better,
        "difference": mean,
        "difference_interval": [low, high],
        "difference_by_mask": by_mask,
        "verdict": "ahead" if low > 0 else "behind" if high < 0 else "level",
    }


def _stacked(cells: Sequence[Tested]) -> float | None:
    """Log score of the best weighted mean of the model and the regressions, its weights chosen on the same answers."""
    every = ("", *(RIVALS[name] for name in ("logistic", "boosting")))
    known = [test for test in cells if all(each in test.score for each in every)]
    if not known:
        return None
    logs = np.stack([np.concatenate([test.score[each] for test in known]) for each in every])
    count = np.concatenate([test.weight for test in known])
    weight = stack(logs, count, np.full(len(every), 1e-3))
    return float(np.average(logsumexp(logs, axis=0, b=weight[:, None]), weights=count))


def _by_kind(cells: Sequence[Tested]) -> dict[str, float]:
    """Log score of each kind of column."""
    kinds = dict.fromkeys(test.kind for test in cells)
    return {
        kind: float(np.concatenate([test.score[""] for test in cells if test.kind == kind]).mean()) for kind in kinds
    }


def _difference(cells: Sequence[Tested], rival: str) -> Any:
    parts = [[t.score[""] - t.score[rival] for t in cells], [t.weight for t in cells], [t.row for t in cells]]
    return difference(*map(np.concatenate, parts))


def _interval(cells: Sequence[Tested]) -> list[float]:
    parts = [[t.score[""] for t in cells], [t.weight for t in cells], [t.row for t in cells]]
    return list(difference(*map(np.concatenate, parts))[2:])


def show(name: str, one: Mapping[str, Any]) -> None:
    """One line of the table."""
    if "measure" in one:
        print(f"{name:<18}{one['measure']}: {one['value']:.4f}{one['seconds']:>10.1f} s", flush=True)
        return
    columns = (one[each] for each in ("marginal", "logistic", "boosting", "both", "log_score"))
    scores = "".join(f"{'':>10}" if each is None else f"{each:>10.4f}" for each in columns)
    low, high = one.get("difference_interval", (0.0, 0.0))
    gap = f"{one['difference']:+.4f} [{low:+.4f}, {high:+.4f}]" if "difference" in one else ""
    calibrated = f"{one['ece']:.4f} ({one['ece_noise']:.4f})" if one["n_ece"] else ""
    line = f"{name:<18}{one['n']:>8,}{scores}  {gap:<28}{one.get('verdict', ''):<8}{calibrated:<18}"
    print(f"{line}{one['seconds']:>7.1f}", flush=True)


def report(tables: Mapping[str, Mapping[str, Any]]) -> None:
    """The table for people and the JSON line."""
    header = "".join(f"{each:>10}" for each in ("shares", "logistic", "boosting", "both", "TBM"))
    print(f"\n{'':<18}{'n':>8}{header}  {'TBM - best':<28}{'':<8}{'ECE (noise)':<18}{'s':>7}")
    for name, one in tables.items():
        show(name, one)
    counted = [one for one in tables.values() if "verdict" in one]
    verdicts = [one["verdict"] for one in counted]
    found: dict[str, Any] = {word: verdicts.count(word) for word in ("ahead", "level", "behind")}
    if counted:
        found["mean_gain"] = float(np.mean([one["difference"] for one in counted]))
        found["mean_gain_logistic"] = float(np.mean([one["log_score"] - one["logistic"] for one in counted]))
    print(json.dumps({"tables": tables, **found}))


def n_masks(one: Masked, least: int) -> int:
    """How many masks hide enough binary and ordinal answers for a calibration error, from what the first one hides."""
    n_hidden = sum(int(rows.sum()) for name, rows in one.hidden.items() if one.schema[name].kind in CALIBRATED)
    return max(least, min(-(-ENOUGH_ANSWERS // max(n_hidden, 1)), MOST_MASKS)) if n_hidden else least


class Trials(NamedTuple):
    """One mask of a table: its tests, seconds of the fit, tests of the tuned model, and how many masks are needed."""

    tests: list[Tested]
    seconds: float
    tuned: list[Tested] | None
    n_masks: int


def trial(
    name: str, seed: int, cache: Path | None, keep: Path | None, with_tuned: bool, settings: Mapping[str, Any]
) -> Trials:
    """Fit and score a table under one mask, or read what an earlier run found."""
    path = None if keep is None else keep / f"{name}-{seed}.pickle"
    if path is not None and path.exists():
        return pickle.loads(path.read_bytes())
    (one,) = masked_tables([name], seed, cache)
    model, seconds = fit(one, **settings)
    tuned = one.score(fit(one, **TUNED)[0]) if with_tuned else None
    found = Trials(one.score(model), seconds, tuned, n_masks(one, 1))
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".part").write_bytes(pickle.dumps(found))
        path.with_suffix(".part").replace(path)
    return found


def measure(
    names: Sequence[str], least: int, most: int, jobs: int, *about: Any
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The figures of tables and tasks as they are done, over at least `least` masks and at most `most`."""
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _own_cores, (jobs,)) as pool:
        run = pool.submit if jobs > 1 else _at_once
        together = [names] if jobs > 1 else [[name] for name in names]
        for group in together:
            masks = {
                name: [run(trial, name, seed, *about) for seed in range(least)] for name in group if name not in TASKS
            }
            for name in (name for name in group if name in TASKS):
                yield name, task_summary(name, [TASKS[name].run(seed, None) for seed in range(least)])
            while masks:
                wait([each for own in masks.values() for each in own if not each.done()], return_when=FIRST_COMPLETED)
                for name, own in list(masks.items()):
                    if own[0].done():
                        wanted = min(own[0].result().n_masks, most)
                        own += [run(trial, name, seed, *about) for seed in range(len(own), wanted)]
                    if all(each.done() for each in own):
                        yield name, _over([each.result() for each in masks.pop(name)])


def _over(masks: Sequence[Trials]) -> dict[str, Any]:
    tuned = [each.tuned for each in masks if each.tuned is not None]
    return summary([each.tests for each in masks], [each.seconds for each in masks], tuned)


def _at_once(function: Callable[..., Any], *about: Any) -> Future[Any]:
    found: Future[Any] = Future()
    found.set_result(function(*about))
    return found


def _own_cores(jobs: int) -> None:
    """Give a process cores of its own, where the system can, so that threads of several do not wait for each other."""
    if hasattr(os, "sched_setaffinity"):
        cores, number = sorted(os.sched_getaffinity(0)), multiprocessing.current_process()._identity[-1] - 1
        os.sched_setaffinity(0, cores[number % jobs :: jobs] or cores)


def main() -> None:
    """Print a table for people and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one mask of the six small surveys")
    parser.add_argument("--tables", help=f"names, separated by commas: {', '.join((*FILES, *R4, *TASKS))}")
    parser.add_argument("--seeds", type=int, default=3, help="least number of masks, each with a fit of its own")
    parser.add_argument("--most", type=int, default=MOST_MASKS, help="largest number of masks")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time, each with one mask of one table")
    parser.add_argument("--cache", type=Path, help="folder for the predictions of the baselines")
    parser.add_argument("--keep", type=Path, help="folder for the results of each mask, which a later run goes on from")
    parser.add_argument("--tuned", action="store_true", help=f"also fit {TUNED}")
    parser.add_argument("--baselines-only", action="store_true", help="a model that is not trained: fill the cache")
    chosen = parser.parse_args()
    every = (*FILES, *R4, *TASKS)
    names = chosen.tables.split(",") if chosen.tables else SMALL if chosen.quick else every
    for name in names:
        if name not in every:
            parser.error(f"there is no table {name!r}; there are {', '.join(every)}")
    settings = {"max_epochs": 0, "n_hidden": 1, "n_factors": 0} if chosen.baselines_only else {}
    least, most = (1, 1) if chosen.quick else (chosen.seeds, chosen.most)
    tables = {}
    for name, found in measure(names, least, most, chosen.jobs, chosen.cache, chosen.keep, chosen.tuned, settings):
        tables[name] = found
        show(name, found)
    report(tables)


if __name__ == "__main__":
    main()
