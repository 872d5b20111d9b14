"""The interface of a form, and what all forms share: records, scores of masked answers (§6), baselines, listed items.

A form answers what queries, evaluation and reports ask of an answer; predictive distributions are given by `Ask`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, stdtrit

from thurbo.errors import ThurboError, check_choice
from thurbo.table.columns.cells import Block, BoolArray, FloatArray, IntArray
from thurbo.table.columns.values import plain

if TYPE_CHECKING:
    from thurbo.table.columns.column import Column
    from thurbo.table.columns.forms.number import Distribution


Columns = dict[str, NDArray[Any]]  # cells by column of the table


class Lines(NamedTuple):
    """Answers to predict: answer a is that of row `row[a]` at site `site[a]` of the column."""

    row: NDArray[Any]
    site: NDArray[Any]


@runtime_checkable
class Ask(Protocol):
    """Predictive distributions of one column's answers, each given all other evidence in its row.

    In the shared layout there is one answer for each row, at a `site` of the column. In the listed layout there is one
    for each line, at the site of the line.
    """

    bands_at: FloatArray | None  # ends of the bands in which a number is drawn, in standard units

    lines: Lines  # row and site of each answer

    def levels(self, n_levels: int, site: int = 0) -> FloatArray:
        """P(level) of each answer, [answer, level]."""

    def below(self, z: FloatArray) -> FloatArray:
        """P(· ≤ z) of each answer at each of the given numbers, [answer, number], in standard units."""

    def bands(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        """P(lower ≤ z ≤ upper) of each band, if it is one of these: [answer, band]."""

    def number(self) -> Distribution:
        """The distribution of each answer in standard units."""

    def density(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log density and P(· ≤ z) at one number for each answer, in standard units."""

    def mass(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        """P(lower ≤ z ≤ upper) of each answer, in standard units."""

    def largest(self) -> tuple[FloatArray, FloatArray]:
        """P(label has the largest utility) and mean utilities, [row, label] each."""

    def utility(self) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of the utility of each answer's item, [answer]."""

    def orders(self, tier: IntArray) -> FloatArray:
        """log P(order) of rows, or of tasks whose lines are the answers: tiers [row, item] → [row]."""

    def draw_orders(self, first: IntArray, rng: np.random.Generator) -> FloatArray:
        """Utilities of one draw of each row in which the item `first` is the largest, [row, item]."""


@runtime_checkable
class Trial(Protocol):
    """One column with some answers masked: the input of its evaluation."""

    name: str
    block: Block  # the constraints of the column, masked answers included
    is_masked: BoolArray  # [line]
    weight: FloatArray  # [line] weight of the row of each line

    @property
    def masked(self) -> NDArray[Any]: ...  # lines whose answer is masked, [answer]

    @property
    def row(self) -> NDArray[Any]: ...  # row of each masked answer, [answer]

    @property
    def ask(self) -> Ask: ...  # the predictive distributions of the masked answers

    # By regression (logistic, ridge) or gradient boosting on the other columns: P(label) of the masked lines,
    # [answer, label], or their numbers; None if it is not wanted or not possible.
    def logistic(self, code: IntArray, n_labels: int) -> FloatArray | None: ...
    def ridge(self, target: FloatArray, known: BoolArray) -> Normal | None: ...
    def boosting(self, code: IntArray, n_labels: int) -> FloatArray | None: ...
    def boosted_numbers(self, target: FloatArray, known: BoolArray) -> Normal | None: ...


class Start(NamedTuple):
    """Parameters of a column's sites before training: cuts [site, cut], biases [site] and one scale for all sites."""

    cuts: FloatArray
    bias: FloatArray
    scale: float = 1.0


class Profile(NamedTuple):
    """A column as numbers that can be averaged over rows: one per possible answer."""

    answers: tuple[str, ...]
    values: FloatArray  # [row, answer]; 1 or 0, or a number in standard units; NaN if unknown
    to_user: Callable[[FloatArray], FloatArray] | None = None  # if they are numbers
    several: bool = False  # whether more than one of the answers may hold in a row


class Answers(NamedTuple):
    """One question of a table, or the part of it for one label, ready to be averaged in a report."""

    name: str
    kind: str  # "binary", "ordinal", "continuous", ...
    labels: tuple[str, ...]  # in order; empty for a number
    values: FloatArray  # [row] code or number; NaN if missing
    description: str
    site: str = ""  # name of its site, if it is not that of the question
    parts: tuple[Answers, ...] = ()  # one for each label, if each has a site
    answered: BoolArray | None = None  # [row], if this differs from having a value
    share_interval: float = 0.0  # share of the answers that are intervals or one-sided
    has_order: bool = True  # whether the first and last of `labels` are ends
    exclusive: bool = True  # whether at most one of `parts` is true in a row
    prefix: str = ""  # text before shares of labels: "first: "

    @property
    def observed(self) -> BoolArray:
        return ~np.isnan(self.values)

    @property
    def share_missing(self) -> float:
        answered = self.observed if self.answered is None else self.answered
        return float(np.mean(~answered)) if len(answered) else 0.0

    @property
    def lines(self) -> tuple[Answers, ...]:
        """Its parts, or itself if it has none."""
        return self.parts or (self,)


class Certainty(NamedTuple):
    """How sure predicted values are: their "probability", or the "margin" of numbers, half of a 90 % interval."""

    kind: Literal["probability", "margin"]
    values: FloatArray  # [answer]


def check_statistic(statistic: str) -> None:
    """Check the name of a summary of a predictive distribution."""
    check_choice("statistic", statistic, ("auto", "mode", "median", "mean"))


class Form(ABC):
    """A type of answer of one column, which has the labels, the units and the format of cells."""

    asks_rows: bool = False  # whether `Ask` predicts whole cells with all their sites, not single sites
    has_options: bool = False  # whether `probabilities` are those of separate yes-no answers

    def __init__(self, column: Column):
        self.column = column

    def probabilities(self, ask: Ask) -> FloatArray:
        """P(label | all other evidence in the row), [answer, label]."""
        raise ThurboError(f"a column of kind {self.column.kind} has no labels; use predict for its mean or median")

    @abstractmethod
    def values(self, ask: Ask, statistic: str) -> NDArray[Any]:
        """One value per answer: a label, or a number in the user's units."""

    def cells(self, name: str, ask: Ask, statistic: str) -> Columns:
        """Values as the columns of the table that hold the answers, in the shared layout."""
        return self.column.to_columns(name, self.values(ask, statistic))

    @abstractmethod
    def certainty(self, ask: Ask, values: NDArray[Any]) -> Certainty:
        """How sure the given predicted values are, [answer]."""

    def interval(self, ask: Ask, level: float) -> NDArray[Any]:
        """Both ends of the central interval of each answer, [answer, 2]."""
        problem = f"a column of kind {self.column.kind} has no order, so it has no intervals"
        raise ThurboError(f"{problem}; use a number or an ordinal column, or use predict_proba")

    def n_parts(self) -> int:
        """Number of answers in a cell that are scored and drawn one after another."""
        return 1

    @abstractmethod
    def log_prob(self, ask: Ask, block: Block, part: int = 0) -> FloatArray:
        """log P(what each line says), [line], in the user's units; the lines of `block` are those of `ask`."""

    @abstractmethod
    def outcomes(self, ask: Ask, part: int = 0) -> FloatArray:
        """P(outcome) of each answer, [answer, outcome]: a few exclusive outcomes, of which one is drawn first."""

    def draw_bands(self, ask: Ask) -> FloatArray | None:
        """Ends of the bands of a number, in standard units, which `outcomes` are; None if outcomes are labels."""
        return None

    def allowed(self, block: Block, outcomes: FloatArray, part: int = 0) -> BoolArray:
        """Outcomes that agree with what each line says, [line, outcome]."""
        return np.ones(outcomes.shape, bool)

    @abstractmethod
    def drawn(self, name: str, ask: Ask, outcome: NDArray[Any], rng: Generator, within: Block | None = None) -> Columns:
        """One draw of each answer given its outcome, as cells by column of the table; it agrees with `within`."""

    def from_latent(self, x: FloatArray, site: IntArray, cuts: FloatArray, scale: FloatArray) -> NDArray[Any]:
        """Values of latent x [answer] at sites of a listed column; `cuts` and `scale` are those of all its sites."""
        raise ThurboError(f"a column of kind {self.column.kind} has no lists")

    @abstractmethod
    def scorable(self, block: Block) -> BoolArray:
        """Lines whose answer is known exactly enough to score a prediction, [line]."""

    def mask(self, block: Block, masked: BoolArray, rng: np.random.RandomState) -> BoolArray:
        """The lines to mask, given lines that were drawn at random, [line]."""
        return masked

    def together(self, block: Block, lines: BoolArray, rng: np.random.RandomState) -> NDArray[Any]:
        """Groups of lines that have to be masked together: [line] the number of its group, −1 if not in `lines`."""
        return np.where(lines, np.arange(len(lines)), -1)

    @abstractmethod
    def test(self, trial: Trial) -> list[Tested]:
        """Scores of the masked answers under the model and the baselines."""

    @abstractmethod
    def features(self, block: Block, shown: BoolArray) -> tuple[FloatArray, BoolArray]:
        """Features for a regression from the `shown` lines: [row, feature], and which rows have any, [row]."""

    @abstractmethod
    def answers(self, name: str, block: Block) -> Answers:
        """The answers for a report."""

    @abstractmethod
    def profile(self, block: Block) -> Profile:
        """The answers as numbers that can be averaged over the rows of a segment."""

    @abstractmethod
    def start(self, block: Block, weight: FloatArray) -> Start:
        """Parameters of the independent model, from the observed frequencies; `weight` is [row]."""

    def shares(self, block: Block, weight: FloatArray) -> FloatArray | None:
        """Shares of the labels in a table, [site, label], one line for all sites of a choice; None without labels.

        Every label has half an answer more than observed; `weight` is [row].
        """
        return None

    def shrinkage(self, block: Block, weight: FloatArray) -> FloatArray:
        """How much stronger the weight decay of each site is than that of the model, [site]; `weight` is [row]."""
        return np.ones(len(block.sites))

    def learned(self, cuts: FloatArray, scale: FloatArray) -> dict[str, Any]:
        """Parameters of this column that are shown to the user: "cuts", or "scales"."""
        return {}

    def own_units(self, low: float, high: float, scale: float) -> str:
        """The ends of an interval of x in the user's units, as text; empty if there are none."""
        return ""

    @property
    def _units(self) -> tuple[FloatArray, FloatArray]:
        """Cuts and scales with which a column decodes utilities and options."""
        n_sites = len(self.column.sites)
        return np.zeros((n_sites, 1)), np.ones(n_sites)

    def _test_order(self, trial: Trial, truth: NDArray[Any], values: ByRival) -> list[Tested]:
        """Accuracy of ranking two masked items of a row, by their scores and by what each method expects, [answer]."""
        if trial.block.entries is None:
            return []
        better, worse = pairs_of(trial.row, truth)
        if not len(better):
            return []
        return [self._tested_pairs(trial, better, {rival: own[better] - own[worse] for rival, own in values.items()})]

    def _tested_pairs(self, trial: Trial, which: NDArray[Any], gaps: ByRival, **more: ByRival) -> Tested:
        """Accuracy of pairs by the gaps between the predictions of both; `which` masked answer each is from."""
        right = {rival: (gap > 0) + 0.5 * (gap == 0) for rival, gap in gaps.items()}
        row, weight = trial.row[which], trial.weight[trial.masked][which]
        return Tested(f"{trial.name}: pairs", self.column.kind, "pair", row, weight, right=right, **more)

    def _answers(self, name: str, labels: tuple[str, ...], values: FloatArray, site: str = "", **more: Any) -> Answers:
        return Answers(name, self.column.kind, labels, values, self.column.describe(), site, **more)

    def _item_answers(self, name: str, block: Block, values: FloatArray, labels: tuple[str, ...] = ()) -> Answers:
        """A listed column for a report: each row's mean, and its most frequent items one by one."""
        shown, texts = most_frequent(block, N_SHOWN), self.column.texts
        parts = tuple(
            self._answers(f"{name}: {texts[site]}", labels, own, f"{name}.{block.sites[site]}")
            for site, own in zip(shown, by_row(block, values, shown).T, strict=True)
        )
        means = row_means(block, values)
        if labels:  # codes of levels as the numbers they stand for
            means = np.interp(means, np.arange(len(labels)), self.column.level_numbers)
        return self._answers(name, (), means, parts=parts, answered=block.answered, exclusive=False)

    def _item_profile(self, block: Block, values: FloatArray, to_user: Callable[[FloatArray], FloatArray]) -> Profile:
        """A listed column for a segment: each row's mean, and the scores of its most frequent items, as numbers."""
        shown = most_frequent(block, N_SHOWN)
        table = np.concatenate([row_means(block, values)[:, None], by_row(block, values, shown)], axis=1)
        return Profile(("mean score", *(self.column.texts[site] for site in shown)), table, to_user, several=True)


LEAST_LOG = -700.0  # of a probability: exp of it is still a positive number


def log_of(chance: FloatArray) -> FloatArray:
    """Logarithms of probabilities, finite for 0."""
    return np.log(np.maximum(chance, np.exp(LEAST_LOG)))


def word(label: Any) -> str:
    """A label as text."""
    return ("yes" if label else "no") if isinstance(label, bool) else str(label)


def line_weight(block: Block, weight: FloatArray) -> FloatArray:
    """Weights of rows as weights of lines."""
    return weight if block.entries is None else weight[block.lists.row]


LEAST_CHANCE = 1e-12  # smallest probability of the true label, so that log scores are finite
N_BINS = 10
LEVEL = 0.95  # of the intervals of differences
SURPRISING = 2.0  # how much less probable than usual a surprising answer was
MEASURES = ("accuracy", "log_score", "mae", "smae", "rmse", "calibration_error")
RIVALS = ("", "_marginal", "_logistic", "_boosting", "_both")

# The model's under "", the baselines' under the other names; "_both" is the mean of "_logistic" and "_boosting".
ByRival = dict[str, NDArray[Any]]
_NONE: ByRival = {}


class Tested(NamedTuple):
    """The masked answers of one type, and what the model and each baseline gave for each of them, [answer]."""

    about: str
    kind: str
    answer: str
    row: NDArray[Any]  # of every answer
    weight: FloatArray  # of every answer
    score: ByRival = _NONE  # log-probability, or log density in the user's units
    right: ByRival = _NONE  # 1 if the predicted label is the true one, a half in a tie
    absolute: ByRival = _NONE  # absolute error of the median
    squared: ByRival = _NONE  # squared error of the mean
    confidence: ByRival = _NONE  # probability of the predicted label
    below: ByRival = _NONE  # P(number ≤ truth)
    code: ByRival = _NONE  # the true label, under ""

    @property
    def record(self) -> dict[str, Any]:
        """Every measure by every method, None if it does not apply; and the differences to the baselines."""
        found: dict[str, float] = {}
        for measure, values in (("accuracy", self.right), ("log_score", self.score), ("mae", self.absolute)):
            found |= {f"{measure}{rival}": self._mean(each) for rival, each in values.items()}
        found |= {f"rmse{rival}": float(np.sqrt(self._mean(each))) for rival, each in self.squared.items()}
        for rival, sure in self.confidence.items():
            found[f"calibration_error{rival}"] = calibration_of_labels(sure, self.right[rival], self.weight)
        for rival, below in self.below.items():
            found[f"calibration_error{rival}"] = calibration_of_numbers(below, self.weight)
        usual = found.get("mae_marginal")
        if usual:
            found |= {f"smae{rival}": found[f"mae{rival}"] / usual for rival in self.absolute}
        measures = {f"{measure}{rival}": found.get(f"{measure}{rival}") for measure in MEASURES for rival in RIVALS}
        about = {"column": self.about, "kind": self.kind, "answer": self.answer, "n": len(self.row)}
        return {**about, **measures, **gains([self])}

    def _mean(self, values: NDArray[Any]) -> float:
        return float(np.average(values, weights=self.weight))


def pooled(tests: Iterable[Tested]) -> list[Tested]:
    """Tests of the same type of answer as one test, for example those of several folds."""
    groups: dict[tuple[str, str, str], list[Tested]] = {}
    for test in tests:
        groups.setdefault(test[:3], []).append(test)
    found = []
    for about, group in groups.items():
        rows, weights, *parts = list(zip(*group, strict=True))[3:]
        common = [[rival for rival in each[0] if all(rival in own for own in each)] for each in parts]
        joined: list[ByRival] = [
            {rival: np.concatenate([own[rival] for own in each]) for rival in rivals}
            for each, rivals in zip(parts, common, strict=True)
        ]
        found.append(Tested(*about, np.concatenate(rows), np.concatenate(weights), *joined))
    return found


def gains(tests: list[Tested]) -> dict[str, float | None]:
    """Mean difference of log scores to each baseline, its standard error and interval; None where there is none."""
    found: dict[str, float | None] = {}
    for rival in RIVALS[1:]:
        known = [(test.score[""] - test.score[rival], test.weight, test.row) for test in tests if rival in test.score]
        values = difference(*map(np.concatenate, zip(*known, strict=True))) if known else (None,) * 4
        names = [f"gain{rival}{end}" for end in ("", "_se", "_low", "_high")]
        found |= dict(zip(names, values, strict=True))
    return found


def difference(value: FloatArray, weight: FloatArray, row: NDArray[Any]) -> tuple[float | None, ...]:
    """Weighted mean of the differences, and, with two rows or more, its standard error and both ends of its interval.

    Answers of one row are not independent: with r_i the sum of w (value − mean) over row i, the variance is Σ r_i² /
    (Σ w)² · n / (n − 1); the interval is that of Student's t with n − 1 degrees of freedom, n rows with an answer.
    """
    total = weight.sum()
    mean = float(value @ weight / total)
    rows, place = np.unique(row[weight > 0], return_inverse=True)
    n = len(rows)
    if n < 2:
        return mean, None, None, None
    sums = np.bincount(place, (weight * (value - mean))[weight > 0], minlength=n)
    error = float(np.sqrt((sums @ sums) * n / (n - 1)) / total)
    reach = float(stdtrit(n - 1, 0.5 + 0.5 * LEVEL)) * error
    return mean, error, mean - reach, mean + reach


def median_level(chances: FloatArray) -> NDArray[Any]:
    """The level at which half of the probability is reached, [row]."""
    return (np.cumsum(chances, axis=1) < 0.5).sum(axis=1).clip(max=chances.shape[1] - 1)


def calibration_bins(tests: Iterable[Tested]) -> list[dict[str, Any]]:
    """Of all labels in ten bins of confidence: `n` answers, mean `predicted` probability and share `observed`."""
    known = [(test.confidence[""], test.right[""], test.weight) for test in tests if test.confidence]
    if not known:
        return []
    sure, right, weight = map(np.concatenate, zip(*known, strict=True))
    which, found = _bin_of(sure), []
    for place in np.unique(which[weight > 0]):
        own = (which == place) & (weight > 0)
        predicted, observed = (float(np.average(each[own], weights=weight[own])) for each in (sure, right))
        found.append({"n": int(own.sum()), "predicted": predicted, "observed": observed})
    return found


def _bin_of(confidence: FloatArray) -> NDArray[Any]:
    return np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)


def surprises(tests: Iterable[Tested], least: int = 3) -> list[dict[str, Any]]:
    """Labels that `n` of `of` answers give, at least so many, though at most half as probable as usual; by share."""
    found = []
    for test in tests:
        if test.answer not in ("label", "favourite") or "" not in test.code or "_marginal" not in test.score:
            continue
        unlikely = test.score[""] < test.score["_marginal"] - np.log(SURPRISING)
        for code in np.unique(test.code[""]).tolist():
            own = test.code[""] == code
            n, of = int((unlikely & own).sum()), int(own.sum())
            if n >= least:
                found.append({"column": test.about, "code": int(code), "n": n, "of": of, "share": n / of})
    return sorted(found, key=lambda each: -each["share"])


def calibration_of_labels(
    confidence: FloatArray, right: BoolArray | FloatArray, weight: FloatArray | None = None
) -> float:
    """Expected calibration error: Σ over ten bins of confidence of share · |mean confidence − share correct|."""
    weight = np.ones(len(right)) if weight is None else weight
    gaps = np.bincount(_bin_of(confidence), weight * (confidence - right), N_BINS)
    return float(np.abs(gaps).sum() / weight.sum())


def calibration_of_numbers(below: FloatArray, weight: FloatArray | None = None) -> float:
    """Mean of |share of rows with P(z ≤ truth) up to p − p| over p = 0.1, …, 0.9."""
    levels = np.arange(1, N_BINS) / N_BINS
    return float(np.abs(np.average(below[:, None] <= levels, axis=0, weights=weight) - levels).mean())


LOG_ROOT_2PI = 0.5 * float(np.log(2 * np.pi))
PRIOR_ANSWERS = 10.0  # shrinkage of an item's shares to those of all items, in answers


class Normal(NamedTuple):
    """A predicted normal distribution in standard units, one for each row; it is asked like `Ask`."""

    mean: FloatArray
    deviation: FloatArray

    def density(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        distance = (z - self.mean) / self.deviation
        return -0.5 * distance**2 - np.log(self.deviation) - LOG_ROOT_2PI, ndtr(distance)

    def mass(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        return np.exp(log_between((lower - self.mean) / self.deviation, (upper - self.mean) / self.deviation))


def shares(code: IntArray, n_labels: int, weight: FloatArray | None = None) -> FloatArray:
    """Share of each label among the answers (code ≥ 0), half an answer added, so that none is zero: [label]."""
    known = code >= 0
    count = np.bincount(code[known], None if weight is None else scaled(weight[known]), minlength=n_labels) + 0.5
    return count / count.sum()


def scaled(weight: FloatArray) -> FloatArray:
    """Weights with mean one over the rows with positive weight, so that half an answer is half of an average one."""
    return weight / weight[weight > 0].mean() if weight.any() else np.ones(len(weight))


def spread(z: FloatArray, weight: FloatArray | None = None) -> tuple[float, float]:
    """Mean and deviation of shown numbers in standard units; 0 and 1 if there are fewer than two."""
    weight = np.ones(z.shape) if weight is None else scaled(weight)
    if (weight > 0).sum() < 2:
        return 0.0, 1.0
    mean = float(np.average(z, weights=weight))
    return mean, max(float(np.sqrt(np.average((z - mean) ** 2, weights=weight))), 1e-3)


def normal(lower: FloatArray, upper: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """Mean and deviation of shown numbers (equal ends) and intervals in standard units, the most likely ones.

    A weak prior (the standard normal) keeps both finite for any data.
    """
    point, weight = lower == upper, scaled(weight)
    mean, deviation = spread(middles(lower, upper), weight)
    if point.all() or (weight > 0).sum() < 2:
        return mean, deviation
    from scipy.optimize import minimize

    def loss(at: FloatArray) -> float:
        size = max(float(np.exp(at[1])), 1e-3)
        low, high = (lower - at[0]) / size, (upper - at[0]) / size
        density = -0.5 * np.where(point, low, 0.0) ** 2 - np.log(size) - LOG_ROOT_2PI
        found = np.where(point, density, log_between(low, high))
        return float(-np.average(found, weights=weight) + 1e-3 * (at @ at) / 2)

    found = minimize(loss, [mean, np.log(deviation)], method="Nelder-Mead").x
    return float(found[0]), max(float(np.exp(found[1])), 1e-3)


def middles(lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Middles of intervals, or the only end that is known."""
    lower, upper = np.where(np.isfinite(lower), lower, upper), np.where(np.isfinite(upper), upper, lower)
    return lower / 2 + upper / 2  # halves first: the sum of two large numbers may overflow


def log_between(low: FloatArray, high: FloatArray) -> FloatArray:
    """log P(low ≤ x ≤ high) of a standard normal, exact in both tails; −∞ if the ends are equal."""
    low, high = np.where(low > 0, -high, low), np.where(low > 0, -low, high)
    with np.errstate(divide="ignore", invalid="ignore"):
        return log_ndtr(high) + np.log1p(-np.exp(np.minimum(log_ndtr(low) - log_ndtr(high), 0.0)))


def standing(block: Block) -> FloatArray:
    """Position of each label in its row's order, from −1 (last) to 1 (first), 0 if it is not compared."""
    top = block.tier.max(axis=1, keepdims=True)
    if block.entries is not None:
        best = np.ones(block.n_rows, np.int32)
        np.maximum.at(best, block.entries.row, top[:, 0])
        top = best[block.entries.row][:, None]
    return np.where(block.tier >= 0, 2.0 * block.tier / np.maximum(top, 1) - 1.0, 0.0)


N_FEATURES = 40  # items with a feature of their own in a regression
N_SHOWN = 12  # items that a report or a segment shows
DAMPING = 5.0  # shrinkage of an item's mean to that of all items, in answers


def most_frequent(block: Block, most: int, lines: BoolArray | None = None) -> IntArray:
    """Sites in most lists, the most frequent first."""
    site = block.lists.site if lines is None else block.lists.site[lines]
    count = np.bincount(site, minlength=len(block.sites))
    order = np.argsort(-count, kind="stable")[:most]
    return order[count[order] > 0].astype(np.int32)


def by_row(block: Block, values: FloatArray, sites: IntArray) -> FloatArray:
    """Values [line] of some sites as a table [row, site], NaN if a row does not list it."""
    place = np.full(len(block.sites), -1)
    place[sites] = np.arange(len(sites))
    own = place[block.lists.site]
    kept = (own >= 0) & ~np.isnan(values)
    found = np.full((block.n_rows, len(sites)), np.nan)
    found[block.lists.row[kept], own[kept]] = values[kept]
    return found


def row_means(block: Block, values: FloatArray) -> FloatArray:
    """Mean of the values [line] of each row, NaN if it has none: [row]."""
    known = ~np.isnan(values)
    count, total = block.sum_in_row(known), block.sum_in_row(np.where(known, values, 0.0))
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def features(block: Block, values: FloatArray, shown: BoolArray) -> tuple[FloatArray, BoolArray]:
    """Mean and number of a row's values, and the values of the most frequent items: [row, feature], [row]."""
    known = shown & ~np.isnan(values)
    if known.any():
        values = (values - values[known].mean()) / (values[known].std() or 1.0)
    kept = np.where(known, values, np.nan)
    count, table = block.sum_in_row(known), by_row(block, kept, most_frequent(block, N_FEATURES, known))
    parts = [row_means(block, kept)[:, None], np.log1p(count)[:, None], table]
    return np.concatenate([*map(np.nan_to_num, parts), ~np.isnan(table)], axis=1), count > 0


def shifts(block: Block, level: FloatArray, weight: FloatArray) -> FloatArray:
    """Difference of each item's mean level [line] from that of all, in standard deviations, shrunk if few answers."""
    site, n_sites = block.lists.site, len(block.sites)
    if not weight.any():
        return np.zeros(n_sites)
    n, total = np.bincount(site, weight, n_sites), np.bincount(site, weight * level, n_sites)
    typical = np.average(level, weights=weight)
    spread = np.sqrt(np.average((level - typical) ** 2, weights=weight)) or 1.0
    return (total - typical * n) / (n + DAMPING) / spread


def pairs_of(row: NDArray[Any], value: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Positions of (better, worse) lines among lines of the same row; `row` is sorted."""
    groups = np.split(np.arange(len(row)), np.flatnonzero(np.diff(row)) + 1)
    better, worse = np.hstack([own[np.stack(np.nonzero(value[own, None] > value[own]))] for own in groups])
    return better, worse


def label_rivals(trial: Trial, code: IntArray, chance: FloatArray) -> ByRival:
    """P(label) of the masked lines by the model and the baselines, [answer, label]; `code` is that of all lines."""
    n_labels, entries = chance.shape[1], trial.block.entries
    shown = np.where(trial.is_masked, np.asarray(-1, code.dtype), code)
    usual = np.tile(shares(shown, n_labels, trial.weight), (len(trial.masked), 1))
    if entries is not None:  # shares of the labels of each item, shrunk to those of all items
        counts, known = np.zeros((len(trial.block.sites), n_labels)), shown >= 0
        np.add.at(counts, (entries.site[known], shown[known]), scaled(trial.weight[known]))
        usual = counts[entries.site[trial.masked]] + PRIOR_ANSWERS * usual
        usual /= usual.sum(axis=1, keepdims=True)
    regressions = {"_logistic": trial.logistic(shown, n_labels), "_boosting": trial.boosting(shown, n_labels)}
    known_rivals = {rival: each for rival, each in regressions.items() if each is not None}
    return with_both({"": chance, "_marginal": usual, **known_rivals})


def with_both(found: ByRival) -> ByRival:
    """The same with the mean of both regressions, if there are both."""
    if not {"_logistic", "_boosting"} <= set(found):
        return found
    return {**found, "_both": 0.5 * (found["_logistic"] + found["_boosting"])}


def central_levels(chances: FloatArray, level: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """First and last level [row] of the smallest central range with at least `level` of the probability.

    Central: both tails have the same maximal probability, as large as possible.
    """
    below = np.cumsum(chances, axis=1) - chances  # P(lower than this level)
    above = 1.0 - below - chances  # P(higher)
    # The range changes only where the limit equals one of the tail probabilities; above a half it would be empty.
    cuts = np.concatenate([np.zeros((len(chances), 1)), below, above], axis=1)
    cuts = np.where(cuts < 0.5, cuts, 0.0).clip(min=0.0)
    tolerance = 1e-9
    inside = (np.minimum(below, above) + chances)[:, None, :] > cuts[:, :, None] + tolerance
    held = (inside * chances[:, None, :]).sum(axis=2)
    best = np.where(held >= level - tolerance, cuts, -1.0).argmax(axis=1)
    run = inside[np.arange(len(chances)), best]
    return run.argmax(axis=1), run.shape[1] - 1 - run[:, ::-1].argmax(axis=1)


class LabelForm(Form):
    """One of a few labels: levels, bands and choices."""

    def values(self, ask: Ask, statistic: str) -> NDArray[Any]:
        """The most probable label, the median, or the mean of labels that are numbers (otherwise the median)."""
        check_statistic(statistic)
        chance, labels = self.probabilities(ask) * self.column.is_named, self.column.answer_labels
        numeric = all(isinstance(label, (int, float)) and not isinstance(label, bool) for label in labels)
        if statistic == "mean" and numeric:
            return chance @ np.asarray(labels, np.float64)
        return self.column.answers_of(chance.argmax(axis=1) if statistic in {"auto", "mode"} else median_level(chance))

    def certainty(self, ask: Ask, values: NDArray[Any]) -> Certainty:
        """The probability of each label."""
        chance, place = self.probabilities(ask), {label: at for at, label in enumerate(self.column.answer_labels)}
        code = np.asarray([place.get(plain(value), -1) for value in np.asarray(values).tolist()], np.int64)
        own = np.take_along_axis(chance, np.maximum(code, 0)[:, None], axis=1)[:, 0]
        return Certainty("probability", np.where(code >= 0, own, np.nan))

    def interval(self, ask: Ask, level: float) -> NDArray[Any]:
        if not self.column.has_order:
            return super().interval(ask, level)
        ends = central_levels(self.probabilities(ask), level)
        return np.stack([self.column.answers_of(end) for end in ends], axis=1)

    def outcomes(self, ask: Ask, part: int = 0) -> FloatArray:
        return self.probabilities(ask)

    def drawn(self, name: str, ask: Ask, outcome: NDArray[Any], rng: Generator, within: Block | None = None) -> Columns:
        return self.column.to_columns(name, self.column.answers_of(outcome))

    def scorable(self, block: Block) -> BoolArray:
        return self.column.codes(block) >= 0

    def test(self, trial: Trial) -> list[Tested]:
        code = self.column.codes(trial.block)
        rivals = label_rivals(trial, code, self.probabilities(trial.ask))
        found = self._tested(trial, trial.name, "label", code, rivals)
        expected = {rival: chance @ np.arange(chance.shape[1]) for rival, chance in rivals.items()}
        return [found, *self._test_order(trial, code[trial.masked], expected)]

    def _tested(self, trial: Trial, about: str, answer: str, code: IntArray, rivals: ByRival) -> Tested:
        """Scores of labels: P(label) by each method, [answer, label], against the codes [line] that are known."""
        known = code[trial.masked] >= 0
        rivals = {rival: chance[known] for rival, chance in rivals.items()}
        code, weight = code[trial.masked][known], trial.weight[trial.masked][known]
        true, parts = (np.arange(len(code)), code), dict[str, ByRival](code={"": np.asarray(code)})
        parts["score"] = {rival: np.log(np.maximum(chance[true], LEAST_CHANCE)) for rival, chance in rivals.items()}
        parts["right"] = {rival: (chance.argmax(axis=1) == code).astype(float) for rival, chance in rivals.items()}
        parts["confidence"] = {rival: chance.max(axis=1) for rival, chance in rivals.items()}
        if self.column.has_order:
            parts["absolute"] = {rival: np.abs(median_level(chance) - code) for rival, chance in rivals.items()}
        return Tested(about, self.column.kind, answer, trial.row[known], weight, **parts)

    def answers(self, name: str, block: Block) -> Answers:
        code, labels = self.column.codes(block), tuple(map(word, self.column.answer_texts))
        values = np.where(code >= 0, code, np.nan).astype(float)
        if block.entries is not None:
            return self._item_answers(name, block, values, labels)
        order = self.column.has_order or len(labels) == 2
        return self._answers(name, labels, values, answered=block.observed[:, 0], has_order=order)

    def profile(self, block: Block) -> Profile:
        code, texts = self.column.codes(block)[:, None], self.column.answer_texts
        if block.entries is not None:
            values, numbers = np.where(code >= 0, code, np.nan)[:, 0], self.column.level_numbers
            return self._item_profile(block, values, lambda codes: np.interp(codes, np.arange(len(numbers)), numbers))
        values = np.where(code >= 0, code == np.arange(len(texts)), np.nan)
        # With two labels, one indicator is enough.
        return Profile(texts[1:], values[:, 1:]) if len(texts) == 2 else Profile(texts, values)

    def _parts(self, name: str, block: Block, said: FloatArray, labels: tuple[str, str]) -> tuple[Answers, ...]:
        """One yes or no for each label of a column with one site per label; `said` is [row, label]."""
        return tuple(
            self._answers(f"{name}: {word(text)}", labels, own, f"{name}.{site}")
            for own, text, site in zip(said.T, self.column.texts, block.sites, strict=True)
        )
