"""The protocol, the baselines and the bookkeeping of the ranking benchmark, on made ratings; no peer is needed."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks import movielens, movielens_data
from benchmarks import movielens_baselines as baselines
from benchmarks import movielens_catalogue as catalogue
from benchmarks.impute_gss import Peer
from benchmarks.movielens_data import Cells, Scores, Split

N_USERS, N_MOVIES, N_RATED = 120, 80, 50


def made() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Two tastes, good and bad movies, and some movies that everybody rates; one user with too few ratings."""
    rng = np.random.default_rng(0)
    taste, kind, quality = rng.normal(size=N_USERS), rng.normal(size=N_MOVIES), rng.normal(size=N_MOVIES)
    rows = []
    for user in range(N_USERS):
        chance = np.where(np.arange(N_MOVIES) < 8, 1e6, 1.0)
        movies = rng.choice(N_MOVIES, N_RATED if user else 20, replace=False, p=chance / chance.sum())
        worth = quality[movies] + 1.5 * taste[user] * kind[movies] + rng.normal(0, 0.3, len(movies))
        rating = np.digitize(worth, [-2, -0.7, 0.7, 2]) + 1
        order = rng.permutation(len(movies))
        rows.append(pd.DataFrame({"user_id": user + 1, "movie_id": movies * 3, "rating": rating, "time_order": order}))
    users = pd.DataFrame({"gender": rng.choice(["F", "M"], N_USERS), "age": rng.choice(["1", "25"], N_USERS)})
    users["occupation"] = [str(code) for code in rng.integers(0, 21, N_USERS)]
    genres = {name: rng.random(N_MOVIES) < 0.4 for name in ("Action", "Drama")}
    movies = pd.DataFrame({"year": rng.integers(1930, 2000, N_MOVIES)} | genres, index=np.arange(N_MOVIES) * 3)
    return pd.concat(rows, ignore_index=True), users.set_axis(np.arange(1, N_USERS + 1), axis=0), movies


RATINGS, USERS, MOVIES = made()


@pytest.fixture(scope="module")
def split() -> Split:
    return movielens_data.divide(RATINGS, USERS, MOVIES)


def test_the_movies_rated_most_and_the_users_who_rate_least_are_left_out(split: Split):
    number = RATINGS["movie_id"].value_counts()
    dropped = set(number.index) - set(split.item_id)
    assert len(dropped) == math.ceil(0.1 * len(number))
    assert number[list(dropped)].min() >= number[split.item_id].max()
    np.testing.assert_array_equal(split.user_id, np.arange(2, N_USERS + 1))
    np.testing.assert_array_equal(split.age, USERS.loc[split.user_id, "age"].astype(int))
    np.testing.assert_array_equal(split.gender, USERS.loc[split.user_id, "gender"])
    np.testing.assert_array_equal(split.occupation, USERS.loc[split.user_id, "occupation"].astype(int))
    np.testing.assert_array_equal(split.year, MOVIES.loc[split.item_id, "year"])
    np.testing.assert_array_equal(split.genres, MOVIES.loc[split.item_id, ["Action", "Drama"]])


def test_the_latest_ratings_are_held_out(split: Split):
    when = RATINGS.set_index(["user_id", "movie_id"])
    ends = []
    for cells, number in ((split.train, None), (split.valid, 5), (split.test, 10)):
        known = when.loc[list(zip(split.user_id[cells.user], split.item_id[cells.item], strict=True))]
        np.testing.assert_array_equal(known["rating"], cells.rating)
        assert number is None or (np.bincount(cells.user) == number).all()
        ends.append(known.groupby("user_id")["time_order"].agg(["min", "max"]).to_numpy())
        assert (np.diff(known["time_order"].to_numpy())[np.diff(cells.user) == 0] > 0).all()
    train, valid, test = ends
    assert (train[:, 1] < valid[:, 0]).all()
    assert (valid[:, 1] < test[:, 0]).all()


def test_load_reads_either_file_and_refuses_other_ratings(
    split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "movielens-1m"
    folder.mkdir()
    monkeypatch.setenv("THURBO_DATA", str(tmp_path))
    lines = (f"{row.Index}::{row.gender}::{row.age}::{row.occupation}::12345-6789" for row in USERS.itertuples())
    (folder / "users.dat").write_text("\n".join(lines))
    has = MOVIES.apply(lambda row: "|".join(name for name in ("Action", "Drama") if row[name]) or "Western", axis=1)
    lines = (f"{index}::A title, The (Le) ({MOVIES['year'][index]})::{has[index]}" for index in MOVIES.index)
    (folder / "movies.dat").write_text("\n".join(lines))
    # As GroupLens has it: seconds, in which several ratings fall.
    ratings = RATINGS.sort_values(["user_id", "time_order"])
    lines = (f"{r.user_id}::{r.movie_id}::{r.rating}::{9_000 + r.time_order // 3}" for r in ratings.itertuples())
    (folder / "ratings.dat").write_text("\n".join(lines))
    with pytest.raises(AssertionError, match="these are other ratings"):
        movielens_data.load()
    monkeypatch.setattr(movielens_data, "N_USERS", split.n_users)
    monkeypatch.setattr(movielens_data, "N_ITEMS", split.n_items)
    monkeypatch.setattr(movielens_data, "N_CELLS", tuple(len(each.user) for each in split[:3]))
    from_dat = movielens_data.load()
    RATINGS.to_csv(folder / "ratings.csv.xz", index=False)
    for one in (from_dat, movielens_data.load()):
        for name, expected in split._replace(genres=MOVIES.loc[split.item_id, ["Action", "Drama"]])._asdict().items():
            found = one.genres[:, :2] if name == "genres" else getattr(one, name)  # some have no genre: a third one
            np.testing.assert_array_equal(found, expected)


def test_measures_use_the_gains_of_the_protocol():
    cells = Cells(np.array([0, 0, 1, 1]), np.arange(4), np.array([5, 3, 1, 4]))
    found = movielens_data.figures(cells, np.array([1.0, 2.0, 0.0, 3.0]))
    assert set(found) == set(movielens_data.MEASURES)
    np.testing.assert_allclose(found["ndcg1"], [7 / 31, 1])
    np.testing.assert_allclose(found["ndcg5"][0], (7 + 31 / math.log2(3)) / (31 + 7 / math.log2(3)))
    np.testing.assert_allclose(found["err"], [3 / 16 + 13 / 16 * 15 / 16 / 2, 7 / 16])


def ordered_partitions(items: tuple[int, ...]) -> list[list[tuple[int, ...]]]:
    if not items:
        return [[]]
    found = []
    for size in range(1, len(items) + 1):
        for tier in itertools.combinations(items, size):
            rest = tuple(each for each in items if each not in tier)
            found += [[tier, *others] for others in ordered_partitions(rest)]
    return found


def test_recommendations_of_a_catalogue_are_judged_by_what_is_rated_next():
    cells = Cells(np.array([0, 0, 1]), np.array([4, 2, 3]), np.array([1, 5, 3]))
    found = catalogue.judge(cells, np.array([[2, 0, 4], [1, 0, -1]]))
    assert found["recall20"] == pytest.approx((1 + 0) / 2)
    assert found["ndcg20"] == pytest.approx((1 + 0.5) / (1 + 1 / math.log2(3)) / 2)
    scores, seen = np.array([[3.0, 9.0, 1.0, 2.0]]), np.array([[0, 1, 0, 0]])
    np.testing.assert_array_equal(catalogue.best(scores, seen, top=2), [[0, 3]])


def test_the_weights_of_als_solve_weighted_least_squares():
    rng = np.random.default_rng(0)
    seen, others = (rng.random((3, 40)) < 0.3).astype(float), rng.normal(size=(40, catalogue.N_FACTORS))
    (row, *_), weight = catalogue._solve(seen, others, 4.0), 1.0 + 4.0 * seen[0]
    gradient = others.T @ (weight * (others @ row - seen[0])) + catalogue.SHRINKAGE * row
    np.testing.assert_allclose(gradient, 0, atol=1e-8)


def test_pmop_is_a_distribution_over_all_orders_with_ties():
    score, total = np.array([0.3, -1.2, 2.0, 0.1]), 0.0
    for tiers in ordered_partitions((0, 1, 2, 3)):
        rating, constant, left = np.zeros(4, int), 0.0, 4
        for place, tier in enumerate(tiers):
            rating[list(tier)] = 5 - place
            constant -= math.log(len(tier)) + math.log((2**left - 1) / left)  # the mean, and its sum over all sets
            left -= len(tier)
        cells = Cells(np.zeros(4, int), np.arange(4), rating)
        total += math.exp(baselines.pmop_log_likelihood(cells, score)[0] + constant)
    assert total == pytest.approx(1.0)


def test_pmop_gradient_is_that_of_its_likelihood():
    rng = np.random.default_rng(1)
    cells = Cells(np.repeat([0, 1, 2], [6, 1, 4]), np.arange(11), rng.integers(1, 6, 11))
    score, step = rng.normal(size=11), 1e-5
    for i, slope in enumerate(baselines.pmop_gradient(cells, score)):
        up, down = (
            baselines.pmop_log_likelihood(cells, score + sign * step * (np.arange(11) == i)) for sign in (1, -1)
        )
        assert slope == pytest.approx((up - down).sum() / (2 * step), abs=1e-8)


def merit(split: Split, scores: Scores) -> float:
    return float(movielens_data.figures(split.test, scores.test)["ndcg5"].mean())


@pytest.mark.parametrize("name", list(movielens.BASELINES))
def test_baselines_learn_from_training_cells_alone(split: Split, name: str):
    short = {"n_steps": 60} if name in ("ListRank-MF", "PMOP") else {}
    found = movielens.BASELINES[name](split, **short)
    assert (len(found.valid), len(found.test)) == (len(split.valid.user), len(split.test.user))
    assert np.isfinite(found.test).all()
    upside_down = split._replace(test=split.test._replace(rating=6 - split.test.rating))
    np.testing.assert_array_equal(movielens.BASELINES[name](upside_down, **short).test, found.test)
    chance = merit(split, Scores(found.valid, np.zeros(len(found.test)), 0.0))
    if name != "popularity":  # which says nothing here
        assert merit(split, found) > chance + 0.05
    if name not in ("popularity", "item mean"):  # tastes differ
        assert merit(split, found) > merit(split, baselines.item_mean(split)) + 0.05


@pytest.mark.parametrize("name", list(movielens.BASELINES))
def test_an_item_that_nobody_rated_before_has_a_score(split: Split, name: str):
    shown = split.train.item != split.test.item[0]
    without = split._replace(train=Cells(*(each[shown] for each in split.train)))
    short = {"n_steps": 2} if name in ("ListRank-MF", "PMOP") else {}
    assert np.isfinite(movielens.BASELINES[name](without, **short).test).all()


def fake(folder: Path, body: str) -> Peer:
    """A peer that lives in this environment."""
    script = folder / "movielens_fake.py"
    script.write_text(f"import sys\nimport numpy as np\nfound = dict(np.load(sys.argv[1]))\n{body}\n")
    return Peer(str(script), ("7",))


def test_a_peer_never_hears_of_held_out_ratings_and_its_scores_are_kept(split: Split, tmp_path: Path):
    sees = {"train_user", "train_item", "train_rating", "valid_user", "valid_item", "test_user", "test_item"}
    body = (
        f"assert set(found) == {sees | {'n_users', 'n_items', 'gender', *movielens.ABOUT}!r}, set(found)\n"
        "assert sys.argv[3:] == ['7']\n"
        "np.savez(sys.argv[2], valid=found['valid_item'], test=found['test_user'] * 2.0, seconds=1.5)"
    )
    peer = fake(tmp_path, body)
    assert movielens.kept(split, peer, tmp_path) is None
    for scores in (movielens.theirs(split, peer, tmp_path), movielens.kept(split, peer, tmp_path)):
        assert scores is not None
        np.testing.assert_array_equal(scores.valid, split.valid.item)
        np.testing.assert_array_equal(scores.test, 2 * split.test.user)
        assert scores.seconds == 1.5
    assert len(list((tmp_path / "movielens").iterdir())) == 1
    others = split._replace(train=split.train._replace(rating=6 - split.train.rating))
    assert movielens.kept(others, peer, tmp_path) is None
    assert movielens.kept(split, peer._replace(words=("8",)), tmp_path) is None


def test_a_peer_runs_once_or_for_each_seed():
    assert movielens.seeded(movielens.PEERS["myFM"]) == [movielens.PEERS["myFM"]]
    runs = movielens.seeded(movielens.PEERS["myFM side"])
    assert [each.words[3] for each in runs] == ["0", "1", "2"]
    assert {each.words[4:] for each in runs} == {("rated", "raters", "side")}


def test_a_peer_may_be_absent_but_not_fail(split: Split, tmp_path: Path):
    assert movielens.theirs(split, movielens.PEERS["myFM"], tmp_path) is None
    with pytest.raises(RuntimeError, match="no such thing"):
        movielens.theirs(split, fake(tmp_path, "raise ValueError('no such thing')"), tmp_path)


def test_the_last_line_is_json(
    split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    asked = []

    def ours(split: Split, seed: int, quick: bool) -> tuple[np.ndarray, np.ndarray, float, float, np.ndarray]:
        asked.append((seed, quick))
        best = np.full((split.n_users, catalogue.TOP), -1)
        best[:, 0] = split.test.item[:: movielens_data.N_TEST]  # one movie of each user
        return split.valid.rating.astype(float), split.test.rating * (1.0 if seed else -1.0), 3.0 + seed, 0.5, best

    monkeypatch.setattr(movielens, "load", lambda: split)
    monkeypatch.setattr(movielens, "ours", ours)
    monkeypatch.setitem(movielens.RECORDED, "cmfrec", (0.9, 0.9, 0.999, 0.9, 1.0))  # best of all
    methods = ["--only", "thurbo,item mean,popularity,cmfrec", "--peers", str(tmp_path)]
    movielens.main(["--quick", *methods])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert asked == [(0, True)]
    assert {"err", "ndcg1", "ndcg5", "ndcg10", "seconds", "peers"} <= set(found)
    assert set(found["peers"]) == {"item mean", "popularity", "cmfrec"}
    assert all({"err", "ndcg1", "ndcg5", "ndcg10", "seconds"} <= set(each) for each in found["peers"].values())
    assert found["peers"]["cmfrec"] == {**found["peers"]["cmfrec"], "source": "recorded", "ndcg5": 0.999}
    beaten = found["ndcg5_against_best"]
    assert (beaten["best"], beaten["paired"]) == ("cmfrec", False)
    assert beaten["difference"] == pytest.approx(found["ndcg5"] - 0.999)
    asked.clear()
    movielens.main(methods)  # three seeds: the worst order, and twice the best
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert asked == [(0, False), (1, False), (2, False)]
    worst, best = (movielens_data.figures(split.test, sign * split.test.rating)["err"].mean() for sign in (-1, 1))
    assert found["err"] == pytest.approx((worst + 2 * best) / 3)
    assert found["seconds"] == 4.0
    assert set(found["catalogue"]) == {"thurbo", *catalogue.PEERS}
    assert found["catalogue"]["thurbo"]["recall20"] == pytest.approx(0.1)
    assert found["catalogue"]["EASE"]["recall20"] > 0.2
    assert "cmfrec" not in found["peers"]  # absent, and nothing recorded takes its place in a full run
    beaten = found["ndcg5_against_best"]
    assert (beaten["best"], beaten["paired"]) == ("item mean", True)
    assert beaten["lower"] < beaten["difference"] < beaten["upper"]
    movielens.main(["--validate", *methods])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["cells"], found["ndcg5"]) == ("valid", pytest.approx(1.0))
    with pytest.raises(SystemExit):
        movielens.main(["--only", "nobody"])


def test_the_whole_catalogue_is_compared_with_peers(
    split: Split, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def next_movies(split: Split, seed: int) -> tuple[np.ndarray, float]:
        best = np.full((split.n_users, catalogue.TOP), -1)
        best[:, : movielens_data.N_TEST] = split.test.item.reshape(split.n_users, -1)
        return best if seed else best[:, ::-1], 2.0  # all of them, first or last

    monkeypatch.setattr(movielens, "load", lambda: split)
    monkeypatch.setattr(movielens, "next_movies", next_movies)
    movielens.main(["--part", "catalogue", "--seeds", "2"])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["catalogue_recall20"] == 1.0
    assert found["catalogue_ndcg20"] == pytest.approx(np.mean(found["ndcg20_of_seeds"]))
    assert found["ndcg20_of_seeds"][1] == pytest.approx(1.0)
    assert set(found["peers"]) == set(catalogue.PEERS)
    less = found["recall20_less_ease"]
    assert less["difference"] == pytest.approx(1.0 - found["peers"]["EASE"]["recall20"])
    assert less["lower"] <= less["difference"] <= less["upper"]
