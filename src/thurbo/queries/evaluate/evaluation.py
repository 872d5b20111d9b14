"""§6 The result of `evaluate`: predictive accuracy by column, as numbers and as a table of text.

There is one record for each type of answer of a column. `accuracy`, `log_score`, `mae`, `smae`, `rmse` and
`calibration_error` are those of the model; names with `_marginal` and `_logistic` are those of the two baselines.
A measure that does not apply is None.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from thurbo.columns.forms.scores import MEASURES, RIVALS, Tested, gains
from thurbo.io import build

_LABELS = ("accuracy", "log_score", "smae", "calibration_error")
_NUMBERS = ("mae", "rmse", "log_score", "calibration_error")
_OF_NUMBERS = ("number", "interval")
_WORDS = {"log_score": "log score", "mae": "MAE", "smae": "SMAE", "rmse": "RMSE", "calibration_error": "calibration"}
_RIVAL_WORDS = {"": "model", "_marginal": "shares", "_logistic": "logistic", "_boosting": "boosting"}
_RIVAL_NUMBERS = {"": "model", "_marginal": "normal", "_logistic": "ridge", "_boosting": "boosting"}


@dataclass(frozen=True)
class Evaluation:
    """Predictive accuracy on masked answers, each predicted from the rest of its row; compared with two baselines.

    `columns` has one record for each column (a ranking has one for its favourite and one for its pairs, a measured
    column one for numbers and one for intervals). `overall` has means over all masked answers. `untested` are the
    columns without a masked answer. Accuracies are those of labels. Log scores are in nats per answer: log densities
    in the user's units for numbers, log probabilities for intervals; larger is better. MAE is that of the median (in
    levels for ordered labels), RMSE that of the mean. SMAE is the MAE divided by that of the marginal baseline.
    `calibration_error` compares predicted probabilities with observed frequencies: of the most probable label in ten
    bins; of numbers at the inner edges of ten bins of probability.
    """

    columns: list[dict[str, Any]]
    overall: dict[str, Any]
    untested: tuple[str, ...] = field(default=())
    n_rows: int = 0
    n_seen_rows: int = 0

    @property
    def frame(self) -> Any:
        """The records as a table: pandas if installed, otherwise polars or arrow, otherwise a dict of columns."""
        names = list(dict.fromkeys(name for record in self.columns for name in record))
        data = {}
        for name in names:
            values = [record.get(name) for record in self.columns]
            is_measure = name.startswith((*MEASURES, "gain"))
            data[name] = np.asarray(values, np.float64 if is_measure else None)
        return build.any_frame(data)

    @property
    def verdict(self) -> str:
        """One sentence: how many columns the model predicts better than each baseline, by log score."""
        scored = [record for record in self.columns if record["log_score"] is not None]
        parts = []
        for rival, words in (("_marginal", "the marginal frequencies"), ("_logistic", "logistic regression")):
            known = [record for record in scored if record[f"log_score{rival}"] is not None]
            if known:
                better = sum(record["log_score"] > record[f"log_score{rival}"] for record in known)
                parts.append(f"{better} of {len(known)} columns better than {words}")
        return f"By log score, the model predicts {' and '.join(parts)}." if parts else "Only orders were tested."

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
        return sections

    def _heading(self) -> str:
        o = self.overall
        return f"{o['n_cells']:,} masked answers ({o['share']:.0%} of all answers), each predicted from its row"

    def _closing(self) -> list[str]:
        lines = [self.verdict]
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
