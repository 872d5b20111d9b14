"""The interface of a form, and the records that it exchanges with queries, evaluation and reports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.block import Block
from thurbo.columns.cells import BoolArray, FloatArray, IntArray, plain
from thurbo.errors import ThurboError, check_choice

if TYPE_CHECKING:
    from thurbo.columns.column import Column
    from thurbo.columns.forms.marginals import Normal
    from thurbo.columns.forms.number import Distribution
    from thurbo.columns.forms.scores import Tested

Statistic = Literal["auto", "mode", "median", "mean"]


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

    @property
    def lines(self) -> Lines:
        """Row and site of each answer."""

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

    def above(self, one: int, two: int) -> FloatArray:
        """P(item above another item) of each row, [row]."""

    def draw_orders(self, first: IntArray, rng: np.random.Generator) -> FloatArray:
        """Utilities of one draw of each row in which the item `first` is the largest, [row, item]."""


@runtime_checkable
class Trial(Protocol):
    """One column with some answers masked: the input of its evaluation."""

    name: str
    is_masked: BoolArray  # [line]
    weight: FloatArray  # [line] weight of the row of each line

    @property
    def block(self) -> Block:
        """The constraints of the column, masked answers included."""

    @property
    def masked(self) -> NDArray[Any]:
        """Lines whose answer is masked, [answer]."""

    @property
    def row(self) -> NDArray[Any]:
        """Row of each masked answer, [answer]."""

    @property
    def ask(self) -> Ask:
        """The predictive distributions of the masked answers."""

    def logistic(self, code: IntArray, n_labels: int) -> FloatArray | None:
        """P(label) of the masked lines by logistic regression on the other columns, [answer, label]."""

    def ridge(self, target: FloatArray, known: BoolArray) -> Normal | None:
        """Numbers of the masked lines by ridge regression on the other columns."""

    def boosting(self, code: IntArray, n_labels: int) -> FloatArray | None:
        """P(label) of the masked lines by gradient boosting on the other columns, [answer, label]."""

    def boosted_numbers(self, target: FloatArray, known: BoolArray) -> Normal | None:
        """Numbers of the masked lines by gradient boosting on the other columns."""


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
    """A type of answer. Methods take the column, which has the labels, the units and the format of cells."""

    asks_rows: bool = False  # whether `Ask` predicts whole cells with all their sites, not single sites
    has_options: bool = False  # whether `probabilities` are those of separate yes-no answers

    def probabilities(self, column: Column, ask: Ask) -> FloatArray:
        """P(label | all other evidence in the row), [answer, label]."""
        raise ThurboError(f"a column of kind {column.kind} has no labels; use predict for its mean or median")

    @abstractmethod
    def values(self, column: Column, ask: Ask, statistic: str) -> NDArray[Any]:
        """One value per answer: a label, or a number in the user's units."""

    def cells(self, column: Column, name: str, ask: Ask, statistic: str, cuts: FloatArray) -> dict[str, NDArray[Any]]:
        """Values as the columns of the table that hold the answers, in the shared layout."""
        return {name: self.values(column, ask, statistic)}

    def certainty(self, column: Column, ask: Ask, values: NDArray[Any]) -> Certainty:
        """How sure the given predicted values are: the probability of each label, [answer]."""
        chance, place = self.probabilities(column, ask), {label: at for at, label in enumerate(column.answer_labels)}
        code = np.asarray([place.get(plain(value), -1) for value in np.asarray(values).tolist()], np.int64)
        own = np.take_along_axis(chance, np.maximum(code, 0)[:, None], axis=1)[:, 0]
        return Certainty("probability", np.where(code >= 0, own, np.nan))

    def interval(self, column: Column, ask: Ask, level: float) -> NDArray[Any]:
        """Both ends of the central interval of each answer, [answer, 2]."""
        raise ThurboError(
            f"a column of kind {column.kind} has no order, so it has no intervals; "
            "use a number or an ordinal column, or use predict_proba"
        )

    # ---- the chain rule: answers of a row are scored and drawn one after another

    def n_parts(self, column: Column) -> int:
        """Number of answers in a cell that are scored and drawn one after another."""
        return 1

    @abstractmethod
    def log_prob(self, column: Column, ask: Ask, block: Block, part: int = 0) -> FloatArray:
        """log P(what each line says), [line], in the user's units; the lines of `block` are those of `ask`."""

    @abstractmethod
    def outcomes(self, column: Column, ask: Ask, part: int = 0) -> FloatArray:
        """P(outcome) of each answer, [answer, outcome]: a few exclusive outcomes, of which one is drawn first."""

    def draw_bands(self, column: Column, ask: Ask) -> FloatArray | None:
        """Ends of the bands of a number, in standard units, which `outcomes` are; None if outcomes are labels."""
        return None

    def allowed(self, column: Column, block: Block, outcomes: FloatArray) -> BoolArray:
        """Outcomes that agree with what each line says, [line, outcome]."""
        return np.ones(outcomes.shape, bool)

    @abstractmethod
    def drawn(
        self,
        column: Column,
        name: str,
        ask: Ask,
        outcome: NDArray[Any],
        rng: np.random.Generator,
        within: Block | None = None,
    ) -> dict[str, NDArray[Any]]:
        """One draw of each answer given its outcome, as cells by column of the table; it agrees with `within`."""

    def from_latent(
        self, column: Column, x: FloatArray, site: IntArray, cuts: FloatArray, scale: FloatArray
    ) -> NDArray[Any]:
        """Values of latent x [answer] at sites of a listed column; `cuts` and `scale` are those of all its sites."""
        raise ThurboError(f"a column of kind {column.kind} has no lists")

    @abstractmethod
    def scorable(self, column: Column, block: Block) -> BoolArray:
        """Lines whose answer is known exactly enough to score a prediction, [line]."""

    def mask(self, column: Column, block: Block, masked: BoolArray, rng: np.random.RandomState) -> BoolArray:
        """The lines to mask, given lines that were drawn at random, [line]."""
        return masked

    def together(self, column: Column, block: Block, lines: BoolArray, rng: np.random.RandomState) -> NDArray[Any]:
        """Groups of lines that have to be masked together: [line] the number of its group, −1 if not in `lines`."""
        return np.where(lines, np.arange(len(lines)), -1)

    @abstractmethod
    def test(self, column: Column, trial: Trial) -> list[Tested]:
        """Scores of the masked answers under the model and the baselines."""

    @abstractmethod
    def features(self, column: Column, block: Block, shown: BoolArray) -> tuple[FloatArray, BoolArray]:
        """Features for a regression from the `shown` lines: [row, feature], and which rows have any, [row]."""

    @abstractmethod
    def answers(self, column: Column, name: str, block: Block) -> Answers:
        """The answers for a report."""

    @abstractmethod
    def profile(self, column: Column, block: Block) -> Profile:
        """The answers as numbers that can be averaged over the rows of a segment."""

    @abstractmethod
    def start(self, column: Column, block: Block, weight: FloatArray) -> Start:
        """Parameters of the independent model, from the observed frequencies; `weight` is [row]."""

    def shares(self, column: Column, block: Block, weight: FloatArray) -> FloatArray | None:
        """Shares of the labels in a table, [site, label], one line for all sites of a choice; None without labels.

        Every label has half an answer more than observed; `weight` is [row].
        """
        return None

    def shrinkage(self, column: Column, block: Block, weight: FloatArray) -> FloatArray:
        """How much stronger the weight decay of each site is than that of the model, [site]; `weight` is [row]."""
        return np.ones(len(block.sites))

    def learned(self, column: Column, cuts: FloatArray, scale: FloatArray) -> dict[str, Any]:
        """Parameters of this column that are shown to the user: "cuts", or "scales"."""
        return {}

    def own_units(self, column: Column, low: float, high: float, scale: float) -> str:
        """The ends of an interval of x in the user's units, as text; empty if there are none."""
        return ""


LEAST_LOG = -700.0  # of a probability: exp of it is still a positive number


def log_of(chance: FloatArray) -> FloatArray:
    """Logarithms of probabilities, finite for 0."""
    return np.log(np.maximum(chance, np.exp(LEAST_LOG)))


def word(label: Any) -> str:
    """A label as text."""
    return ("yes" if label else "no") if isinstance(label, bool) else str(label)


def line_weight(block: Block, weight: FloatArray) -> FloatArray:
    """Weights of rows as weights of lines."""
    return weight if block.entries is None else weight[block.entries.row]
