"""§8 Attributes of items: known features f_i that enter the parameters of an item, α_i = a_i + B f_i.

Numbers are standardised; texts and booleans become one feature for each level. NumPy only.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from thurbo.columns.cells import FloatArray, is_label, listing, plain, show, suggestion
from thurbo.errors import SchemaError

Pairs = tuple[tuple[Any, tuple[tuple[str, Any], ...]], ...]  # ((item, ((attribute, value), ...)), ...)


class Attribute(NamedTuple):
    """One attribute: its levels, or the mean and standard deviation of its numbers."""

    name: str
    levels: tuple[Any, ...] = ()
    location: float = 0.0
    scale: float = 1.0

    @property
    def features(self) -> tuple[str, ...]:
        """Names of its features: one for each level, or one for a number."""
        return tuple(f"{self.name}: {level}" for level in self.levels) or (self.name,)


class Coding(NamedTuple):
    """How attributes become features, learned from the items of the training table."""

    attributes: tuple[Attribute, ...]

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(name for each in self.attributes for name in each.features)

    def matrix(self, pairs: Pairs) -> FloatArray:
        """Features of items, [item, feature]; a missing value is the mean."""
        parts = []
        for each in self.attributes:
            values = [dict(own).get(each.name) for _, own in pairs]
            if not each.levels:
                numbers = np.asarray([np.nan if value is None else float(value) for value in values])
                parts.append(np.nan_to_num((numbers - each.location) / each.scale)[:, None])
                continue
            for (item, _), value in zip(pairs, values, strict=True):
                if value is not None and value not in each.levels:
                    remedy = f"{suggestion(value, each.levels)}the levels are {listing(each.levels)}"
                    raise SchemaError(
                        f"item {show(item)}: {each.name} = {show(value)} was not in the training table", remedy=remedy
                    )
            parts.append(np.asarray([[float(value == level) for level in each.levels] for value in values]))
        if not parts:
            return np.zeros((len(pairs), 0))
        return np.concatenate([part.reshape(len(pairs), -1) for part in parts], axis=1)


def as_pairs(given: Any) -> Pairs:
    """Attributes as given, {item: {attribute: value}} or pairs of these, as tuples of plain values."""
    found = []
    for item, own in given.items() if isinstance(given, Mapping) else given:
        values = own.items() if isinstance(own, Mapping) else own
        try:
            kept = tuple((str(name), _value(item, name, value)) for name, value in values)
        except (TypeError, ValueError):
            problem = f"the attributes of item {show(item)} are {show(own)}"
            raise SchemaError(problem, remedy='give {"item": {"attribute": value}}') from None
        found.append((plain(item), kept))
    return tuple(found)


def _value(item: Any, name: Any, value: Any) -> Any:
    value = plain(value)
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return None
    if not is_label(value):
        raise SchemaError(
            f"item {show(item)}: {name} = {show(value)} is not a number or a text", remedy="give one value"
        )
    return value


def coding_of(pairs: Pairs) -> Coding:
    """The coding of the attributes of some items: numbers standardised, other values by level."""
    names = dict.fromkeys(name for _, own in pairs for name, _ in own)
    found = []
    for name in names:
        values = [value for _, own in pairs for each, value in own if each == name and value is not None]
        if values and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
            numbers = np.asarray(values, np.float64)
            found.append(Attribute(name, (), float(numbers.mean()), float(numbers.std()) or 1.0))
        else:
            levels = sorted(set(values), key=lambda value: (isinstance(value, str), str(value)))
            found.append(Attribute(name, tuple(levels)))
    return Coding(tuple(found))


class Design(NamedTuple):
    """The attributes of a column's items as features: [item, feature], and how others are coded."""

    coding: Coding
    matrix: FloatArray
    constants: bool  # whether items have parameters of their own, beside those of their attributes


def design_of(labels: tuple[Any, ...], pairs: Pairs, constants: bool) -> Design:
    """The design of a column's items; an item without attributes has the mean of all others."""
    known = dict(pairs)
    coding = coding_of(pairs)
    every = coding.matrix(tuple((label, known.get(label, ())) for label in labels))
    has = np.asarray([label in known for label in labels], bool)
    if has.any() and not has.all():
        every[~has] = every[has].mean(axis=0)
    return Design(coding, every, constants)


@lru_cache(maxsize=64)
def known_design(labels: tuple[Any, ...], pairs: Pairs, constants: bool) -> Design:
    """`design_of`, kept for columns that ask for it often."""
    return design_of(labels, pairs, constants)


def check_items(pairs: Pairs, items: tuple[Any, ...] | None) -> None:
    """Refuse attributes of items that do not exist."""
    if items is None:
        return
    for item, _ in pairs:
        if item not in items:
            raise SchemaError(f"attributes are given for {show(item)}, which is not an item", remedy="remove it")
