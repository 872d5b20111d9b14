"""§5 Training of which items a list has: a random part of each list is shown, and predicts all other items.

Idea: Adam maximises Σ log P(item is in the list, or is not | shown items) over all items that are not shown. The
number of shown items is uniform, from none to all, so that short and long lists are both predicted. Catalogues of up to
`MOST_ITEMS` are products of dense matrices, rows × items. In larger ones each batch has the items of its own lists and
a random sample of the others, weighted to stand for all of them: the sum over items is unbiased, and its products do
not grow with the catalogue.
Promises the same parameters for the same lists and seed; other parameters of the model do not depend on it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.special import ndtri

from thurbo import parallel
from thurbo._typing import Array, Float, Int, PerRow
from thurbo.errors import ConvergenceWarning
from thurbo.fit.course import Told
from thurbo.fit.fitting import Data
from thurbo.fit.planning import FitSettings
from thurbo.latent import truncnorm
from thurbo.latent.rbm import Presence
from thurbo.predict.answers import given_items

N_HIDDEN = 400
MOST_ITEMS = 8192  # of which each batch has all
BATCH, RATE = 256, 1e-3
LEAST_BATCH, FEWEST_BATCHES = 16, 12  # smaller batches of few rows
START, SCALE = 0.05, 4.0  # standard deviation of weights, and scale of what is shown, at the beginning
EPOCHS, PATIENCE = 200, 5  # most epochs, and those without a better prediction of held-out lists before training ends
HELD_OUT, MOST_HELD_OUT = 0.05, 2000  # share and number of lists that are held out to see it
N_MEMBERS = 3  # whose probabilities are averaged
SHARE_OF_TIME = 0.25  # of `max_time`
HIDDEN, SHOWN = 1, 2  # codes of an item of a list


class Coordinates(NamedTuple):
    """What the optimiser moves: units are centred at ½, and the scale is positive."""

    bias: Float[Array, " site"]
    weights: Float[Array, "site hidden"]
    hidden_bias: Float[Array, " hidden"]
    length: Float[Array, ""]
    log_scale: Float[Array, ""]

    def parameters(self) -> Presence:
        """The parameters of the model: W (2h − 1) is 2 W h with another bias."""
        own = self.bias - self.weights.sum(axis=1), 2.0 * self.weights
        return Presence(*own, self.hidden_bias, self.length, jnp.exp(self.log_scale))

    def of(self, items: Int[Array, " some"] | None) -> Coordinates:
        """The coordinates of some items, or of all."""
        return self if items is None else self._replace(bias=self.bias[items], weights=self.weights[items])

    def put(self, items: Int[Array, " some"] | None, new: Coordinates) -> Coordinates:
        """With new coordinates of some items, or of all."""
        if items is None:
            return new
        by_item = self.bias.at[items].set(new.bias), self.weights.at[items].set(new.weights)
        return Coordinates(*by_item, *new[2:])


class Batch(NamedTuple):
    """Some lists as a table: `code` is 0, HIDDEN or SHOWN. In large catalogues the columns are only some `items`, each
    of which stands for `counts` items."""

    code: Int[Array, "row some"]
    weight: PerRow
    items: Int[Array, " some"] | None
    counts: Float[Array, " some"] | None


class Lists(NamedTuple):
    """The items of all lists that have any, and the weights of these rows."""

    start: np.ndarray
    item: np.ndarray
    weight: np.ndarray
    n_items: int

    def batch(self, rows: np.ndarray, rng: np.random.Generator, size: int) -> Batch:
        """Some lists, of each of which a random number of random items is shown; filled up with rows of weight 0."""
        length = self.start[rows + 1] - self.start[rows]
        row = np.repeat(np.arange(len(rows)), length)
        place = np.arange(len(row)) - np.repeat(np.cumsum(length) - length, length)
        item = self.item[np.repeat(self.start[rows], length) + place]
        n_shown = rng.integers(0, length + 1)
        order = np.lexsort((rng.random(len(row)), row))  # a random order of each list, whose first items are shown
        code = np.empty(len(row), np.uint8)
        code[order] = np.where(place < n_shown[row], SHOWN, HIDDEN)
        items = counts = None
        column, width = item, self.n_items
        if self.n_items > MOST_ITEMS:
            items, counts, column = _some_items(item, self.n_items, rng)
            width = len(items)
        table, weight = np.zeros((size, width), np.uint8), np.zeros(size, np.float32)
        table[row, column], weight[: len(rows)] = code, self.weight[rows]
        return Batch(*jax.device_put((table, weight, items, counts)))

    def batches(self, rows: np.ndarray, rng: np.random.Generator, size: int = BATCH) -> Iterator[Batch]:
        """Batches of equal shape."""
        for begin in range(0, len(rows), size):
            yield self.batch(rows[begin : begin + size], rng, size)


def _some_items(item: np.ndarray, n_items: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct items of some lists and at least as many others, how many items each of them stands for, and the
    column of each entry."""
    own, column = np.unique(item, return_inverse=True)
    width = min(1 << int(2 * len(own)).bit_length(), n_items)  # few widths, so few programs
    others = np.setdiff1d(np.arange(n_items), own, assume_unique=True)
    drawn = rng.choice(others, width - len(own), replace=False)
    each = len(others) / max(len(drawn), 1)
    counts = np.concatenate([np.ones(len(own)), np.full(len(drawn), each)]).astype(np.float32)
    return np.concatenate([own, drawn]).astype(np.int32), counts, column


def log_likelihood(found: Presence, batch: Batch) -> PerRow:
    """Σ over items that are not shown: log P(item is in the list, or is not | shown items)."""
    shown = batch.code == SHOWN
    given = shown.astype(found.weights.dtype)
    mean = found.means(given @ found.weights, given.sum(axis=1))
    half_line = truncnorm.log_mass(jnp.where(batch.code == HIDDEN, mean, -mean), 0.0, jnp.inf, half=True)
    value = jnp.where(shown, 0.0, half_line)
    return (value if batch.counts is None else value * batch.counts[None, :]).sum(axis=1)


def _loss(coordinates: Coordinates, batch: Batch) -> Float[Array, ""]:
    """Minus the mean log-likelihood of a list."""
    value = log_likelihood(coordinates.parameters(), batch)
    return -(batch.weight * value).sum() / jnp.maximum(batch.weight.sum(), 1e-12)


_RULE = optax.adam(RATE)


@partial(jax.jit, donate_argnums=(0, 1))
def _step(coordinates: Coordinates, state: Any, batch: Batch) -> tuple[Coordinates, Any]:
    """One step of Adam on the items of a batch."""
    moments, rest = state
    own = coordinates.of(batch.items)
    slope = jax.grad(_loss)(own, batch)
    with jax.numpy_dtype_promotion("standard"):  # optax mixes counts and floats
        before = moments._replace(mu=moments.mu.of(batch.items), nu=moments.nu.of(batch.items))
        change, (after, rest) = _RULE.update(slope, (before, rest))
    both = moments.mu.put(batch.items, after.mu), moments.nu.put(batch.items, after.nu)
    new = optax.apply_updates(own, change)
    return coordinates.put(batch.items, new), (after._replace(mu=both[0], nu=both[1]), rest)


@jax.jit
def _score(coordinates: Coordinates, batch: Batch) -> Float[Array, ""]:
    """The weighted sum of the log-likelihoods of some lists."""
    return -_loss(coordinates.of(batch.items), batch) * batch.weight.sum()


def _start(lists: Lists, rng: np.random.Generator) -> Coordinates:
    """Small random weights around the share of lists that have each item."""
    row = np.repeat(np.arange(len(lists.weight)), np.diff(lists.start))
    total = float(lists.weight.sum()) + 1.0
    share = (np.bincount(lists.item, lists.weight[row], lists.n_items) + 0.5) / (total + 1.0)
    n_hidden = min(N_HIDDEN, lists.n_items)
    weights = START * rng.standard_normal((lists.n_items, n_hidden), np.float32)
    zero = np.zeros(n_hidden, np.float32)
    found = ndtri(share).astype(np.float32), weights, zero, np.float32(0), np.float32(np.log(SCALE))
    return Coordinates(*map(jnp.array, found))


def copied(coordinates: Coordinates) -> Presence:
    """The parameters, in arrays that the next step does not overwrite."""
    return jax.tree.map(jnp.copy, coordinates.parameters())


def train(
    lists: Lists, seed: int, epochs: int, until: float | None, on_epoch: Told, name: str = ""
) -> tuple[Presence, bool]:
    """The parameters with the best prediction of held-out lists, after at most so many epochs, or until a time; and
    whether there is time for more."""
    rng = np.random.default_rng(seed)
    coordinates = _start(lists, rng)
    best = copied(coordinates._replace(weights=jnp.zeros_like(coordinates.weights)))  # before training: popularity
    state, n_rows = _RULE.init(coordinates), len(lists.weight)
    order = rng.permutation(n_rows)
    n_held = min(int(HELD_OUT * n_rows), MOST_HELD_OUT)
    held, rows = order[:n_held], order[n_held:]
    size = int(np.clip(len(rows) // FEWEST_BATCHES, LEAST_BATCH, BATCH))
    score, last = -np.inf, 0
    try:
        for number in range(epochs if n_rows else 0):
            on_epoch({"stage": "choices", "done": number, "of": epochs, "figure": f"which items {name}"})
            for batch in lists.batches(rng.permutation(rows), rng, size):
                coordinates, state = _step(coordinates, state, batch)
            fixed = np.random.default_rng(seed)  # the same items are hidden each time
            now = sum(float(_score(coordinates, batch)) for batch in lists.batches(held, fixed)) if n_held else number
            if now > score:
                best, score, last = copied(coordinates), now, number
            if until is not None and time.perf_counter() >= until:
                return best, False
            if number - last >= PATIENCE:
                break
    except KeyboardInterrupt:
        problem = f"training of which items {name} was interrupted"
        warnings.warn(f"{problem}; the best parameters so far are used", ConvergenceWarning, stacklevel=2)
        return best, False
    return best, True


def settings_beside(chosen: FitSettings, data: Data) -> FitSettings:
    """The settings of the members, which leave a part of the time, and learn nothing if rows only have items."""
    schema = data.schema
    if not schema.with_presence:
        return chosen
    if not any(schema[name].form.scorable(data.blocks[name]).any() for name in schema.modelled):
        return replace(chosen, members=1, max_epochs=0)
    return chosen if chosen.max_time is None else replace(chosen, max_time=(1 - SHARE_OF_TIME) * float(chosen.max_time))


def fit(
    chosen: FitSettings, data: Data, seed: int, until: float | None, is_complete: bool, on_epoch: Told
) -> dict[str, tuple[Presence, ...]]:
    """The members of all columns that model which items they have; one without training if the fit is not complete."""
    epochs = EPOCHS if chosen.max_epochs == "auto" else min(EPOCHS, int(chosen.max_epochs))
    epochs = epochs if is_complete else 0
    found = {}
    for name in data.schema.with_presence:
        own, _ = given_items(data.blocks[name])
        length = np.diff(own.start)
        rows = np.flatnonzero(length)
        start = np.concatenate([[0], np.cumsum(length[rows])])
        lists = Lists(start, own.site, data.relative_weight[rows], len(data.schema[name].labels))
        members, goes_on = list[Presence](), True
        while goes_on and len(members) < (N_MEMBERS if epochs else 1):
            what = f"{name} has, {len(members) + 1} of {N_MEMBERS}"
            one, goes_on = train(lists, seed + len(members), epochs, until, on_epoch, what)
            goes_on = bool(parallel.told(goes_on)[0])  # all processes keep those of the first one
            members.append(parallel.agreed(one))
        found[name] = tuple(members)
    return found
