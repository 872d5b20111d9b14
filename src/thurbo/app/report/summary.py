"""The summary of a fitted model and its data: everything that the report page shows, as plain values.

Headline findings, accuracy on hidden answers, and cautions are sentences with their numbers. Scripts and tests can
read the same figures as the page.
Guarantees only Python numbers, strings, lists and dictionaries, so that `json.dumps` can store it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from thurbo import __version__
from thurbo.app.report.cards import (
    Placed,
    describe_factors,
    describe_units,
    find_segments,
    placed,
    plain,
    question_records,
    segment_records,
    sentence,
)
from thurbo.app.report.maps import catalogue, named, row_map, row_texts, telling
from thurbo.app.report.wording import (
    NOTHING,
    FloatArray,
    brief_of,
    listing,
    missing_kinds,
    percent,
    quoted,
    read_answers,
    texts_of,
    with_answer,
)
from thurbo.errors import ConvergenceWarning
from thurbo.predict.evaluation import are_seen
from thurbo.table.columns.forms.form import Answers
from thurbo.table.io.frames import Table, as_table
from thurbo.table.schema.descriptions import doubts, left_out
from thurbo.table.schema.routing import NOT_APPLICABLE, not_applicable

HIDDEN = 0.1  # share of the answers
MOSTLY = 0.5  # share of the rows that the model was fitted to, from which it has to be fitted once more
TRUE_TO_WORD = 0.05  # calibration error, up to which probabilities are shares
MINUS = "\u2212"
QUICK = 180.0  # seconds of a fit, up to which "auto" fits once more


def measured(model: Any, X: Any, wanted: bool | None, seed: int) -> Any:
    """An `Evaluation` of hidden answers, or None.

    If most rows are those of the fit, the model is fitted once more without the hidden answers; None as `wanted` does
    this only if the fit was quick.
    """
    if wanted is False:
        return None
    blocks = model.schema_.compile(as_table(X))
    if np.mean(are_seen(blocks.values(), model._seen_rows)) < MOSTLY:
        return model.evaluate(X, hide=HIDDEN, random_state=seed)
    if wanted is None and not model.time_spent_.get("total", np.inf) <= QUICK:
        return None
    from thurbo.cross_evaluation import evaluate

    with warnings.catch_warnings():  # about the training, which the page tells of the model itself
        warnings.simplefilter("ignore", ConvergenceWarning)
        return evaluate(model, X, hide=HIDDEN, random_state=seed, boosting=False, verbose=False)


def verdict(held_out: Mapping[str, Any]) -> list[str]:
    """How far to trust the predictions, in sentences: against the baselines, and whether probabilities are right."""
    said = []
    words = {"_marginal": "than the shares of each question alone", "_logistic": "than regressions of each question"}
    for rival, than in words.items():
        gain, low, high = (held_out.get(f"gain{rival}{end}") for end in ("", "_low", "_high"))
        if gain is None or low is None or high is None:
            continue
        is_clear = "clearly better" if low > 0 else "clearly worse" if high < 0 else "neither clearly better nor worse"
        said.append(f"{is_clear} {than} ({gain:+.3f}, 95 % interval {low:+.3f} to {high:+.3f})".replace("-", MINUS))
    found = [f"By log score, the predictions are {' and '.join(said)}."] if said else []
    bins = held_out.get("calibration") or []
    n = sum(each["n"] for each in bins)
    if n:
        error = sum(each["n"] * abs(each["predicted"] - each["observed"]) for each in bins) / n
        right = (
            "can be taken at face value" if error < TRUE_TO_WORD else "are off: read them as an order, not as shares"
        )
        found.append(f"Predicted probabilities {right}: they differ from the observed shares by {percent(error)}.")
    return found


def of_orders(held_out: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """Accuracy of ranking: records about pairs of items, with the name of the column."""
    columns = [] if held_out is None else held_out["columns"]
    pairs = [each for each in columns if each.get("answer") == "pair" and each.get("accuracy") is not None]
    return [{**each, "column": each["column"].removesuffix(": pairs")} for each in pairs]


def as_plain(found: Any) -> dict[str, Any] | None:
    """An `Evaluation`, or a mapping like its `overall` with `columns`, as plain values."""
    if found is None:
        return None
    if isinstance(found, Mapping):
        return {"calibration": [], "surprises": [], "seen": "", **found}
    caution = f"{found.n_seen_rows:,} of {found.n_rows:,}" if found.n_seen_rows > 0.2 * found.n_rows else ""
    return {
        **found.overall,
        "columns": [dict(each) for each in found.columns],
        "calibration": [dict(each) for each in found.calibration],
        "surprises": [dict(each) for each in found.surprises],
        "seen": caution,
    }


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
    profile = schema[name].form.profile(blocks[name])
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


DRIVERS = 3  # questions on which a question depends most
# Names of the objectives in the report.
_OBJECTIVES = {
    "exact": "exact likelihood",
    "likelihood": "likelihood (stochastic)",
    "multi-prediction": "multi-prediction",
}


class Names(NamedTuple):
    """How the page is called, and what it calls rows and columns."""

    title: str
    rows_are: str
    columns_are: str
    source: str | None


class _Read(NamedTuple):
    """The table as the page needs it."""

    table: Table
    blocks: Mapping[str, Any]
    answers: list[Answers]
    weight: FloatArray | None  # with mean one
    texts: dict[str, dict[str, str]]


def summary(
    model: Any,
    X: Any,
    *,
    title: str = "Report",
    rows_are: str = "rows",
    columns_are: str = "questions",
    source: str | None = None,
    colour_by: Sequence[str] | None = None,
    held_out: Any = None,
    what_if: Sequence[Mapping[str, Any]] = (),
    seed: int = 0,
    max_points: int = 3000,
    rows: bool = False,
) -> dict[str, Any]:
    """Summarise a fitted model and a table: findings, warnings, segments, accuracy, questions, relations, map.

    Parameters
    ----------
    model : TBM
        A fitted model.
    X : table
        Rows to describe, for example the training data.
    title : str
        Title of the page.
    rows_are, columns_are : str
        What the page calls rows and columns, for example "respondents" and "items".
    source : str, optional
        Credit for the data, shown at the end of the page.
    colour_by : sequence of str, optional
        Columns (or "column: label") that colour the map; by default those that differ most between segments.
    held_out : Evaluation, optional
        Accuracy on hidden answers, from `tb.evaluate` or `model.evaluate`.
    what_if : sequence of dict, optional
        Predictions under conditions, as in `thurbo.app.demo`; shown unchanged.
    seed, max_points : int
        Random seed of the map, and the maximum number of rows on the map; other figures use all rows.
    rows : bool, default=False
        Whether the map tells the answers of single rows. By default the page has no answers of single people.

    Returns
    -------
    dict
        Plain values for `render`. Shares and means, except of missing cells, are weighted by the Weight column.

    Raises
    ------
    SchemaError
        If `colour_by` names an unknown column.
    """
    read, tested = _reading(model, X), as_plain(held_out)
    coloured = None if colour_by is None else named(read.answers, colour_by)  # raises before any work
    where = placed(model, read.table, read.blocks)
    found = find_segments(model.schema_, where)
    return {
        **Names(title, rows_are, columns_are, source)._asdict(),
        "thurbo_version": __version__,
        **_contents(model, read, found, tested, rows_are),
        "items": catalogue(model, seed),
        **_structure(model, read, where, found, coloured, seed, max_points, rows),
        "what_if": [dict(each) for each in what_if],
        "history": _history(model.history_),
        "texts": read.texts,
    }


def _contents(model: Any, read: _Read, found: Any, tested: dict[str, Any] | None, rows_are: str) -> dict[str, Any]:
    """Findings, warnings, segments, accuracy, questions and relations."""
    schema, missing = model.schema_, missing_kinds(model.schema_, read.table)
    data = _data(read, missing) | _schema(schema, read.table) | {"missing": missing}
    gates = {skip.asked_if for skip in schema.skips}
    segments, fit = segment_records(found, read.texts, gates), _fit(model)
    pairs, dependence = _relations(model, read)
    for record in data["columns"]:
        record["drivers"] = [] if dependence is None else dependence["drivers"].get(record["name"], [])
    labels = {name: list(map(str, schema[name].answer_texts)) for name in schema.modelled}
    return {
        "findings": findings(segments, pairs, tested, read.texts, labels, rows_are),
        "warnings": cautions(schema, read.table, data, read.texts, read.weight, fit, tested),
        "segments": segments,
        "held_out": tested,
        "data": data,
        "relations": pairs,
        "dependence": dependence,
        "fit": fit,
    }


def _reading(model: Any, X: Any) -> _Read:
    table = as_table(X)
    answers = read_answers(model.schema_, table)
    own = model.schema_.weights(table, missing_columns="ignore")
    weight = None if own is None else own / own.mean()
    return _Read(table, model.schema_.compile(table), answers, weight, texts_of(model.schema_, answers))


def _relations(model: Any, read: _Read) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """The strongest relations in words, and the shares of uncertainty that questions remove from each other."""
    if model.schema_.listed or len(model.schema_.modelled) < 2:
        return [], None
    found = model.dependence(read.table)
    drivers = {
        name: [{"column": other, "share": share} for other, share in found.drivers(name, DRIVERS) if share >= 0.01]
        for name in found.names
    }
    share = [[plain(value) for value in row] for row in np.round(found.share, 4)]
    pairs = relations(found, model.schema_, read.blocks, read.weight, read.texts)
    return pairs, {"names": list(found.names), "share": share, "drivers": drivers}


def _structure(
    model: Any,
    read: _Read,
    where: Placed,
    found: Any,
    coloured: list[Answers] | None,
    seed: int,
    max_points: int,
    rows: bool,
) -> dict[str, Any]:
    """Hidden units, factors and the map."""
    n_hidden = model.weights_.shape[1]
    on, factors = expit(where.log_odds[:, :n_hidden]), where.log_odds[:, n_hidden:]
    weights, sites = np.asarray(model.weights_, float), list(model.site_names_)
    units = describe_units(read.answers, on, weights, sites, rows=read.weight, texts=read.texts)
    columns = telling(read.answers, found) if coloured is None else coloured
    skipped = not_applicable(model.schema_, model.schema_.skips, read.table)
    out = {each.name: skipped[own.name] for own in read.answers if own.name in skipped for each in (own, *own.parts)}
    place = row_map(where.points, found.labels, columns, out, seed, max_points)
    which = place.pop("rows")
    names = model.schema_.row_names(read.table)
    place["people"] = row_texts(read.answers, read.texts, names, which) if rows else None
    return {"units": units, "factors": describe_factors(read.answers, factors, read.weight, read.texts), "map": place}


def _data(read: _Read, missing: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    columns = question_records(read.answers, read.weight, missing)
    means = {
        key: float(np.mean([column[key] for column in columns])) if columns else 0.0
        for key in ("share_missing", "share_not_applicable")
    }
    return {"n_rows": read.table.n_rows, "n_columns": len(columns), **means, "columns": columns}


def _schema(schema: Any, source: Table) -> dict[str, Any]:
    """Columns outside the model, reasons, titles, and questions that are not asked of everyone."""
    left_out = [
        {"name": name, "kind": column.kind, "description": column.describe()}
        for name, column in schema.items()
        if not column.sites
    ]
    reasons = {name: why for name, why in schema.reasons.items() if name in schema.modelled}
    titles = {name: title for name, title in schema.titles.items() if title != name}
    weighted_by = next((name for name, column in schema.items() if column.role == "weight" and name in source), None)
    skips = [{"columns": list(skip.columns), "condition": skip.condition} for skip in schema.skips]
    return {"left_out": left_out, "reasons": reasons, "titles": titles, "weighted_by": weighted_by, "skips": skips}


def _fit(model: Any) -> dict[str, Any]:
    n_sites, n_hidden = np.shape(model.weights_)
    return {
        "objective": _OBJECTIVES.get(model.objective_, str(model.objective_)),
        "method": str(model.method_),
        "n_members": len(model.members_) or 1,
        "n_hidden": int(n_hidden),
        "n_sites": int(n_sites),
        "n_epochs": int(model.n_epochs_),
        "time": (spent := {stage: plain(seconds) for stage, seconds in model.time_spent_.items()}),
        "seconds": spent.get("total", _seconds(model.history_)),
        "converged": bool(model.converged_),
        "n_factors": int(np.shape(model.loadings_)[1]),
        "unobserved": str(model.unobserved),
    }


def _seconds(history: Sequence[Mapping[str, Any]]) -> float | None:
    """Duration of training in seconds, from its last record, where the whole time is not known."""
    return plain(history[-1]["seconds"]) if history and "seconds" in history[-1] else None


def _history(history: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each epoch: the objective, the objective on held-out rows if it was computed, and events."""
    return [
        {
            "epoch": int(entry["epoch"]),
            "objective": plain(entry["objective"]),
            "held_out": plain(entry["held_out"]) if "held_out" in entry else None,
            "event": entry.get("event"),
        }
        for entry in history
    ]
