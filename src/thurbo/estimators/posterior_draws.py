"""§8 Members of a population that are draws of the parameters of a list from their posterior distribution.

The sampler (`fit.two_sided`) works in a thread of its own while other members are trained: first without the
held-out answers, which weigh the draws against the other members, then with all answers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from thurbo._concurrency import cached_property
from thurbo.fit import members, two_sided
from thurbo.fit.fitting import Data
from thurbo.fit.two_sided import Draw, ListedEntries, Sampler
from thurbo.latent.rbm import Params
from thurbo.predict.model import MemberSettings

LEAST_ENTRIES = 2000  # below which nothing is drawn
TO_WEIGH = 8  # draws that held-out answers weigh
AGAIN = 10  # sweeps with all answers before the first draw that is kept
HALF = 0.5  # share of a time limit after which sampling ends
MEMBER = MemberSettings(0, two_sided.N_FACTORS, 0.0, is_draw=True)


def column(chosen: Mapping[str, Any], data: Data) -> str | None:
    """The list whose parameters can be drawn: the only list of a table, if its scores are levels.

    There must be enough entries, equal weights of all rows, and sizes that the user has not chosen.
    """
    is_free = chosen["n_hidden"] == chosen["n_factors"] == "auto" and chosen["max_epochs"] != 0
    if not is_free or len(data.schema.listed) != 1:
        return None
    (name,) = data.schema.listed
    own, entries = data.schema[name], data.blocks[name].entries
    is_able = own.family == "levels" and not own.has_tasks and own.learning_settings.get("draws", 0) > 0
    is_enough = entries is not None and len(entries.site) >= LEAST_ENTRIES and bool((data.relative_weight == 1).all())
    return name if is_able and is_enough else None


class Drawing:
    """A sampler at work; `first` are draws without the held-out answers, `last` those with all answers."""

    def __init__(self, chosen: Mapping[str, Any], data: Data, name: str, hidden: np.ndarray, seed: int) -> None:
        self.chosen, self.data, self.name = chosen, data, name
        block = data.blocks[name]
        assert block.entries is not None
        own = data.schema[name]
        known = block.code[:, 0] >= 0
        numbers = block.entries.n_rows, len(own.labels), own.n_cuts + 1
        lines = (block.entries.row, block.entries.site, block.code[:, 0], block.code_high[:, 0])
        row, item, low, high = (np.asarray(each)[known].astype(np.int64) for each in lines)
        order = np.lexsort((item, row))
        self.entries = ListedEntries(row[order], item[order], low[order], high[order], *numbers)
        shown = self.entries.without(hidden[known][order])
        self.seconds = None if chosen["max_time"] is None else HALF * float(chosen["max_time"])
        self.stopped, self.done, self.began = threading.Event(), 0, time.perf_counter()
        design = own.design
        self.sampler = Sampler(shown, None if design is None else design.matrix, bool(chosen["presence"]), seed)
        self.of = self.sampler.burn_in + TO_WEIGH * two_sided.BETWEEN
        self._pool = ThreadPoolExecutor(1)
        self._work: Future[list[Draw]] = self._pool.submit(self._run, TO_WEIGH, self.sampler.burn_in)

    def _run(self, n: int, burn_in: int) -> list[Draw]:
        found: list[Draw] = []
        for each in self.sampler.draws(n, burn_in):
            self.done += 1
            if each is not None:
                found.append(each)
            late = self.seconds is not None and time.perf_counter() - self.began > self.seconds
            if self.stopped.is_set() or late:
                break
        return found

    def _wait(self, on_epoch: Callable[[dict[str, Any]], None]) -> list[Params]:
        try:
            while True:
                figure = f"posterior draws of the parameters of {self.name}"
                on_epoch({"stage": "sampling", "done": self.done, "of": self.of, "figure": figure})
                try:
                    return [self._params(each) for each in self._work.result(timeout=1.0)]
                except TimeoutError:
                    continue
        except KeyboardInterrupt:
            self.stopped.set()
            return [self._params(each) for each in self._work.result()]

    def first(self, on_epoch: Callable[[dict[str, Any]], None]) -> list[Params]:
        """Draws without the held-out answers; fewer, or none, if the sampler had to stop."""
        return self._wait(on_epoch)

    def last(self, on_epoch: Callable[[dict[str, Any]], None]) -> list[Params]:
        """Draws with all answers; none if the sampler had to stop."""
        if self.stopped.is_set() or self.seconds is not None:
            return []
        self.sampler.observe(self.entries)
        n = int(self.data.schema[self.name].learning_settings["draws"])
        self.done, self.of = 0, AGAIN + n * two_sided.BETWEEN
        self._work = self._pool.submit(self._run, n, AGAIN)
        return self._wait(on_epoch)

    def stop(self) -> None:
        """End the sampler after its sweep."""
        self.stopped.set()
        self._pool.shutdown(wait=True)

    @cached_property
    def alone(self) -> Params:
        """The model without dependence, as large as a draw."""
        return members.independent(self.chosen, self.data, (0, two_sided.N_FACTORS))

    def _params(self, draw: Draw) -> Params:
        """The parameters of a model with factors only; other columns are independent of the list."""
        alone, where = self.alone, self.data.schema.slices[self.name]
        bias, loadings, cuts = (np.array(each) for each in (alone.site_bias, alone.loadings, alone.gauge.cuts))
        bias[where], loadings[where] = draw.bias, draw.loadings
        cuts[where, : len(draw.cuts)] = draw.cuts
        presence = np.zeros_like(loadings)
        presence[where] = draw.presence
        effects = None
        if alone.effects is not None:
            effects = np.zeros(alone.effects.shape, np.float32)
            effects[self.data.schema.effect_slices[self.name]] = draw.effects
        found = jax.device_put((bias, loadings, cuts.astype(np.float32), presence, effects))
        return alone._replace(
            site_bias=found[0],
            loadings=found[1],
            gauge=alone.gauge._replace(cuts=found[2]),
            presence=found[3] if self.chosen["presence"] else None,
            effects=found[4],
        )


def start(chosen: Mapping[str, Any], data: Data, masked: Mapping[str, np.ndarray], seed: int) -> Drawing | None:
    """A sampler, if the table has a list whose parameters can be drawn."""
    name = column(chosen, data)
    return None if name is None else Drawing(chosen, data, name, masked[name], seed)
