"""§3.2 Read and write PrefLib files of rankings: .soc .soi (strict), .toc .toi (with ties), complete and incomplete.

Idea: a header names the alternatives, and each line below is an order with its number of voters. The format used
before 2022 has another header and only commas; it is read too.
Guarantees that errors name the line, the value and the remedy.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from thurbo.columns.cells import listing, show
from thurbo.errors import ThurboError
from thurbo.io.files import write_atomically

KINDS = (".soc", ".soi", ".toc", ".toi")
_FIELD = re.compile(r"#\s*(?P<name>[A-Z][A-Z ]*?)(?:\s+(?P<number>\d+))?\s*:\s*(?P<value>.*)")
_PART = re.compile(r"\{[^{}]*\}|[^,{}]+")
# Counts in the header that must agree with the lines below.
_COUNTS = {"NUMBER VOTERS": "voters", "NUMBER UNIQUE ORDERS": "different orders"}


class Preferences(NamedTuple):
    """Alternatives, and rankings of them from best to worst with the number of voters of each."""

    items: tuple[str, ...]
    orders: tuple[tuple[tuple[str, ...], ...], ...]
    counts: tuple[int, ...]
    title: str = ""


def read_orders(path: str | os.PathLike[str]) -> Preferences:
    """Read the rankings of a PrefLib file."""
    from thurbo.io.text import decode

    kind = kind_of(path)
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise ThurboError(f'cannot read "{path}": there is no such file; check its name') from None
    except OSError as error:
        raise ThurboError(f'cannot read "{path}": {error.strerror or error}; check its name') from None
    text = decode(data, str(path))
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise ThurboError(f'cannot read "{path}": it is empty; copy it again')
    reader = _Reader(str(path), kind)
    return reader.new(lines) if lines[0][1].startswith("#") else reader.old(lines)


def kind_of(path: str | os.PathLike[str]) -> str:
    """The extension of a path; raises if it is not a PrefLib format of rankings."""
    suffix = Path(path).suffix.lower()
    if suffix not in KINDS:
        is_other_data = suffix in (".cat", ".wmd", ".tog", ".mjg", ".pwg")
        problem = "it has no rankings" if is_other_data else "it is not a PrefLib format of rankings"
        raise ThurboError(f'cannot use "{path}", "{suffix}": {problem}; use one of {" ".join(KINDS)}')
    return suffix


class _Reader:
    """Reads one file; knows its name for messages, and its kind."""

    def __init__(self, path: str, kind: str):
        self.path, self.kind = path, kind

    def refuse(self, line: int, problem: str, remedy: str) -> NoReturn:
        raise ThurboError(f'line {line} of "{self.path}": {problem}; {remedy}')

    def new(self, lines: Sequence[tuple[int, str]]) -> Preferences:
        """The current format: header lines "# NAME: value", and orders "count: 1,{2,3},4"."""
        fields: dict[str, tuple[int, str]] = {}
        names: dict[int, str] = {}
        body = [each for each in lines if not each[1].startswith("#")]
        for line, text in lines:
            match = _FIELD.match(text) if text.startswith("#") else None
            if match is None:
                continue  # an order, or a comment
            if match["name"] == "ALTERNATIVE NAME" and match["number"]:
                self._name(names, line, int(match["number"]), match["value"])
            elif not match["number"]:
                fields[match["name"]] = (line, match["value"])
        line, stated = fields.get("DATA TYPE", (1, ""))
        if stated and f".{stated.lower()}" in KINDS and f".{stated.lower()}" != self.kind:
            self.refuse(line, f'the data type "{stated}" does not match the extension {self.kind}', "rename the file")
        if "NUMBER ALTERNATIVES" in fields:
            line, stated = fields["NUMBER ALTERNATIVES"]
            wanted = self._whole(line, stated, "number of alternatives")
            for alternative in range(1, wanted + 1):
                names.setdefault(alternative, str(alternative))
            if len(names) != wanted:
                problem = f"the header says {wanted} alternatives but names {len(names)}"
                self.refuse(line, problem, "correct NUMBER ALTERNATIVES")
        if not names:
            self.refuse(1, "no alternative is named", 'add lines "# ALTERNATIVE NAME 1: ..."')
        stated_counts = [(*fields[name], what) for name, what in _COUNTS.items() if name in fields]
        return self._body(names, body, ":", stated_counts, fields.get("TITLE", (1, ""))[1])

    def old(self, lines: Sequence[tuple[int, str]]) -> Preferences:
        """The format before 2022: number of alternatives, names, a line of counts, and orders "count,1,{2,3},4"."""
        number, first = lines[0]
        n_items = self._whole(number, first, "number of alternatives")
        if len(lines) < n_items + 2:
            problem = f"the file ends after {len(lines)} lines, before all {n_items} alternatives are named"
            self.refuse(lines[-1][0], problem, "copy it again")
        names: dict[int, str] = {}
        for number, line in lines[1 : n_items + 1]:
            alternative, comma, name = line.partition(",")
            if not comma:
                self.refuse(number, f"{show(line)} is not an alternative", 'write its number and name, "1,Name"')
            self._name(names, number, self._whole(number, alternative, "number of an alternative"), name)
        number, line = lines[n_items + 1]
        counts = line.split(",")
        if len(counts) != 3:
            problem = f"{show(line)} does not hold three counts: voters, sum of votes and different orders"
            self.refuse(number, problem, f"check that the lines above name {n_items} alternatives")
        stated_counts = [(number, counts[1], "voters"), (number, counts[2], "different orders")]
        return self._body(names, lines[n_items + 2 :], ",", stated_counts, "")

    def _body(
        self,
        names: dict[int, str],
        lines: Sequence[tuple[int, str]],
        sign: str,
        stated_counts: Sequence[tuple[int, str, str]],
        title: str,
    ) -> Preferences:
        orders, counts = [], []
        items = _distinct(names)
        for number, line in lines:
            count, found, order = line.partition(sign)
            if not found:
                self.refuse(
                    number, f"{show(line)} is not an order", f'write the number of voters and the order, "3{sign} 1,2"'
                )
            counts.append(self._whole(number, count, "number of voters"))
            tiers = self._order(number, order, names)
            orders.append(tuple(tuple(items[each] for each in tier) for tier in tiers))
        if not orders:
            self.refuse(lines[-1][0] if lines else 1, "there are no orders below the header", "copy the file again")
        held = {"voters": sum(counts), "different orders": len(orders)}
        for number, stated, what in stated_counts:
            if self._whole(number, stated, f"number of {what}") != held[what]:
                problem = f"the header says {stated.strip()} {what}, but there are {held[what]}"
                self.refuse(number, problem, "copy the file again if it is truncated, or correct the number")
        return Preferences(tuple(items[each] for each in sorted(items)), tuple(orders), tuple(counts), title)

    def _order(self, number: int, text: str, names: dict[int, str]) -> Iterator[tuple[int, ...]]:
        """The tiers of one line, checked against the rules of the file format."""
        if _PART.sub("", text).strip(", ") or text.count("{") != text.count("}"):
            self.refuse(number, f"{show(text.strip())} is not an order", "write ties in braces, as in 1,{2,3},4")
        seen: set[int] = set()
        tiers = []
        for part in _PART.findall(text):
            tied = [each for each in part.strip(" {}").split(",") if each.strip()]
            tier = tuple(self._whole(number, each, "number of an alternative") for each in tied)
            for each in tier:
                if each not in names:
                    known = f"the alternatives are {listing(sorted(names))}"
                    self.refuse(number, f"alternative {each} is not named in the header", known)
                if each in seen:
                    self.refuse(number, f"alternative {each} is ranked twice", "name it once per line")
                seen.add(each)
            if len(tier) > 1 and self.kind in (".soc", ".soi"):
                self.refuse(
                    number, f"{part.strip()} is a tie", f"rename the file to .to{self.kind[-1]}, which allows ties"
                )
            if tier:
                tiers.append(tier)
        if not tiers:
            self.refuse(number, "the order is empty", "remove the line")
        if self.kind in (".soc", ".toc") and len(seen) < len(names):
            gone = listing(sorted(set(names) - seen))
            self.refuse(
                number,
                f"alternative {gone} is not ranked",
                f"rename the file to {self.kind[:-1]}i, which allows incomplete orders",
            )
        return iter(tiers)

    def _name(self, names: dict[int, str], line: int, number: int, name: str) -> None:
        if number in names:
            self.refuse(line, f"alternative {number} is named twice", "number alternatives from 1 without repeats")
        names[number] = " ".join(name.split()) or str(number)

    def _whole(self, line: int, text: str, what: str) -> int:
        if not text.strip().isascii() or not text.strip().isdigit():
            self.refuse(line, f"{show(text.strip())} is not a {what}", "write a whole number")
        return int(text)


def _distinct(names: dict[int, str]) -> dict[int, str]:
    """Unique names: alternatives with the same name get their number added."""
    held = Counter(names.values())
    return {number: name if held[name] == 1 else f"{name} ({number})" for number, name in names.items()}


def write_orders(path: str | os.PathLike[str], found: Preferences, rows: Sequence[object] | None = None) -> Path:
    """Write rankings in PrefLib's current format; equal ones are merged, the most frequent first.

    `rows` are row labels for messages. An order that the format cannot hold raises before anything is written.
    """
    kind, place = kind_of(path), {item: number for number, item in enumerate(found.items, 1)}
    count: dict[str, int] = {}
    for position, (order, number) in enumerate(zip(found.orders, found.counts, strict=True)):
        row = position if rows is None else rows[position]
        if kind in (".soc", ".soi") and any(len(tier) > 1 for tier in order):
            raise ThurboError(f"row {row}: {kind} files cannot hold ties; write .to{kind[-1]}")
        if kind in (".soc", ".toc") and sum(map(len, order)) < len(place):
            raise ThurboError(f"row {row}: {kind} files hold only complete orders; write {kind[:-1]}i")
        tiers = [",".join(map(str, sorted(place[item] for item in tier))) for tier in order]
        text = ",".join(f"{{{tier}}}" if "," in tier else tier for tier in tiers)
        count[text] = count.get(text, 0) + number
    lines = [
        f"# FILE NAME: {Path(path).name}",
        f"# TITLE: {' '.join(found.title.split())}",
        f"# DATA TYPE: {kind[1:]}",
        f"# NUMBER ALTERNATIVES: {len(place)}",
        f"# NUMBER VOTERS: {sum(count.values())}",
        f"# NUMBER UNIQUE ORDERS: {len(count)}",
        *(f"# ALTERNATIVE NAME {number}: {' '.join(item.split())}" for item, number in place.items()),
        *(f"{number}: {text}" for text, number in sorted(count.items(), key=lambda each: -each[1])),
    ]
    return write_atomically(path, "\n".join(lines) + "\n")
