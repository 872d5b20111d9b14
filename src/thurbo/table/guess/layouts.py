"""Questions that stand in several columns of a table: options, exclusive columns, ranks, places and mentions.

Idea: columns whose names or titles begin alike, that the file declares a group, or that stand side by side and are each
marked by a text of their own, are one question if their cells agree. Where at most one of them is chosen in each row,
although independent options would often be chosen together, they are one answer; otherwise any number of options.
Guarantees that a column belongs to at most one question, and that a column with a single value is no constant if it is
an option among others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, combinations, count, groupby
from os.path import commonprefix
from typing import Any, Literal, NamedTuple

import numpy as np

from thurbo.errors import SchemaError
from thurbo.table.columns.categorical import Categorical
from thurbo.table.columns.cells import BoolArray, Cells, IntArray
from thurbo.table.columns.column import Column
from thurbo.table.columns.multiselect import MultiSelect
from thurbo.table.columns.ranking import Ranking
from thurbo.table.columns.values import is_negative, is_word, listing
from thurbo.table.guess.one_column import MOST_CODES, guess, sort_codes
from thurbo.table.guess.roles import Decision, Found
from thurbo.table.guess.words import NAMES, OTHER, TOOLS, TOOLS_BESIDE, patterns, unaccented
from thurbo.table.io.codebook import ColumnGroup, Note, whole

_FEWEST_ROWS = 20
_MOST_ITEMS = 100
_BY_CHANCE = 0.2  # most repeated items, relative to independent columns
_GLANCE = 200  # rows of a column that show whether it may be a box to tick
_MOST_NAME = 60  # characters of a name that is made of options
_PLACES = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_TEXT, _SPLITS = patterns("layouts", other=OTHER, places="|".join(_PLACES)), tuple(patterns("splits").values())
_SAME = 0.95  # share of the rows in which a list and columns of options agree
_FEWEST_TOOL = 3  # columns of a survey tool that show that it wrote the file

Read = Callable[[str], Cells]


def technical(names: Collection[str], titles: Mapping[str, str]) -> dict[str, str]:
    """Columns that the survey tool added, such as the progress of a respondent, with the reason."""
    texts = {name: {name.casefold().strip(), titles.get(name, "").casefold().strip()} for name in names}
    found: dict[str, str] = {}
    for tool, pattern in TOOLS.items():
        own = [name for name, written in texts.items() if any(map(pattern.fullmatch, written))]
        if len(own) >= _FEWEST_TOOL:
            beside = TOOLS_BESIDE.get(tool)  # names that other questions have too
            own += [name for name, written in texts.items() if beside and any(map(beside.fullmatch, written))]
            found |= dict.fromkeys(own, "its name is that of a column which a survey tool adds")
    return found


class _Part(NamedTuple):
    name: str
    head: str = ""
    rest: str = ""
    place: int | None = None  # of a numbered name


class _Tick(NamedTuple):
    """A column that only says whether its option was chosen.

    style  "text": by the text of the option. "box": by a word or a sign, all others are empty or say "not selected".
           "yes": by 1 or "Yes", where others say 0 or "No", as answers to a question do. "none": nobody chose it.
    """

    name: str
    style: Literal["text", "box", "yes", "none"]
    text: str
    chosen: BoolArray  # [row]
    said: BoolArray  # cells that are not empty, [row]

    @property
    def label(self) -> str:
        """The text of its option, or else its name."""
        return self.text or self.name

    @property
    def is_last(self) -> bool:
        """Whether its option is one of those that end a question: "Other", "None of these"."""
        return _TEXT["last"].fullmatch(self.label) is not None


def _tick(cells: Cells) -> _Tick | None:
    """A column as a box to tick; None if it is none."""
    if cells.values.dtype.kind not in "OTUbiuf":
        return None
    try:
        if len(cells.take(np.arange(min(len(cells), _GLANCE))).factorise()[0]) > 3:  # with the empty text
            return None
        distinct, which = cells.factorise()
    except SchemaError:
        return None
    words = [value for value in distinct if value != ""]
    if len(words) > 2 or not all(isinstance(value, (str, bool, int, float)) for value in words):
        return None
    no = [each for each in words if is_negative(each)] or ([-1] if set(words) == {1, -1} else [])
    yes = [each for each in words if each not in no]
    if len(yes) > 1 or len(no) > 1:
        return None
    said = np.isin(which, [distinct.index(each) for each in words])
    if not yes:
        return _Tick(cells.name, "none", "", np.zeros(len(cells), bool), said)
    mark, chosen = yes[0], which == distinct.index(yes[0])
    word = mark.casefold() if isinstance(mark, str) else ""
    if not word and mark != 1:
        return None
    is_box = _TEXT["box"].fullmatch(word) is not None
    if word and not is_word(word) and not is_box:
        plain_no = bool(no) and isinstance(no[0], str) and no[0].casefold() in ("no", "n", "false", "f")
        return None if chosen.all() or plain_no else _Tick(cells.name, "text", mark.strip(), chosen, said)
    return _Tick(cells.name, "box" if is_box or not no or -1 in no else "yes", "", chosen, said)


class GroupedQuestion(NamedTuple):
    """A question that consists of several columns."""

    name: str
    found: Decision
    title: str
    members: tuple[str, ...]


class GroupedColumns:
    """The columns of a table, each as a box to tick if it is one, and the questions of several of them.

    Columns of what people wrote beside an option, and those that a survey tool added, are apart, with the reason.
    """

    def __init__(self, names: Collection[str], read: Read, notes: Mapping[str, Note]):
        self.names, self.held, self.read, self.notes = list(names), set(names), read, notes
        self.tick = cache(lambda name: _tick(read(name)))  # each column is examined once
        self.questions: list[GroupedQuestion] = []
        self.apart = technical(names, {name: note.title for name, note in notes.items()})
        self.taken = set(self.apart)  # with the columns of the questions

    def is_other(self, name: str, label: str = "") -> bool:
        """Whether a column holds what people wrote beside an option, such as "Other, please specify"."""
        title = self.notes.get(name, Note()).title
        asks = any(NAMES["own_words"].search(text.casefold()) for text in (name, title))
        is_named = bool(_TEXT["is_other"].fullmatch(_plain(label or name)))
        tick = self.tick(name)
        if tick is None:
            return asks or is_named
        # Nobody wrote anything, or one person did.
        is_text = tick.style == "text" and _plain(tick.text) not in (_plain(label), _plain(name))
        return is_named and (is_text or not tick.said.any())

    def others(self, members: Sequence[tuple[str, str]]) -> dict[str, str]:
        """Those of (column, label) that hold what people wrote, or are a second "Other" with a field of its own."""
        plain = [_plain(label) for _, label in members]
        again = [label in plain[:at] and _TEXT["is_other"].fullmatch(label) for at, label in enumerate(plain)]
        return dict(each for each, other in zip(members, again, strict=True) if other or self.is_other(*each))

    def is_list_of(self, name: str, options: Mapping[str, str]) -> bool:
        """Whether a column of texts names just the options, {column: label}, that are chosen in its row."""
        ticks = [(label.casefold(), tick) for part, label in options.items() if (tick := self.tick(part))]
        if name not in self.names or not any(tick.chosen.any() for _, tick in ticks):
            return False
        cells = self.read(name)
        if cells.values.dtype.kind not in "OTU":
            return False
        texts = np.asarray([str(value).casefold() for value in cells.values], object)
        named = [label in text for label, tick in ticks for text in texts[tick.chosen & ~cells.missing]]
        asked = np.any([tick.said for _, tick in ticks], axis=0)
        return bool(named) and float(np.mean(named)) > _SAME and float(np.mean(asked != cells.missing)) > _SAME

    def repeats(self, name: str, column: Column) -> bool:
        """Whether a column of texts has an answer just where one of these options is chosen."""
        options = [self.tick(source) for source in column.source_columns(name) if source != name]
        if column.kind != "multiselect" or name not in self.names or not all(options):
            return False
        chosen, cells = np.any([tick.chosen for tick in options if tick], axis=0), self.read(name)
        return cells.values.dtype.kind in "OTU" and bool(np.mean(chosen != cells.missing) > _SAME)


def named_groups(columns: GroupedColumns) -> Iterator[ColumnGroup]:
    """Groups of neighbouring columns whose names or titles begin alike, and whose cells belong together."""
    titles = {name: note.title for name, note in columns.notes.items() if note.title}
    texts = [{name: name for name in columns.names}]
    if len(titles) > 1:
        texts.append({name: titles.get(name, "") for name in columns.names})
    first = [_beside_lists(columns), [_ordinal(name) for name in columns.names]]  # of names, not of titles
    for text in texts:
        made = [[_split(name, own, pattern) for name, own in text.items()] for pattern in _SPLITS]
        for parts in (*first, *made[:2], _dashes(text), *made[2:]):  # before brackets, numbers and prefixes
            for head, run in groupby(parts, key=lambda part: part.head):
                if head:
                    yield from _group(head, list(run), columns)
        first = []


def _split(name: str, text: str, pattern: re.Pattern[str]) -> _Part:
    match = pattern.match(text)
    if not match:
        return _Part(name)
    head, rest = match["head"], match["rest"]
    place = _TEXT["numbered"].fullmatch(rest.strip())
    return _Part(name, " ".join(head.split()), rest.strip(), int(place[1]) if place else None)


def stem(name: str) -> str:
    """The first part of a name that several columns may share; the name itself if it has no parts."""
    cuts = [name[: match.start()].strip() for match in _TEXT["dash"].finditer(name)]
    heads = (part.head for pattern in (*_SPLITS, _TEXT["lettered"]) if (part := _split(name, name, pattern)).head)
    return cuts[-1] if cuts and cuts[-1] else next(heads, name)


def _beside_lists(columns: GroupedColumns) -> list[_Part]:
    """Names that begin with the name of a column of texts: "q" may list the options of "q.a" and "q.b"."""
    known, parts = set(columns.names), []
    for name in columns.names:
        cuts = [(name[: each.start()], name[each.end() :]) for each in _TEXT["of_list"].finditer(name)]
        cuts = [(head, rest) for head, rest in cuts if head in known and rest]
        cuts = [(head, rest) for head, rest in cuts if columns.tick(head) is None] or cuts[:1]
        parts.append(_Part(name, *cuts[-1]) if cuts else _Part(name))
    return parts


def _dashes(text: Mapping[str, str]) -> list[_Part]:
    """Names as a question and an option with a dash or colon between them, cut where a neighbour is cut too."""
    dashes = [(own, _TEXT["dash"].finditer(own)) for own in text.values()]
    cuts = [[(own[: each.start()].strip(), own[each.end() :].strip()) for each in marks] for own, marks in dashes]
    known = [[cut for cut in own if cut[0] and cut[1]] for own in cuts]
    parts = []
    for name, own, depth in zip(text, known, _depths(known), strict=True):
        head, rest = own[depth] if own else ("", "")
        parts.append(_Part(name, " ".join(head.split()), rest))
    return parts


def _depths(cuts: Sequence[Sequence[tuple[str, str]]]) -> list[int]:
    """At which dash each name is cut: the last one up to which every column of its run has a neighbour alike.

    "Traffic: how much? - a lot" is cut at the dash, "Series: Heat - part one" beside "Series: Dune" at the colon.
    """
    depths = [-1] * len(cuts)
    runs = [list(range(len(cuts)))] if cuts else []
    while runs:
        run = runs.pop()
        depth = depths[run[0]] + 1
        heads = ((place, cuts[place][depth][0] if depth < len(cuts[place]) else "") for place in run)
        deeper = [[place for place, _ in each] for _, each in groupby(heads, key=lambda pair: pair[1])]
        is_last = depth > 0 and min(map(len, deeper)) < 2
        for part in () if is_last else deeper:
            if len(part) > 1 and all(depth < len(cuts[place]) for place in part):
                runs.append(part)
                for place in part:
                    depths[place] = depth
    return depths


def _mark(text: str, pattern: re.Pattern[str]) -> tuple[int, str, str] | None:
    """The only "1st" or "second" in a text as a number, and what is before and after it."""
    marks = list(pattern.finditer(text))
    if len(marks) != 1:
        return None
    word = next(filter(None, marks[0].groups())).casefold()
    place = int(word) if word.isdecimal() else _PLACES.index(word) + 1
    return place, text[: marks[0].start()], text[marks[0].end() :]


def _ordinal(name: str) -> _Part:
    mark = _mark(name, _TEXT["ordinal"])
    if mark is None:
        return _Part(name)
    place, before, after = mark
    rest = " ".join(f"{before} {after}".replace("_", " ").split())
    return _Part(name, rest or "places", str(place), place)


def _group(head: str, parts: list[_Part], columns: GroupedColumns) -> Iterator[ColumnGroup]:
    others = columns.others([(part.name, part.rest) for part in parts])
    own = [part for part in parts if part.name not in others]
    ticks = [(part, tick) for part in own if (tick := columns.tick(part.name)) is not None]
    if len(ticks) == len(own) > 1 and columns.is_list_of(head, {part.name: part.rest for part in own}):
        ticked = 1 if all(columns.read(part.name).values.dtype.kind in "biuf" for part in own) else None
        yield ColumnGroup(head, "ticks", tuple((part.name, part.rest) for part in own), title=head, ticked=ticked)
        return
    has_text = len(ticks) > 1 and any(columns.tick(name) is None for name in others)  # of what else it may be
    if len(ticks) + len(others) == len(parts) and _are_options(head, ticks, has_text):
        members = tuple((part.name, part.rest) for part, _ in ticks)
        yield ColumnGroup(head, "grid", (*members, *others.items()), title=head)
        return
    alike = [(part, tick) for part, tick in ticks if tick.text and _plain(part.rest) == _plain(tick.text)]
    if alike:
        yield ColumnGroup(head, "grid", tuple((part.name, tick.text) for part, tick in alike), title=head)
        return
    cells = [columns.read(part.name) for part in parts]
    if len(parts) < 2 or len({part.rest for part in parts}) < len(parts) or len(cells[0]) < _FEWEST_ROWS:
        return
    members = tuple((part.name, part.rest) for part in parts)
    numbered = [part.place for part in parts] == list(range(1, len(parts) + 1))
    are_numbers = all(each.values.dtype.kind in "iuf" for each in cells)
    titled = all(columns.notes.get(part.name, Note()).title for part in parts)
    if len(parts) > 2 and (not numbered or titled or "rank" in head.casefold()) and are_numbers:
        yield ColumnGroup(head, "grid", members, title=head)  # ranks, if the cells agree
    elif numbered and _are_places(cells):
        yield ColumnGroup(head, "places", members, title=head)


def _are_options(head: str, ticks: list[tuple[_Part, _Tick]], has_text: bool = False) -> bool:
    """Whether columns of boxes are options of one question, not questions of their own with the answers 0 and 1."""
    known = [tick for _, tick in ticks if tick.style != "none"]
    labels, styles = [part.rest for part, _ in ticks], {tick.style for tick in known}
    if not known or len(labels) < 2 or len(set(labels)) < len(labels):
        return False
    if styles == {"text"}:
        return len({tick.text for tick in known}) == len(known)
    if styles == {"box"} or "text" in styles:
        return styles == {"box"}
    plain = unaccented(head.casefold())
    asks = len(ticks) > 2 and (_TEXT["asks"].search(plain) or any(map(_TEXT["last"].fullmatch, labels)))
    by_tool = any(_TEXT["box_name"].search(part.name) for part, _ in ticks)
    return bool(asks or has_text or by_tool or _TEXT["select"].search(plain)) or (
        (len(known) > 2 or len(styles) == 1) and exclusive(known)
    )


def _plain(text: str) -> str:
    return _label(" ".join(text.casefold().split()))


def _label(name: str) -> str:
    return _TEXT["own_number"].sub("", name)


def unnamed_groups(columns: GroupedColumns) -> Iterator[ColumnGroup]:
    """Neighbouring columns that are each marked by a text of their own, cut where a question ends.

    "Other" and "None" end a question, a label that occurs again begins one, and so do columns that exclude each other.
    """
    runs: list[tuple[list[_Tick], list[str]]] = [([], [])]
    for name in columns.names:
        tick, (run, others) = None if name in columns.taken else columns.tick(name), runs[-1]
        is_other = name not in columns.taken and columns.is_other(name)
        is_box = tick is not None and (tick.style in ("text", "box") or (tick.style == "none" and not tick.said.any()))
        if tick is not None and is_box and not is_other:
            if others:
                runs.append(([], []))
            runs[-1][0].append(tick)
        elif run and is_other:
            others.append(name)
        else:
            runs.append(([], []))
    for run, others in runs:
        parts = list(_cut(run))
        for part in parts:
            known = [tick for tick in part if tick.style != "none"]
            styles = {tick.style for tick in known}
            chosen = np.any([tick.chosen for tick in part], axis=0)
            if len(styles) != 1 or len(known) < 2 or chosen.sum() < min(_FEWEST_CHOSEN, len(chosen) / 2):
                continue
            labels = [tick.text or _label(tick.name) for tick in part]
            by_name = styles == {"text"} and any(_plain(tick.name) == _plain(tick.text) for tick in known)
            sure = len(known) > 2 or by_name or exclusive(known)
            if sure and len(set(labels)) == len(labels):
                members = [(tick.name, label) for tick, label in zip(part, labels, strict=True)]
                members += [(name, "") for name in others if part is parts[-1]]
                yield ColumnGroup(_name_of(labels), "grid", tuple(members))


def _name_of(labels: Sequence[str]) -> str:
    found = ""
    for label in labels:
        if found and len(found) + len(label) > _MOST_NAME - 5:
            return f"{found}, …"
        found = f"{found}, {label}" if found else label[:_MOST_NAME]
    return found


def _cut(run: list[_Tick]) -> Iterator[list[_Tick]]:
    """A run of columns in questions."""
    part: list[_Tick] = []
    for tick in run:
        ends = part and part[-1].is_last and not tick.is_last
        again = any(_plain(tick.label) == _plain(other.label) for other in part)
        new = part and part[-1].style != "none" and tick.style not in (part[-1].style, "none")
        if ends or again or new:
            yield from _exclusive_parts(part)
            part = []
        part.append(tick)
    yield from _exclusive_parts(part)


_FEWEST_CHOSEN = 5  # rows in which an option of a question without a name is chosen
_COVERS = 0.7  # share of the rows with any mark of the run that exclusive columns among others have a mark in


def _exclusive_parts(run: list[_Tick]) -> Iterator[list[_Tick]]:
    """Exclusive columns among others, each time as many as possible; and what is between them."""
    rest: list[_Tick] = []
    start = 0
    while start < len(run):
        end = _end_of_choice(run, start)
        if end:
            yield from filter(None, (rest, run[start:end]))
            rest = []
        else:
            rest.append(run[start])
        start = end or start + 1
    if rest:
        yield rest


def _end_of_choice(run: list[_Tick], start: int) -> int:
    """Where exclusive columns that begin at a place end; 0 if there are none."""
    rows = np.any([tick.chosen for tick in run], axis=0).sum()
    n_marks, last = np.zeros(len(run[start].chosen), np.int32), start
    while last < len(run) and (n_marks > 1).sum() <= _TWICE * rows:  # further columns only add rows with two marks
        n_marks += run[last].chosen
        last += 1
    for end in range(last, start + 1, -1):
        part = run[start:end]
        others = [tick for tick in part if not tick.is_last]  # "None" excludes all of them
        if not exclusive(part) or not (len(others) == len(part) or exclusive(others)):
            continue
        if end < len(run):  # a column that nobody chose belongs to what follows
            while part[-1].style == "none":
                part.pop()
        covered = np.any([tick.chosen for tick in part], axis=0).sum()
        return start + len(part) if len(part) > 1 and covered >= _COVERS * rows else 0
    return 0


_SEVERAL = 0.05  # share of rows with two marks from which options are no single choice
_TWICE, _OWN_TWICE = 0.005, 0.1  # largest share of rows with two marks: of all rows with one, and of those of a column
_ASKED_TOGETHER = 0.8  # share of the rows asked in which each of the columns says yes or no
_FEWEST_PAIRS = 10, 3  # rows with two marks that independent options would have at least; and where there are none


def exclusive(ticks: Sequence[_Tick]) -> bool:
    """Whether at most one column is chosen in each row, although several would be by chance."""
    known = [tick for tick in ticks if tick.chosen.any()]
    if len(known) < 2:
        return False
    table = np.stack([tick.chosen for tick in known], axis=1)
    n_marks = table.sum(axis=1)
    asked = np.any([tick.said for tick in ticks], axis=0)
    # Where cells say "not selected", rows without any cell were not asked.
    says_no = any((tick.said & ~tick.chosen).any() for tick in ticks)
    together = np.all([tick.said for tick in known], axis=0).sum() >= _ASKED_TOGETHER * asked.sum()
    if says_no and not together:
        return False
    n_rows = int(asked.sum()) if says_no else len(table)
    n_one, twice = int((n_marks > 0).sum()), n_marks > 1
    counts = table.sum(axis=0).astype(np.float64)
    expected = (counts.sum() ** 2 - (counts**2).sum()) / 2 / n_rows
    if expected < _FEWEST_PAIRS[not twice.any()] or twice.sum() > _TWICE * n_one or n_one < 0.9 * asked.sum():
        return False
    return bool((table[twice].sum(axis=0) <= _OWN_TWICE * counts).all())


def questions(
    names: Collection[str], read: Read, notes: Mapping[str, Note], groups: Sequence[ColumnGroup]
) -> GroupedColumns:
    """Questions that consist of several columns; a column belongs to at most one of them."""
    columns = GroupedColumns(names, read, notes)
    for group in (*groups, *_places(notes), *named_groups(columns)):
        _take(group, columns)
    for group in unnamed_groups(columns):
        _take(group, columns)
    alone = filter(_TEXT["beside"].fullmatch, columns.names)
    beside = [name for name in alone if name not in columns.taken and columns.is_other(name)]
    columns.apart |= dict.fromkeys(beside, "what people wrote beside an option")
    columns.taken |= columns.apart.keys()
    return columns


def _take(group: ColumnGroup, columns: GroupedColumns) -> None:
    """Add a group that is a question to the questions."""
    names = {column for column, _ in group.members}
    if names & columns.taken or not names <= columns.held:
        return
    others = columns.others(group.members) if group.kind == "grid" else {}
    group = replace(group, members=tuple(each for each in group.members if each[0] not in others))
    has_text = any(columns.tick(name) is None for name in others)
    own = _made(group, columns, has_text) if group.members else None
    if own is None:
        return
    made = Decision(*own)
    if group.name not in columns.taken and columns.repeats(group.name, made.column):
        columns.apart[group.name] = "the options of its columns once more"
    # The name must be new: a table column with the name of the question would replace its members.
    used = {*columns.names, *(question.name for question in columns.questions)}
    alternatives = (f"{group.name} ({number})" for number in count(2))
    name = next(each for each in chain([group.name], alternatives) if each not in used)
    members = tuple(column for column, _ in group.members)
    columns.questions.append(GroupedQuestion(name, made, group.title, members))
    columns.apart |= dict.fromkeys(others, f'what people wrote beside an option of "{name}"')
    columns.taken |= {*members, *columns.apart}


_MOST_TWICE = 0.05  # share of rows that name an item twice


def _made(group: ColumnGroup, columns: GroupedColumns, has_text: bool) -> Found | None:
    if group.kind == "grid":
        return _grid(group, columns, has_text)
    parts = {member: columns.read(member) for member, _ in group.members}
    items, names, missing = _items(parts, columns.notes)
    if group.kind == "ticks":
        options = {option: column for column, option in group.members}
        column = MultiSelect(columns=options, ticked=group.ticked, missing=missing)
        reason = f"the file's multiple response set of {len(options)} columns"
        if group.name in columns.names:
            reason = f'{len(options)} columns of options, beside the column "{group.name}", which lists those chosen'
        return column, reason
    if not (2 if group.kind == "mentions" else 3) <= len(items) <= MOST_CODES:
        return None
    mentions = MultiSelect(tuple(items), mentions=tuple(parts), names=names, missing=missing)
    if group.kind == "mentions":
        return mentions, f"the file's multiple response set: up to {len(parts)} mentions of {len(items)} options"
    codes = _codes(parts.values(), items)
    twice = float(_twice(np.where(codes < 0, np.nan, codes)).mean())
    if twice > _MOST_TWICE:
        reason = f"a guess: {listing(parts)} hold mentions of {len(items)} options, often the same one twice in a row"
        return mentions, reason
    # An item that is named twice in a row gets its better place; Ranking does that with unseen="missing".
    unseen: Any = "missing" if twice else "error"
    ranking = Ranking(tuple(items), places=tuple(parts), names=names, missing=missing, unseen=unseen)
    reason = f"a guess: {listing(parts)} hold the places, from first to last, of {len(items)} items"
    return ranking, f"{reason}; an item named twice in a row counts once" if twice else reason


def _grid(group: ColumnGroup, columns: GroupedColumns, has_text: bool) -> Found | None:
    """Columns under one heading: one answer or options if each is a box to tick, ranks if places differ in each row."""
    ticks = [columns.tick(name) for name, _ in group.members]
    heading = f"a guess: {len(group.members)} columns under one heading"
    if all(tick is not None for tick in ticks):
        own = [tick for tick in ticks if tick is not None]
        labels = _labels(group, own, columns.notes)
        options = {label: tick.name for label, tick in zip(labels, own, strict=True)}
        if len(own) == 1 and own[0].style == "text":
            reason = "the only option of its question, so blank counts as not selected, even if it was not asked"
            return MultiSelect(columns=options, blank="unticked"), f"a guess: {reason}"
        pairs = [(_Part(tick.name, group.name, label), tick) for tick, label in zip(own, labels, strict=True)]
        heads = f"{group.name} {group.title}"
        if _are_options(heads, pairs, has_text):
            selects = _TEXT["select"].search(unaccented(heads.casefold()))
            n_marks = np.sum([tick.chosen for tick in own], axis=0)
            n_one, n_several = (n_marks > 0).sum(), (n_marks > 1).sum()
            if not selects and n_several <= _TWICE * n_one and n_one >= len(own):
                choice = _choice(group, own, labels)
                if exclusive(own) or choice.column.has_order:  # options of boxes are no scale
                    return choice
            styles = {tick.style for tick in own}
            what = "yes or no" if "yes" in styles else "with a single text" if "text" in styles else "a box to tick"
            reason = f"{heading}{' that says to select' if selects else ''}, each {what}"
            if "yes" not in styles and n_several > _SEVERAL * n_one:
                reason = f"{reason.removeprefix('a guess: ')}, often several in a row"
            return MultiSelect(columns=options), reason
    return _ranks(group, columns, heading)


def _labels(group: ColumnGroup, ticks: Sequence[_Tick], notes: Mapping[str, Note]) -> list[str]:
    """The label of each column: the text of its cells, or what its title or name has that others have not."""
    titles = [notes.get(tick.name, Note()).title for tick in ticks]
    rests = [label for _, label in group.members]
    if all(titles) and len(set(titles)) == len(titles) and len(titles) > 1:
        cut = _shared(titles, _TEXT["bracket"])
        ends = [title[cut:].strip().rstrip("])") for title in titles]
        rests = ends if cut and all(ends) else titles if all(rest.isdecimal() or not rest for rest in rests) else rests
    # Cells may repeat the label, or the whole name of the column.
    return [
        rest if rest and _plain(tick.text) in ("", _plain(rest), _plain(tick.name)) else tick.text or _label(tick.name)
        for tick, rest in zip(ticks, rests, strict=True)
    ]


def _shared(titles: Sequence[str], separator: re.Pattern[str]) -> int:
    """Characters up to the last separator of the beginning that all titles share."""
    stem = commonprefix(list(titles))  # noqa: RUF071  (by letters)
    return max((match.end() for match in separator.finditer(stem)), default=0)


def _choice(group: ColumnGroup, ticks: Sequence[_Tick], labels: Sequence[str]) -> Decision:
    """Exclusive columns as one question, of the type that their labels in one column would have."""
    table = np.stack([tick.chosen for tick in ticks], axis=1)
    twice = bool((table.sum(axis=1) > 1).any())
    rows = np.concatenate([np.flatnonzero(table.sum(axis=1) == 1), np.zeros(len(labels), np.intp)])
    which = table[rows].argmax(axis=1)
    which[-len(labels) :] = np.arange(len(labels))  # each label occurs, also if nobody chose it
    values = np.asarray([*labels, None], object)[:-1][which]
    cells = Cells(group.title or group.name, values, np.zeros(len(values), bool), np.arange(len(values)))
    decided = guess(cells, False, Note(title=cells.name))
    column = decided.column
    if not column.is_one_label or all(label.isdecimal() for label in labels):  # codes have no order that is known
        column = Categorical(tuple(labels))
        decided = Decision(column, f"{len(labels)} different texts without a known order")
    if column.kind == "categorical" and set(column.labels) <= set(labels):
        column = Categorical(tuple(label for label in labels if label in column.labels), missing=column.missing)
    settings: Any = {"columns": {label: tick.name for label, tick in zip(labels, ticks, strict=True)}, "recode": ()}
    column = replace(column, unseen="missing" if twice else "error", **settings)
    more = ", a guess: rows with two marks count as missing" if twice else ""
    reason = f"{len(labels)} exclusive columns, of which each row has at most one{more}; {decided.reason}"
    return decided._replace(column=column, reason=reason, otherwise=decided.otherwise or "MultiSelect")


def _ranks(group: ColumnGroup, columns: GroupedColumns, heading: str) -> tuple[Column, str] | None:
    parts = {name: columns.read(name) for name, _ in group.members}
    if any(part.values.dtype.kind not in "iuf" for part in parts.values()):
        return None
    ranks = np.stack([np.where(each.missing, np.nan, each.values.astype(float)) for each in parts.values()], axis=1)
    given = ranks[~np.isnan(ranks)]
    are_places = len(parts) > 1 and np.isin(given, range(1, len(parts) + 1)).all() and not _twice(ranks).any()
    if not are_places or given.max(initial=0.0) <= 2:
        return None
    titles = [columns.notes.get(name, Note()).title for name in parts]
    options = {option: column for column, option in group.members}
    if all(titles) and all(option.isdecimal() for option in options):
        cut = _shared(titles, _TEXT["dash"])
        options = {title[cut:].strip(): name for title, name in zip(titles, parts, strict=True)}
    if len(options) < len(parts):
        return None
    return Ranking(ranks=options), f"{heading}, with different ranks in each row"


def _codes(cells: Iterable[Cells], items: Iterable[Any]) -> IntArray:
    """The place of the item in each cell: [row, column], −1 if it is missing or none of them."""
    place = {item: at for at, item in enumerate(items)}
    read = [each.factorise() for each in cells]
    codes = [np.asarray([*(place.get(whole(value), -1) for value in each), -1], np.int32)[own] for each, own in read]
    return np.stack(codes, axis=1)


def _are_places(cells: Sequence[Cells]) -> bool:
    """Whether items repeat within a row much less than by chance, and the columns share their items."""
    for each in cells:
        answers = each.values[~each.missing]
        if answers.dtype.kind == "O" and not all(isinstance(value, (str, int, float)) for value in answers):
            return False
    items = dict.fromkeys(whole(value) for each in cells for value in each.factorise()[0])
    if not 2 < len(items) <= _MOST_ITEMS:
        return False
    expected = repeated = 0.0
    for one, two in combinations(_codes(cells, items).T, 2):
        both = (one >= 0) & (two >= 0)
        if not both.any():
            continue
        shares = [np.bincount(each[both], minlength=len(items)) / both.sum() for each in (one, two)]
        expected += float(both.sum() * (shares[0] * shares[1]).sum())
        repeated += float((one == two)[both].sum())
    return expected >= _FEWEST_ROWS / 2 and repeated <= _BY_CHANCE * expected


def _twice(table: Any) -> BoolArray:
    """Which rows contain a number twice: [row]."""
    found: BoolArray = (np.diff(np.sort(table, axis=1), axis=1) == 0).any(axis=1)
    return found


def _places(notes: Mapping[str, Note]) -> Iterator[ColumnGroup]:
    """Columns whose titles differ only in "1st", "2nd", "3rd", and whose value labels are the same."""
    runs: dict[tuple[str, Any], list[tuple[int, str]]] = {}
    for name, note in notes.items():
        mark = _mark(note.title, _TEXT["place"])
        if mark is not None and len(note.names) > 2:
            place, before, after = mark
            # The question number may change too: "Q56pt1.", "Q56pt2."
            stem = re.sub(r"^\w+[.:)]\s*", "", f"{before}…{after}").casefold()
            runs.setdefault((stem, frozenset(text for _, text in note.names)), []).append((place, name))
    for members in runs.values():
        members.sort()
        if len(members) > 1 and [place for place, _ in members] == list(range(1, len(members) + 1)):
            names = [name for _, name in members]
            stem = commonprefix(names).rstrip(" _.-")  # noqa: RUF071  (by letters)
            pairs = tuple((name, str(place)) for place, name in members)
            yield ColumnGroup(stem or "places", "places", pairs, title=notes[names[0]].title)


def _items(parts: Mapping[str, Cells], notes: Mapping[str, Note]) -> tuple[list[Any], dict[Any, str], dict[Any, str]]:
    """Options that occur in any of the columns, their labels, and the missing codes."""
    items: dict[Any, None] = {}
    names: dict[Any, str] = {}
    missing: dict[Any, str] = {}
    for name, part in parts.items():
        found = sort_codes(part.factorise()[0], notes.get(name, Note()))
        items |= dict.fromkeys(found.answers)
        names |= found.named
        missing |= found.missing
    ordered = sorted((item for item in items if item not in missing), key=lambda item: (isinstance(item, str), item))
    return ordered, {item: names[item] for item in ordered if names.get(item)}, missing
