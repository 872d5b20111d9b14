"""What the ledger holds: which benchmark gives each of our headline figures, and with which arguments.

Idea: a run is one benchmark with fixed arguments and a seed of its fits; a figure is one number of its JSON line.
Promises only figures of thurbo itself. Peers are compared by the benchmarks, which are run without them here.
"""

from __future__ import annotations

from typing import NamedTuple

QUICK = "quick/"  # what names of quick runs and figures begin with


class Run(NamedTuple):
    """A benchmark and its arguments, to be run once for each seed as `python -m WORDS --seed SEED`."""

    words: str
    seeds: tuple[int, ...] = (0, 1, 2)
    seconds: float = 60.0  # of one seed with three others beside it, roughly: the longest begin first
    on_cpu: bool = False  # small tables, which a GPU does not make faster


class Figure(NamedTuple):
    """A number in the JSON of a run: where it stands, what it is, and which way is better.

    Two values that differ by `least` or less are equal, whatever the seeds say: this is how many digits are printed.
    """

    name: str
    run: str
    path: str  # keys of nested objects, joined by dots
    title: str
    unit: str
    larger_is_better: bool
    digits: int = 3

    @property
    def is_quick(self) -> bool:
        """Whether it is one of those that two cores give in a quarter of an hour together."""
        return self.name.startswith(QUICK)

    @property
    def least(self) -> float:
        """Half a unit of the last digit."""
        return 0.5 * 10.0**-self.digits


_COUNTRY_TASK = "benchmarks.survey --only country --unobserved exclude --no-baselines"
_FILLING_IN = "benchmarks.survey --only impute --no-baselines"

RUNS: dict[str, Run] = {
    "mnist.mp": Run("benchmarks.mnist --only mp --seeds 1", seconds=130),
    "mnist.likelihood": Run("benchmarks.mnist --only likelihood --seeds 1", seconds=50),
    "impute_gss": Run("benchmarks.impute_gss --only thurbo", seconds=100, on_cpu=True),
    "censored": Run("benchmarks.censored --no-peers", seconds=150, on_cpu=True),
    "movielens": Run("benchmarks.movielens --only thurbo --seeds 1", seconds=200, on_cpu=True),
    "sushi": Run("benchmarks.sushi --no-peers --seeds 1", seconds=240),
    "survey.country": Run(_COUNTRY_TASK, seconds=420),
    "survey.impute": Run(_FILLING_IN, seconds=505),
    "generative.mnist": Run("benchmarks.generative --part mnist --seeds 1", seconds=180),
    "generative.default": Run("benchmarks.generative --part default --seeds 1", seconds=180),
    "generative.tables": Run("benchmarks.generative --part tables --seeds 1", seconds=300),
    # On fewer rows and for fewer epochs; of the digits, errors on training images held out, so that the test images
    # are not looked at each time.
    "quick/mnist.mp": Run(
        "benchmarks.mnist --quick --validate --only mp --rows 12000 --hidden 200 --epochs 15", seconds=60
    ),
    "quick/impute_gss": Run("benchmarks.impute_gss --quick --only thurbo", seconds=25),
    "quick/censored": Run("benchmarks.censored --quick --no-peers", seconds=60),
    "quick/movielens": Run("benchmarks.movielens --quick --only thurbo", seconds=60),
    "quick/sushi": Run("benchmarks.sushi --quick --no-peers --epochs 15", seconds=40),
    "quick/survey.country": Run(
        f"{_COUNTRY_TASK} --quick --questions all --rows 4000 --hidden 50 --epochs 20", seconds=70
    ),
    "quick/generative.default": Run("benchmarks.generative --quick --part default --seeds 1", seconds=200),
    "quick/survey.impute": Run(f"{_FILLING_IN} --quick --rows 3000 --hidden 50 --factors 25 --epochs 15", seconds=80),
}

_MOVIES = {"err": "ERR", "ndcg1": "NDCG@1", "ndcg5": "NDCG@5", "ndcg10": "NDCG@10"}
_LABELLED = {"binary": "binary", "categorical": "categorical", "rank": "rank mention", "ordinal": "ordinal"}


def _survey(prefix: str) -> list[Figure]:
    """Log scores, errors and calibration of hidden answers."""
    run, title, cell = f"{prefix}survey.impute", "Survey, filling in", "nats per answer"
    scores = [
        Figure(f"{run}.{k}.log_score", run, f"impute.{k}.log_score", f"{title}: {words}", cell, True, 4)
        for k, words in _LABELLED.items()
    ]
    errors = [
        Figure(f"{run}.{k}.smae", run, f"impute.{k}.smae", f"{title}: {words}", "SMAE", False, 4)
        for k, words in {"ordinal": "ordinal", "continuous": "number"}.items()
    ]
    calibration = [
        Figure(f"{run}.{k}.ece", run, f"calibration.{k}", f"{title}: {words}", "expected calibration error", False, 4)
        for k, words in {"binary": "binary", "ordinal": "ordinal"}.items()
    ]
    return scores + errors + calibration


def _figures(prefix: str) -> list[Figure]:
    """Figures that both the full and the quick set have."""
    movies = [
        Figure(f"{prefix}movielens.{key}", f"{prefix}movielens", key, "MovieLens-1M, ranking", words, True, 4)
        for key, words in _MOVIES.items()
    ]
    return [
        Figure(f"{prefix}impute_gss.smae", f"{prefix}impute_gss", "smae", "GSS 2014, filling in", "SMAE", False, 4),
        Figure(f"{prefix}impute_gss.hit", f"{prefix}impute_gss", "hit", "GSS 2014, filling in", "hits", True, 4),
        Figure(f"{prefix}censored.loglik", f"{prefix}censored", "loglik", "Censored numbers", "nats per row", True, 4),
        *movies,
        Figure(f"{prefix}sushi.loglik", f"{prefix}sushi", "loglik", "Sushi", "nats per ranking", True, 4),
        *_survey(prefix),
    ]


def _generative() -> list[Figure]:
    """Log-likelihoods of test images and of held-out rows, and whether samples have all classes."""
    title, image = "Generative", "nats per image"
    settings = {"mnist": ("", "MNIST"), "default": ("default_", "MNIST, every default")}
    images = [
        Figure(f"generative.{run}.{key}", f"generative.{run}", f"mnist.{prefix}{key}", f"{title}, {words}", *own)
        for run, (prefix, words) in settings.items()
        for key, own in {
            "log_likelihood": (image, True, 1),
            "lower": (f"{image}, lower bound", True, 1),
            "share_ratio": ("largest ratio of shares of a digit", False, 2),
        }.items()
    ]
    rows = [
        Figure(f"generative.{table}.{key}", "generative.tables", f"tables.{table}.{key}", f"{title}, {words}{by}",
               "nats per row", True, 2)
        for table, words in {"starwars": "Star Wars", "gss": "GSS 2014", "r4": "Afrobarometer"}.items()
        for key, by in {"log_likelihood": "", "exact": ", exact", "chain_rule": ", chain rule"}.items()
    ]  # fmt: skip
    return images + rows


_COUNTRY = "Survey, country"
FIGURES: tuple[Figure, ...] = (
    Figure("mnist.error", "mnist.mp", "error", "MNIST, multi-prediction", "% wrong", False, 2),
    Figure("mnist.likelihood_error", "mnist.likelihood", "likelihood_error", "MNIST, likelihood", "% wrong", False, 2),
    Figure("survey.country_error", "survey.country", "country_error", _COUNTRY, "% wrong", False, 2),
    Figure("survey.country_error_strict", "survey.country", "country_error_strict", f"{_COUNTRY}, strict", "% wrong",
           False, 2),
    *_figures(""),
    *_generative(),
    Figure("quick/mnist.error", "quick/mnist.mp", "validation.mp", "MNIST, small", "% wrong", False, 2),
    Figure("quick/survey.country_error", "quick/survey.country", "country_error", _COUNTRY, "% wrong", False, 2),
    *_figures(QUICK),
    Figure("quick/generative.default.log_likelihood", "quick/generative.default", "mnist.default_log_likelihood",
           "Generative, MNIST, small", "nats per image", True, 1),
)  # fmt: skip
