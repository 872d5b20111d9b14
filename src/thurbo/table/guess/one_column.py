"""Detect the type of one column, with a reason: the rules of `Schema.infer`.

Idea: the dtype first, then the code book of the file, then the number and kind of distinct values, and what the columns
with the same answers say together.
Guarantees a reason and a confidence for every choice, and the words "a guess" if another type is possible.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from thurbo.errors import SchemaError
from thurbo.table.columns.categorical import Categorical
from thurbo.table.columns.cells import Cells, FloatArray, IntArray
from thurbo.table.columns.censored import Banded
from thurbo.table.columns.column import Column
from thurbo.table.columns.continuous import Continuous
from thurbo.table.columns.ignore import Ignore
from thurbo.table.columns.labels import in_order
from thurbo.table.columns.multiselect import MultiSelect
from thurbo.table.columns.numbers import amount, days
from thurbo.table.columns.ordinal import Binary, Ordinal
from thurbo.table.columns.ranking import Ranking
from thurbo.table.columns.statements import Interval, OrderStatement, Statement, parse_order, split
from thurbo.table.columns.values import false_and_true, is_affirmative, is_label, is_number_text, is_word, listing, show
from thurbo.table.guess.grids import NEAR, Grid
from thurbo.table.guess.roles import (
    A_GUESS,
    FEW_CATEGORIES,
    FEW_NUMBERS,
    OFTEN,
    SEPARATORS,
    SURE,
    TO_CHECK,
    Decision,
    Found,
    Texts,
    frequent,
    is_used,
    list_of_options,
    n_each,
    role,
)
from thurbo.table.guess.words import (
    KNOWN,
    NAMES,
    PHRASES,
    STRONG,
    Ordered,
    arranged,
    as_phrase,
    coded,
    is_beside,
    levels_of,
    scale,
    unanswered,
    unknown_level,
)
from thurbo.table.io.codebook import Note, whole

LEAST_SHARE = 0.1  # of the most frequent number
LEAST_ANSWERS = 100  # with fewer, neither shares nor the shape of the distribution are known well enough
LEAST_GAIN = 0.02  # of the log score of an answer, by which ranks are better (nats)
MOST_ANSWERS = 5000  # that are used to compare
N_FOLDS = 4
MOST_NAMED = 3


def number(count: Mapping[Any, int], **settings: Any) -> tuple[Continuous, str]:
    """A column of numbers that occur so often, and what to add to the reason."""
    total, often = sum(count.values()), sorted(count, key=lambda value: -count[value])
    if total < LEAST_ANSWERS:
        return Continuous(**settings), ""
    if count[often[0]] >= LEAST_SHARE * total:
        common = [value for value in often if count[value] >= LEAST_SHARE * total]
        shares = [f"{value:.12g} in {100 * count[value] / total:.0f} %" for value in common[:MOST_NAMED]]
        reason = f"; a rounded number, since some are frequent: {listing(shares)}"
        return Continuous(transform="rank-normal", rounded=True, **settings), reason
    numbers = np.repeat(np.asarray(list(count), np.float64), list(count.values()))
    numbers = np.random.RandomState(0).permutation(numbers)[:MOST_ANSWERS]
    with np.errstate(all="ignore"):
        gain = _log_score(Continuous(transform="rank-normal"), numbers) - _log_score(Continuous(), numbers)
    if np.isfinite(gain) and gain > LEAST_GAIN:
        return Continuous(transform="rank-normal", **settings), "; by their ranks, since they are not normal"
    return Continuous(**settings), ""


def _log_score(column: Continuous, numbers: FloatArray) -> float:
    """Cross-validated log score of a number, by numbers in random order (nats)."""
    fold, total = np.arange(len(numbers)) % N_FOLDS, 0.0
    for each in range(N_FOLDS):
        known, asked = numbers[fold != each], numbers[fold == each]
        fitted = column.learn(known, known)
        total += float((-0.5 * fitted.to_standard(asked) ** 2 + fitted.log_derivative(asked)).sum())
    return total / len(numbers)


def occurrences(cells: Cells, among: Collection[Any]) -> dict[Any, int]:
    """How often each of some values occurs; codes that are whole numbers count as integers."""
    distinct, which = cells.factorise()
    found = dict.fromkeys(among, 0)
    for value, own in n_each(distinct, which).items():
        if whole(value) in found:
            found[whole(value)] += own
    return found


MOST_CODES = 100  # most categories or levels of one column
MOST_STEPS = 11  # most whole numbers that count as levels: 0 to 10
_MOST_UNNAMED_LEVELS = 30


class Sorted(NamedTuple):
    """Codes of a column: answers that occur, labels of answers, and labels of missing codes."""

    answers: list[Any]
    named: dict[Any, str]
    missing: dict[Any, str]


def sort_codes(distinct: Iterable[Any], note: Note) -> Sorted:
    """Divide the codes of a column into answers and missing codes."""
    texts = {whole(code): text for code, text in note.names}
    occurring = [whole(code) for code in distinct]
    known = list(dict.fromkeys([*texts, *occurring]))
    missing = {code: texts.get(code, str(code)) for code in known if note.is_missing(code)}
    kinds = {code: unanswered(text) if text else None for code, text in texts.items() if code not in missing}
    kept = [code for code, kind in kinds.items() if kind is None] + [code for code in occurring if code not in texts]
    # If the file declares missing codes but not "don't know", although SPSS allows one more, it is an answer.
    knows = note.measure == "nominal" and bool(note.missing) and note.has_room
    for code, kind in kinds.items():
        apart = isinstance(code, str) or all(isinstance(other, str) or abs(code - other) > 1 for other in kept)
        if kind == "absent" or (kind == "unknown" and not knows) or (kind == "doubtful" and apart):
            missing[code] = texts[code]
    outcomes = PHRASES["refusal"].search(" ".join(texts.values())) and NAMES["outcomes"].search(note.title.casefold())
    for code, text in texts.items():
        inside = isinstance(code, int) and code > 0 and code + 1 in kept and (code == 1 or code - 1 in kept)
        if PHRASES["refusal"].search(text) and not note.is_missing(code) and (outcomes or (inside and len(kept) > 2)):
            missing.pop(code, None)  # a refusal in a list of reasons
    answers = [code for code in occurring if code not in missing]
    known_apart = [code for code in occurring if kinds.get(code) in ("unknown", "doubtful") and code in missing]
    if len(answers) < 2 <= len(answers) + len(known_apart):
        # Without these codes fewer than two answers would be left.
        missing = {code: text for code, text in missing.items() if code not in known_apart}
        answers = [code for code in occurring if code not in missing]
    named = {code: text for code, text in texts.items() if code not in missing}
    return Sorted(_in_order(answers), named, dict(sorted(missing.items(), key=lambda pair: _key(pair[0]))))


def guess_coded(cells: Cells, note: Note, found: Sorted, shared: Grid | None = None) -> Found:
    """The detected type of a column of codes, and the reason."""
    answers, named, missing = found
    if not answers:
        return Ignore("it is empty"), "every cell holds a missing code" if missing else "all cells are missing"
    if not all(map(is_label, answers)):
        return Ignore("its values cannot be read"), f"values such as {show(answers[0])} are not text or numbers"
    if len(answers) == 1:
        only = named.get(answers[0], show(answers[0]))
        return Ignore("it is constant"), f"the only answer is {only}{_less(missing)}"
    unnamed = [code for code in answers if code not in named]
    if len(unnamed) >= max(1, len(answers) - len(unnamed)) and not any(isinstance(code, str) for code in answers):
        return _coded_numbers(found, note, cells, shared)
    return _levels(found, note, cells, shared)


def _coded_numbers(found: Sorted, note: Note, cells: Cells, shared: Grid | None) -> Found:
    """Numbers of which few or none have a value label."""
    answers, named, missing = found
    wholes = all(isinstance(code, int) for code in answers)
    says = f"the file says {note.measure}" if note.measure else ""
    if len(answers) == 2 and (note.measure != "scale" or set(answers) == {0, 1}):
        return _binary(answers, named, missing, says or "two values")
    if note.measure == "nominal" and wholes and len(answers) <= MOST_CODES:
        return Categorical(tuple(answers), names=_kept(named, answers), missing=missing), f"{says}{_less(missing)}"
    few = wholes and len(answers) <= (_MOST_UNNAMED_LEVELS if note.measure == "ordinal" else MOST_STEPS)
    alike = shared is not None and len(shared.columns) > 2  # SPSS says "scale" of all numbers by default
    if few and (note.measure in ("ordinal", "") or (note.measure == "scale" and alike)):
        levels = _in_order({*answers, *named, *(map(int, shared.labels) if shared and alike else ())})
        reason = says or f"a guess: {len(levels)} whole numbers{', with labels at the ends' if named else ''}"
        return Ordinal(tuple(levels), names=_kept(named, levels), missing=missing), f"{reason}{_less(missing)}"
    if note.measure == "nominal" and len(set(answers)) < len(cells) / 2:
        return _joined_codes(found, says, cells)
    if note.measure == "nominal":
        reason = f"{says}, and {len(answers)} codes without labels are too many for categories"
        return Ignore(f"more than {MOST_CODES} codes"), reason
    reason = says or f"numbers, {len(answers)} distinct values"
    if named:
        reason += f"; {listing(f'{code} is {text}' for code, text in named.items())}"
    column, heaps = number(occurrences(cells, answers), missing=missing)
    return column, f"{reason}{_less(missing)}{heaps}"


def _levels(found: Sorted, note: Note, cells: Cells, shared: Grid | None) -> Found:
    """Codes of which most have value labels: all labelled levels of a scale, or the categories that occur."""
    answers, named, missing = found
    levels = _in_order({*answers, *named})
    says = f"the file says {note.measure}" if note.measure else "codes with labels"
    if len(levels) == 2:
        return _binary(levels, named, missing, says)
    texts = [named.get(code, str(code)) for code in levels]
    order = arranged(levels, texts, note.measure)
    if order is None or order[1] == "numbered":
        apart, sure = _codes_apart(levels, texts, note, cells)
        if apart and len(levels) - len(apart) > 2:
            gone = {code: text for code, text in zip(levels, texts, strict=True) if code in apart}
            left = [code for code in answers if code not in gone], {k: v for k, v in named.items() if k not in gone}
            decided = decision(_levels(Sorted(*left, missing | gone), note, cells, None))
            return decided._replace(sure=min(decided.confidence, sure), otherwise="categories")
    numbers = note.measure != "nominal" and ((order or ([], ""))[1] == "numbered" or all(map(is_number_text, texts)))
    unnamed = [code for code in answers if code not in named]
    end = f"{f'; {listing(unnamed)} without a label' if unnamed else ''}{_less(missing)}"
    names = _kept(named, levels)
    if note.measure == "ordinal" or (order is not None and order[1] != "numbered" and len(answers) > 2):
        if len(levels) > MOST_CODES:
            return many_levels(levels, f"{says}, {len(levels)} levels", missing)
        arrangement = tuple(order[0] if order else levels)
        return Ordinal(arrangement, names=names, missing=missing), f"{_why_ordered(levels, order, note)}{end}"
    if len(answers) == 2:
        return _binary(answers, named, missing, f"{says}, only two of which occur")
    if numbers and len(levels) > MOST_CODES:
        return many_levels(levels, f"{says}, {len(levels)} levels", missing)
    if numbers:
        reason = f"a guess: {says}, ordered by their numbers"
        return Ordinal(tuple(levels), names=names, missing=missing), f"{reason}{end}"
    by_data = shared.order(texts) if shared and not note.measure and len(set(texts)) == len(texts) else None
    if shared is not None and by_data in (tuple(texts), tuple(reversed(texts))):
        reason = f"a guess: {says}, in the order of their codes, which is that of the answers to {_columns(shared)}"
        return Decision(Ordinal(tuple(levels), names=names, missing=missing), f"{reason}{end}", TO_CHECK, "categories")
    if len(answers) > MOST_CODES:
        return _joined_codes(found, says, cells)
    unknown = "" if note.measure == "nominal" else ", without a known order; if ordered, use Ordinal(levels=[...])"
    return Categorical(tuple(answers), names=_kept(named, answers), missing=missing), f"{says}{unknown}{end}"


def _codes_apart(levels: list[Any], texts: list[str], note: Note, cells: Cells) -> tuple[list[Any], float]:
    """Codes of answers that do not fit the scale of the others, "other", "I have no job"; and how sure that is."""
    found = levels_of(texts) if len(set(texts)) == len(texts) else None
    if found is None or not found.apart or found.lowest or found.name == "numbered":
        return [], KNOWN
    strong = all(STRONG.fullmatch(as_phrase(text)) for text in found.apart)
    codes = [code for code, text in zip(levels, texts, strict=True) if text in found.apart]
    at_end = codes == levels[: len(codes)] or codes == levels[-len(codes) :]
    # Where the file says that all are levels, or that none is, only what fits no scale is set apart.
    if (note.measure and not strong) or not (at_end or strong):
        return [], KNOWN
    count = occurrences(cells, levels)
    often = sum(count[code] for code in codes) >= OFTEN * max(sum(count.values()), 1)
    return codes, min(found.sure, TO_CHECK if often else 1.0)


def _joined_codes(found: Sorted, says: str, cells: Cells) -> Found:
    """Categories of a long list of codes, the rare ones joined."""
    common, covered = frequent(occurrences(cells, found.answers))
    n_codes, n_rare = len(found.answers), len(found.answers) - len(common)
    if len(common) < 2 or covered < _COVERED_BY_CODES:
        reason = f"{says}, and {n_codes} are too many for categories: the most frequent ones cover {covered:.0%}"
        return Ignore(f"more than {MOST_CODES} codes"), f"{reason} of the answers"
    other = f"other ({n_rare} more)"
    names = _kept(found.named, _in_order(common))
    column = Categorical((*_in_order(common), other), other=other, names=names, missing=found.missing)
    reason = f"{says}; the {n_rare} rarest of {n_codes} codes, {1 - covered:.0%} of the answers, are joined into"
    return Decision(column, f"{reason} {show(other)}{_less(found.missing)}", KNOWN)


def _columns(shared: Grid) -> str:
    """How many columns have the same answers."""
    return f"{len(shared.columns)} questions with the same answers"


def many_levels(levels: list[Any], what: str, missing: dict[Any, str]) -> Found:
    """Too many levels for an Ordinal: numbers become Continuous by their ranks, texts are ignored."""
    if all(isinstance(level, (int, float)) and not isinstance(level, bool) for level in levels):
        reason = f"a guess: {what}, too many for an Ordinal, so a number known by its rank{_less(missing)}"
        return Continuous(transform="rank-normal", missing=missing), reason
    return Ignore(f"more than {MOST_CODES} levels"), f"{what}, too many to model; use Ordinal() to model them anyway"


def _why_ordered(levels: list[Any], order: tuple[list[Any], str] | None, note: Note) -> str:
    if order is None:
        return "the file says ordinal; ordered by the codes"
    kind = order[1] if order[1] == "a neutral answer" else f"the labels form a scale ({order[1]})"
    if order[0] != levels:
        moved = f"a guess: {kind}, reordered to {listing(order[0], ' < ')}"
        return f"the file says ordinal; {moved}" if note.measure == "ordinal" else moved
    if note.measure == "ordinal":
        return "the file says ordinal, and the labels agree"
    return f"a guess: {kind}" + (f", although the file says {note.measure}" if note.measure else "")


def _binary(pair: list[Any], named: dict[Any, str], missing: dict[Any, str], reason: str) -> Found:
    texts = [named.get(code, "") for code in pair]
    yes = [code for code, text in zip(pair, texts, strict=True) if is_affirmative(text.split(",")[0].strip()) and text]
    known = scale(texts) if all(texts) else None
    if len(yes) == 1:
        true: Any = yes[0]
    elif known is not None:
        true = pair[int(np.argmax(known.heights))]
    else:
        true = 1 if set(pair) == {0, 1} else pair[-1] if all(texts) else false_and_true(list(pair), None)[1]
    false = next(code for code in pair if code != true)
    names = _kept(named, pair)
    why = f"{reason}: {names.get(false, show(false))} and {names.get(true, show(true))}"
    return Binary(values=(false, true), names=names, missing=missing), f"{why}{_less(missing)}"


def _kept(named: dict[Any, str], codes: Iterable[Any]) -> dict[Any, str]:
    """The non-empty labels of these codes."""
    return {code: named[code] for code in codes if named.get(code)}


def _less(missing: dict[Any, str]) -> str:
    """The missing codes, as the end of a reason."""
    labels = (text if str(code) == text else f"{code} {text}" for code, text in missing.items())
    return f"; counted as missing: {listing(labels)}" if missing else ""


def _key(code: Any) -> tuple[bool, Any]:
    return isinstance(code, str), code


def _in_order(codes: Iterable[Any]) -> list[Any]:
    return sorted(set(codes), key=_key)


# Confidence of an order that only the data say, and of categories whose rare ones are joined.
BY_DATA, JOINED = 0.6, 0.85
_FEWEST_TEXTS, _MANY_TEXTS = 5, 10  # that all differ, or mostly if they are many; of whatever length
_COVERED = 0.6  # share of answers that the kept categories must cover
_COVERED_BY_CODES = 0.2  # the same where the answers are codes, which somebody has sorted already
_CHOSEN = 0.05  # share of answers in words beside few numbers that are none of their codes
_NUMBERS = 0.8  # share of answers that must be numbers
_MOST_UNITS = 6
_MOST_EXAMINED = 500  # most texts that are compared with "don't know", the most frequent first
_FEWEST_SHORT = 6  # codes of two or three letters, as of countries
_MOST_ODD = 100  # texts that are declared missing by name
NO_ANSWER = ("absent", "unknown")
_WHEN = Ignore("dates and times are not modelled")
DATES: Found = (_WHEN, 'dates; use Continuous(parse="date") to model them as days')
_HOURS = "add a column of numbers to the table, such as hours (14.5 for 14:30)"
TIMES: Found = (_WHEN, f"times or durations; to model them, {_HOURS}")


def guess_texts(distinct: list[str], which: IntArray, shared: Grid | None = None) -> Found:
    """The type of a column with three or more texts, or of a column of a grid; non-answers count as missing."""
    texts = _sorted_out(distinct, which)
    kept, missing, less = texts.kept, texts.missing, texts.less
    if len(kept) == 2 and (shared is None or len(shared.labels) == 2):
        false, true = _low_and_high(kept)
        column = Binary(values=(false, true), missing=missing)
        return Decision(column, f"two values, {show(false)} and {show(true)}{less}", texts.sure)
    are_digits = len(kept) > 2 and all(re.fullmatch(r"\d+", text) for text in kept)
    if are_digits and any(re.match(r"0\d", text) for text in kept):
        return _digits(texts)
    are_numbers = len(kept) > MOST_STEPS and all(map(is_number_text, kept))
    ways: tuple[Callable[[Texts], Found | None], ...] = (lambda own: _scale(own, shared), _amounts)
    for read in reversed(ways) if are_numbers else ways:
        if found := read(texts):
            return found
    found = decision(list_of_options(texts) or _by_data(texts, shared) or _categories(texts))
    return found._replace(sure=min(found.confidence, texts.sure))


def _low_and_high(pair: list[Any]) -> tuple[Any, Any]:
    """Two answers, of which the second one is "yes", or higher on a scale."""
    found = scale(pair) if all(isinstance(text, str) for text in pair) else None
    if found is None or any(map(is_word, pair)):
        false, true = false_and_true([whole(value) for value in pair], None)
        return false, true
    low, high = (text for _, text in sorted(zip(found.heights, pair, strict=True)))
    return low, high


def _sorted_out(distinct: list[str], which: IntArray) -> Texts:
    """The texts of cells with their number of rows, those that are no answers apart."""
    rows = n_each(distinct, which)
    often = sorted(np.argsort(list(rows.values()), kind="stable")[::-1][:_MOST_EXAMINED].tolist())
    gone = [distinct[place] for place in often if unanswered(distinct[place]) in NO_ANSWER]
    have_code = {text for text in distinct if PHRASES["code"].match(text)}
    negative = [text for text in distinct if PHRASES["negative_code"].match(text)]
    if 0 < len(negative) < len(distinct) / 2 and {*have_code, *gone}.issuperset(distinct):
        gone = list(dict.fromkeys([*gone, *negative]))  # "-6. No interview" beside "1. Yes"
    lone = [text for text in distinct if PHRASES["lone_code"].fullmatch(text)]
    if lone and all(re.search(r"[^\W\d_]", text) and text not in have_code for text in distinct if text not in lone):
        gone = list(dict.fromkeys([*gone, *lone]))  # "-9" and "99" among words
    short = [text for text in distinct if PHRASES["letters"].fullmatch(text)]
    if len(short) >= _FEWEST_SHORT and len(short) > _NUMBERS * len(distinct):
        gone = [text for text in gone if text not in short]  # "DK" and "NA" among codes of countries
    if "+" in distinct:  # "-" is an answer beside "+"
        gone = [text for text in gone if re.search(r"\w", text)]
    if len(distinct) - len(gone) < 2:
        gone = []
    left = set(gone)
    return Texts({text: n for text, n in rows.items() if text not in left}, gone, sum(rows.values()))


def _scale(texts: Texts, shared: Grid | None) -> Found | None:
    """Levels or bands with a known order, by their words; answers that it does not fit are set apart."""
    own = [*texts.kept, *(text for text in (shared.labels if shared else ()) if text not in texts.rows)]
    found = levels_of([text for text in own if unanswered(text) not in NO_ANSWER])
    if found is None or len(found.levels) < 3 - (found.name == "bands"):
        return None
    found, agrees = _as_in_data(found, shared)
    count = dict(zip(shared.labels, shared.counts, strict=True)) if shared else texts.rows
    apart = [text for text in found.apart if text in texts.rows]
    share = sum(count.get(text, 0) for text in apart) / max(sum(shared.counts) if shared else texts.n_cells, 1)
    often = share >= OFTEN
    less, texts = texts.less, texts._replace(gone=[*texts.gone, *apart])
    is_guess = found.lowest or found.sure < A_GUESS
    sure = min(found.sure, texts.sure, TO_CHECK if often else 1.0)
    if found.ends is not None:
        ends = dict(zip(found.levels, found.ends, strict=True))
        column: Column = Banded(ends, transform="rank-normal", missing=texts.missing)
        reason = f"{listing(map(show, found.levels), most=3)} are bands of a number"
    else:
        column = Ordinal(found.levels, missing=texts.missing)
        low = f", with {show(found.lowest)} as the lowest" if found.lowest else ", lowest first"
        reason = f"{'a guess: ' if is_guess else ''}the texts form a scale ({found.name}){low}{agrees}"
    otherwise = "categories"
    if apart:
        shares = f": {share:.0%} of the answers" if often else ""
        reason += f"; {_off_scale(apart)}{shares}"
        otherwise = f"categories, with {listing(map(show, apart))} as {'answers' if len(apart) > 1 else 'an answer'}"
    return Decision(column, f"{reason}{less}", sure, otherwise)


def _off_scale(texts: Sequence[str]) -> str:
    verbs = ("are", "count") if len(texts) > 1 else ("is", "counts")
    return f"{listing(map(show, texts))} {verbs[0]} not on the scale and {verbs[1]} as missing"


def _as_in_data(found: Ordered, shared: Grid | None) -> tuple[Ordered, str]:
    """The scale with the confidence that the answers to several questions add, and what to say of it."""
    if shared is None or found.name == "bands":
        return found, ""
    near = dict(zip(shared.labels, shared.affinity(), strict=True))
    place = {text: at for at, text in enumerate(shared.labels)}
    if found.lowest and len(shared.columns) > 2:
        others = [near[found.lowest][place[text]] for text in found.levels[1:]]
        if max(others) < NEAR:  # a negated answer that goes with no level
            rest = found.levels[1:]
            return found._replace(levels=rest, apart=(*found.apart, found.lowest), lowest=""), ""
        if others[0] == max(others):
            found = found._replace(sure=KNOWN)
    order = shared.order(found.levels) if len(shared.columns) > 2 else None
    if order in (found.levels, found.levels[::-1]):
        return found._replace(sure=max(found.sure, SURE)), f", as in the data of {_columns(shared)}"
    return (found, "") if order is None else (found._replace(sure=min(found.sure, KNOWN - 0.1)), "")


def _by_data(texts: Texts, shared: Grid | None) -> Found | None:
    """Levels whose words have no known order, in the order in which they go together in the columns of a grid."""
    if shared is None or len(shared.columns) < 3:
        return None
    gone = [text for text in texts.kept if is_beside(text)]
    levels = [text for text in shared.labels if unanswered(text) not in NO_ANSWER and text not in gone]
    order = shared.order(levels)
    if order is None or not shared.are_levels(order):
        return None
    if bool(PHRASES["low"].search(order[-1])) > bool(PHRASES["low"].search(order[0])):
        order = order[::-1]
    less, texts = texts.less, texts._replace(gone=[*texts.gone, *gone])
    reason = f"a guess: in the order in which the answers to {_columns(shared)} go together"
    apart = f"; {_off_scale(gone)}" if gone else ""
    return Decision(Ordinal(order, missing=texts.missing), f"{reason}{apart}{less}", BY_DATA, "categories")


def _digits(texts: Texts) -> Found:
    """Codes with leading zeros: levels if they are few and count on, otherwise categories."""
    codes = sorted(texts.kept, key=int)
    counts_on = len(codes) <= MOST_STEPS and int(codes[-1]) - int(codes[0]) < 2 * len(codes)
    if counts_on and len(set(map(len, codes))) == 1:
        return Ordinal(tuple(codes), missing=texts.missing), f"a guess: {len(codes)} codes that count on{texts.less}"
    column, reason, *_ = decision(_categories(texts))
    return Decision(column, f"codes with leading zeros; {reason}", SURE if column.role == "ignored" else A_GUESS)


def _amounts(texts: Texts) -> Found | None:
    """Numbers in words: "$420", "32 %", "about 7", "7 hrs"; the rest is listed and counts as missing."""
    numbered = coded(texts.kept)
    if numbered and len(set(numbered[1])) == len(texts.kept):
        return None  # "1. Democrat", "2. Republican"
    notation = _notation(texts)
    read = {text: amount(text, notation) for text in texts.kept}
    odd = [text for text, number in read.items() if number is None]
    covered = sum(count for text, count in texts.rows.items() if read[text] is not None)
    units = {re.sub(r"[\d.,'\s]+", "", text.casefold()) for text, number in read.items() if number is not None}
    numbers = {number for number in read.values() if number is not None}
    if covered < _NUMBERS * texts.n_answers or len(numbers) < 3 or len(units) > _MOST_UNITS:
        return None
    chosen = {text for text in odd if not unanswered(text) and not STRONG.fullmatch(as_phrase(text))}
    n_chosen = sum(texts.rows[text] for text in chosen)
    if len(numbers) <= MOST_STEPS and n_chosen >= _CHOSEN * texts.n_answers:
        return None  # beside few numbers, what many chose is an answer
    missing: dict[Any, str] = texts.missing | {text: text for text in odd[:_MOST_ODD]}
    example = max((text for text in texts.kept if read[text] is not None), key=len)
    reason = f"numbers written as text ({notation}), {len(numbers)} distinct values, such as {show(example)}"
    if odd:
        reason = f"a guess: {reason}, but {len(odd)} texts are not: {listing(map(show, odd), most=6)}"
    often: Counter[float] = Counter()
    for text, value in read.items():
        often.update({} if value is None else {value: texts.rows[text]})
    column, heaps = number(often, parse=notation, missing=missing, unseen="missing")
    return column, f"{reason}{texts.less}{heaps}"


def _notation(texts: Texts) -> Any:
    """The notation of numbers in words: with decimal commas, or else the one that reads most cells."""

    def share(pattern: str) -> float:
        return sum(bool(re.search(pattern, text.casefold())) for text in texts.kept) / len(texts.kept)

    def n_read(notation: str) -> int:
        return sum(count for text, count in texts.rows.items() if amount(text, notation) is not None)

    comma, point = share(r"\d,\d{1,2}(?!\d)|\d\.\d{3},"), share(r"\d\.\d{1,2}(?!\d)|\d,\d{3}\.")
    if comma > 0 and comma > point and not share(r"\d,\d{3}(?!\d)") > comma:
        return "decimal-comma"
    return max(("number", "currency", "percent"), key=n_read)


def _categories(texts: Texts) -> Found:
    """Categories, the rare ones joined; or free text, if most texts are different, and many have several words."""
    words = np.mean([len(text.split()) for text in texts.kept])
    n_texts, often = len(texts.kept), texts.n_answers / 2 if texts.n_answers >= FEW_CATEGORIES else texts.n_answers - 1
    if n_texts >= _FEWEST_TEXTS and n_texts > often and (words >= 3 or _MANY_TEXTS <= n_texts == texts.n_answers):
        return Ignore("it is free text"), f"most texts are different, such as {show(max(texts.kept, key=len))}"
    kept, what = texts.kept, f"{len(texts.kept)} different texts without a known order"
    if len(kept) <= FEW_CATEGORIES:
        column: Column = Categorical(tuple(sorted(kept)), missing=texts.missing)
        odd = unknown_level(kept)
        otherwise = f"levels of a scale, if {show(odd)} has a place on it or is no answer" if odd else ""
        reason = f"{what}; if ordered, use Ordinal(levels=[...]){texts.less}"
        return Decision(column, reason, A_GUESS if odd else KNOWN, otherwise)
    common, covered = frequent(texts.rows)
    rare = len(kept) - len(common)
    if len(common) < 2 or covered < _COVERED:
        reason = f"{what}, too many for categories: the most frequent ones cover {covered:.0%} of the answers"
        return Ignore("too many different texts"), f"{reason}; use Categorical() if they are categories"
    if not rare:
        return Categorical(tuple(sorted(kept)), missing=texts.missing), f"{what}{texts.less}"
    other = f"other ({rare} more)"
    column = Categorical((*sorted(common), other), other=other, missing=texts.missing)
    reason = f"{what}; a guess: the {rare} rarest, {1 - covered:.0%} of the answers, are joined into {show(other)}"
    return Decision(column, f"{reason}{texts.less}", JOINED)


_MOST_ITEMS = 100
_EMPTY = Note()


def decision(found: Found) -> Decision:
    """A type and its reason, with how sure it is."""
    return found if isinstance(found, Decision) else Decision(*found)


def guess(cells: Cells, is_array: bool, note: Note = _EMPTY, shared: Grid | None = None) -> Decision:
    """The detected type of a column, given the grid of columns with the same answers; a dtype of an array decides."""
    found = decision(_guess(cells, is_array, note, shared))
    return found._replace(sure=found.confidence)


def _guess(cells: Cells, is_array: bool, note: Note, shared: Grid | None) -> Found:
    kind = cells.values.dtype.kind
    if cells.missing.all() and not (is_array and kind in "bf"):
        return Ignore("it is empty"), "all cells are missing"
    if kind == "b" and (is_array or len(cells) < _FEWEST_CELLS or len(np.unique(cells.values[~cells.missing])) > 1):
        return Binary(true=True), "booleans"
    if is_array and kind == "f":
        return Continuous(), "an array of floating-point numbers"
    if kind in "mM":
        return DATES if kind == "M" else TIMES
    if cells.ordered_levels is not None:
        return _ordered(cells.ordered_levels)
    if kind in "OTU" and not is_array and (found := _words(cells, note)):
        return found
    proposal = None if is_array else role(cells, note.title)
    if proposal is not None and not note.names:
        return proposal
    if kind == "f" and (infinite := np.isinf(cells.values)).any():
        return _without(infinite, cells, note, shared)
    if kind in "iuf":
        distinct = np.unique(cells.values[~cells.missing]).tolist()
        if note.names or note.missing or note.measure:
            return guess_coded(cells, note, sort_codes(distinct, note), shared)
        if len(distinct) > 2 or (shared is not None and len(distinct) > 1):
            return _numbers(distinct, cells, shared)
    cells, stated = split(cells)
    if stated and cells.missing.all():
        return _stated(list(stated.values()))
    try:
        distinct, _ = cells.hashable().factorise()
    except SchemaError:
        return Ignore("its cells are collections"), "cells hold collections of an unsupported type"
    if distinct and all(hasattr(value, "isoformat") or hasattr(value, "total_seconds") for value in distinct):
        return DATES if all(hasattr(value, "year") for value in distinct) else TIMES
    if any(isinstance(value, (tuple, frozenset)) for value in distinct):
        return _collections(distinct, cells)
    if not all(map(is_label, distinct)):
        strange = next(value for value in distinct if not is_label(value))
        reason = f"values such as {show(strange)} are not text, finite numbers or booleans"
        return Ignore("its values cannot be read"), reason
    # The code book knows none of these values if codes were replaced by their labels.
    if any(value in note.texts or note.is_missing(value) for value in distinct):
        return guess_coded(cells, note, sort_codes(distinct, note), shared)
    return _labels(distinct, cells, shared)


def _without(infinite: Any, cells: Cells, note: Note, shared: Grid | None) -> Found:
    """The type of a column of numbers without those that are infinite, which count as missing."""
    values = np.where(infinite, np.nan, cells.values)
    found = decision(_guess(replace(cells, values=values, missing=cells.missing | infinite), False, note, shared))
    if found.column.role != "answer":
        return found
    settings: Any = {"unseen": "missing"}
    reason = f"{found.reason}; a guess: {int(infinite.sum())} infinite numbers count as missing"
    return Decision(replace(found.column, **settings), reason, min(found.confidence, TO_CHECK))


def _words(cells: Cells, note: Note) -> Found | None:
    """Dates, answers in the respondent's own words, and lists in many combinations, which look like identifiers."""
    values = cells.values[~cells.missing].tolist()
    if not all(isinstance(value, str) for value in values):
        return None
    distinct, which = cells.factorise()
    if any(map(_is_moment, distinct[:5])) and all(_is_moment(text) or unanswered(text) for text in distinct):
        is_time = all(PHRASES["time"].fullmatch(text.casefold()) or unanswered(text) for text in distinct)
        return TIMES if is_time else DATES
    if any(NAMES["own_words"].search(text.casefold()) for text in (cells.name, note.title)):
        answers = [text for text in distinct if not unanswered(text)]
        if len(answers) > 1 and not all(map(is_word, answers)) and scale(answers) is None:
            return Ignore("it is free text"), f"its name asks for an answer in words, such as {show(distinct[0])}"
    many = len(distinct) > max(FEW_CATEGORIES, len(values) / 2)
    is_list = many and any(is_used(sep, distinct) for sep in SEPARATORS)
    return list_of_options(_sorted_out(distinct, which)) if is_list else None


def _is_moment(text: str) -> bool:
    return days(text) is not None or PHRASES["time"].fullmatch(text.casefold()) is not None


def _labels(distinct: list[Any], cells: Cells, shared: Grid | None) -> Found:
    if (len(distinct) > 1 or len(cells) < _FEWEST_CELLS) and all(isinstance(value, bool) for value in distinct):
        return Binary(true=True), "booleans"
    items = _ranked_items(distinct)
    if items:
        return Ranking(items), f"a guess: texts such as {show(distinct[0])} look like orders of {len(items)} items"
    if len(distinct) == 1:
        return Ignore("it is constant"), f"the only value is {show(distinct[0])}"
    if len(distinct) == 2 and (shared is None or len(shared.labels) < 3):
        in_own_words = any(isinstance(value, str) and not is_word(value) for value in distinct)
        if int((~cells.missing).sum()) == 2 < _FEWEST_CELLS <= len(cells) and in_own_words:
            return Ignore("it is free text"), "two people wrote something, each a text of their own"
        false, true = _low_and_high(distinct)
        return Binary(true=true), f"two values, {show(false)} and {show(true)}"
    if not any(isinstance(value, str) for value in distinct):
        return _numbers(distinct, cells, shared)
    if not all(isinstance(value, str) for value in distinct):
        return _mixed(distinct, cells)
    return guess_texts(distinct, cells.factorise()[1], shared)


_FEWEST_CELLS = 20


def _mixed(distinct: list[Any], cells: Cells) -> Found:
    """Numbers with a few texts among them, such as "refused", or a mix that cannot be read."""
    rows = n_each(*cells.factorise())
    texts = [value for value in distinct if isinstance(value, str)]
    share = sum(rows[text] for text in texts) / sum(rows.values())
    numbers = [value for value in distinct if not isinstance(value, str)]
    if share > 1 - _NUMBERS or len(numbers) < 2 or any(isinstance(value, bool) for value in numbers):
        reason = "a mix of text and numbers; use Ordinal(levels=[...]) or Categorical() if this is intended"
        return Ignore("a mix of text and numbers"), reason
    column, reason, *_ = decision(_numbers(numbers, cells, None))
    reason += f"; counted as missing: {listing(map(show, texts), most=6)}"
    return replace(column, missing={text: text for text in texts}), reason


def _ordered(levels: tuple[Any, ...]) -> Found:
    gone = [level for level in (levels[0], levels[-1]) if isinstance(level, str) and unanswered(level) in NO_ANSWER]
    kept = tuple(level for level in levels if level not in gone)
    if len(kept) < 2:
        gone, kept = [], levels
    if len(kept) < 2:
        return Ignore("it has one level"), "an ordered category with fewer than two levels"
    missing: dict[Any, str] = {level: level for level in gone}
    what = f"an ordered category with {'two' if len(kept) == 2 else len(kept)} levels"
    if len(kept) > MOST_CODES:
        return many_levels(list(kept), what, missing)
    what += f"; counted as missing: {listing(map(show, gone))}" if gone else ""
    if len(kept) > 2:
        return Ordinal(kept, missing=missing), what
    return Binary(values=(kept[0], kept[1]), missing=missing) if gone else Binary(true=kept[1]), what


def _numbers(distinct: list[Any], cells: Cells, shared: Grid | None) -> Found:
    if shared is not None:
        levels = tuple(int(label) for label in shared.labels)
        reason = f"a guess: whole numbers, {levels[0]} to {levels[-1]} in {_columns(shared)}"
        return Decision(Ordinal(levels), reason, KNOWN)
    are_whole = all(isinstance(value, int) or value.is_integer() for value in distinct)
    # 0 to 10 is a scale where its steps repeat.
    few = len(distinct) < MOST_STEPS or (len(distinct) == MOST_STEPS and int((~cells.missing).sum()) >= 2 * MOST_STEPS)
    if are_whole and few:
        reason = f"a guess: only {len(distinct)} whole numbers; use Continuous() if distances matter"
        # 1, 2, 3, 11, 12, 95 may be codes; 5, 10, 50 and 100 are rounded.
        gaps = max(distinct) - min(distinct) >= 2 * len(distinct) and any(value % 5 for value in distinct)
        sure, otherwise = (A_GUESS, "categories, if they are codes") if gaps else (FEW_NUMBERS, "")
        return Decision(Ordinal(in_order(distinct)), reason, sure, otherwise)
    reason = f"numbers, {len(distinct)} distinct values"
    column, heaps = number(occurrences(cells, [whole(value) for value in distinct]))
    if are_whole and len(distinct) == int((~cells.missing).sum()):
        reason += "; each occurs once: use Ignore() if they are identifiers"
        sure = TO_CHECK if len(distinct) >= _FEWEST_CELLS and min(distinct) >= 0 else SURE
        return Decision(column, f"{reason}{heaps}", sure, "identifiers")
    return column, f"{reason}{heaps}"


def _ranked_items(distinct: list[Any]) -> tuple[str, ...]:
    """The items, if all texts are orders of few items such as "a > b = c"; otherwise empty."""
    if not all(isinstance(value, str) for value in distinct) or not any(" > " in value for value in distinct):
        return ()
    tiers = [[item for tier in parse_order(value).tiers for item in tier] for value in distinct if value]
    items = {item for ranked in tiers for item in ranked}
    # Items must repeat across rows, because free text can contain "a > b" by chance.
    repeats = sum(map(len, tiers)) >= 2 * len(items) or len(distinct) == 1
    whole = all(len(set(ranked)) == len(ranked) and all(ranked) for ranked in tiers)
    most = sum(len(ranked) > 1 for ranked in tiers) > len(tiers) / 2
    return tuple(sorted(items)) if whole and most and repeats and 1 < len(items) <= _MOST_ITEMS else ()


def _collections(distinct: list[Any], cells: Cells) -> Found:
    lists = [value for value in distinct if isinstance(value, tuple)]
    column: Column = MultiSelect()
    reason = "a guess: cells hold lists or sets; use Ranking() if order matters, Categorical() for one choice"
    if any(isinstance(entry, (tuple, OrderStatement)) for value in lists for entry in value):
        column, reason = Ranking(), "a guess: cells hold lists of lists, best first"
    try:
        column = column.fit(cells)
        column.encode(cells)
        return column, reason
    except SchemaError as error:
        return Ignore("its lists cannot be read"), f"cells hold lists or sets, but {error}"


def _stated(statements: list[Statement]) -> Found:
    if all(isinstance(statement, Interval) for statement in statements):
        if any(isinstance(end, str) for each in statements for end in (each.lower, each.upper)):  # type: ignore[attr-defined]
            return Ignore("the order of its levels is not known"), "intervals of levels; use Ordinal(levels=[...])"
        return Continuous(), "intervals of a number"
    if all(isinstance(statement, OrderStatement) for statement in statements):
        return Ranking(), "preferences between items"
    return Categorical(), "statements about categories"
