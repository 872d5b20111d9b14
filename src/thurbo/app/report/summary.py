"""The summary of a fitted model and its data: everything that the report page shows, as plain values.

Headline findings, accuracy on hidden answers, and cautions are sentences with their numbers. Scripts and tests can
read the same figures as the page.
Guarantees only Python numbers, strings, lists and dictionaries, so that `json.dumps` can store it.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, product
from typing import Any

import numpy as np

from thurbo import __version__
from thurbo.app.report import cards, wording
from thurbo.app.report.cards import Described, plain
from thurbo.app.report.wording import Texts, brief_of, listing, number, percent, quoted, with_answer
from thurbo.errors import ConvergenceWarning
from thurbo.predict.evaluation import are_seen
from thurbo.predict.segments import statements
from thurbo.table.columns.forms.form import Answers
from thurbo.table.io.frames import as_table
from thurbo.table.schema.corrections import divided
from thurbo.table.schema.descriptions import doubts, left_out
from thurbo.table.schema.routing import NOT_APPLICABLE, when

HIDDEN = 0.1  # share of the answers
MOSTLY = 0.5  # share of the rows that the model was fitted to, from which it has to be fitted once more
TRUE_TO_WORD = 0.05  # calibration error, up to which probabilities are shares
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
        gain, low, high = (number(each, 3, sign="+") for each in (gain, low, high))
        said.append(f"{is_clear} {than} ({gain}, 95 % interval {low} to {high})")
    found = [f"By log score, the predictions are {' and '.join(said)}."] if said else []
    bins = held_out.get("calibration") or []
    n = sum(each["n"] for each in bins)
    if n:
        error = sum(each["n"] * abs(each["predicted"] - each["observed"]) for each in bins) / n
        right = "can be taken at face value"
        right = right if error < TRUE_TO_WORD else "are off: read them as an order, not as shares"
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
    parts = {key: [dict(each) for each in getattr(found, key)] for key in ("columns", "calibration", "surprises")}
    return {**found.overall, **parts, "seen": caution}


_SEGMENTS, _RELATIONS, _SURPRISES = 3, 4, 1  # sentences of each kind
_FEWEST = 30  # answers on which a finding rests, and in each group of a comparison
_CLEAR = 4.0  # standard errors between the two groups of a comparison
_ONE_EACH = 2  # relations that may speak of one question


def findings(
    described: Described,
    relations: Sequence[Mapping[str, Any]],
    held_out: Mapping[str, Any] | None,
    rows_are: str,
    columns_are: str = "questions",
) -> list[dict[str, str]]:
    """Sentences, each with its most important number; segments only if they stand apart."""
    segments, texts, found = described.segment_records, described.texts, []

    def say(kind: str, share: float, words: str) -> None:
        found.append({"kind": kind, "number": percent(share), "words": words})

    large = [each for each in segments["profiles"] if each["n"] >= _FEWEST]
    clusters = [each for each in large if not each["few_answers"] and not each["not_asked"]]
    told = clusters[:_SEGMENTS] if segments["stand_apart"] else []
    for each in [*told, *(each for each in large if each["not_asked"])]:
        say("segment", each["share"], cards.sentence(each, rows_are, columns_are, described.is_weighted))
    for each in relations[:_RELATIONS]:
        say("relation", each["share"], each["words"])
    if held_out is None:
        return found
    n_cells, right = held_out["n_cells"], percent(held_out.get("accuracy"))
    if held_out.get("accuracy") is not None and n_cells >= _FEWEST:
        words = f"{right} of {n_cells:,} hidden answers are predicted right; the most common answer is right in "
        words += percent(held_out["accuracy_marginal"])
        if held_out.get("accuracy_logistic") is not None:
            words += f", a regression in {percent(held_out['accuracy_logistic'])}"
        say("accuracy", held_out["accuracy"], f"{words}.")
    for each in [one for one in of_orders(held_out) if one.get("kind") == "ratings" and one["n"] >= _FEWEST]:
        words = f"of {each['n']:,} pairs of hidden items of {quoted(brief_of(texts, each['column']))} are put in the "
        words += f"right order; by the mean of each item {percent(each['accuracy_marginal'])}."
        say("accuracy", each["accuracy"], f"{percent(each['accuracy'])} {words}")
    for each in [one for one in held_out.get("surprises", []) if one["n"] >= _FEWEST][:_SURPRISES]:
        column = each["column"].removesuffix(": favourite")
        label = str(described.schema[column].answer_texts[each["code"]])
        answer = quoted(with_answer(brief_of(texts, column), label))
        words = f"{percent(each['share'])} of {each['of']:,} hidden answers {answer} surprise: "
        words += "the other answers of these rows made them at most half as likely as usual."
        say("surprise", each["share"], words)
    return found


def relations(dependence: Any, described: Described, most: int = 10) -> list[dict[str, Any]]:
    """The strongest relations under the model, each with the pair of answers in the table that shows it best.

    Of columns that follow from one another, one counts; items of one grid, and further items of two grids, are no news.
    """
    found, named, texts = list[dict[str, Any]](), Counter[str](), described.texts
    grids, told = described.schema.grids, set[frozenset[Any]]()
    for one, other, strength in dependence.strongest(len(dependence.names) ** 2):
        both = frozenset(grids.get(name, name) for name in (one, other))
        if len(found) == most or max(named[one], named[other]) >= _ONE_EACH or len(both) < 2 or both in told:
            continue
        if not all(map(described.stands_for_others, (one, other))):
            continue
        shown = _telling(described, one, other)
        if not shown or _say_the_same(described, one, other):
            continue
        named.update((one, other))
        told.add(both)
        pair = ((one, shown["answer"]), (other, shown["other_answer"]))
        answers = [quoted(with_answer(texts[name]["brief"], answer)) for name, answer in pair]
        rests_on = f"{'weighted; ' * described.is_weighted}base: {shown['n_with_answer']:,} answers"
        words = f"{percent(shown['share'])} ({rests_on}) of those who answered {answers[0]} answered "
        words += f"{answers[1]}; {percent(shown['share_of_others'])} of the others."
        found.append({"columns": [one, other], "strength": strength, **shown, "words": words})
    return found


_THE_SAME = 0.9  # share of the answers beside the most frequent one that another question gives away


def _say_the_same(described: Described, one: str, other: str) -> bool:
    """Whether the answer to one question gives away nearly every answer to the other one, with a few exceptions."""
    parts = [each for each in described.answers if each.name in (one, other)]
    if not all(part.labels and part.exclusive for part in parts):
        return False
    rows = parts[0].observed & parts[1].observed
    counts = np.zeros([len(part.labels) for part in parts], int)
    np.add.at(counts, tuple(part.values[rows].astype(int) for part in parts), 1)
    for each in (counts, counts.T):
        beside = each.sum() - each.sum(axis=0).max()
        if beside >= _FEWEST and each.sum() - each.max(axis=1).sum() <= (1 - _THE_SAME) * beside:
            return True
    return False


def _telling(described: Described, one: str, other: str) -> dict[str, Any]:
    """The pair of answers with the largest correlation (phi), among rows that answered both; empty without any.

    At least 30 rows have the first answer, and 30 do not.
    """
    rows = np.ones(described.table.n_rows) if described.relative_weight is None else described.relative_weight
    best, fewest, found = 0.0, 0, dict[str, Any]()
    for (word, said), (other_word, also) in product(*(_statements(described, name) for name in (one, other))):
        both = ~np.isnan(said) & ~np.isnan(also) & (rows > 0)
        x, y, w = said[both], also[both], rows[both]
        n_with = int(x.sum())
        if min(n_with, len(x) - n_with) < _FEWEST or not 0 < y.sum() < len(y):
            continue
        n_x, n_y, n = float(w @ x), float(w @ y), float(w.sum())
        share, of_others = float(w @ (x * y)) / n_x, float(w @ ((1 - x) * y)) / (n - n_x)
        phi = (share - of_others) * np.sqrt(n_x * (n - n_x) / (n_y * (n - n_y)))
        # Rows that count equally (Kish) in both groups give the standard error of the difference.
        n_here, n_rest = (float(w @ part) ** 2 / float(w**2 @ part) for part in (x, 1 - x))
        p = n_y / n
        if share - of_others < _CLEAR * np.sqrt(p * (1 - p) * (1 / n_here + 1 / n_rest)):
            continue
        # Of a pair and its complement the shorter one, and of two answers the second one: "Yes".
        n_words = len(f"{word} {other_word}".split())
        if phi > best + 1e-9 or (phi > best - 1e-9 and n_words <= fewest):
            best, fewest = max(best, phi), n_words
            found = {"answer": word, "other_answer": other_word, "share": share, "share_of_others": of_others}
            found |= {"n": len(x), "n_with_answer": n_with}
    return found


def _statements(described: Described, name: str) -> list[tuple[str, np.ndarray]]:
    """What can be said of an answer, and where it holds, [row]: 1, 0 or NaN."""
    profile = statements(described.schema[name], described.blocks[name])
    values = np.asarray(profile.values, np.float64)
    if profile.to_user is None:
        return list(zip(profile.answers, values.T, strict=True))
    middle = np.nanmedian(values, axis=0)
    ends = zip(profile.answers, profile.to_user(middle), strict=True)
    words = [f"{answer} above {end:.4g}".lstrip() for answer, end in ends]
    holds = np.where(np.isnan(values), np.nan, values > middle).T
    low = zip((word.replace("above", "at most") for word in words), 1 - holds, strict=True)
    return [*zip(words, holds, strict=True), *low]


_MUCH_MISSING = 0.4
_NAMES = 4  # questions named in a warning
_HEAVY = 0.8  # share of the effective sample size, below which weights matter


def cautions(
    described: Described, data: Mapping[str, Any], fit: Mapping[str, Any], held_out: Mapping[str, Any] | None
) -> list[dict[str, str]]:
    """Warnings as records: a title, a sentence, and whether it is something to "check" or a "note"."""
    found = list(_of_data(described, data))
    if held_out is None:
        found.insert(0, ("check", "Accuracy was not tested", "Use thurbo evaluate, or thurbo report --test."))
    scored = [each for each in (held_out or {}).get("columns", ()) if each.get("log_score") is not None]
    worse = [each["column"] for each in scored if each["log_score"] < each["log_score_marginal"]]
    if worse:
        words = f"{_names(worse, described.texts)}: no better than by the overall shares."
        found.insert(0, ("check", _counted(len(worse), "question", "cannot be predicted"), words))
    if not fit["converged"]:
        found.insert(0, ("check", "Training had not settled", "Results may change; fit longer."))
    records = [dict(zip(("level", "title", "words"), each, strict=True)) for each in found]
    return sorted(records, key=lambda each: each["level"] != "check")


def _of_data(described: Described, data: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Warnings about guessed types, missing answers, questions not asked of everyone, weights, and columns left out."""
    schema, texts, weight = described.schema, described.texts, described.relative_weight
    guessed = doubts(schema)
    if guessed:
        words = "; ".join(f"{_names(each.names, texts)} as {each.kind} ({each.why})" for each in guessed)
        n = len({name for each in guessed for name in each.names})
        yield "check", _counted(n, "column", "read by a guess"), f"{words}. Correct this with thurbo check --edit."
    gone = list[tuple[str, float]]()
    for each in data["columns"]:
        share = each["share_missing"] - each["share_counted_as_missing"]
        gone.append((each["name"], share / max(1 - each["share_not_applicable"], 1e-9)))
    gone = sorted((each for each in gone if each[1] >= _MUCH_MISSING), key=lambda each: -each[1])
    if gone:
        shown = [f"{_names([name], texts)} {percent(share)}" for name, share in gone[:_NAMES]]
        more = f" and {len(gone) - _NAMES} more" if len(gone) > _NAMES else ""
        words = f"{', '.join(shown)}{more} of those who may have been asked."
        yield "check", _counted(len(gone), "question", "with many missing answers"), words
    if weight is not None:
        effective = float(weight.sum() ** 2 / (weight**2).sum())
        words = f"By {_names([data['weighted_by']], texts)}: {len(weight):,} rows are worth {effective:,.0f} of equal "
        words += f"weight; the largest weight is {weight.max():.1f} times the mean."
        yield "check" if effective < _HEAVY * len(weight) else "note", "Weighted", words
    kinds = wording.codes_by_kind(schema, data["missing"])
    kinds.pop(NOT_APPLICABLE, None)
    if kinds:
        shown = []
        for kind, own in sorted(kinds.items(), key=lambda item: -max(item[1])):
            shown.append(f"{quoted(kind)} in {_counted(len(own), 'question')} (up to {percent(max(own))})")
        yield "note", "Counted as missing", f"{'; '.join(shown)}."
    shown, skipped = [], set[str]()
    for skip in schema.skips:
        names = [name for name in skip.columns if name in schema.modelled]
        if names:
            skipped.update(names)
            out = max(data["missing"].get(name, {}).get(NOT_APPLICABLE, 0.0) for name in names)
            condition = f"asked only if {_names([skip.asked_if], texts)} {when(schema, skip)}"
            shown.append(f"{_names(names, texts, 2)}: {condition} ({percent(out)} were not asked)")
    if shown:
        words = f"{'; '.join(shown)}. This is not missing."
        yield "note", _counted(len(skipped), "question", "not asked of everyone"), words
    together = wording.followers(schema)
    if together:
        shown = [f"{_names(own, texts)} with {_names([stands], texts)}" for stands, own in together.items()]
        words = f"{'; '.join(shown)}. Such relations are no findings."
        yield "note", "Columns that follow from one another", words
    outside = left_out(schema, described.table)
    if outside:
        shown = [f"{_names(left, texts)}{f' ({why})' if why else ''}" for why, left in outside.items()]
        n = sum(map(len, outside.values()))
        yield "note", _counted(n, "column", "not part of the model"), f"{'; '.join(shown)}."


def _names(names: Sequence[str], texts: Texts, most: int = _NAMES) -> str:
    """A list of questions in words, the first few by name."""
    shown = [quoted(brief_of(texts, name)) for name in names[:most]]
    return listing([*shown, f"{len(names) - most} more"] if len(names) > most else shown)


def _counted(n: int, what: str, rest: str = "") -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}{' ' if rest else ''}{rest}"


DRIVERS = 3  # questions on which a question depends most
# Names of the objectives in the report.
_OBJECTIVES = {"exact": "exact likelihood", "likelihood": "likelihood (stochastic)"}


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
    described, tested = Described(model, X), as_plain(held_out)
    coloured = None if colour_by is None else cards.named(described.answers, colour_by)  # raises before any work
    fit, data = _fit(model), _data(described)
    pairs, dependence = _relations(described)
    for record in data["columns"]:
        record["drivers"] = [] if dependence is None else dependence["drivers"].get(record["name"], [])
    factors = described.log_odds[:, fit["n_hidden"] :]
    return {
        "title": title,
        "rows_are": rows_are,
        "columns_are": columns_are,
        "source": source,
        "thurbo_version": __version__,
        "findings": findings(described, pairs, tested, rows_are, columns_are),
        "warnings": cautions(described, data, fit, tested),
        "segments": described.segment_records,
        "held_out": tested,
        "data": data,
        "relations": pairs,
        "n_told": min(len(pairs), _RELATIONS),
        "dependence": dependence,
        "fit": fit,
        "items": cards.catalogue(model, seed),
        "units": described.units(),
        "factors": cards.describe_factors(described.answers, factors, described.relative_weight, described.texts),
        "map": _map(described, coloured, seed, max_points, rows),
        "what_if": [dict(each) for each in what_if],
        "history": [
            {"epoch": int(entry["epoch"]), "event": entry.get("event")}
            | {key: plain(entry.get(key, np.nan)) for key in ("objective", "held_out")}
            for entry in model.history_
        ],
        "texts": described.texts,
    }


def _relations(described: Described) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """The strongest relations in words, and the shares of uncertainty that questions remove from each other."""
    if described.schema.listed or len(described.schema.modelled) < 2:
        return [], None
    found, sources = described.model.dependence(described.table), described.schema.sources
    drivers = {}
    for name in found.names:
        # What follows from the question, or the other way, is no news.
        own = [(other, share) for other, share in found.drivers(name, len(found.names)) if share >= 0.01]
        own = [pair for pair in own if sources.get(pair[0], pair[0]) != sources.get(name, name)]
        drivers[name] = [{"column": other, "share": share} for other, share in own[:DRIVERS]]
    kept = [k for k, name in enumerate(found.names) if described.stands_for_others(name)]
    share = [[plain(value) for value in row] for row in np.round(found.share[np.ix_(kept, kept)], 4)]
    shown = {"names": [found.names[k] for k in kept], "share": share, "drivers": drivers}
    return relations(found, described), shown


def _map(
    described: Described, coloured: list[Answers] | None, seed: int, max_points: int, rows: bool
) -> dict[str, Any]:
    """The map of the rows, coloured by the given questions or by those that differ most between segments."""
    answers, found, skipped = described.answers, described.segments, described.not_asked
    out = {each.name: skipped[own.name] for own in answers if own.name in skipped for each in (own, *own.parts)}
    if coloured is None:
        coloured = cards.telling([each for each in answers if described.stands_for_others(each.name)], found)
    place = cards.row_map(described.points, found.labels, coloured, out, seed, max_points)
    names, which = described.schema.row_names(described.table), place.pop("rows")
    return {**place, "people": cards.row_texts(answers, described.texts, names, which) if rows else None}


def _data(described: Described) -> dict[str, Any]:
    """Figures of all questions, columns outside the model, titles, and questions that are not asked of everyone."""
    schema, table = described.schema, described.table
    missing = wording.missing_kinds(schema, table)
    columns = [
        cards.question_record(each, described.relative_weight, missing.get(each.name, {})) for each in described.answers
    ]
    return {
        "n_rows": table.n_rows,
        "n_columns": len(columns),
        **{
            key: float(np.mean([column[key] for column in columns])) if columns else 0.0
            for key in ("share_missing", "share_counted_as_missing", "share_not_applicable")
        },
        "columns": columns,
        "grids": _grids(described, columns),
        "left_out": [
            {"name": name, "kind": column.kind, "description": column.describe()}
            for name, column in schema.items()
            if not column.sites
        ],
        "reasons": {name: why for name, why in schema.reasons.items() if name in schema.modelled},
        "titles": {name: title for name, title in schema.titles.items() if title != name},
        "weighted_by": next((name for name, own in schema.items() if own.role == "weight" and name in table), None),
        "skips": [{"columns": list(skip.columns), "condition": skip.condition} for skip in schema.skips],
        "missing": missing,
    }


_LEAST_GRID = 3  # questions that are shown under one heading


def _grids(described: Described, columns: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Questions with the same answers that stand side by side: their common words, and what each has of its own."""
    titles, grids, found = described.schema.titles, described.schema.grids, list[dict[str, Any]]()
    for grid, run in groupby(columns, lambda each: None if each["several"] else grids.get(each["name"])):
        names = [each["name"] for each in run]
        if grid is None or len(names) < _LEAST_GRID:
            continue
        stem, items = divided(names, titles)
        items = items if stem else [described.texts[name]["brief"] for name in names]
        found.append({"stem": stem, "columns": names, "items": dict(zip(names, items, strict=True))})
    return found


def _fit(model: Any) -> dict[str, Any]:
    """Sizes, settings and times of the fit; its seconds from the last epoch where the whole time is not known."""
    n_sites, n_hidden = np.shape(model.weights_)
    last = model.history_[-1] if model.history_ else {}
    spent = {stage: plain(seconds) for stage, seconds in model.time_spent_.items()}
    return {
        "method": str(model.method_),
        "unobserved": str(model.unobserved),
        "converged": bool(model.converged_),
        "n_hidden": int(n_hidden),
        "n_factors": int(np.shape(model.loadings_)[1]),
        "n_sites": int(n_sites),
        "n_epochs": int(model.n_epochs_),
        "n_members": len(model.members_) or 1,
        "objective": _OBJECTIVES.get(model.objective_, str(model.objective_)),
        "time": spent,
        "seconds": spent.get("total", plain(last.get("seconds", np.nan))),
    }
