"""§6 What a fit leaves, and tables put to it: a `Model` has a schema, members and a correction; `Rows` are a table as
it is read; a `Query` is both, and answers with `Predictive` distributions.

One member is a model with one member. A model does not change; the estimator has one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from thurbo._concurrency import cached_property
from thurbo.errors import ThurboError, check_choice
from thurbo.latent import packing
from thurbo.latent.evidence import Buckets
from thurbo.latent.inference.meanfield import CONVERGED_STEPS, PREDICTION_STEPS
from thurbo.latent.rbm import Params, Presence
from thurbo.predict import joint
from thurbo.predict.correction import ANSWERED, Correction, answer_values
from thurbo.predict.member import MemberQuery
from thurbo.predict.moments import How
from thurbo.predict.predictive import Predictive
from thurbo.table.columns.cells import Block
from thurbo.table.columns.forms import Lines
from thurbo.table.io.frames import Table, as_table
from thurbo.table.schema.schema import Schema

METHODS = ("auto", "exact", "gibbs", "mean-field")  # of predictions
GAPS = ("auto", "informative", "ignorable")
LEAST_ANSWERS = 2  # of a row whose empty cells are evidence
MOST_PAIRS, LEAST_PAIRED = 300, 100  # pairs of questions whose dependence is kept, and rows that answer both
SHARPER, MOST_SHARPNESS = 1.5, 1.5  # dependence is also lost on the way over other drawn answers
MOST_LABELS = 24

Gaps = Literal["auto", "informative", "ignorable"]
Reading = Literal["given", "utilities", "given, missing", "utilities, missing"]  # how a member encodes the schema


@dataclass(frozen=True)
class Rows:
    """A table as the model reads it."""

    table: Table  # as it came
    schema: Schema  # the columns, as one encoding reads them
    blocks: dict[str, Block]  # what the cells of each column say
    evidence: Buckets  # the same as constraints on x
    given: Mapping[str, Any] = field(default_factory=dict)  # conditions, in place of the cells of their columns
    informative: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))  # [row] whose empty cells are evidence
    gaps: Gaps = "auto"  # the rule that decided it

    @property
    def absent(self) -> list[str]:
        """Questions that the table has no column of: that they have no answers says nothing."""
        names = [name for name in self.schema.modelled if name not in self.given]
        held = self.table.places.keys()
        return [name for name in names if held.isdisjoint(self.schema[name].source_columns(name))]


class MemberSettings(NamedTuple):
    """Settings of one member."""

    n_hidden: int
    n_factors: int
    weight_decay: float
    reading: Reading = "given"
    shrinkage: float = 1.0  # factor of the precision of items in lists, except of their biases
    is_draw: bool = False  # whether its parameters are a draw from their posterior distribution

    @property
    def is_informed(self) -> bool:
        """Whether missing answers are evidence."""
        return self.reading.endswith("missing")

    @property
    def is_independent(self) -> bool:
        """Whether the answers do not depend on each other."""
        return self.n_hidden == self.n_factors == 0

    @property
    def text(self) -> str:
        """The settings in words."""
        if self.is_draw:
            return f"{self.n_factors} factors, a draw of the parameters from their posterior distribution"
        found = f"{self.n_hidden} hidden units, {self.n_factors} factors, weight decay {self.weight_decay:g}"
        found += ", a utility for each level" * self.reading.startswith("utilities")
        return found + ", missing answers as evidence" * self.is_informed


class Member(NamedTuple):
    """One TBM of the paper: its settings, the schema as it encodes it, its parameters and its weight."""

    settings: MemberSettings
    schema: Schema
    params: Params
    weight: float = 1.0
    held_out: float = float("nan")  # log-likelihood per held-out answer


def n_answers(schema: Schema, blocks: Mapping[str, Block], names: Sequence[str] | None = None) -> np.ndarray:
    """Number of questions that each row answers, of those that everybody is asked or of some others: [row]."""
    none = np.zeros(next(iter(blocks.values())).n_rows, np.int64)
    return np.sum(
        [none, *(blocks[name].answered for name in (schema.asked_of_all if names is None else names))], axis=0
    )


def least_answers(schema: Schema, blocks: Mapping[str, Block], weight: np.ndarray) -> int:
    """Answers of a row that looks like one of the survey: half as many as the median row has, and at least two.

    Only questions that everybody is asked count: who is not asked most of them is a respondent all the same.
    """
    count = n_answers(schema, blocks)
    kept = (count > 0) & (weight > 0)
    if not kept.any():
        return LEAST_ANSWERS
    median = int(np.quantile(count[kept], 0.5, weights=weight[kept], method="inverted_cdf"))
    return max(LEAST_ANSWERS, -(-median // 2))


class Pair(NamedTuple):
    """Two questions, and how much their answers depend on each other in the training table: Cramér's V."""

    one: str
    two: str
    strength: float


def cramers_v(table: np.ndarray, n: float) -> float:
    """Cramér's V of a table of shares, without its bias in a sample of n rows (Bergsma 2013); NaN if it has none."""
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    (r, c), expected = table.shape, table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True)
    if min(r, c) < 2:
        return float("nan")
    phi = ((table - expected) ** 2 / expected).sum() - (r - 1) * (c - 1) / (n - 1)
    rows, columns = (size - (size - 1) ** 2 / (n - 1) for size in (r, c))
    return float(np.sqrt(max(phi, 0.0) / max(min(rows, columns) - 1, 1e-9)))


def dependent_pairs(schema: Schema, blocks: Mapping[str, Block], weight: np.ndarray) -> tuple[Pair, ...]:
    """The dependence of some pairs of questions with labels, none of which is a gate of the other."""
    names = [n for n in schema.modelled if schema[n].is_one_label and len(schema[n].labels) <= MOST_LABELS]
    codes = {name: schema[name].codes(blocks[name]) for name in names}
    gates = {(skip.asked_if, name) for skip in schema.skips for name in skip.columns}
    pairs = [(a, b) for a, b in combinations(codes, 2) if (a, b) not in gates and (b, a) not in gates]
    order, found = np.random.default_rng(0).permutation(len(pairs)), list[Pair]()
    for a, b in (pairs[place] for place in order[:MOST_PAIRS]):
        kept = (codes[a] >= 0) & (codes[b] >= 0)
        if kept.sum() >= LEAST_PAIRED and weight[kept].any():
            table = np.zeros((len(schema[a].labels), len(schema[b].labels)))
            np.add.at(table, (codes[a][kept], codes[b][kept]), weight[kept])
            strength = cramers_v(table / table.sum(), float(kept.sum()))
            if np.isfinite(strength):
                found.append(Pair(a, b, strength))
    return tuple(found)


@dataclass(frozen=True)
class Model:
    """A fitted model: the schema, its members with the leading one first, and the correction of their mean."""

    schema: Schema
    members: tuple[Member, ...]
    params: Params  # of the leading member, without units that it does not use
    correction: Correction = field(default_factory=Correction)
    objective: str = "multi-prediction"  # that was maximised
    # What a missing cell is: a variable that is integrated over, or no variable of its row.
    unobserved: Literal["marginalize", "exclude"] = "marginalize"
    least_answers: int = LEAST_ANSWERS  # of a row whose empty cells are evidence (`gaps="auto"`)
    # Of the orders in the training table; they decide what is compiled.
    order_shapes: Mapping[str, tuple[int, int, str]] = field(default_factory=lambda: MappingProxyType({}))
    pairs: tuple[Pair, ...] = ()  # of questions, with their dependence in the training table
    # Members of each column that models which items a row has; their probabilities are averaged.
    presence: Mapping[str, tuple[Presence, ...]] = field(default_factory=lambda: MappingProxyType({}))

    @cached_property
    def sharpness(self) -> float:
        """The power of what drawn answers say about others at which drawn rows are as dependent as the data.

        The best prediction from few data is drawn towards independence: one over the slope of Cramér's V of pairs of
        answers under the model, P(a) P(b | a), on that in the training table.
        """
        names = sorted({name for pair in self.pairs for name in pair[:2]})
        cells = [(name, label) for name in names for label in self.schema[name].labels]
        if not cells:
            return 1.0
        # One row for each label, which is all that it says, and a row without any.
        texts = {name: [label if own == name else None for own, label in cells] + [None] for name in names}
        table = {name: np.asarray(own, object) for name, own in texts.items()}
        query = self.query(self.read(as_table(table), {}, "ignorable", "ignore"), "mean-field")
        chance, strength = {name: query.about(name).probabilities() for name in names}, []
        for one, two, _ in self.pairs:
            given = [place for place, (name, _) in enumerate(cells) if name == one]
            strength.append(cramers_v(chance[one][-1][:, None] * chance[two][given], np.inf))
        known = np.asarray([pair.strength for pair in self.pairs])
        slope = float(known @ np.nan_to_num(strength)) / max(float(known @ known), 1e-12)
        needed = 1.0 + SHARPER * (1.0 / max(slope, 1e-6) - 1.0)
        return float(np.clip(needed, 1.0, MOST_SHARPNESS)) if known.any() else 1.0

    @property
    def weights(self) -> np.ndarray:
        return np.asarray([each.weight for each in self.members])

    def weights_of(self, name: str) -> np.ndarray:
        """Weights of the members for one column, [member]."""
        return self.correction.weights.get(name, self.weights)

    @property
    def missing(self) -> Literal["marginalize", "exclude"]:
        """What a missing cell is; beside lists, of which each row has few items, it is no variable."""
        return "exclude" if self.schema.listed else self.unobserved

    @property
    def is_single(self) -> bool:
        return len(self.members) == 1

    @property
    def method(self) -> Literal["exact", "mean-field"]:
        """What `method="auto"` means in predictions."""
        if not self.is_single:
            return "mean-field"
        return "exact" if joint.is_exact(self.params, self.objective == "multi-prediction") else "mean-field"

    @property
    def is_joint(self) -> bool:
        """Whether rows are drawn and scored by the joint distribution of the only member, not by the chain rule.

        That is right if all states can be enumerated, or if the joint distribution was trained (by likelihood).
        """
        return self.is_single and (self.objective != "multi-prediction" or self.method == "exact")

    def how(self, method: str) -> How:
        check_choice("method", method, METHODS)
        method = self.method if method == "auto" else method
        n_hidden, n_factors = self.params.n_hidden, self.params.n_factors
        if method == "exact" and not joint.can_enumerate(self.params):
            raise ThurboError(
                f'{n_hidden} hidden units and {n_factors} factors are too many to enumerate; use method="gibbs"'
            )
        # Prediction was trained through so many mean-field steps; more of them answer another question.
        n_steps = PREDICTION_STEPS if self.objective == "multi-prediction" else CONVERGED_STEPS
        return How(method=method, n_steps=n_steps, unobserved=self.missing)  # type: ignore[arg-type]

    def read(
        self,
        table: Table,
        given: Mapping[str, Any] | None = None,
        gaps: Any = "auto",
        missing_columns: Literal["error", "ignore"] = "error",
        schema: Schema | None = None,
    ) -> Rows:
        """A table as evidence, with `given` in the place of some columns' cells, in the encoding of `schema`.

        With "auto", empty cells are evidence in rows with at least `least_answers` answers to questions that everybody
        is asked, conditions included.
        """
        check_choice("gaps", gaps, GAPS)
        schema, given = self.schema if schema is None else schema, given or {}
        least = {"auto": self.least_answers, "informative": 1, "ignorable": np.iinfo(np.int64).max}[gaps]
        blocks = schema.compile(table, missing_columns=missing_columns, given=given, least_answers=least)
        for name, shape in self.order_shapes.items():  # one program, whatever these rows or conditions rank
            if blocks[name].family == "utility":
                blocks[name] = replace(blocks[name], order_shape=shape)
        shared = [name for name in schema.modelled if not schema[name].is_listed]
        informative = n_answers(schema, blocks, shared if least == 1 else None) >= least
        evidence = self.packed(schema, blocks, schema.row_names(table))
        return Rows(table, schema, blocks, evidence, given, informative, gaps)

    def packed(self, schema: Schema, blocks: Mapping[str, Block], names: Any = None) -> Buckets:
        """Blocks of one encoding as evidence; `names` are those of the rows, for messages."""
        cuts = np.asarray(self.params.gauge.cuts, np.float64) if schema is self.schema else None
        rows = range(next(iter(blocks.values())).n_rows) if names is None else names
        reading = packing.MergeLabels(schema.names, schema.site_names, rows, cuts)
        return packing.pack(blocks.values(), self.missing, reading=reading)

    def encoded(self, rows: Rows) -> list[Rows]:
        """The rows as each member reads them."""
        found = {id(rows.schema): rows}
        for schema in (each.schema for each in self.members):
            if id(schema) not in found:
                found[id(schema)] = self.read(rows.table, rows.given, rows.gaps, "ignore", schema)
        return [found[id(each.schema)] for each in self.members]

    def query(self, rows: Rows, method: str = "auto") -> Query:
        """Rows put to all members."""
        how, routes = self.how(method), self.correction.routes
        # Of a single member, without units that are not used.
        params = [self.params] if self.is_single else [each.params for each in self.members]
        parts = [
            MemberQuery(
                each, own.schema, own.blocks, own.evidence.on_host(), how, routes, shaped, own.evidence.n_rows == 1
            )
            for each, own, shaped in zip(params, self.encoded(rows), self._shaped, strict=True)
        ]
        return Query(tuple(parts), self.weights, self.correction, rows.informative, tuple(rows.absent))

    @cached_property
    def _shaped(self) -> list[dict[Any, Params]]:
        """Of each member, its parameters in the shapes of tables that were put to it."""
        return [{} for _ in self.members]

    def with_missing(self, missing: Mapping[str, Any]) -> Model:
        """The same model with these values counted as missing, by column, in the schemas of all members."""
        changed: dict[int, Schema] = {}

        def declared(schema: Schema) -> Schema:  # members that share a schema share it afterwards
            own = {name: replace(schema[name], missing=values) for name, values in missing.items() if name in schema}
            return changed.setdefault(id(schema), schema | own if own else schema)

        members = tuple(each._replace(schema=declared(each.schema)) for each in self.members)
        return replace(self, schema=declared(self.schema), members=members)


@dataclass(frozen=True)
class Query:
    """A table put to a model; `about` gives the predictive distribution of any answer, given the rest of its row."""

    members: tuple[MemberQuery, ...]  # each with the rows as it reads them, the leading one first
    weights: np.ndarray  # of the members, where the correction has none for a column
    correction: Correction  # of the mean of their predictions
    informative: np.ndarray  # [row] whose empty cells are evidence
    absent: Collection[str] = ()  # questions that the table does not have
    # Which rows answered each question, if that is not what the evidence says: while empty cells of a row are drawn one
    # after another, it still is the row that left them empty.
    pattern: Mapping[str, np.ndarray] | None = None
    places: np.ndarray | None = None  # of the rows in the blocks, if they are only some of these

    @property
    def lead(self) -> MemberQuery:
        """The leading member, whose schema and cells count."""
        return self.members[0]

    @property
    def schema(self) -> Schema:
        return self.lead.schema

    @property
    def blocks(self) -> Mapping[str, Block]:
        return self.lead.blocks

    @property
    def evidence(self) -> Buckets:
        return self.lead.evidence

    @cached_property
    def _known_answers(self) -> np.ndarray:
        """Number of answers of each row that are part of the evidence, [row]."""
        return np.sum([self.is_known(name) for name in self.schema.modelled], axis=0)

    def is_known(self, name: str) -> np.ndarray:
        """Rows whose answer to a question that is no list is part of the evidence, [row]."""
        if self.schema[name].is_listed:
            return np.zeros(self.evidence.n_rows, bool)
        return np.asarray(self.lead.seen[:, self.lead.slots(name)].any(axis=1))

    def _answered(self, name: str) -> np.ndarray:
        return self.is_known(name) if self.pattern is None else self.pattern[name]

    def about(self, name: str, lines: Lines | None = None, own: bool = True) -> Predictive:
        """The answers to one question: of all rows, or of some lines. With `own`, an answer's own cell is in the
        evidence, and is left out."""
        learned, column = self.correction, self.schema[name]
        parts = [each.about(name, lines, own) for each in self.members]
        weights, row = learned.weights.get(name, self.weights), np.asarray(parts[0].lines.row)
        options: dict[str, Any] = {"exponent": learned.exponent(column), "anchor": learned.anchors.get(name)}
        if options["anchor"] is not None:
            options["emptiness"] = 1.0 / (1.0 + (self._known_answers - (self.is_known(name) if own else 0))[row])
        if experts := learned.experts.get(name):
            apart = np.ones(len(row), bool) if own else ~self.is_known(name)[row]  # trees know no other options of it
            about: dict[str, Any] = {"known": self.value, "rows": row, "apart": apart}
            options["experts"] = {site: partial(each.mixed, **about) for site, each in experts.items()}
            options["edges"] = getattr(column, "effect_edges", None)  # None for labels
        return Predictive(column, parts, weights, routing=self.routing(name, row), **options)

    def routing(self, name: str, rows: np.ndarray) -> np.ndarray | None:
        """P(what is certain about some rows | label of this question), [row, label]; None if nothing is.

        That no follow-up question has an answer counts only in rows whose empty cells are evidence.
        """
        found = []
        for rule in self.correction.follows.get(name, ()):
            chance, known = rule.predict(self.value, rows)
            found.append(np.where(known[:, None], chance, 1.0))
        for route in self.correction.routes.get(name, ()):
            answered = [self._answered(each)[rows] for each in route.columns if each not in self.absent]
            if answered:
                some = np.any(answered, axis=0)
                found.append(np.where((some | self.informative[rows])[:, None], route.likelihood(some), 1.0))
        return np.prod(found, axis=0) if found else None

    def value(self, name: str, part: int) -> np.ndarray:
        """A part of what a column says, NaN where it is not part of the evidence: [row]."""
        if (name, part) not in self._values:
            if part == ANSWERED:
                found = np.where(self.informative & (name not in self.absent), self._answered(name), np.nan)
            else:
                found = answer_values(self.blocks[name])[:, part]
                found = found if self.places is None else found[self.places]
                slots = self.lead.slots(name)
                own = slots[part : part + 1] if self.schema[name].family == "levels" else slots
                found = np.where(self.lead.seen[:, own].any(axis=1), found, np.nan)
            self._values[name, part] = found
        return self._values[name, part]

    @cached_property
    def _values(self) -> dict[tuple[str, int], np.ndarray]:
        return {}

    def with_members(self, members: Iterable[MemberQuery]) -> Query:
        """The same, as members know the rows otherwise."""
        return replace(self, members=tuple(members))

    def hide(self, masked: Mapping[str, np.ndarray]) -> Query:
        """The same rows without the answers at the given lines of columns, [line] each."""
        return self.with_members(each.hide(masked) for each in self.members)
