"""§6 The result of `evaluate`: predictive accuracy by column, as numbers and as a table of text.

There is one record for each type of answer of a column. `accuracy`, `log_score`, `mae`, `smae`, `rmse` and
`calibration_error` are those of the model; names with `_marginal`, `_logistic` and `_boosting` are those of the
baselines, and `gain` with these endings is the difference of log scores. A measure that does not apply is None.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from thurbo.table.columns.forms.form import MEASURES, RIVALS, Tested, gains
from thurbo.table.io import frames

_LABELS = ("accuracy", "log_score", "smae", "calibration_error")
_NUMBERS = ("mae", "rmse", "log_score", "calibration_error")
_RIVAL_GAINS = {"_marginal": "frequencies", "_logistic": "regression", "_boosting": "boosting"}
_OF_NUMBERS = ("number", "interval")
_WORDS = {"log_score": "log score", "mae": "MAE", "smae": "SMAE", "rmse": "RMSE", "calibration_error": "calibration"}
_RIVAL_PHRASES = {
    "_marginal": "the marginal frequencies",
    "_logistic": "logistic regression",
    "_boosting": "gradient boosting",
}
_RIVAL_WORDS = {"": "model", "_marginal": "shares", "_logistic": "logistic", "_boosting": "boosting"}
_RIVAL_NUMBERS = {"": "model", "_marginal": "normal", "_logistic": "ridge", "_boosting": "boosting"}


@dataclass(frozen=True)
class Evaluation:
    """Predictive accuracy on masked answers, each predicted from the rest of its row; compared with baselines.

    `columns` has one record for each column (a ranking has one for its favourite and one for its pairs, a measured
    column one for numbers and one for intervals). `overall` has means over all masked answers. `untested` are the
    columns without a masked answer. Accuracies are those of labels. Log scores are in nats per answer: log densities
    in the user's units for numbers, log probabilities for intervals; larger is better. MAE is that of the median (in
    levels for ordered labels), RMSE that of the mean. SMAE is the MAE divided by that of the marginal baseline.
    `calibration_error` compares predicted probabilities with observed frequencies: of the most probable label in ten
    bins; of numbers at the inner edges of ten bins of probability. `gain_marginal`, `gain_logistic` and
    `gain_boosting` are mean differences of log scores, model − baseline, with a standard error (`_se`) and the ends of
    a 95 % interval (`_low`, `_high`). The error is that of a mean over rows, since answers of one row depend on each
    other; the intervals describe the choice of rows, not that of masks and seeds.

    `n_rows` is the number of rows with a masked answer, and `n_seen_rows` how many of them equal a row that the model
    was fitted to: results on these are too good. After `tb.evaluate`, `masks` has the hidden answers of each fit, by
    column (one boolean for each row, or for each entry of a list), and `fit_seconds` the time of each fit.

    `calibration` has ten bins of the probability of the predicted label: `n` answers, mean `predicted` probability,
    share `observed`. `surprises` are labels (`column`, `code`) that were given by `n` of `of` rows although the other
    answers of these rows made them at most half as probable as usual.
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

    @property
    def frame(self) -> Any:
        """The records as a table: pandas if installed, otherwise polars or arrow, otherwise a dict of columns."""
        names = list(dict.fromkeys(name for record in self.columns for name in record))
        data = {}
        for name in names:
            values = [record.get(name) for record in self.columns]
            is_measure = name.startswith((*MEASURES, "gain"))
            data[name] = np.asarray(values, np.float64 if is_measure else None)
        return frames.any_frame(data)

    @property
    def verdict(self) -> str:
        """One sentence: how many columns the model predicts better than each baseline, by log score."""
        scored = [record for record in self.columns if record["log_score"] is not None]
        parts = []
        for rival, words in _RIVAL_PHRASES.items():
            known = [record for record in scored if record[f"log_score{rival}"] is not None]
            if known:
                better = sum(record["log_score"] > record[f"log_score{rival}"] for record in known)
                parts.append(f"{better} of {len(known)} columns better than {words}")
        said = f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)
        return f"By log score, the model predicts {said}." if parts else "Only orders were tested."

    @property
    def differences(self) -> list[str]:
        """One sentence for each baseline: the mean difference of log scores over all answers, with its interval."""
        found = []
        for rival, words in _RIVAL_PHRASES.items():
            low, high = (self.overall.get(f"gain{rival}{end}") for end in ("_low", "_high"))
            if low is None or high is None:
                continue
            verdict = "better" if low > 0 else "worse" if high < 0 else "no clear difference"
            gain = f"{self.overall[f'gain{rival}']:+.4f} (95 % interval {low:+.4f} to {high:+.4f})"
            found.append(f"Mean log score per answer, model − {words}: {gain}: {verdict}.")
        return found

    def _sections(self) -> list[tuple[str, list[str], list[list[str]]]]:
        """The tables: title, header, rows of text."""
        labels = [record for record in self.columns if record["answer"] not in _OF_NUMBERS]
        numbers = [record for record in self.columns if record["answer"] in _OF_NUMBERS]
        sections = []
        for title, records, measures, words in (
            ("Labels", labels, _LABELS, _RIVAL_WORDS),
            ("Numbers", numbers, _NUMBERS, _RIVAL_NUMBERS),
        ):
            if not records:
                continue
            rivals = [rival for rival in RIVALS if any(r.get(f"log_score{rival}") is not None for r in records)] or [""]
            wanted = [(m, rival) for m in measures for rival in rivals if _is_shown(m, rival)]
            wanted = [pair for pair in wanted if pair[0] != "smae" or any(r.get("smae") is not None for r in records)]
            header = ["column", "n"]
            for measure, rival in wanted:
                name = _WORDS.get(measure, measure)
                header.append(name if rival == "" else words[rival])
            lines = []
            for record in records:
                about = record["column"]
                numbers_ = [_number(record.get(f"{measure}{rival}"), measure) for measure, rival in wanted]
                lines.append([about, f"{record['n']:,}", *numbers_])
            sections.append((title, header, lines))
        return [*sections, *self._gains()]

    def _gains(self) -> list[tuple[str, list[str], list[list[str]]]]:
        """The table of differences to the baselines, if there are any."""
        scored = [record for record in self.columns if record["log_score"] is not None]
        rivals = [rival for rival in RIVALS[1:] if any(record[f"gain{rival}"] is not None for record in scored)]
        if not rivals:
            return []
        lines = [[r["column"], f"{r['n']:,}", *(_interval(r, rival) for rival in rivals)] for r in scored]
        title = "Difference of log scores, model − baseline (95 % interval)"
        return [(title, ["column", "n", *(_RIVAL_GAINS[rival] for rival in rivals)], lines)]

    def _heading(self) -> str:
        n, share = self.overall["n_cells"], f"{self.overall['share']:.0%} of all answers"
        what = "answers" if n else "pairs of items"  # partial rankings have only pairs
        n = n or sum(record["n"] for record in self.columns)
        if not self.masks:
            return f"{n:,} masked {what} ({share}), each predicted from its row"
        n_fits = len(self.masks)
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
            lines.append(f"Not tested, since no answer was masked: {', '.join(self.untested)}.")
        return lines

    def __str__(self) -> str:
        out = [self._heading()]
        for title, header, lines in self._sections():
            widths = [max(map(len, texts)) for texts in zip(header, *lines, strict=True)]
            out += ["", title]
            for line in (header, *lines):
                name = line[0].ljust(widths[0])
                rest = (text.rjust(width) for text, width in zip(line[1:], widths[1:], strict=True))
                out.append("  ".join(["", name, *rest]).rstrip())
        return "\n".join([*out, "", *self._closing()])

    def __repr__(self) -> str:
        return str(self)

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
    if gain is None:
        return ""
    return f"{gain:+.3f}" if low is None or high is None else f"{gain:+.3f} [{low:+.3f}, {high:+.3f}]"


def _is_shown(measure: str, rival: str) -> bool:
    """Whether tables show a measure: calibration is that of the model only, and the SMAE of "_marginal" is 1."""
    return rival == "" or (measure != "calibration_error" and (measure, rival) != ("smae", "_marginal"))


def _number(value: float | None, measure: str) -> str:
    if value is None:
        return ""
    if measure == "accuracy":
        return f"{value:.1%}"
    return f"{value:.4g}" if measure in {"mae", "rmse"} else f"{value:.3f}"


def overall(tests: list[Tested], hide: float) -> dict[str, Any]:
    """Means over all masked answers, without the pairs of rankings, which are not single answers."""
    cells = [test for test in tests if test.score]
    labels = [test for test in cells if test.right]
    n_cells, n_labels = (sum(len(test.row) for test in each) for each in (cells, labels))
    found: dict[str, Any] = {"n_cells": n_cells, "n_labels": n_labels, "n_numbers": n_cells - n_labels}
    found["share"] = float(hide)
    for rival in RIVALS:
        found[f"accuracy{rival}"] = _mean(labels, "right", rival)
    for rival in RIVALS:
        found[f"log_score{rival}"] = _mean(cells, "score", rival)
    return found | gains(cells)


def _mean(tests: list[Tested], part: str, rival: str) -> float | None:
    """Weighted mean over all answers; None if one of the tests does not have it."""
    if not tests or not all(rival in getattr(test, part) for test in tests):
        return None
    values = np.concatenate([getattr(test, part)[rival] for test in tests])
    return float(np.average(values, weights=np.concatenate([test.weight for test in tests])))
