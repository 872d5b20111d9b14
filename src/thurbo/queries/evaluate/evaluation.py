"""§6 What `evaluate` found: plain numbers by column, and the same as a table for people.

One record for each kind of answer of a column. `accuracy`, `log_score`, `mae`, `smae`, `rmse` and `calibration_error`
are the model's; the same names with `_marginal` and `_logistic` are those of the yardsticks. None stands where there is
none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from thurbo.io import frames

MEASURES = ("accuracy", "log_score", "mae", "smae", "rmse", "calibration_error")
RIVALS = ("", "_marginal", "_logistic")
_LABELS = ("accuracy", "log_score", "smae", "calibration_error")
_NUMBERS = ("mae", "rmse", "log_score", "calibration_error")
_OF_NUMBERS = ("number", "interval")
_WORDS = {"log_score": "log score", "mae": "MAE", "smae": "SMAE", "rmse": "RMSE", "calibration_error": "calibration"}
_RIVAL_WORDS = {"": "model", "_marginal": "shares", "_logistic": "logistic"}
_RIVAL_NUMBERS = {"": "model", "_marginal": "normal", "_logistic": "ridge"}


@dataclass(frozen=True)
class Evaluation:
    """Hidden answers, predicted from the rest of their rows: by column and over all, beside two yardsticks.

    `columns` holds one record for each column (of a ranking one for its favourite and one for its pairs, of a measured
    column one for its numbers and one for its intervals), `overall` means over all hidden answers, `untested` the
    columns of which no single answer was hidden. Accuracies are of labels; log scores are in nats an answer, for
    numbers log densities in the user's units, for intervals their log probabilities; larger is better. MAE is
    of the median (of ordered labels in levels) and RMSE of the mean; SMAE is MAE as a share of that of the shares, or
    of the normal distribution of numbers. `calibration_error` is how far stated probabilities are from what came true:
    of the most probable label in ten bins, of numbers at the inner ends of ten bins of probability.
    """

    columns: list[dict[str, Any]]
    overall: dict[str, Any]
    untested: tuple[str, ...] = field(default=())

    @property
    def frame(self) -> Any:
        """The records as a table: of pandas, or else polars or arrow, or a dict of columns where there is none."""
        names = list(dict.fromkeys(name for record in self.columns for name in record))
        data = {}
        for name in names:
            values = [record.get(name) for record in self.columns]
            is_measure = name.startswith(MEASURES)
            data[name] = np.asarray(values, np.float64 if is_measure else None)
        return frames.assemble_any(data)

    @property
    def verdict(self) -> str:
        """One sentence: of how many columns the model knows more than the yardsticks do, by log score."""
        scored = [record for record in self.columns if record["log_score"] is not None]
        parts = []
        for rival, words in (("_marginal", "their shares"), ("_logistic", "logistic regression")):
            known = [record for record in scored if record[f"log_score{rival}"] is not None]
            if known:
                better = sum(record["log_score"] > record[f"log_score{rival}"] for record in known)
                parts.append(f"{better} of {len(known)} columns better than {words}")
        return f"By log score it predicts {' and '.join(parts)}." if parts else "Only orders were tested."

    def _sections(self) -> list[tuple[str, list[str], list[list[str]]]]:
        """The tables: title, header, lines of text."""
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
        return f"{o['n_cells']:,} hidden answers ({o['share']:.0%} of those there were), each from the rest of its row"

    def _closing(self) -> list[str]:
        lines = [self.verdict]
        if self.untested:
            lines.append(f"Not tested, as no single answer was hidden: {', '.join(self.untested)}.")
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
    """Whether tables have room for it: calibration is the model's own, and the SMAE of the shares is one."""
    return rival == "" or (measure != "calibration_error" and (measure, rival) != ("smae", "_marginal"))


def _number(value: float | None, measure: str) -> str:
    if value is None:
        return ""
    if measure == "accuracy":
        return f"{value:.1%}"
    return f"{value:.4g}" if measure in {"mae", "rmse"} else f"{value:.3f}"
