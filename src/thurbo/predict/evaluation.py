"""§6 Predictive accuracy on masked answers: which are masked, tables without them, and their scores.

Idea: a share of the answers, or each fold of them, is hidden; the model and the baselines predict each hidden answer
from the rest of its row. Nothing that predictions are made from was derived from a hidden answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from numbers import Real
from typing import Any

import numpy as np

from thurbo._concurrency import cached_property
from thurbo.errors import ThurboError, check_whole
from thurbo.predict import baseline
from thurbo.predict.member import MemberQuery
from thurbo.predict.model import Query, Rows
from thurbo.table.columns.cells import Block, Listed
from thurbo.table.columns.forms import Ask, Lines, form
from thurbo.table.columns.forms.form import RIVALS, Tested, line_weight
from thurbo.table.columns.listed import read_lists
from thurbo.table.columns.values import plain
from thurbo.table.io import frames
from thurbo.table.io.frames import Table
from thurbo.table.schema.schema import Schema

_STEP = 0x9E3779B97F4A7C15
# The arrays that a family of columns uses; all are numbers below 2⁵³, so float64 holds them exactly.
_ARRAYS: dict[str, Callable[[Block], tuple[np.ndarray, ...]]] = {
    "levels": lambda block: (block.code, block.code_high),
    "measured": lambda block: (block.lower, block.upper),
    "utility": lambda block: (block.tier, np.asarray(block.one_of)[:, None]),
    "none": lambda block: (),
}


def row_hashes(blocks: Iterable[Block]) -> tuple[np.ndarray, np.ndarray]:
    """A number of each row, and whether the row has any answer: [row] each."""
    blocks = list(blocks)
    n_rows = blocks[0].n_rows if blocks else 0
    total, answered = np.zeros(n_rows, np.uint64), np.zeros(n_rows, bool)
    for place, block in enumerate(blocks):
        # For each site a number of what the row says about it; they are added up.
        sites = np.arange(block.code.shape[1])[None, :] if block.entries is None else block.entries.site[:, None]
        shape, step = block.code.shape, np.uint64(_STEP * (place + 1) % 2**64)
        number = _mixed(np.broadcast_to(sites, shape).astype(np.uint64) + step)
        for values in _ARRAYS[block.family](block):
            bits = np.ascontiguousarray(np.broadcast_to(values, shape), np.float64) + 0.0  # −0 equals 0
            number = _mixed(number ^ bits.view(np.uint64))
        lines = np.where(block.takes_part, number, np.uint64(0)).sum(axis=1, dtype=np.uint64)
        np.add.at(total, np.arange(n_rows) if block.entries is None else block.entries.row, lines)
        answered |= block.answered
    return (_mixed(total) >> np.uint64(32)).astype(np.uint32), answered


def of_training(blocks: Iterable[Block], weight: np.ndarray) -> np.ndarray:
    """The distinct numbers of the rows with an answer and a positive weight, sorted."""
    number, answered = row_hashes(blocks)
    return np.unique(number[answered & (weight > 0)])


def are_seen(blocks: Iterable[Block], seen: np.ndarray) -> np.ndarray:
    """Which rows equal a row of the training table in all answers, [row]."""
    number, answered = row_hashes(blocks)
    return answered & np.isin(number, seen)


def _mixed(number: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: every bit of the input changes half of the bits."""
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


_OF_NUMBERS = ("number", "interval")
_WORDS = {"log_score": "log score", "mae": "MAE", "smae": "SMAE", "rmse": "RMSE", "calibration_error": "calibration"}
# What tables show of labels and of numbers, and what the baselines are called there.
_TABLES = (
    ("Labels", ("accuracy", "log_score", "smae", "calibration_error"), ("shares", "logistic", "boosting", "both")),
    ("Numbers", ("mae", "rmse", "log_score", "calibration_error"), ("normal", "ridge", "boosting", "both")),
)
_RIVAL_GAINS = dict(zip(RIVALS[1:], ("frequencies", "regression", "boosting", "both"), strict=True))
_PHRASES = ("the marginal frequencies", "logistic regression", "gradient boosting", "the mean of both regressions")
_RIVAL_PHRASES = dict(zip(RIVALS[1:], _PHRASES, strict=True))


@dataclass(frozen=True)
class Evaluation:
    """Predictive accuracy on masked answers, each predicted from the rest of its row; compared with baselines.

    `columns` has one record for each column (a ranking has one for its favourite and one for its pairs, a measured
    column one for numbers and one for intervals). `overall` has means over all masked answers. `untested` are the
    columns without a masked answer. Accuracies are those of labels. Log scores are in nats per answer: log densities in
    the user's units for numbers, log probabilities for intervals; larger is better. MAE is that of the median (in
    levels for ordered labels), RMSE that of the mean. SMAE is the MAE divided by that of the marginal baseline.
    `calibration_error` compares predicted probabilities with observed frequencies: of the most probable label in ten
    bins; of numbers at the inner edges of ten bins of probability. `gain_marginal`, `gain_logistic`, `gain_boosting`
    and `gain_both` (the mean of the two regressions) are mean differences of log scores, model − baseline, with a
    standard error (`_se`) and the ends of a 95 % interval (`_low`, `_high`). The error is that of a mean over rows,
    since answers of one row depend on each other; the intervals describe the choice of rows, not that of masks and
    seeds.

    `n_rows` is the number of rows with a masked answer, and `n_seen_rows` how many of them equal a row that the model
    was fitted to: results on these are too good. After `tb.evaluate`, `masks` has the hidden answers of each fit, by
    column (one boolean for each row, or for each entry of a list), and `fit_seconds` the time of each fit.

    `calibration` has ten bins of the probability of the predicted label: `n` answers, mean `predicted` probability,
    share `observed`. `surprises` are labels (`column`, `code`) that were given by `n` of `of` rows although the other
    answers of these rows made them at most half as probable as usual. `names` are the display names of columns.
    """

    columns: list[dict[str, Any]]
    overall: dict[str, Any]
    untested: tuple[str, ...] = field(default=())
    n_rows: int = 0
    n_seen_rows: int = 0
    masks: tuple[dict[str, np.ndarray], ...] = field(default=(), compare=False, repr=False)
    fit_seconds: tuple[float, ...] = field(default=(), compare=False)
    calibration: list[dict[str, Any]] = field(default_factory=list, repr=False)
    surprises: list[dict[str, Any]] = field(default_factory=list, repr=False)
    names: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def frame(self) -> Any:
        """The records as a table: pandas if installed, otherwise polars or arrow, otherwise a dict of columns."""
        names = list(dict.fromkeys(name for record in self.columns for name in record))
        kinds = {name: np.float64 if name.startswith((*form.MEASURES, "gain")) else None for name in names}
        values = {name: [record.get(name) for record in self.columns] for name in names}
        return frames.any_frame({name: np.asarray(values[name], kinds[name]) for name in names})

    @property
    def verdict(self) -> str:
        """One sentence: how many columns the model predicts better than each baseline, by log score."""
        parts = []
        for rival, words in _RIVAL_PHRASES.items():
            scores = [(each["log_score"], each[f"log_score{rival}"]) for each in self.columns]
            better = [own > other for own, other in scores if own is not None and other is not None]
            parts += [f"{sum(better)} of {len(better)} columns better than {words}"] if better else []
        said = f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)
        return f"By log score, the model predicts {said}." if parts else "Only orders were tested."

    @property
    def differences(self) -> list[str]:
        """One sentence for each baseline: the mean difference of log scores over all answers, with its interval."""
        found = []
        for rival, words in _RIVAL_PHRASES.items():
            gain, low, high = (self.overall.get(f"gain{rival}{end}") for end in ("", "_low", "_high"))
            if low is not None and high is not None:
                verdict = "better" if low > 0 else "worse" if high < 0 else "no clear difference"
                figures = f"{gain:+.4f} (95 % interval {low:+.4f} to {high:+.4f})"
                found.append(f"Mean log score per answer, model − {words}: {figures}: {verdict}.")
        return found

    def _sections(self) -> list[tuple[str, list[str], list[list[str]]]]:
        """The tables: title, header, rows of text."""
        sections = list[tuple[str, list[str], list[list[str]]]]()
        for title, measures, names in _TABLES:
            own = [each for each in self.columns if (each["answer"] in _OF_NUMBERS) == (title == "Numbers")]
            words = {"": "", **dict(zip(RIVALS[1:], names, strict=True))}
            rivals = [rival for rival in RIVALS if any(r.get(f"log_score{rival}") is not None for r in own)] or [""]
            # Calibration is that of the model only, and the SMAE of "_marginal" is 1.
            hidden = {("smae", "_marginal"), *(("calibration_error", rival) for rival in RIVALS[1:])}
            if not any(each.get("smae") is not None for each in own):
                hidden |= {("smae", rival) for rival in RIVALS}
            wanted = [(m, rival) for m in measures for rival in rivals if (m, rival) not in hidden]
            header = ["column", "n", *(words[rival] or _WORDS.get(measure, measure) for measure, rival in wanted)]
            lines = [self._line(each, (_number(each.get(f"{m}{rival}"), m) for m, rival in wanted)) for each in own]
            sections += [(title, header, lines)] if own else []
        scored = [record for record in self.columns if record["log_score"] is not None]
        rivals = [rival for rival in RIVALS[1:] if any(record[f"gain{rival}"] is not None for record in scored)]
        if rivals:
            title = "Difference of log scores, model − baseline (95 % interval)"
            lines = [self._line(each, (_interval(each, rival) for rival in rivals)) for each in scored]
            sections.append((title, ["column", "n", *(_RIVAL_GAINS[rival] for rival in rivals)], lines))
        return sections

    def _line(self, record: Mapping[str, Any], texts: Iterable[str]) -> list[str]:
        return [self._shown(record["column"]), f"{record['n']:,}", *texts]

    def _shown(self, column: str) -> str:
        """The display name of a column; a ranking is tested as "column: favourite"."""
        base, mark, part = column.rpartition(": ")
        return f"{self.names[base]}{mark}{part}" if base in self.names else self.names.get(column, column)

    def _heading(self) -> str:
        n, n_fits, share = self.overall["n_cells"], len(self.masks), f"{self.overall['share']:.0%} of all answers"
        what = "answers" if n else "pairs of items"  # partial rankings have only pairs
        n = n or sum(record["n"] for record in self.columns)
        if not n_fits:
            return f"{n:,} masked {what} ({share}), each predicted from its row"
        how = f"in {n_fits} folds" if self.overall["share"] == 1.0 else f"{share} in each of {n_fits} fits"
        how = f"{share}, one fit" if n_fits == 1 else how
        return f"{n:,} {what} ({how}), hidden before fitting, each predicted from its row"

    def _closing(self) -> list[str]:
        lines = [self.verdict, *self.differences]
        if self.n_seen_rows:
            lines.append(
                f"Caution: {self.n_seen_rows:,} of these {self.n_rows:,} rows equal rows that the model was fitted to, "
                "so the model is likely to have seen their answers and its results are too good; give other rows, or "
                "use tb.evaluate, which hides answers before fitting."
            )
        if self.untested:
            lines.append(f"Not tested, since no answer was masked: {', '.join(map(self._shown, self.untested))}.")
        return lines

    def __str__(self) -> str:
        out = [self._heading()]
        for title, header, lines in self._sections():
            first, *others = [max(map(len, texts)) for texts in zip(header, *lines, strict=True)]
            out += ["", title]
            for name, *line in (header, *lines):
                rest = (text.rjust(width) for text, width in zip(line, others, strict=True))
                out.append("  ".join(["", name.ljust(first), *rest]).rstrip())
        return "\n".join([*out, "", *self._closing()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = [f"<p>{escape(self._heading())}</p>"]
        for title, header, lines in self._sections():
            head = "".join(f"<th>{escape(text)}</th>" for text in header)
            body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in line) + "</tr>" for line in lines)
            caption = f"<caption>{escape(title)}</caption>"
            parts.append(f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        return "".join(parts + [f"<p>{escape(line)}</p>" for line in self._closing()])


def _interval(record: dict[str, Any], rival: str) -> str:
    gain, low, high = (record[f"gain{rival}{end}"] for end in ("", "_low", "_high"))
    ends = "" if low is None or high is None else f" [{low:+.3f}, {high:+.3f}]"
    return "" if gain is None else f"{gain:+.3f}{ends}"


def _number(value: float | None, measure: str) -> str:
    digits = {"accuracy": ".1%", "mae": ".4g", "rmse": ".4g"}.get(measure, ".3f")
    return "" if value is None else f"{value:{digits}}"


def overall(tests: list[Tested], hide: float) -> dict[str, Any]:
    """Means over all masked answers, without the pairs of rankings, which are not single answers."""
    cells = [test for test in tests if test.score]
    labels = [test for test in cells if test.right]
    n_cells, n_labels = (sum(len(test.row) for test in each) for each in (cells, labels))
    found: dict[str, Any] = {"n_cells": n_cells, "n_labels": n_labels, "n_numbers": n_cells - n_labels}
    found["share"] = float(hide)
    found |= {f"accuracy{rival}": _mean(labels, "right", rival) for rival in RIVALS}
    found |= {f"log_score{rival}": _mean(cells, "score", rival) for rival in RIVALS}
    return found | form.gains(cells)


def _mean(tests: list[Tested], part: str, rival: str) -> float | None:
    """Weighted mean over all answers; None if one of the tests does not have it."""
    if not tests or not all(rival in getattr(test, part) for test in tests):
        return None
    values = np.concatenate([getattr(test, part)[rival] for test in tests])
    return float(np.average(values, weights=np.concatenate([test.weight for test in tests])))


HiddenLines = Mapping[str, np.ndarray]  # by column, [line]


def with_lists(table: Table, schema: Schema) -> Table:
    """The table with all lists of scores kept as lists, so that single entries can be hidden."""
    cells = {name for name in schema.listed if schema[name].kind == "ratings" and name not in table.lists}
    return replace(table, lists={**table.lists, **{name: read_lists(table.cells(name)) for name in cells}})


def in_cells(schema: Schema, name: str) -> bool:
    """Whether a column has its tasks in one cell of each row, so that single tasks can be hidden."""
    return schema[name].has_tasks and schema.source_columns[name] == (name,)


def empty_cells(
    table: Table, schema: Schema, blocks: Mapping[str, Block], masked: HiddenLines
) -> dict[str, np.ndarray]:
    """Which cells of the table to empty, by table column: [row] each."""
    found: dict[str, np.ndarray] = {}
    for name, lines in masked.items():
        if name not in table.lists and not in_cells(schema, name) and lines.any():
            for source in {name, *schema.source_columns[name]} & set(table.names):
                found[source] = found.get(source, False) | blocks[name].any_in_row(lines)
    return found


def without(table: Table, schema: Schema, blocks: Mapping[str, Block], masked: HiddenLines) -> Table:
    """The table without the masked answers."""
    emptied = empty_cells(table, schema, blocks, masked)
    shorter = {name: lines for name, lines in masked.items() if in_cells(schema, name) and lines.any()}

    def read(place: int) -> Any:
        values, missing, levels = table.read(place)
        hidden, name = emptied.get(table.names[place]), table.names[place]
        if name in shorter:
            values = schema[name].shortened(table.cells(name), blocks[name], shorter[name])
            return values, np.asarray([value is None for value in values], bool), None
        return values, missing if hidden is None else missing | hidden, levels

    lists = dict(table.lists)
    for name in lists.keys() & masked.keys():
        lists[name] = _shorter(lists[name], schema[name].labels, blocks[name], masked[name])
    return replace(table, read=read, lists=lists)


def _shorter(held: Listed, labels: tuple[Any, ...], block: Block, masked: np.ndarray) -> Listed:
    """Lists without the masked entries: by row and item, since a column may leave out unknown items."""
    row = np.repeat(np.arange(len(held.start) - 1), np.diff(held.start))
    if block.entries is None:
        kept = ~masked[row]
    else:
        place = {label: number for number, label in enumerate(labels)}
        site = np.asarray([place.get(plain(item), -1) for item in np.asarray(held.items).tolist()], np.int64)
        own, hidden = row * len(labels) + site[held.which], block.entries.row * len(labels) + block.entries.site
        kept = ~np.isin(own, hidden[masked]) | (site[held.which] < 0)
    n_kept = np.concatenate([[0], np.cumsum(kept)])
    return held._replace(start=n_kept[held.start], which=held.which[kept], score=held.score[kept])


def hideable(table: Table, schema: Schema, blocks: Mapping[str, Block], there: HiddenLines) -> dict[str, np.ndarray]:
    """Which of the given answers can be hidden: not where an empty cell is itself an answer ("not selected")."""
    left, found = schema.compile(without(table, schema, blocks, there)), dict(there)
    for name in there.keys() - table.lists.keys():
        still, entries = left[name].answered, blocks[name].entries
        found[name] = there[name] & ~(still if entries is None else still[entries.row])
    return found


Masks = list[dict[str, np.ndarray]]  # for each fit and column, [line] whether the answer is hidden


def check(folds: Any, hide: Any, repeats: Any) -> None:
    """Refuse numbers of folds, shares and repeats that make no sense."""
    if hide is None:
        check_whole("folds", folds, 2, "a number of folds")
    else:
        _check_share(hide)
    check_whole("repeats", repeats, 1, "a number of masks")


def _check_share(hide: Any) -> None:
    if isinstance(hide, bool) or not isinstance(hide, Real) or not 0 < float(hide) < 1:
        raise ThurboError(f"hide={hide!r} is not a share of the answers; give a number above 0 and below 1")


def answers(
    table: Table, schema: Schema, blocks: Mapping[str, Block], counts: np.ndarray, rng: np.random.RandomState
) -> dict[str, np.ndarray]:
    """Answers that can be hidden and scored, by column: [line] the number of its group, −1 if it is not one of them.

    The lines of a group are hidden together: one line, or two items of a list whose order is asked about, or the whole
    cell of an order of many items.
    """
    there = {name: _scorable(schema[name], blocks[name], counts) for name in schema.modelled}

    def groups(name: str, lines: np.ndarray) -> np.ndarray:
        if blocks[name].entries is None or name in table.lists or in_cells(schema, name):
            return schema[name].form.together(blocks[name], lines, rng)
        return np.where(lines, blocks[name].lists.row, -1)

    return {name: groups(name, lines) for name, lines in hideable(table, schema, blocks, there).items()}


def in_folds(groups: Mapping[str, np.ndarray], n_folds: int, rng: np.random.RandomState) -> Masks:
    """Every answer in exactly one fold; the folds of a column are of equal size, up to one.

    Groups are dealt one by one in random order; the first fold is random, so that short columns do not all fall into
    the first ones.
    """
    folds = {
        name: _for_lines(group, lambda n: (rng.permutation(n) + rng.randint(n_folds)) % n_folds, -1)
        for name, group in groups.items()
    }
    masks = [{name: fold == number for name, fold in folds.items()} for number in range(n_folds)]
    if not all(map(_hides_any, masks)):
        n_answers = sum(int((group >= 0).sum()) for group in groups.values())
        raise ThurboError(f"folds={n_folds}: the table has {n_answers} answers to hide; give fewer folds or more rows")
    return masks


def at_random(groups: Mapping[str, np.ndarray], hide: float, repeats: int, rng: np.random.RandomState) -> Masks:
    """Masks that each hide every answer with probability `hide`."""
    masks = [
        {name: _for_lines(group, lambda n: rng.random_sample(n) < hide, False) for name, group in groups.items()}
        for _ in range(repeats)
    ]
    if not all(map(_hides_any, masks)):
        n_answers = sum(int((group >= 0).sum()) for group in groups.values())
        problem = f"hide={hide:g} hides none of the {n_answers} answers"
        raise ThurboError(f"{problem}; hide a larger share or give more rows")
    return masks


def _hides_any(mask: Mapping[str, np.ndarray]) -> bool:
    return any(lines.any() for lines in mask.values())


def _for_lines(group: np.ndarray, draw: Callable[[int], np.ndarray], otherwise: Any) -> np.ndarray:
    """What is drawn for each group, at its lines; other lines have the given value: [line]."""
    known, place = np.unique(group[group >= 0], return_inverse=True)
    found = np.full(len(group), otherwise)
    found[group >= 0] = draw(len(known))[place]
    return found


BASELINES = ("logistic", "boosting")  # beside the marginal frequencies, which are always there


def chosen_baselines(logistic: bool, boosting: bool) -> tuple[str, ...]:
    """The names of the regressions that are wanted."""
    return tuple(name for name, wanted in zip(BASELINES, (logistic, boosting), strict=True) if wanted)


def evaluate(
    rows: Rows,
    read: Callable[[Table], Query],
    *,
    hide: Any,
    rng: np.random.RandomState,
    baselines: Collection[str],
    weight: np.ndarray,
    seen: np.ndarray,
) -> Evaluation:
    """Mask answers, predict them from what `read` puts to the model, and compare; `seen` are training rows."""
    schema, blocks, table = rows.schema, rows.blocks, with_lists(rows.table, rows.schema)
    masked = choose(schema, blocks, hide, rng, weight > 0)
    # Nothing that predictions are made from was derived from a masked answer. Where an empty cell is an answer, and in
    # cells that hold a list, the evidence of the answer is removed instead.
    in_cells = {name: lines for name, lines in masked.items() if blocks[name].entries is None or name in table.lists}
    rest = read(without(table, schema, blocks, in_cells))
    rest = rest.hide({name: lines for name, lines in masked.items() if name not in table.lists})
    return result(schema, score_masked(rest, blocks, masked, weight, baselines), [masked], hide, seen)


def result(
    schema: Schema,
    tests: list[Tested],
    masks: Masks,
    hide: float,
    seen: np.ndarray | None = None,
    fit_seconds: Sequence[float] = (),
) -> Evaluation:
    """Records, means and pictures of tested answers; `masks` are kept where they were hidden before fitting."""
    untested = tuple(name for name in masks[0] if not any(mask[name].any() for mask in masks))
    rows = np.unique(np.concatenate([test.row for test in tests]))
    n_seen, kept = (0, tuple(masks)) if seen is None else (int(seen[rows].sum()), ())
    records, pictures = [test.record for test in tests], (form.calibration_bins(tests), form.surprises(tests))
    about = (untested, len(rows), n_seen, kept, tuple(fit_seconds))
    return Evaluation(records, overall(tests, hide), *about, *pictures, schema.display_names)


def score_masked(
    rest: Query,
    blocks: Mapping[str, Block],
    masked: Mapping[str, np.ndarray],
    weight: np.ndarray,
    baselines: Collection[str],
    limits: baseline.Limits = baseline.QUICK,
) -> list[Tested]:
    """Scores of masked answers, lines of each column, of whole `blocks`; `rest` is the table without them."""
    schema, features, tests = rest.schema, None, list[Tested]()
    if baselines:
        features = {name: baseline.features(schema[name], blocks[name], ~masked[name]) for name in schema.modelled}
    for name in schema.modelled:
        if masked[name].any():
            own = line_weight(blocks[name], weight)
            trial = ColumnTrial(name, rest, blocks[name], masked[name], own, features, tuple(baselines), limits)
            tests += schema[name].form.test(trial)
    return tests


def _scorable(column: Any, block: Block, counts: np.ndarray | None) -> np.ndarray:
    """Which lines of a column have an answer that can be scored, in rows that count: [line]."""
    there = column.form.scorable(block)
    return there if counts is None else there & (line_weight(block, counts.astype(np.float64)) > 0)


def choose(
    schema: Schema, blocks: Mapping[str, Block], hide: Any, rng: np.random.RandomState, counts: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Which answers to mask, by column: each with probability `hide`, in rows with positive weight: [line] each."""
    _check_share(hide)
    masked, n_answers = {}, 0
    for name in schema.modelled:
        there = _scorable(schema[name], blocks[name], counts)
        drawn = there & (rng.random_sample(len(there)) < float(hide))
        masked[name] = schema[name].form.mask(blocks[name], drawn, rng)
        n_answers += int(there.sum())
    if not _hides_any(masked):
        raise ThurboError(f"hide={hide:g} masks none of the {n_answers} answers; mask a larger share or give more rows")
    return masked


@dataclass
class ColumnTrial:
    """One column with some answers masked: see `table.columns.forms.Trial`."""

    name: str
    rest: Query | MemberQuery  # the table without the masked answers of any column
    block: Block  # of the whole table
    is_masked: np.ndarray  # [line]
    weight: np.ndarray  # [line]
    features: dict[str, np.ndarray] | None  # of each column, without masked answers; None without regressions
    baselines: tuple[str, ...] = ("logistic",)
    limits: baseline.Limits = baseline.QUICK

    def __post_init__(self) -> None:
        self.masked, entries = np.flatnonzero(self.is_masked), self.block.entries
        self.row = self.masked if entries is None else entries.row[self.masked]

    @cached_property
    def ask(self) -> Ask:
        entries = self.block.entries
        site = np.zeros(len(self.masked), np.int64) if entries is None else entries.site[self.masked]
        return self.rest.about(self.name, Lines(self.row, site), own=False)

    @cached_property
    def _inputs(self) -> np.ndarray | None:
        """Features of all other columns, [row, feature]; None if no regression is wanted or possible."""
        if self.features is None or self.block.entries is not None:
            return None
        others = [values for other, values in self.features.items() if other != self.name]
        return np.concatenate(others, axis=1) if others else None

    def _regress(self, kind: str, function: Any, *about: Any) -> Any:
        """What a regression predicts; None if it is not wanted or not possible. A fixed seed splits the rows."""
        if self._inputs is None or kind not in self.baselines:
            return None
        rng = np.random.RandomState(baseline.SPLIT_SEED)
        return function(self._inputs, *about, rng, self.weight, self.limits)

    def logistic(self, code: np.ndarray, n_labels: int) -> np.ndarray | None:
        return self._regress("logistic", baseline.logistic, code, self.masked, n_labels)

    def ridge(self, target: np.ndarray, known: np.ndarray) -> form.Normal | None:
        return self._regress("logistic", baseline.ridge, target, known, self.masked)

    def boosting(self, code: np.ndarray, n_labels: int) -> np.ndarray | None:
        return self._regress("boosting", baseline.boosting, code, self.masked, n_labels)

    def boosted_numbers(self, target: np.ndarray, known: np.ndarray) -> form.Normal | None:
        return self._regress("boosting", baseline.boosted_numbers, target, known, self.masked)
