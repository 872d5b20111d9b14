"""Ranking movies: MovieLens-1M by the paper's protocol, beside the paper's baselines and other libraries.

    python -m benchmarks.movielens [--quick] [--validate] [--only NAME,NAME] [--kept] [--peers DIR] [--install]
    python -m benchmarks.movielens --part catalogue [--validate]

Each user's ten latest ratings are to be ranked, 3,680 users, by what was learned from the earlier ones; ERR and NDCG at
1, 5 and 10. --validate judges the five ratings before these instead, which is where settings are chosen. Peers work in
environments of their own, which --install makes; their scores are kept in DIR/movielens, and --kept takes them from
there. --quick: one seed, and the peers' figures that are recorded here. --part catalogue: only which movies of the
whole catalogue each user rates next. Data: $THURBO_DATA/movielens-1m. The last line is JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import movielens_baselines as baselines
from benchmarks import movielens_catalogue as catalogue
from benchmarks.impute_gss import SCRIPTS, Peer, install, interpreter
from benchmarks.movielens_data import MEASURES, Scores, Split, figures, load
from benchmarks.movielens_ours import next_movies, ours
from thurbo import metrics

N_SEEDS = 3
OURS = "thurbo"

BASELINES: dict[str, Callable[[Split], Scores]] = {
    "popularity": baselines.popularity,
    "item mean": baselines.item_mean,
    "biased ALS": baselines.als,
    "ListRank-MF": baselines.list_rank,
    "PMOP": baselines.pmop,
}
_SURPRISE, _CMFREC, _MYFM = (
    ("scikit-surprise==1.1.5", "pandas"),
    ("cmfrec==3.5.1.post14", "threadpoolctl"),
    ("myfm==0.4.0",),
)
PEERS = {
    "Surprise SVD": Peer("movielens_surprise.py", ("100", "60", "0.01", "0.1"), _SURPRISE, "surprise"),
    "cmfrec": Peer("movielens_cmfrec.py", ("80", "0.1", "15", "scaled", "0"), _CMFREC, "cmfrec"),
    "cmfrec implicit": Peer("movielens_cmfrec.py", ("40", "0.12", "10", "scaled", "1"), _CMFREC, "cmfrec"),
    "myFM": Peer("movielens_myfm.py", ("32", "400", "50", "0"), _MYFM, "myfm"),
    "myFM SVD++": Peer("movielens_myfm.py", ("16", "400", "50", "0", "rated"), _MYFM, "myfm"),
    "myFM side": Peer("movielens_myfm.py", ("16", "400", "50", "{seed}", "rated", "raters", "side"), _MYFM, "myfm"),
}
ABOUT = ("age", "occupation", "year", "genres")  # what peers may use of users and items, besides gender
METHODS = [OURS, *BASELINES, *PEERS]

# Measured once on the same split, tuned on the same validation cells: ERR, N@1, N@5, N@10 and seconds of training.
RECORDED = {
    "Surprise SVD": (0.671, 0.716, 0.791, 0.892, 17.0),
    "cmfrec": (0.673, 0.718, 0.794, 0.894, 36.0),
    "cmfrec implicit": (0.674, 0.725, 0.796, 0.895, 4.0),
    "myFM": (0.676, 0.725, 0.797, 0.895, 524.0),
    "myFM SVD++": (0.679, 0.734, 0.801, 0.898, 312.0),
}
# As the paper prints them.
PAPER = {
    "paper: item popularity": (0.587, 0.560, 0.680, 0.835),
    "paper: ListRank.MF": (0.653, 0.673, 0.751, 0.873),
    "paper: PMOP": (0.648, 0.664, 0.747, 0.871),
    "paper: TBM": (0.678, 0.722, 0.792, 0.893),
}


class Outcome(NamedTuple):
    """Means of the measures, and each user's where they are known; a mean over seeds of both."""

    means: Mapping[str, float]
    seconds: float
    source: str  # "run", "kept" or "recorded"
    by_user: Mapping[str, np.ndarray] | None = None
    rank_seconds: float = 0.0
    catalogue: Mapping[str, float] | None = None  # measures of the best of all movies


def theirs(split: Split, peer: Peer, folder: Path) -> Scores | None:
    """A peer's scores, which are kept as well; None where it is not installed."""
    python, place = interpreter(peer, folder), kept_at(split, peer, folder)
    if not python.exists():
        return None
    place.parent.mkdir(parents=True, exist_ok=True)
    task = place.with_suffix(".task.npz")
    held = {"valid": split.valid, "test": split.test}
    cells = {f"{part}_{name}": getattr(each, name) for part, each in held.items() for name in ("user", "item")}
    learned = {f"train_{name}": each for name, each in split.train._asdict().items()}
    about = {name: getattr(split, name) for name in ABOUT} | {"gender": split.gender.astype(str)}  # no objects in files
    np.savez(task, **learned, **cells, **about, n_users=split.n_users, n_items=split.n_items)
    command = [str(python), str(SCRIPTS / peer.script), str(task), str(place), *peer.words]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    finally:
        task.unlink()
    if done.returncode:
        raise RuntimeError(f"{peer.script} failed:\n{done.stderr[-2000:]}")
    return kept(split, peer, folder)


def kept_at(split: Split, peer: Peer, folder: Path) -> Path:
    """Where a peer's scores are kept, by its settings and by what it learned from and scored."""
    digest = hashlib.sha256()
    for cells in (split.train, split.valid[:2], split.test[:2]):
        for each in cells:
            digest.update(np.ascontiguousarray(each, np.int64).tobytes())
    name = "-".join((Path(peer.script).stem, *peer.words, digest.hexdigest()[:8]))
    return folder / "movielens" / f"{name}.npz"


def kept(split: Split, peer: Peer, folder: Path) -> Scores | None:
    """Scores from an earlier run; None where there are none."""
    place = kept_at(split, peer, folder)
    if not place.exists():
        return None
    with np.load(place) as found:
        return Scores(found["valid"], found["test"], float(found["seconds"]))


def judge(split: Split, scores: Sequence[Scores], on: str, source: str) -> Outcome:
    """Each user's figures on the cells named `on`, averaged over seeds."""
    each = [figures(getattr(split, on), getattr(one, on)) for one in scores]
    by_user = {name: np.mean([one[name] for one in each], axis=0) for name in MEASURES}
    means = {name: float(values.mean()) for name, values in by_user.items()}
    seconds, rank_seconds = (float(np.mean([getattr(one, name) for one in scores])) for name in Scores._fields[2:4])
    best = [catalogue.judge(getattr(split, on), one.best) for one in scores if one.best is not None]
    whole = {name: float(np.mean([one[name] for one in best])) for name in best[0]} if best else None
    return Outcome(means, seconds, source, by_user, rank_seconds, whole)


def outcome(split: Split, name: str, chosen: argparse.Namespace) -> Outcome | None:
    """What one method makes of it; None of a peer that is absent."""
    on = "valid" if chosen.validate else "test"
    if name == OURS:
        return judge(split, [Scores(*ours(split, seed, chosen.quick)) for seed in seeds_of(chosen)], on, "run")
    if name in BASELINES:
        return judge(split, [BASELINES[name](split)], on, "run")
    runs = seeded(PEERS[name])
    scores = [kept(split, each, chosen.peers) for each in runs] if chosen.kept else [None]
    if all(each is not None for each in scores):
        return judge(split, scores, on, "kept")
    if chosen.quick and on == "test":
        *means, seconds = RECORDED[name]
        return Outcome(dict(zip(MEASURES, means, strict=True)), seconds, "recorded")
    scores = [None] if chosen.quick or chosen.kept else [theirs(split, each, chosen.peers) for each in runs]
    return judge(split, scores, on, "run") if all(each is not None for each in scores) else None


def seeds_of(chosen: argparse.Namespace) -> range:
    """The seeds of thurbo's fits."""
    return range(chosen.seed, chosen.seed + (chosen.seeds or (1 if chosen.quick else N_SEEDS)))


def seeded(peer: Peer) -> list[Peer]:
    """The runs of a peer: one, or one for each seed if its words have a place for it."""
    if "{seed}" not in peer.words:
        return [peer]
    return [
        peer._replace(words=tuple(word.replace("{seed}", str(seed)) for word in peer.words)) for seed in range(N_SEEDS)
    ]


def against_best(outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    """Ours less the best other method: N@5 and its 95 % interval."""
    others = {name: each for name, each in outcomes.items() if name != OURS}
    if OURS not in outcomes or not others:
        return {}
    best = max(others, key=lambda name: others[name].means["ndcg5"])
    return {"best": best, **difference(outcomes[OURS], others[best])}


def difference(own: Outcome, other: Outcome) -> dict[str, Any]:
    """N@5 of ours less that of another, with its interval: paired by user, or as if a recorded figure were exact."""
    assert own.by_user is not None
    first = own.by_user["ndcg5"]
    second = np.full_like(first, other.means["ndcg5"]) if other.by_user is None else other.by_user["ndcg5"]
    interval = metrics.paired_bootstrap(first, second, random_state=0)._asdict()
    return {"difference": float((first - second).mean()), **interval, "paired": other.by_user is not None}


def report(
    outcomes: Mapping[str, Outcome], on: str = "test", of_catalogue: Mapping[str, Mapping[str, float]] | None = None
) -> None:
    """A table for people, and one JSON line."""
    own = outcomes.get(OURS)
    print(f"\n{on:<24}{'ERR':>8}{'N@1':>8}{'N@5':>8}{'N@10':>8}{'train s':>9}   N@5: thurbo less this, 95 %")
    for name, each in outcomes.items():
        line = f"{name:<24}" + "".join(f"{each.means[measure]:>8.4f}" for measure in MEASURES) + f"{each.seconds:>9.1f}"
        if own is not None and name != OURS:
            line += "   {difference:+.4f} ({lower:+.4f} to {upper:+.4f})".format(**difference(own, each))
        print(line + ("" if each.source == "run" else f"   {each.source}"))
    if on == "test":
        for name, means in PAPER.items():
            print(f"{name:<24}" + "".join(f"{mean:>8.3f}" for mean in means))
    for name, measures in (of_catalogue or {}).items():
        print(f"{name:<24}of all movies: Recall@20 {measures['recall20']:.4f}, NDCG@20 {measures['ndcg20']:.4f}")
    whole: dict[str, Any] = {"cells": on, "catalogue": dict(of_catalogue or {})}
    if own is not None:
        whole |= {**own.means, "seconds": own.seconds, "rank_seconds": own.rank_seconds}
        whole |= {f"catalogue_{name}": value for name, value in (own.catalogue or {}).items()}
    whole["peers"] = {
        name: {**each.means, "seconds": each.seconds, "source": each.source}
        for name, each in outcomes.items()
        if name != OURS
    }
    print(json.dumps(whole | {"ndcg5_against_best": against_best(outcomes)}))


def report_catalogue(split: Split, seeds: Sequence[int], on: str) -> None:
    """Which movies each user rates next, of the whole catalogue: a table for people, and one JSON line."""
    cells, found = getattr(split, on), [next_movies(split, seed) for seed in seeds]
    whole = catalogue.compare(cells, [top for top, _ in found], catalogue.peers(split))
    own = {name: whole[f"catalogue_{name}"] for name in ("recall20", "ndcg20")}
    print(f"{on:<24}{'Recall@20':>10}{'NDCG@20':>10}")
    for name, means in {OURS: own, **whole["peers"]}.items():
        print(f"{name:<24}{means['recall20']:>10.4f}{means['ndcg20']:>10.4f}")
    for name in own:
        print(
            f"{name}: thurbo less EASE "
            + "{difference:+.4f} ({lower:+.4f} to {upper:+.4f})".format(**whole[f"{name}_less_ease"])
        )
    print(json.dumps({"cells": on, **whole, "seconds": float(np.mean([seconds for _, seconds in found]))}))


def main(words: Sequence[str] | None = None) -> None:
    """Ask every method, and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, and recorded figures of peers")
    parser.add_argument("--validate", action="store_true", help="judge the validation cells instead")
    parser.add_argument("--part", choices=("all", "catalogue"), default="all", help="only the whole catalogue")
    parser.add_argument("--only", default=",".join(METHODS), metavar="NAME,NAME", help="methods to run, by their names")
    parser.add_argument("--seed", type=int, default=0, help="the first seed of thurbo's fits")
    parser.add_argument("--seeds", type=int, help=f"how many (default {N_SEEDS})")
    parser.add_argument("--kept", action="store_true", help="peers' scores of an earlier run, where there are")
    parser.add_argument("--peers", type=Path, default=Path(".peers"), help="folder of the peers' environments")
    parser.add_argument("--install", action="store_true", help="make those environments, and stop")
    chosen = parser.parse_args(words)
    names = [name.strip() for name in chosen.only.split(",")]
    if unknown := set(names) - set(METHODS):
        parser.error(f"--only {', '.join(sorted(unknown))}: give names from {', '.join(METHODS)}")
    if chosen.install:
        install({peer.folder: peer for name, peer in PEERS.items() if name in names}, chosen.peers)
        return
    split, outcomes = load(), dict[str, Outcome]()
    if chosen.part == "catalogue":
        report_catalogue(split, seeds_of(chosen), "valid" if chosen.validate else "test")
        return
    for name in names:
        found = outcome(split, name, chosen)
        if found is None:
            how = "none are kept" if chosen.kept or chosen.quick else "python -m benchmarks.movielens --install"
            print(f"{name:<24}absent: {how}", flush=True)
            continue
        outcomes[name] = found
        print(f"{name:<24}N@5 {found.means['ndcg5']:.4f}{found.seconds:>9.1f} s   {found.source}", flush=True)
    of_catalogue = {}
    if OURS in outcomes and not chosen.validate:
        of_catalogue = {OURS: outcomes[OURS].catalogue or {}}
        if not chosen.quick and not set(names).isdisjoint(BASELINES):
            of_catalogue |= {name: catalogue.judge(split.test, top) for name, top in catalogue.peers(split).items()}
    report(outcomes, "valid" if chosen.validate else "test", of_catalogue)


if __name__ == "__main__":
    main()
