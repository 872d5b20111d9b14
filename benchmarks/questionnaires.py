"""Questionnaires with a known schema, answered by simulated people and exported as six survey tools would.

Idea: a questionnaire is drawn from wordings of questionnaires.toml: scales, side answers, grids, skips, boxes to tick,
single choices, bands, codes, ranks, comments, post codes, identifiers and weights. People have a few traits, answers
are cut from traits and noise, and each tool writes its own header rows, metadata and layout.
Promises for every column of the file what a careful reader would make of it, and every answer that was given.
"""

from __future__ import annotations

import csv
import io
import json
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

BANK: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
TOOLS = ("surveymonkey", "qualtrics", "limesurvey", "google", "typeform", "redcap")
SIZES = (60, 150, 400, 1000)
N_TRAITS = 3
OTHERS = (
    "my cousin",
    "a flyer at the station",
    "the library",
    "work",
    "it was a present",
    "do not remember",
    "TV show",
)


@dataclass(frozen=True)
class Question:
    """A question with the answers of all people: [row, item], None where nobody answered.

    An answer is a label, a number, a rank, or whether a box was ticked; `side` is an answer beside the scale.
    """

    kind: str  # "scale", "choice", "yes", "bands", "boxes", "number", "ranks", "comment" or "post code"
    text: str
    answers: np.ndarray
    labels: tuple[str, ...] = ()  # from low to high, or in the order of the questionnaire
    items: tuple[str, ...] = ()  # of a grid, boxes or ranks
    side: str = ""
    ends: tuple[tuple[Any, Any], ...] = ()  # of bands
    is_custom: bool = False  # the order is not in common words


@dataclass(frozen=True)
class Expected:
    """What a careful reader makes of some columns."""

    at: tuple[int, ...]
    kinds: tuple[str, ...]
    labels: tuple[str, ...] | None = None  # those that occur; None: not checked
    has_order: bool = False
    both_ways: bool = False  # which end is the lowest is not said
    more: bool = False  # labels may be more than these
    ends: tuple[tuple[Any, Any], ...] | None = None
    missing: frozenset[str] | None = frozenset()  # None: not checked
    answers: tuple[Any, ...] | None = None  # of one question with labels or numbers, None if there is none


@dataclass
class File:
    """A file in the making: header rows and cells by column, and what is expected of the columns."""

    tool: str
    heads: list[tuple[str, ...]] = field(default_factory=list)
    columns: list[Sequence[Any]] = field(default_factory=list)
    expected: list[Expected] = field(default_factory=list)
    separator: str = ","

    def add(self, head: tuple[str, ...], cells: Sequence[Any]) -> int:
        """One more column; returns its position."""
        self.heads.append(head)
        self.columns.append(cells)
        return len(self.columns) - 1

    def aside(self, head: tuple[str, ...], cells: Sequence[Any], *kinds: str) -> None:
        """A column that is no answer."""
        self.expected.append(Expected((self.add(head, cells),), kinds or ("ignore", "id")))

    def text(self) -> str:
        """The file as delimited text."""
        out = io.StringIO()
        writer = csv.writer(out, delimiter=self.separator, lineterminator="\n")
        writer.writerows(zip(*self.heads, strict=True))
        rows = zip(*self.columns, strict=True)
        writer.writerows([["" if cell is None else cell for cell in row] for row in rows])
        return out.getvalue()


# ---- people and their answers


class People:
    """Simulated respondents: traits, and answers that are cut from them."""

    def __init__(self, rng: np.random.Generator, n_rows: int):
        self.rng, self.n_rows = rng, n_rows
        self.traits = rng.standard_normal((n_rows, N_TRAITS))
        self.silent = rng.uniform(0.0, 0.06)  # share of questions that are left out

    def latent(self, common: np.ndarray | None = None) -> np.ndarray:
        """A standard normal number for each person, of their traits, a common part, and noise."""
        x = self.traits @ self.rng.normal(0, 0.7, N_TRAITS) + self.rng.standard_normal(self.n_rows)
        x = x / x.std() if common is None else 0.4 * x / x.std() + common + 0.5 * self.rng.standard_normal(self.n_rows)
        return x / x.std()

    def cut(self, labels: Sequence[str], side: str = "", common: np.ndarray | None = None) -> np.ndarray:
        """One of some labels for each person; a few say `side` instead, or nothing."""
        shares = self.rng.dirichlet(np.full(len(labels), 5.0))
        x = self.latent(common)
        found = np.asarray(labels, object)[np.searchsorted(np.quantile(x, np.cumsum(shares)[:-1]), x)]
        if side:
            found[self.rng.random(self.n_rows) < self.rng.uniform(0.03, 0.12)] = side
        found[self.rng.random(self.n_rows) < self.silent] = None
        return found

    def choose(self, labels: Sequence[str]) -> np.ndarray:
        """One of some labels without an order."""
        utility = np.stack([self.latent() + self.rng.normal(0, 0.4) for _ in labels], axis=1)
        found = np.asarray(labels, object)[utility.argmax(axis=1)]
        found[self.rng.random(self.n_rows) < self.silent] = None
        return found


def pick(rng: np.random.Generator, values: Sequence[Any], n: int | None = None) -> Any:
    """One of some values, or n of them in their order."""
    if n is None:
        return values[int(rng.integers(len(values)))]
    return [values[place] for place in sorted(rng.choice(len(values), min(n, len(values)), replace=False))]


def one_column(answers: np.ndarray) -> np.ndarray:
    return answers.reshape(-1, 1)


def scales(people: People, used: set[str], is_grid: bool, name: str = "scales") -> Question:
    """A scale, as one question or as a grid of items."""
    rng = people.rng
    scale = pick(rng, [each for each in BANK[name] if each["stems"][0] not in used])
    used.add(scale["stems"][0])
    labels = tuple(pick(rng, scale["steps"]))
    side = pick(rng, BANK["sides"]["answers"]) if rng.random() < 0.35 else ""
    stem = pick(rng, scale["stems"])
    if not is_grid:
        item = pick(rng, scale["items"])
        return Question(
            "scale",
            f"{stem.rstrip('. ')}: {item}" if "..." in stem else f"{item}: {stem}",
            one_column(people.cut(labels, side)),
            labels,
            side=side,
        )
    items = tuple(pick(rng, scale["items"], int(rng.integers(4, 9))))
    common = people.latent()
    answers = np.stack([people.cut(labels, side, common) for _ in items], axis=1)
    return Question("scale", stem, answers, labels, items, side, is_custom=name == "custom")


def boxes(people: People, used: set[str]) -> Question:
    own = pick(people.rng, [each for each in BANK["boxes"] if each["text"] not in used])
    used.add(own["text"])
    options = tuple(own["options"])
    ticked = np.stack([people.latent() > people.rng.uniform(-0.3, 1.2) for _ in options], axis=1).astype(object)
    if people.rng.random() < 0.4:
        options = (*options, "None of these")
        ticked = np.concatenate([ticked, (~ticked.any(axis=1, keepdims=True).astype(bool)).astype(object)], axis=1)
    ticked[people.rng.random(people.n_rows) < people.silent] = None
    return Question("boxes", own["text"], ticked, items=options)


def bands(people: People, used: set[str]) -> Question:
    own = pick(people.rng, [each for each in BANK["bands"] if each["text"] not in used])
    used.add(own["text"])
    steps = pick(people.rng, own["steps"])
    labels = tuple(label for label, *_ in steps)
    side = "Prefer not to answer" if people.rng.random() < 0.3 else ""
    ends = tuple((low, high) for _, low, high in steps)
    return Question("bands", own["text"], one_column(people.cut(labels, side)), labels, side=side, ends=ends)


def number(people: People, used: set[str]) -> Question:
    own = pick(people.rng, [each for each in BANK["numbers"] if each["text"] not in used])
    used.add(own["text"])
    x = (people.latent() + 2.2) / 4.4
    values = np.rint(own["low"] + x.clip(0, 1) * (own["high"] - own["low"])).astype(int).astype(object)
    values[people.rng.random(people.n_rows) < people.silent] = None
    return Question("number", own["text"], one_column(values))


def ranks(people: People, used: set[str]) -> Question:
    own = pick(people.rng, BANK["ranks"])
    used.add(own["text"])
    utility = np.stack([people.latent() for _ in own["items"]], axis=1)
    places = (np.argsort(np.argsort(-utility, axis=1), axis=1) + 1).astype(object)
    places[people.rng.random(people.n_rows) < people.silent] = None
    return Question("ranks", own["text"], places, items=tuple(own["items"]))


def comment(people: People, used: set[str]) -> Question:
    own, rng = pick(people.rng, BANK["comments"]), people.rng
    texts = [
        " ".join(rng.choice(own["words"], int(rng.integers(3, 12)))) if rng.random() < 0.6 else None
        for _ in range(people.n_rows)
    ]
    return Question("comment", pick(rng, own["texts"]), one_column(np.asarray([*texts, None], object)[:-1]))


def post_codes(people: People, used: set[str]) -> Question:
    codes = [f"{code:05d}" for code in people.rng.choice(90_000, 400, replace=False) + 600]
    found = np.asarray([pick(people.rng, codes) for _ in range(people.n_rows)], object)
    return Question("post code", "What is your ZIP code?", one_column(found))


def listed(kind: str) -> Callable[[People, set[str]], Question]:
    """A question of a list of the bank, each asked at most once."""

    def make(people: People, used: set[str]) -> Question:
        rng = people.rng
        if kind == "yes":
            own = BANK["yes"][0]
            text, labels = (
                pick(rng, [each for each in own["texts"] if each not in used]),
                tuple(pick(rng, own["pairs"])),
            )
            used.add(text)
            return Question("yes", text, one_column(people.cut(labels)), labels)
        if kind == "education":
            own = BANK["education"][0]
            labels = tuple(pick(rng, own["steps"]))
            return Question("scale", own["text"], one_column(people.cut(labels)), labels)
        own = pick(rng, [each for each in BANK[kind] if each["text"] not in used])
        used.add(own["text"])
        return Question("choice", own["text"], one_column(people.choose(own["labels"])), tuple(own["labels"]))

    return make


def questionnaire(people: People) -> list[Question]:
    """Questions in random order; a block of them may be asked only of those who say yes."""
    rng, used = people.rng, set[str]()
    makers: list[Callable[[People, set[str]], Question]] = [listed("nominal") for _ in range(int(rng.integers(2, 5)))]
    makers += [bands for _ in range(int(rng.integers(1, 3)))] + [listed("education")] * int(rng.integers(2))
    makers += [listed("yes") for _ in range(int(rng.integers(1, 4)))]
    makers += [boxes for _ in range(int(rng.integers(1, 4)))] + [number for _ in range(int(rng.integers(0, 3)))]
    makers += [lambda p, u: scales(p, u, False) for _ in range(int(rng.integers(1, 5)))]
    makers += [lambda p, u: scales(p, u, True) for _ in range(int(rng.integers(1, 4)))]
    makers += [lambda p, u: scales(p, u, True, "custom")] * int(rng.random() < 0.3)
    makers += (
        [ranks] * int(rng.random() < 0.3) + [comment] * int(rng.random() < 0.5) + [post_codes] * int(rng.random() < 0.2)
    )
    order = rng.permutation(len(makers))
    asked = [makers[place](people, used) for place in order]
    if rng.random() < 0.5:
        gate = listed("yes")(people, used)
        first = int(rng.integers(len(asked)))
        out = gate.answers[:, 0] != gate.labels[1]
        for place in range(first, min(first + int(rng.integers(1, 4)), len(asked))):
            answers = asked[place].answers.copy()
            answers[out] = None
            asked[place] = replace(asked[place], answers=answers)
        asked.insert(first, gate)
    return asked


# ---- what a careful reader makes of a column


def expected_of(
    question: Question, at: Sequence[int], answers: Sequence[Any], coded: dict[Any, Any] | None = None
) -> Expected:
    """What is expected of one question with one answer, in one or several columns; `coded` are codes of its labels."""
    where, code = tuple(at), coded or {}
    if question.kind in ("comment", "post code"):
        return Expected(where, ("ignore", "id"))
    if question.kind == "number":
        few = len({each for each in answers if each is not None}) <= 11
        return Expected(where, ("continuous", "ordinal") if few else ("continuous",), answers=tuple(answers))
    occurring = [label for label in question.labels if label in set(answers)]
    given = tuple(None if each == question.side else code.get(each, each) for each in answers)
    labels = tuple(str(code.get(label, label)) for label in occurring)
    missing = frozenset({str(code.get(question.side, question.side))} if question.side in set(answers) else ())
    if len(labels) < 2:
        return Expected(where, ("ignore", "binary"), missing=None)
    kinds: tuple[str, ...] = {
        "scale": ("ordinal",),
        "choice": ("categorical",),
        "yes": ("binary",),
        "bands": ("banded", "ordinal"),
    }[question.kind]
    if question.kind == "choice" and coded:
        kinds, labels = ("categorical", "ordinal", "binary"), tuple(labels)
    if len(labels) == 2:
        kinds = (*kinds, "binary", "categorical")
    ordered = question.kind in ("scale", "bands") and len(labels) > 2
    if question.kind == "scale" and question.is_custom and len(question.items) == 0:
        kinds, ordered = (*kinds, "categorical"), False
    ends = (
        tuple(end for label, end in zip(question.labels, question.ends, strict=True) if label in occurring)
        if question.ends
        else None
    )
    return Expected(
        where, kinds, labels, ordered, question.is_custom, ends=None if coded else ends,
        missing=missing, answers=given,
    )  # fmt: skip


def expected_boxes(question: Question, at: Sequence[int], labels: Sequence[str] | None, **more: Any) -> Expected:
    return Expected(tuple(at), ("multiselect",), None if labels is None else tuple(labels), missing=None, **more)


# ---- the tools


def parts(question: Question) -> Iterator[tuple[str, np.ndarray]]:
    """Each item of a question with its answers."""
    yield from zip(question.items or ("",), question.answers.T, strict=True)


def stamps(rng: np.random.Generator, n_rows: int, form: str) -> list[str]:
    start = np.datetime64("2023-03-01T08:00:00") + np.cumsum(rng.integers(20, 4000, n_rows)).astype("timedelta64[s]")
    return [each.item().strftime(form) for each in start]


def other_texts(rng: np.random.Generator, n_rows: int) -> list[str | None]:
    return [pick(rng, OTHERS) if rng.random() < 0.08 else None for _ in range(n_rows)]


def surveymonkey(people: People, asked: list[Question], file: File) -> None:
    """Two header rows: the question above its options; boxes and some single choices are marked by their text."""
    rng, n = people.rng, people.n_rows
    first = 11_000_000_000 + np.cumsum(rng.integers(1, 90_000, n))
    file.aside(("Respondent ID", ""), first.tolist())
    file.aside(("Collector ID", ""), [427_001_000 + int(rng.integers(2))] * n)
    for name in ("Start Date", "End Date"):
        file.aside((name, ""), stamps(rng, n, "%m/%d/%Y %I:%M:%S %p"))
    for name in ("IP Address", "Email Address", "First Name", "Last Name", "Custom Data 1"):
        file.aside((name, ""), [f"10.0.{row % 250}.{row // 250}" if name == "IP Address" else None for row in range(n)])
    spreads = rng.random() < 0.4
    for question in asked:
        if question.kind == "boxes":
            at = []
            for place, (option, ticked) in enumerate(parts(question)):
                at.append(
                    file.add(
                        (question.text if not place else "", option), [option if each else None for each in ticked]
                    )
                )
            file.expected.append(expected_boxes(question, at, question.items))
            if rng.random() < 0.4:
                file.aside(("", "Other (please specify)"), other_texts(rng, n))
        elif question.kind == "ranks":
            at = [
                file.add((question.text if not place else "", item), own)
                for place, (item, own) in enumerate(parts(question))
            ]
            file.expected.append(Expected(tuple(at), ("ranking",), question.items, missing=None))
        elif spreads and question.kind in ("scale", "choice", "bands") and not question.items:
            own = question.answers[:, 0]
            labels = (*question.labels, *([question.side] if question.side else ()))
            at = [
                file.add(
                    (question.text if not place else "", label), [label if each == label else None for each in own]
                )
                for place, label in enumerate(labels)
            ]
            # A column that nobody chose is still a label.
            found = expected_of(question, at, [*own, *question.labels, *([question.side] if question.side else [])])
            file.expected.append(replace(found, answers=found.answers[:n] if found.answers else None))
        else:
            for place, (item, own) in enumerate(parts(question)):
                below = item or (
                    "Open-Ended Response" if question.kind in ("comment", "number", "post code") else "Response"
                )
                at = [file.add((question.text if not place else "", below), list(own))]
                file.expected.append(expected_of(question, at, list(own)))
            if "Other (please specify)" in question.labels:
                file.aside(("", "Other (please specify)"), other_texts(rng, n))


def qualtrics(people: People, asked: list[Question], file: File) -> None:
    """Three header rows: short names, texts and import identifiers; labels, or codes with boxes of 1 and blank."""
    rng, n = people.rng, people.n_rows
    coded = rng.random() < 0.3

    def head(name: str, text: str, number: str) -> tuple[str, ...]:
        return name, text, json.dumps({"ImportId": number})

    meta: dict[str, Sequence[Any]] = {
        "StartDate": stamps(rng, n, "%Y-%m-%d %H:%M:%S"), "EndDate": stamps(rng, n, "%Y-%m-%d %H:%M:%S"),
        "Status": ["IP Address"] * n, "IPAddress": [f"10.1.{row % 250}.{row // 250}" for row in range(n)],
        "Progress": [100] * n, "Duration (in seconds)": rng.integers(60, 3000, n).tolist(), "Finished": ["True"] * n,
        "RecordedDate": stamps(rng, n, "%Y-%m-%d %H:%M:%S"),
        "ResponseId": [f"R_{rng.integers(36**9):09x}{row:04d}" for row in range(n)],
        "RecipientEmail": [None] * n, "LocationLatitude": np.round(rng.uniform(30, 50, n), 4).tolist(),
        "LocationLongitude": np.round(rng.uniform(-120, -70, n), 4).tolist(), "DistributionChannel": ["anonymous"] * n,
        "UserLanguage": ["EN"] * n,
    }  # fmt: skip
    for name, cells in meta.items():
        file.aside(head(name, name, name[0].lower() + name[1:]), cells)
    for number, question in enumerate(asked, 1):
        code = (
            {label: place for place, label in enumerate(question.labels, 1)}
            | ({question.side: 99} if question.side else {})
            if coded
            else {}
        )
        if question.kind == "boxes":
            at = []
            for place, (option, ticked) in enumerate(parts(question), 1):
                cells = [(1 if coded else option) if each else None for each in ticked]
                at.append(
                    file.add(
                        head(
                            f"Q{number}_{place}",
                            f"{question.text} - Selected Choice - {option}",
                            f"QID{number}_{place}",
                        ),
                        cells,
                    )
                )
            file.expected.append(expected_boxes(question, at, question.items))
            if rng.random() < 0.3:
                name = f"Q{number}_{len(at)}_TEXT"
                file.aside(
                    head(name, f"{question.text} - {question.items[-1]} - Text", f"QID{number}_{len(at)}_TEXT"),
                    other_texts(rng, n),
                )
        elif question.kind == "ranks":
            at = [
                file.add(head(f"Q{number}_{place}", f"{question.text} - {item}", f"QID{number}_{place}"), own)
                for place, (item, own) in enumerate(parts(question), 1)
            ]
            file.expected.append(Expected(tuple(at), ("ranking",), question.items, missing=None))
        else:
            for place, (item, own) in enumerate(parts(question), 1):
                name, text = (
                    (f"Q{number}_{place}", f"{question.text} - {item}") if item else (f"Q{number}", question.text)
                )
                at = [file.add(head(name, text, f"QID{number}_{place}"), [code.get(each, each) for each in own])]
                file.expected.append(expected_of(question, at, list(own), code))


def limesurvey(people: People, asked: list[Question], file: File) -> None:
    """One header row of codes or texts with items in brackets; boxes are yes or no, or Y or blank; ranks are places."""
    rng, n = people.rng, people.n_rows
    by_code, short, file.separator = rng.random() < 0.5, rng.random() < 0.4, pick(rng, (",", ";"))
    names = ("id", "submitdate", "lastpage", "startlanguage", "seed", "startdate", "datestamp")
    texts = ("Response ID", "Date submitted", "Last page", "Start language", "Seed", "Date started", "Date last action")
    meta = [
        list(range(1, n + 1)),
        stamps(rng, n, "%Y-%m-%d %H:%M:%S"),
        [4] * n,
        ["en"] * n,
        rng.integers(10**8, 10**9, n).tolist(),
        stamps(rng, n, "%Y-%m-%d %H:%M:%S"),
        stamps(rng, n, "%Y-%m-%d %H:%M:%S"),
    ]
    for name, text, cells in zip(names, texts, meta, strict=True):
        file.aside((name if by_code else text,), cells)
    for number, question in enumerate(asked, 1):
        head = f"G{1 + number // 5}Q{number:02d}" if by_code else question.text
        if question.kind == "boxes":
            yes, no = ("Y", "") if short else ("Yes", "No")
            at = []
            for place, (option, ticked) in enumerate(parts(question), 1):
                rest = f"SQ{place:03d}" if by_code else option
                at.append(
                    file.add(
                        (f"{head}[{rest}]" if by_code else f"{head} [{rest}]",),
                        [None if each is None else yes if each else no for each in ticked],
                    )
                )
            file.expected.append(expected_boxes(question, at, None if by_code else question.items))
            if rng.random() < 0.4:
                file.aside((f"{head}[other]" if by_code else f"{head} [Other]",), other_texts(rng, n))
        elif question.kind == "ranks":
            order = [
                [None] * len(question.items)
                if row[0] is None
                else [question.items[place] for place in np.argsort(row.astype(int))]
                for row in question.answers
            ]
            at = [
                file.add(
                    (f"{head}[{place + 1}]" if by_code else f"{head} [Rank {place + 1}]",),
                    [row[place] for row in order],
                )
                for place in range(len(question.items))
            ]
            file.expected.append(Expected(tuple(at), ("ranking",), question.items, missing=None))
        else:
            for place, (item, own) in enumerate(parts(question), 1):
                rest = (f"[SQ{place:03d}]" if by_code else f" [{item}]") if item else ""
                at = [file.add((f"{head}{rest}",), list(own))]
                file.expected.append(expected_of(question, at, list(own)))
            if "Other (please specify)" in question.labels:
                file.aside((f"{head}[other]" if by_code else f"{head} [Other]",), other_texts(rng, n))


def google(people: People, asked: list[Question], file: File) -> None:
    """One header row of texts; boxes are a list in one cell, grids and ranks have their rows in brackets."""
    rng, n = people.rng, people.n_rows
    file.aside(("Timestamp",), stamps(rng, n, "%Y/%m/%d %I:%M:%S %p GMT+1"))
    if rng.random() < 0.4:
        file.aside(("Email Address",), [f"person{rng.integers(10**6)}.{row}@example.org" for row in range(n)])
    separator = pick(rng, (", ", ";"))
    for question in asked:
        if question.kind == "boxes":
            cells = [
                None
                if row[0] is None or not any(row)
                else separator.join(np.asarray(question.items, object)[row.astype(bool)])
                for row in question.answers
            ]
            ticked = [option for option, own in parts(question) if any(own)]
            file.expected.append(expected_boxes(question, [file.add((question.text,), cells)], ticked, more=True))
        elif question.kind == "ranks":
            at = [file.add((f"{question.text} [{item}]",), own) for item, own in parts(question)]
            file.expected.append(Expected(tuple(at), ("ranking",), question.items, missing=None))
        else:
            for item, own in parts(question):
                at = [file.add((f"{question.text} [{item}]" if item else question.text,), list(own))]
                file.expected.append(expected_of(question, at, list(own)))


def typeform(people: People, asked: list[Question], file: File) -> None:
    """One header row of texts; a box has its own name as header and as mark, and yes or no are 1 and 0."""
    rng, n = people.rng, people.n_rows
    file.aside(("#",), [f"{rng.integers(36**10):012x}{row:05x}" for row in range(n)])
    for question in asked:
        if question.kind == "boxes":
            at = [
                file.add((option,), [option if each else None for each in ticked]) for option, ticked in parts(question)
            ]
            file.expected.append(expected_boxes(question, at, question.items))
            if question.items[-1] != "None of these" or rng.random() < 0.5:  # without it, nothing ends the question
                file.aside(("Other",), other_texts(rng, n))
        elif question.kind == "ranks":
            at = [file.add((f"{question.text} - {item}",), own) for item, own in parts(question)]
            file.expected.append(Expected(tuple(at), ("ranking",), question.items, missing=None))
        else:
            code = dict(zip(question.labels, (0, 1), strict=True)) if question.kind == "yes" else {}
            for item, own in parts(question):
                at = [
                    file.add(
                        (f"{question.text} - {item}" if item else question.text,),
                        [code.get(each, each) for each in own],
                    )
                ]
                file.expected.append(expected_of(question, at, list(own), code))
    for name in ("Start Date (UTC)", "Submit Date (UTC)"):
        file.aside((name,), stamps(rng, n, "%Y-%m-%d %H:%M:%S"))
    file.aside(("Network ID",), [f"{rng.integers(16**10):010x}" for _ in range(n)])
    file.aside(("Tags",), [None] * n)


def redcap(people: People, asked: list[Question], file: File) -> None:
    """One header row of variables with codes, or of labels; boxes are var___1 with 0 and 1, or checked or not."""
    rng, n = people.rng, people.n_rows
    raw = rng.random() < 0.5
    file.aside(("record_id" if raw else "Record ID",), list(range(1, n + 1)))
    file.aside(("redcap_survey_identifier" if raw else "Survey Identifier",), [None] * n)
    file.aside(("intake_timestamp" if raw else "Survey Timestamp",), stamps(rng, n, "%Y-%m-%d %H:%M:%S"))
    for number, question in enumerate(asked, 1):
        words = [each for each in question.text.lower().replace("?", "").replace("'", "").split() if each.isalpha()]
        var = "_".join([words[-1], str(number)] if words else ["q", str(number)])
        side = pick(rng, (99, 9, -9))
        code = (
            {label: place for place, label in enumerate(question.labels, 0 if question.kind == "yes" else 1)}
            | ({question.side: side} if question.side else {})
            if raw
            else {}
        )
        if question.kind == "boxes":
            at = []
            for place, (option, ticked) in enumerate(parts(question), 1):
                yes, no = (1, 0) if raw else ("Checked", "Unchecked")
                name = f"{var}___{place}" if raw else f"{question.text} (choice={option})"
                # REDCap writes 0 also for people who were not asked.
                at.append(file.add((name,), [yes if each else no for each in ticked]))
            file.expected.append(expected_boxes(question, at, None if raw else question.items))
        elif question.kind == "ranks":
            at = [
                file.add((f"{var}_rank_{item.lower()}" if raw else f"{question.text}: {item}",), own)
                for item, own in parts(question)
            ]
            file.expected.append(Expected(tuple(at), ("ranking",), None if raw else question.items, missing=None))
        else:
            for place, (item, own) in enumerate(parts(question)):
                name = (f"{var}_{chr(97 + place)}" if item else var) if raw else item or question.text
                at = [file.add((name,), [code.get(each, each) for each in own])]
                file.expected.append(expected_of(question, at, list(own), code))
    file.aside(("intake_complete" if raw else "Complete?",), [2 if raw else "Complete"] * n)


WRITERS: dict[str, Callable[[People, list[Question], File], None]] = {
    "surveymonkey": surveymonkey, "qualtrics": qualtrics, "limesurvey": limesurvey,
    "google": google, "typeform": typeform, "redcap": redcap,
}  # fmt: skip


def make(seed: int, tool: str | None = None) -> File:
    """A file of one tool; the same seed gives the same file."""
    rng = np.random.default_rng([33, seed])
    tool = TOOLS[seed % len(TOOLS)] if tool is None else tool
    people, file = People(rng, pick(rng, SIZES)), File(tool)
    WRITERS[tool](people, questionnaire(people), file)
    if rng.random() < 0.2:
        weights = rng.gamma(6.0, 1 / 6.0, people.n_rows)
        head = ("weight", *[""] * (len(file.heads[0]) - 1))
        if tool == "qualtrics":
            head = ("weight", "weight", json.dumps({"ImportId": "weight"}))
        file.aside(head, np.round(weights / weights.mean(), 6).tolist(), "weight")
    return file
