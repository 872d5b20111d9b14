"""Segments for people: a name, a size, the answers that set a segment apart, and whether it can be reproduced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from thurbo.predict.scaling import scaled
from thurbo.predict.segments import segments
from thurbo.report.question_cards import plain
from thurbo.report.responses import FloatArray
from thurbo.report.wording import clipped, percent, with_answer

_LINES, _OPTIONS = 6, 2  # answers of a segment, and options of one question among them
_SIDES = ("over", "under")
_SOLID, _LOOSE = 0.85, 0.6  # stability (Jaccard index)
_ANSWER = 60  # letters of an answer in a sentence


class Placed(NamedTuple):
    """The rows of a table in the model: log-odds of units and factors, places for maps and segments, answers."""

    log_odds: FloatArray  # [row, feature]
    points: FloatArray  # [row, feature]
    weight: FloatArray | None  # [row]
    blocks: Mapping[str, Any]


def placed(model: Any, table: Any, blocks: Mapping[str, Any] | None = None) -> Placed:
    """Where the model sees the rows; `blocks` are the answers, if they were read before."""
    log_odds = np.asarray(model.transform(table, output="log_odds"), float)
    weight = model.schema_.weights(table, missing_columns="ignore")
    points = scaled(log_odds, model.weights_.shape[1], weight)
    return Placed(log_odds, points, weight, model.schema_.compile(table) if blocks is None else blocks)


def find_segments(schema: Any, rows: Placed) -> Any:
    """The segments that `model.segments` gives: the same number, and the same rows in each."""
    return segments(schema, rows.blocks, rows.points, rows.weight)


def segment_records(found: Any, texts: Mapping[str, Mapping[str, str]], gates: Collection[str] = ()) -> dict[str, Any]:
    """Plain values of the segments.

    `gates` decide which questions are asked; they set apart only the rows with few answers, who were not asked.
    """
    names, profiles = list[str](), []
    for record in found.profiles:
        few = record["segment"] == found.few_answers
        left_out = () if few or found.few_answers is None else gates
        lines = _lines({side: [e for e in record[side] if e["column"] not in left_out] for side in _SIDES}, texts)
        name = _different("Few answers" if few else _name(lines), names, record["segment"])
        names.append(name)
        keys = ("segment", "n", "share", "stability", "answered")
        profile = {key: record[key] for key in keys} | {"name": name, "few_answers": few, "lines": lines}
        profile["steady"] = stability_words(record["stability"])
        profile |= {side: [{key: each[key] for key in ("column", "words")} for each in record[side]] for side in _SIDES}
        profiles.append(profile)
    figures = {name: plain(getattr(found, name)) for name in ("agreement", "silhouette", "reference_silhouette")}
    about = {"n": found.n, "few_answers": found.few_answers, "stand_apart": found.stand_apart}
    return {**about, "verdict": found.verdict, **figures, "profiles": profiles}


def stability_words(stability: float) -> str:
    """Whether a segment is found again in other samples."""
    if stability >= _SOLID:
        return "stable"
    return "fairly stable" if stability >= _LOOSE else "not stable"


def _lines(record: Mapping[str, Any], texts: Mapping[str, Mapping[str, str]]) -> list[dict[str, Any]]:
    """The answers that differ most from all rows, more common and less common ones, strongest first."""
    several = [{**each, "sign": sign} for side, sign in (("over", 1), ("under", -1)) for each in record[side]]
    lines, seen = list[dict[str, Any]](), Counter[str]()
    for each in sorted(several, key=lambda one: -abs(one["z"])):
        if seen[each["column"]] >= (_OPTIONS if each["several"] else 1) or len(lines) >= _LINES:
            continue
        seen[each["column"]] += 1
        text = texts[each["column"]]
        lines.append({
            "column": each["column"],
            "brief": text["brief"],
            "short": text["short"],
            "answer": each["answer"],
            "value": each["value"],
            "overall": each["overall"],
            "is_share": each["is_share"],
            "sign": each["sign"],
            "z": each["z"],
            "words": each["words"],
        })  # fmt: skip
    return lines


def _name(lines: Sequence[Mapping[str, Any]]) -> str:
    """The answers that a segment gives most distinctively, two of them from different questions."""
    chosen: list[str] = []
    columns = set[str]()
    for line in lines:
        if line["column"] not in columns and len(chosen) < 2:
            columns.add(line["column"])
            chosen.append(phrase(line))
    words = "; ".join(chosen) if chosen else "No clear differences"
    return words[0].upper() + words[1:]


def phrase(line: Mapping[str, Any]) -> str:
    """An answer in a few words: "fan: Yes", "gender: mostly not Female", "higher age"."""
    question, answer = line["brief"], clipped(line["answer"], 30)
    less = line["sign"] < 0
    if not line["is_share"]:
        return f"{'lower' if less else 'higher'} {question}{f' ({answer})' if answer else ''}"
    often = "" if not less else "mostly not " if line["value"] < 0.5 else "less often "
    return with_answer(question, f"{often}{answer}")


def _different(name: str, names: Sequence[str], segment: int) -> str:
    return f"{name} ({segment})" if name in names else name


def sentence(profile: Mapping[str, Any], rows_are: str) -> str:
    """What sets a segment apart, with shares."""
    shown = [line for line in profile["lines"] if line["is_share"]][:3] or profile["lines"][:2]
    parts = [_said(line) for line in shown]
    size = f"{percent(profile['share'])} of the {rows_are} ({profile['n']:,})"
    if profile["few_answers"]:
        answered = f"{percent(profile['answered'])} of the questions on average"
        return f"{size} gave few answers (segment {profile['segment']}): {answered}. {_first(parts)}"
    return f"{size} are segment {profile['segment']}, “{profile['name']}”. {_first(parts)}"


def _said(line: Mapping[str, Any]) -> str:
    answer = f"“{with_answer(line['brief'], clipped(line['answer'], _ANSWER))}”"
    if line["is_share"]:
        return f"{percent(line['value'])} answered {answer} ({percent(line['overall'])} of all)"
    return f"{answer} {line['value']:.4g} on average ({line['overall']:.4g} of all)"


def _first(parts: Sequence[str]) -> str:
    return (
        "Of these, " + ", ".join(parts) + "."
        if parts
        else "Their answers do not differ clearly from those of the others."
    )
