"""Names of questions that people can read: short, different, and without the words that a whole grid shares.

Idea: "How often do you: Pray in public (…)" is the stem of a grid and an item; the item is the name. A text that is too
long loses what says least (remarks, articles, the middle). Where two grids share items, words of the stems follow.
Guarantees one name per column of at most `MOST` characters, no two of which are equal.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import groupby
from string import Template
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from thurbo.table.columns.column import Column

MOST = 40  # characters of a name
_TAG = 13  # characters of the words that tell two grids apart
_TAIL = 0.6  # most of a shortened text that is taken from its end
_EVEN = 0.25  # characters that are given up for each one by which the two ends differ less in length
_FEWEST_LEVELS = 3  # of neighbours that are a grid without a common stem

_WORDS = tomllib.loads(files(__package__).joinpath("naming.toml").read_text("utf-8"))
_CODE, _NUMBER, _INSTRUCTION, _MARKUP, _SEPARATOR, _COMPARES = map(re.compile, _WORDS["parts"].values())
_DANGLING = frozenset(f"{_WORDS['auxiliary']} {_WORDS['dangling']}".split())
_ONE_OF = {name: "|".join(_WORDS[name].split()) for name in ("auxiliary", "in_front")}
_STEPS, _OF_QUESTIONS = (
    [(re.compile(Template(pattern).safe_substitute(_ONE_OF), re.IGNORECASE), instead) for pattern, instead in steps]
    for steps in _WORDS["steps"].values()
)


class _Question(NamedTuple):
    """A text in two parts; without a stem it is all item."""

    item: str
    stem: str = ""


def full_text(name: str, titles: Mapping[str, str]) -> str:
    """The name of a column and the text of its question."""
    title = " ".join(titles.get(name, "").split())
    return f"{name}: {title}" if title and title != name else name


def display_names(names: Sequence[str], titles: Mapping[str, str], most: int = MOST) -> dict[str, str]:
    """A different name of at most `most` characters for each of these columns."""
    parts = _divided(_texts(names, titles))
    tags = _tags(parts)

    def shown(name: str, is_item: bool) -> str:
        item, tag = parts[name].item, tags.get(parts[name].stem, "")
        text = fitted(item, most - len(tag) - 3, is_item) + f" ({tag})" if tag else fitted(item, most, is_item)
        return text if text == _spaced(name) else capital(text)  # a name stays as people know it

    found = {name: shown(name, bool(own.stem)) for name, own in parts.items()}
    for same in _equal(found):
        found |= {name: shown(name, False) for name in same}
    for same in _equal(found):  # what differs between their texts
        words = [f"{parts[name].stem} {parts[name].item}".split() for name in same]
        n_shared = next((k for k, each in enumerate(zip(*words, strict=False)) if len(set(each)) > 1), 0)
        for name, own_words in zip(same, words, strict=True):
            found[name] = capital(both_ends(" ".join(own_words[n_shared:] or own_words), most))
    for same in _equal(found):
        for number, name in enumerate(same, start=1):
            mark = f" ({name if len(name) <= _TAG else number})"
            found[name] = clipped(found[name], most - len(mark)) + mark
    taken = set[str]()
    for name, text in found.items():  # "A (2)" may itself be the name of a column
        number = 1
        while found[name].casefold() in taken:
            number += 1
            found[name] = f"{clipped(text, most - 4 - len(str(number)))} ({number})"
        taken.add(found[name].casefold())
    return found


def by_code(names: Sequence[str], titles: Mapping[str, str]) -> list[str]:
    """Columns that are called by a code such as "q7_2", without a text."""
    return [name for name in names if not titles.get(name) and re.search(r"\d", name) and _CODE.fullmatch(name)]


def grids(columns: Mapping[str, Column], titles: Mapping[str, str]) -> dict[str, int]:
    """The number of the grid of each column that is in one: the same answers, and a common stem or place."""
    full, held = {name: titles.get(name, name) for name in columns}, defaultdict[object, list[str]](list)
    parts, shared = _divided(_texts(list(columns), titles)), Counter(full.values())
    for place, (answers, run) in enumerate(groupby(columns, lambda name: _answers(columns[name]))):
        for name in run if answers else ():
            code = re.sub(r"[_.-]?\d+[a-z]?$", "", name) if _CODE.fullmatch(name) else ""
            stem = parts[name].stem or (full[name] if shared[full[name]] > 1 else "")
            if not stem and re.search(r"\d", code):  # q25_1 and q25_2
                held[code].append(name)
            elif answers[0] == "items" or stem or len(answers) > _FEWEST_LEVELS:
                held[answers, "" if answers[0] == "items" else stem or place].append(name)
    return {name: number for number, same in enumerate(held.values()) if len(same) > 1 for name in same}


def _answers(column: Column) -> tuple[str, ...]:
    """The answers of a question with one answer, or the items of one with several."""
    if column.is_one_label:
        return (column.kind, *map(str, column.labels))
    return ("items", *sorted(map(str, column.labels))) if column.labels and not column.is_listed else ()


def without_stem(labels: Sequence[str]) -> tuple[str, ...]:
    """Labels without the words before a colon or a dash that all of them begin with."""
    parts = _divided({label: label for label in labels}).values()
    return tuple(own.item for own in parts) if len({own.stem for own in parts}) == 1 < len(parts) else tuple(labels)


def _texts(names: Sequence[str], titles: Mapping[str, str]) -> dict[str, str]:
    """The text of each column to shorten: its name if people can read it, and otherwise the title."""
    flat = {name: _without_number(name, titles.get(name, "")) for name in names}
    groups = defaultdict[str, list[str]](list)
    for name in names:
        groups[flat[name] or name].append(name)
    found = dict[str, str]()
    for name, title in flat.items():
        own, same, is_code = _spaced(name), groups[title], bool(_CODE.fullmatch(name))
        is_item = len(same) > 1 and 2 * sum(bool(_CODE.fullmatch(each)) for each in same) < len(same)
        has_words = not is_code and _are_words(own, title) and own.casefold() != title.casefold()
        found[name] = own if not title or is_item or has_words else title
        if found[name] != own or len(own) > MOST:
            found[name] = _INSTRUCTION.sub("", found[name]).strip(" :-–") or found[name]
    return found


def _spaced(name: str) -> str:
    """The name of a column with spaces in the place of underscores and markup."""
    return " ".join(re.sub(r"_(?=\D)", " ", _MARKUP.sub(" ", name)).split()) or "column"


def _without_number(name: str, title: str) -> str:
    """The text of a question without markup, and without the number or the name of the column in front of it."""
    flat = " ".join(_MARKUP.sub(" ", title).split())
    own = rf"{re.escape(name)}|{re.escape(name).replace('_', '[-_. ]')}"
    return re.sub(rf"^(?:{own})\s*[.):-]\s*(?=\S)", "", _NUMBER.sub("", flat), flags=re.IGNORECASE)


def _are_words(name: str, title: str) -> bool:
    """Whether a name consists of words of its title, or of their first letters."""
    words = re.findall(r"\w+", title.casefold())
    return all(any(word.startswith(part) for word in words) for part in re.findall(r"\w+", name.casefold()))


def _divided(texts: Mapping[str, str]) -> dict[str, _Question]:
    """The stem that other columns share, and the item, of each text."""
    places = {name: list(_SEPARATOR.finditer(text)) for name, text in texts.items()}
    heads = Counter(texts[name][: place.end()] for name, own in places.items() for place in own)
    # Exports with the item in front have a long tail in common; "Other (please specify)" is short.
    tails = Counter(
        texts[name][place.start() :]
        for name, own in places.items()
        for place in own
        if len(texts[name]) - place.end() > place.start()
    )
    found = dict[str, _Question]()
    for name, text in texts.items():
        ends = [place.end() for place in places[name] if heads[text[: place.end()]] > 1 and text[place.end() :]]
        starts = [place.start() for place in places[name] if tails[text[place.start() :]] > 1 and place.start()]
        item, stem = text, ""
        if ends:
            item, stem = text[ends[-1] :], text[: ends[-1]]
        elif starts:
            item, stem = text[: starts[0]], text[starts[0] :]
        own = _Question(*(part.strip(" :-–—|[]") for part in (item, stem)))
        found[name] = own if stem and own.item else _Question(text)
    return found


def _tags(parts: Mapping[str, _Question]) -> dict[str, str]:
    """Words for each stem that shares an item with another one, by stem: the first that the others do not have."""
    stems = defaultdict[str, set[str]](set)
    for own in parts.values():
        stems[own.item.casefold()].add(own.stem)
    rivals = defaultdict[str, set[str]](set)
    for same in stems.values():
        for stem in same:
            rivals[stem] |= same - {stem}
    found = dict[str, str]()
    for stem, others in rivals.items():
        taken = {_bare(word) for other in others for word in other.split()}
        words = stem.split()
        first = next((k for k, word in enumerate(words) if _bare(word) not in taken | _DANGLING), None)
        if others and stem and first is not None:
            n_words = sum(len(" ".join(words[first : k + 1])) <= _TAG for k in range(first, len(words)))
            found[stem] = _without_end(words[first : first + n_words]) or words[first][:_TAG]
    return found


def _equal(names: Mapping[str, str]) -> Iterator[list[str]]:
    groups = defaultdict[str, list[str]](list)
    for name, text in names.items():
        groups[text.casefold()].append(name)
    return (each for each in groups.values() if len(each) > 1)


def capital(text: str) -> str:
    """A text that begins with a capital letter."""
    return text[:1].upper() + text[1:]


def fitted(text: str, most: int, is_item: bool = False) -> str:
    """A text of at most `most` characters: without what says least, then without its middle.

    Items differ at their beginning, which is kept in their own words; questions differ at their end, too.
    """
    for pattern, instead in _STEPS if is_item else _STEPS + _OF_QUESTIONS:
        while len(text) > most:
            shorter = " ".join(pattern.sub(instead, text, count=1).split())
            if shorter == text or len(shorter.split()) < 2:
                break
            text = capital(shorter)
    return clipped(text, most) if is_item else both_ends(text, most)


def both_ends(text: str, most: int) -> str:
    """The first and the last words of a text: the questions of a battery often differ at the end."""
    words, best, most_said = text.split(), "", 0.0
    if len(text) <= most:
        return text
    for start in range(len(words) - 1, 0, -1):
        tail = " ".join(words[start:])
        if len(tail) > _TAIL * most:
            break
        room = most - len(tail) - 3
        head = _without_end(clipped(text, room + 2).rstrip("…").split()) if room > 0 else ""
        if _bare(words[start]) not in _DANGLING and text.startswith(f"{head} ") and head and len(head) <= room:
            said = len(head) + len(tail) - _EVEN * abs(len(head) - len(tail))
            best, most_said = (f"{head} … {tail}", said) if said > most_said else (best, most_said)
    return best or clipped(text, most)


def clipped(text: str, most: int) -> str:
    """The beginning of a text in whole words."""
    flat = " ".join(text.split())
    if len(flat) <= most:
        return flat
    head = flat[: most - 1]
    if " " in head[most // 2 :]:
        head = head.rpartition(" ")[0]
    return _without_end(head.split(" ")) + "…"


def from_level(text: str, word: str) -> str:
    """A level and all on one side of it: "at least often"; "at least ‘18 to 29’" where the level compares itself."""
    return f"{word} ‘{text}’" if _COMPARES.search(text) else f"{word} {text}"


def _bare(word: str) -> str:
    return word.strip(",.:;?!()\"'").casefold()


def _without_end(words: Sequence[str]) -> str:
    """Words without those at the end that would dangle, and without the last punctuation."""
    while len(words) > 1 and _bare(words[-1]) in _DANGLING:
        words = words[:-1]
    return " ".join(words).rstrip(" ,;:.-")
