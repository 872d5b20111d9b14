"""Words and numbers that all parts of the report share: shares as text, names, answers, missing cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thurbo.table.columns.forms import Answers
from thurbo.table.schema.naming import MOST, clipped, fitted, full_text
from thurbo.table.schema.routing import NOT_APPLICABLE, not_asked

NOTHING = "no answer"
FloatArray = NDArray[np.float64]
Texts = Mapping[str, Mapping[str, str]]  # by name of the column or part: "brief" and "full"


def percent(share: float | None) -> str:
    """A share as a percentage without decimals."""
    if share is None:
        return "–"
    number = "<1" if 0 < share < 0.005 else ">99" if 0.995 <= share < 1 else f"{100 * share:.0f}"
    return f"{number}\u00a0%"


def number(value: float | None, digits: int = 2, sign: str = "") -> str:
    """A number with fixed decimals and a typographic minus sign; with sign="+" it always shows its sign."""
    return "–" if value is None else f"{value:{sign}.{digits}f}".replace("-", "\u2212")


def listing(names: Sequence[str]) -> str:
    """Names with commas and a final "and"."""
    return "".join(names) if len(names) < 2 else ", ".join(names[:-1]) + " and " + names[-1]


def quoted(text: str) -> str:
    """A question in quotation marks."""
    return f"“{text}”"


def texts_of(schema: Any, answers: Sequence[Any] = ()) -> dict[str, dict[str, str]]:
    """The display name ("brief") and the full text of every column and of every part of a question, by name."""
    shown = schema.display_names
    found = {name: {"brief": brief, "full": full_text(name, schema.titles)} for name, brief in shown.items()}
    for column in answers:
        for part in column.parts:
            label = part.name[len(column.name) + 2 :]
            brief, full = (f"{text}: {label}" for text in found[column.name].values())
            found[part.name] = {"brief": brief if len(brief) <= MOST else fitted(label, MOST), "full": full}
    return found


def brief_of(texts: Texts, name: str) -> str:
    """The display name of a question or part; a ranking is tested as "name: favourite"."""
    if name in texts:
        return texts[name]["brief"]
    base, mark, rest = name.rpartition(": ")
    return f"{texts[base]['brief']}: {rest}" if mark and base in texts else clipped(name, MOST)


def with_answer(question: str, answer: str) -> str:
    """A question and its answer: "fan: Yes", "Have you seen it? Yes"."""
    mark = "" if question.endswith(("?", ".", "!", ":")) else ":"
    return f"{question}{mark} {answer}" if answer else question


def time_words(spent: Mapping[str, float]) -> str:
    """The whole time and its parts: "29.2 s (reading 1.1, compiling 8.2, training 19.9)"."""
    parts = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in spent.items() if stage != "total")
    return f"{spent['total']:.1f} s" + (f" ({parts})" if parts else "")


def read_answers(schema: Any, X: Any, blocks: Mapping[str, Any] | None = None) -> list[Answers]:
    """Every modelled question of X through its fitted schema; `blocks` are the answers, if they were read before."""
    blocks = schema.compile(X) if blocks is None else blocks
    return [schema[name].form.answers(name, blocks[name]) for name in schema.modelled]


def missing_kinds(schema: Any, source: Any) -> dict[str, dict[str, float]]:
    """Share of missing cells of each question, by kind; kinds that do not occur are omitted."""
    found, out = {}, not_asked(schema, schema.skips, source)
    for name, column in schema.items():
        names = [each for each in column.source_columns(name) or (name,) if each in source]
        if not names:
            continue
        parts = {each: source.cells(each) for each in names}
        counts = column.missing_kinds(
            parts[name] if names == [name] else replace(parts[names[0]], name=name, parts=parts)
        )
        if name in out:
            skipped = sum(int((out[name] & cells.missing).sum()) for cells in parts.values())
            counts[NOT_APPLICABLE] = counts.get(NOT_APPLICABLE, 0) + skipped
            counts[NOTHING] -= skipped
        n_cells = max(source.n_rows * len(names), 1)
        found[name] = {kind: count / n_cells for kind, count in counts.items() if count}
    return found


def codes_by_kind(schema: Any, missing: Mapping[str, Mapping[str, float]]) -> dict[str, list[float]]:
    """Refusals and other declared missing values: their share in each question that has them, by kind."""
    found: dict[str, list[float]] = {}
    for name, shares in missing.items():
        for kind, share in shares.items() if name in schema and schema[name].role == "answer" else ():
            if kind != NOTHING:
                found.setdefault(kind, []).append(share)
    return found


def followers(schema: Any) -> dict[str, list[str]]:
    """Columns that follow from another one, by the one that is shown in their place."""
    found: dict[str, list[str]] = {}
    for name, shown in schema.sources.items():
        found.setdefault(shown, []).extend([name] if name != shown else [])
    return found


def missing_words(shares: Mapping[str, float]) -> str:
    """The shares as text: "12 %", or "12 % (8 % refused, 4 % no answer), 21 % not applicable"."""
    gaps = {kind: share for kind, share in shares.items() if kind != NOT_APPLICABLE}
    words = percent(float(np.clip(sum(gaps.values()), 0.0, 1.0)))
    if set(gaps) - {NOTHING}:
        kinds = sorted(gaps.items(), key=lambda each: -each[1])
        words += f" ({', '.join(f'{percent(share)} {kind}' for kind, share in kinds)})"
    return f"{words}, {percent(shares[NOT_APPLICABLE])} {NOT_APPLICABLE}" if NOT_APPLICABLE in shares else words
