"""Headline findings: sentences with numbers, made from segments, relations, accuracy and surprising answers.

Shares of relations are those of the data: the model says which relations to show, the table says how large they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from thurbo.report.accuracy import of_orders
from thurbo.report.responses import FloatArray
from thurbo.report.segment_cards import sentence
from thurbo.report.wording import brief_of, percent, quoted, with_answer

_SEGMENTS, _RELATIONS, _SURPRISES = 3, 3, 1  # sentences of each kind
_FEWEST = 10.0  # rows, by weight, in each group of a comparison
_ONE_EACH = 2  # relations that may speak of one question


def findings(
    segments: Mapping[str, Any],
    relations: Sequence[Mapping[str, Any]],
    held_out: Mapping[str, Any] | None,
    texts: Mapping[str, Mapping[str, str]],
    labels: Mapping[str, Sequence[str]],
    rows_are: str,
) -> list[dict[str, str]]:
    """Sentences, each with its most important number."""
    found = []
    if segments["n"] > 1:
        few = [each for each in segments["profiles"] if each["few_answers"]]
        clear = [each for each in segments["profiles"] if not each["few_answers"]]
        shown = clear[:_SEGMENTS] + few
        found += [_finding("segment", percent(each["share"]), sentence(each, rows_are)) for each in shown]
    found += [_finding("relation", percent(each["share"]), each["words"]) for each in relations[:_RELATIONS]]
    if held_out is not None:
        found += _accuracy(held_out, texts) + _orders(held_out, texts)[:_SURPRISES]
        for each in held_out.get("surprises", [])[:_SURPRISES]:
            column = each["column"].removesuffix(": favourite")
            label = labels[column][each["code"]]
            words = (
                f"{quoted(brief_of(texts, column))}: of {each['of']:,} hidden answers {quoted(label)}, {each['n']:,} "
            )
            words += "came from people whose other answers made this at most half as likely as usual."
            found.append(_finding("surprise", percent(each["share"]), f"The most surprising answers. {words}"))
    return found


def _finding(kind: str, number: str, words: str) -> dict[str, str]:
    return {"kind": kind, "number": number, "words": words}


def _orders(held_out: Mapping[str, Any], texts: Mapping[str, Mapping[str, str]]) -> list[dict[str, str]]:
    """How often the better of two items of a list is predicted higher."""
    found = []
    for each in (each for each in of_orders(held_out) if each.get("kind") == "ratings"):
        words = f"of {each['n']:,} pairs of hidden items of {quoted(brief_of(texts, each['column']))} are put in the "
        words += f"right order; by the mean of each item {percent(each['accuracy_marginal'])}."
        found.append(_finding("accuracy", percent(each["accuracy"]), f"{percent(each['accuracy'])} {words}"))
    return found


def _accuracy(held_out: Mapping[str, Any], texts: Mapping[str, Mapping[str, str]]) -> list[dict[str, str]]:
    if held_out.get("accuracy") is None:
        return []
    words = f"of {held_out['n_cells']:,} hidden answers are predicted correctly from the other answers of the same row"
    words += f"; always guessing the most common answer gets {percent(held_out['accuracy_marginal'])} right"
    if held_out.get("accuracy_logistic") is not None:
        words += f", a regression of each question on all others {percent(held_out['accuracy_logistic'])}"
    found = [_finding("accuracy", percent(held_out["accuracy"]), f"{percent(held_out['accuracy'])} {words}.")]
    gains = [each for each in held_out["columns"] if each.get("accuracy") is not None and each.get("answer") != "pair"]
    if len(gains) > 1:
        best = max(gains, key=lambda each: each["accuracy"] - each["accuracy_marginal"])
        least = min(gains, key=lambda each: each["accuracy"] - each["accuracy_marginal"])
        said = [_right(each, texts) for each in (best, least)]
        words = f"The other answers tell most about {said[0]} and least about {said[1]}."
        found.append(_finding("accuracy", percent(best["accuracy"]), words))
    return found


def _right(tested: Mapping[str, Any], texts: Mapping[str, Mapping[str, str]]) -> str:
    shares = f"{percent(tested['accuracy'])} right, {percent(tested['accuracy_marginal'])} by the most common answer"
    return f"{quoted(brief_of(texts, tested['column']))} ({shares})"


def relations(
    dependence: Any,
    schema: Any,
    blocks: Mapping[str, Any],
    weight: FloatArray | None,
    texts: Mapping[str, Mapping[str, str]],
    most: int = 10,
) -> list[dict[str, Any]]:
    """The strongest relations under the model, each with the pair of answers in the table that shows it best."""
    found, named = list[dict[str, Any]](), dict[str, int]()
    for one, other, strength in dependence.strongest(6 * most):
        if len(found) == most or max(named.get(one, 0), named.get(other, 0)) >= _ONE_EACH:
            continue
        shown = _telling(schema, blocks, one, other, weight)
        if shown is None:
            continue
        named[one], named[other] = named.get(one, 0) + 1, named.get(other, 0) + 1
        answers = (_said(texts, one, shown["answer"]), _said(texts, other, shown["other_answer"]))
        words = f"Of those who answered {answers[0]}, {percent(shown['share'])} answered {answers[1]}; of the others, "
        words += f"{percent(shown['share_of_others'])}."
        found.append({"columns": [one, other], "strength": strength, **shown, "words": words})
    return found


def _said(texts: Mapping[str, Mapping[str, str]], name: str, answer: str) -> str:
    return quoted(with_answer(texts[name]["brief"], answer))


def _telling(
    schema: Any, blocks: Mapping[str, Any], one: str, other: str, weight: FloatArray | None
) -> dict[str, Any] | None:
    """The pair of answers with the largest correlation (phi), among rows that answered both; None without any."""
    (words, holds), (other_words, other_holds) = (_statements(schema, blocks, name) for name in (one, other))
    rows = np.ones(len(holds)) if weight is None else weight
    best, found = 0.0, None
    for a, b in np.ndindex(holds.shape[1], other_holds.shape[1]):
        both = ~np.isnan(holds[:, a]) & ~np.isnan(other_holds[:, b])
        x, y, w = holds[both, a], other_holds[both, b], rows[both]
        n_x, n_y, n = float(w @ x), float(w @ y), float(w.sum())
        if min(n_x, n - n_x, n_y, n - n_y) < _FEWEST:
            continue
        share, of_others = float(w @ (x * y)) / n_x, float(w @ ((1 - x) * y)) / (n - n_x)
        phi = (share - of_others) * np.sqrt(n_x * (n - n_x) / (n_y * (n - n_y)))
        if phi > best:
            best = phi
            found = {
                "answer": words[a],
                "other_answer": other_words[b],
                "share": share,
                "share_of_others": of_others,
                "n": int(both.sum()),
                "n_with_answer": float(n_x),
            }
    return found


def _statements(schema: Any, blocks: Mapping[str, Any], name: str) -> tuple[list[str], FloatArray]:
    """What can be said of an answer, and where it holds [row, statement]: 1, 0 or NaN."""
    profile = schema[name].form.profile(schema[name], blocks[name])
    if profile.to_user is None:
        words, holds = list(profile.answers), np.asarray(profile.values, np.float64)
        if holds.shape[1] == 1:  # of two labels the profile has one
            other = [text for text in schema[name].texts if text not in words]
            return [*words, *(other or ["not " + words[0]])], np.concatenate([holds, 1 - holds], axis=1)
        return words, holds
    middle = np.nanmedian(profile.values, axis=0)
    ends = profile.to_user(middle)
    words = [
        f"{answer}{' ' if answer else ''}above {end:.4g}" for answer, end in zip(profile.answers, ends, strict=True)
    ]
    holds = np.where(np.isnan(profile.values), np.nan, profile.values > middle)
    low = [word.replace("above", "at most") for word in words]
    return words + low, np.concatenate([holds, 1 - holds], axis=1)
