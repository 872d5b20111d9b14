"""Warnings of the report: what a reader should know about the data and the model before believing a number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from thurbo.report.missing import NOTHING
from thurbo.report.responses import FloatArray
from thurbo.report.wording import listing, percent, quoted
from thurbo.schema.doubts import doubts, left_out
from thurbo.schema.routing import NOT_APPLICABLE

_MUCH_MISSING = 0.4
_NAMES = 4  # questions named in a warning
_HEAVY = 0.8  # share of the effective sample size, below which weights matter


def cautions(
    schema: Any,
    source: Any,
    data: Mapping[str, Any],
    texts: Mapping[str, Mapping[str, str]],
    weight: FloatArray | None,
    fit: Mapping[str, Any],
    held_out: Mapping[str, Any] | None,
) -> list[dict[str, str]]:
    """Warnings as records: a title, a sentence, and whether it is something to "check" or a "note"."""
    about = _Names(texts)
    found = [
        *_of_fit(fit, held_out, about),
        *_of_guesses(schema, about),
        *_of_missing(data, about),
        *_of_kinds(data, schema, about),
        *_of_skips(schema, data, about),
        *_of_weights(data, weight, about),
        *_of_columns(schema, source, about),
    ]
    return sorted(found, key=lambda each: each["level"] != "check")


class _Names:
    """Lists of questions in words, the first few by name."""

    def __init__(self, texts: Mapping[str, Mapping[str, str]]):
        self.texts = texts

    def one(self, name: str) -> str:
        return self.texts[name]["brief"] if name in self.texts else name

    def __call__(self, names: Sequence[str], most: int = _NAMES) -> str:
        shown = [quoted(self.one(name)) for name in names[:most]]
        return listing([*shown, f"{len(names) - most} more"] if len(names) > most else shown)


def _warning(level: str, title: str, words: str) -> dict[str, str]:
    return {"level": level, "title": title, "words": words}


def _of_fit(fit: Mapping[str, Any], held_out: Mapping[str, Any] | None, about: _Names) -> Iterator[dict[str, str]]:
    if not fit["converged"]:
        yield _warning("check", "Training had not settled", "Results may change with more epochs; fit longer.")
    if held_out is None:
        words = "No answers were hidden before fitting, so this page cannot say how well the model predicts new ones."
        yield _warning("check", "Accuracy was not tested", f"{words} Use thurbo evaluate, or thurbo report --test.")
        return
    scored = [each for each in held_out["columns"] if each.get("log_score") is not None]
    worse = [each["column"] for each in scored if each["log_score"] < each["log_score_marginal"]]
    if worse:
        words = f"{about(worse)}: hidden answers were predicted no better than by the overall shares."
        yield _warning("check", _counted(len(worse), "question", "cannot be predicted"), words)


def _of_guesses(schema: Any, about: _Names) -> Iterator[dict[str, str]]:
    for each in doubts(schema):
        title = _counted(len(each.names), "column", "read by a guess")
        yield _warning("check", title, f"{about(each.names)}, read as {each.kind}: {each.why}.")


def _of_missing(data: Mapping[str, Any], about: _Names) -> Iterator[dict[str, str]]:
    gone = sorted(data["columns"], key=lambda each: -each["share_missing"])
    gone = [each for each in gone if each["share_missing"] >= _MUCH_MISSING]
    if gone:
        shown = [f"{quoted(about.one(each['name']))} {percent(each['share_missing'])}" for each in gone[:_NAMES]]
        more = f" and {len(gone) - _NAMES} more" if len(gone) > _NAMES else ""
        words = f"{', '.join(shown)}{more} of the answers are missing among those who were asked."
        yield _warning("check", _counted(len(gone), "question", "with many missing answers"), words)


def _of_kinds(data: Mapping[str, Any], schema: Any, about: _Names) -> Iterator[dict[str, str]]:
    """Refusals and other declared missing values, by name."""
    kinds: dict[str, list[tuple[str, float]]] = {}
    for name, shares in data["missing"].items():
        if name in schema and schema[name].role == "answer":
            for kind, share in shares.items():
                if kind not in (NOTHING, NOT_APPLICABLE):
                    kinds.setdefault(kind, []).append((name, share))
    for kind, each in sorted(kinds.items(), key=lambda item: -max(share for _, share in item[1])):
        name, most = max(each, key=lambda one: one[1])
        words = f"{quoted(kind)} in {_counted(len(each), 'question')}, most often in {quoted(about.one(name))}"
        yield _warning("note", "Counted as missing", f"{words} ({percent(most)}).")


def _of_skips(schema: Any, data: Mapping[str, Any], about: _Names) -> Iterator[dict[str, str]]:
    for skip in schema.skips:
        names = [name for name in skip.columns if name in schema.modelled]
        if names:
            shares = [data["missing"].get(name, {}).get(NOT_APPLICABLE, 0.0) for name in names]
            words = f"{about(names)}: asked only if {quoted(about.one(skip.asked_if))} is {_when(schema, skip)}. "
            words += f"{percent(max(shares))} were not asked; this is not counted as missing."
            yield _warning("note", _counted(len(names), "question", "not asked of everyone"), words)


def _when(schema: Any, skip: Any) -> str:
    """The answers of the gate after which questions are asked, or those after which they are not if these are fewer."""
    gate = schema[skip.asked_if]
    texts = dict(zip(gate.labels, gate.texts, strict=True))
    others = [text for label, text in texts.items() if label not in skip.values]
    if 0 < len(others) < len(skip.values):
        return "not " + listing(others)
    return listing([str(texts.get(value, value)) for value in skip.values], "or")


def _of_weights(data: Mapping[str, Any], weight: FloatArray | None, about: _Names) -> Iterator[dict[str, str]]:
    if weight is None:
        return
    effective = float(weight.sum() ** 2 / (weight**2).sum())
    level = "check" if effective < _HEAVY * len(weight) else "note"
    words = (
        f"Shares are weighted by {quoted(about.one(data['weighted_by']))}. With these weights, {len(weight):,} rows "
    )
    words += f"are worth {effective:,.0f} of equal weight; the largest weight is {weight.max():.1f} times the mean."
    yield _warning(level, "Weighted", words)


def _of_columns(schema: Any, source: Any, about: _Names) -> Iterator[dict[str, str]]:
    for why, names in left_out(schema, source).items():
        words = f"{about(names)}: {why}." if why else f"{about(names)}."
        yield _warning("note", _counted(len(names), "column", "not part of the model"), words)


def _counted(n: int, what: str, rest: str = "") -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}{' ' if rest else ''}{rest}"
