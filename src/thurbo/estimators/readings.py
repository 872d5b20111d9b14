"""§5 The table as members of a population read it, with and without the answers that weigh them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from thurbo.fit import members
from thurbo.fit.fitting import Data
from thurbo.latent import packing
from thurbo.latent.evidence import Buckets
from thurbo.predict.member import MemberQuery, without
from thurbo.predict.model import MemberSettings, Reading, encoding
from thurbo.predict.moments import How
from thurbo.table.columns import Block
from thurbo.table.io.frames import Table
from thurbo.table.schema import Schema


class Read(NamedTuple):
    """A table in one reading."""

    schema: Schema
    blocks: dict[str, Block]
    evidence: Buckets

    def hide(self, masked: Mapping[str, np.ndarray], unobserved: Any) -> Read:
        """The same without some answers. Also without any, so that it compiles to the same programs."""
        rest = without(self.schema, self.blocks, self.evidence, masked, unobserved, always=True)
        return self._replace(evidence=rest)


def read(
    wanted: Sequence[MemberSettings], table: Table, data: Data, informed: Schema, unobserved: Any
) -> dict[Reading, Read]:
    """The table as each member reads it; `data` is as it is given, and `informed` the schema with what was answered."""
    every: set[Reading] = {"given", *(each.reading for each in wanted)}
    schemas = {reading: encoding(informed if "missing" in reading else data.schema, reading, {}) for reading in every}
    schemas["given"] = data.schema

    def one(schema: Schema) -> Read:
        if schema is data.schema:
            return Read(schema, dict(data.blocks), data.evidence.on_host())
        blocks = schema.compile(table)
        names = packing.MergeLabels(schema.names, schema.site_names, schema.row_names(table))
        evidence = packing.pack(blocks.values(), unobserved, reading=names, most_widths=0)
        return Read(schema, blocks, evidence.on_host())

    return _for_each(one, schemas)


def hide(every: Mapping[Reading, Read], masked: Mapping[str, np.ndarray], unobserved: Any) -> dict[Reading, Read]:
    """All readings without some answers."""
    return _for_each(lambda own: own.hide(masked, unobserved), every)


def to_train(every: Mapping[Reading, Read], weight: np.ndarray) -> dict[Reading, Data]:
    """What members are trained on."""
    return {reading: Data(own.schema, own.blocks, own.evidence, weight) for reading, own in every.items()}


def _for_each(one: Callable[[Any], Read], every: Mapping[Reading, Any]) -> dict[Reading, Read]:
    return dict(zip(every, members.in_threads(one, every.values()), strict=True))


@contextmanager
def asked_ahead(
    chosen: Mapping[str, Any],
    wanted: Sequence[MemberSettings],
    read: Mapping[Reading, Read],
    data: Mapping[Reading, Data],
    how: How,
    on_epoch: Callable[[dict[str, Any]], None],
) -> Iterator[Callable[[dict[str, Any]], None]]:
    """What is told of epochs; after the first one, idle cores compile the programs of the first questions to members.

    They are asked with parameters of the same shape.
    """
    begun = False

    def ask(reading: Reading) -> None:
        question = MemberQuery(members.independent(chosen, data[reading], size(wanted)), *read[reading], how)
        question.known_about(question.evidence.rows(np.zeros(1, np.int64)))

    if data["given"].schema.listed or members.at_once(len(wanted)) >= members.n_cores():
        yield on_epoch
        return
    with ThreadPoolExecutor(len(read)) as pool:

        def told(record: dict[str, Any]) -> None:
            nonlocal begun
            if record["done"] and not begun:
                begun = True
                for reading in read:
                    pool.submit(ask, reading)
            on_epoch(record)

        yield told


def size(wanted: Sequence[MemberSettings]) -> tuple[int, int]:
    """Hidden units and factors of all members together, unused ones included."""
    return max(each.n_hidden for each in wanted), max(each.n_factors for each in wanted)
