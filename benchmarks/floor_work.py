"""What a computation cannot do without, itemised, and how long each item takes alone: for `benchmarks.floor`.

Products of matrices and random bits are read from the traced program, with the lengths of its loops. Copies and special
functions are counted by formulas (floor_paths.py), since a program may contain more of them than it needs.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thurbo.constraints.masses.choices import log_below

SPECIAL: dict[str, Callable[[Any], Any]] = {
    "log Φ and hazard": log_below,
    "exp": jnp.exp,
    "log": lambda x: jnp.log(jnp.abs(x) + 1e-3),
    "sigmoid": jax.nn.sigmoid,
}
AT_ONCE = 1 << 19  # numbers of one timed call, at least: a call costs some microseconds more than its work
MOST_CALLS = 64


class Product(NamedTuple):
    """`batch` products of matrices [rows, inner] and [inner, columns]."""

    batch: int
    rows: int
    inner: int
    columns: int

    @property
    def flops(self) -> int:
        return 2 * math.prod(self)


@dataclass
class Work:
    """Products by shape, random 32-bit words by call, numbers read and written once, evaluations by function."""

    products: Counter[Product] = field(default_factory=Counter)
    bits: Counter[int] = field(default_factory=Counter)
    copies: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    special: dict[tuple[str, int], float] = field(default_factory=lambda: defaultdict(float))

    @property
    def flops(self) -> int:
        """Operations of all products."""
        return sum(count * product.flops for product, count in self.products.items())


def traced(function: Callable[..., Any], *arguments: Any) -> Work:
    """The products and random bits of a function."""
    found = Work()
    _walk(jax.make_jaxpr(function)(*arguments).jaxpr, 1, found)
    return found


def _walk(jaxpr: Any, times: int, found: Work) -> None:
    for equation in jaxpr.eqns:
        name, given = equation.primitive.name, equation.params
        if name == "dot_general":
            found.products[_product(equation)] += times
        elif name == "random_bits":
            found.bits[math.prod(equation.outvars[0].aval.shape)] += times
        elif name == "cond":
            _walk(given["branches"][-1].jaxpr, times, found)
        else:
            inside = [getattr(each, "jaxpr", each) for each in given.values() if hasattr(each, "eqns") or _closed(each)]
            for each in inside:
                _walk(each, times * (given["length"] if name == "scan" else 1), found)


def _closed(value: Any) -> bool:
    return hasattr(value, "jaxpr") and hasattr(value.jaxpr, "eqns")


def _product(equation: Any) -> Product:
    (left_inner, _), (left_batch, _) = equation.params["dimension_numbers"]
    left, right = (each.aval.shape for each in equation.invars)
    inner = math.prod(left[axis] for axis in left_inner)
    batch = math.prod(left[axis] for axis in left_batch)
    size = max(inner * batch, 1)
    return Product(batch, math.prod(left) // size, inner, math.prod(right) // size)


class Seconds(NamedTuple):
    """Wall-clock and processor seconds (of all threads)."""

    wall: float
    cpu: float

    def __add__(self, other: Seconds) -> Seconds:  # type: ignore[override]
        return Seconds(self.wall + other.wall, self.cpu + other.cpu)

    def times(self, by: float) -> Seconds:
        return Seconds(by * self.wall, by * self.cpu)


def timed(function: Callable[[], Any], repeats: int) -> Seconds:
    """The shortest of several runs after one that compiles; what else the machine does only adds."""
    jax.block_until_ready(function())
    found = []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        jax.block_until_ready(function())
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    return Seconds(*(min(each) for each in zip(*found, strict=True)))


def _calls(numbers: int) -> int:
    return int(np.clip(AT_ONCE // max(numbers, 1), 1, MOST_CALLS))


def floor(work: Work, repeats: int) -> dict[str, Seconds]:
    """Seconds of each kind of work, every shape timed alone."""
    rng = np.random.default_rng(0)

    def numbers(*shape: int) -> Any:
        return jnp.asarray(rng.normal(size=shape), jnp.float32)

    def each(counts: Mapping[Any, float], one: Callable[[Any], tuple[Callable[[], Any], int]]) -> Seconds:
        total = Seconds(0.0, 0.0)
        for what, count in counts.items():
            run, calls = one(what)
            total = total + timed(run, repeats).times(count / calls)
        return total

    def product(what: Product) -> tuple[Callable[[], Any], int]:
        calls = _calls(what.batch * (what.rows * what.inner + what.inner * what.columns + what.rows * what.columns))
        left, right = numbers(calls, what.batch, what.rows, what.inner), numbers(what.batch, what.inner, what.columns)
        many = jax.jit(lambda a, b: jax.lax.map(lambda one: one @ b, a))
        return lambda: many(left, right), calls

    def bits(n: int) -> tuple[Callable[[], Any], int]:
        calls = _calls(n)
        keys = jax.random.split(jax.random.key(0), calls)
        many = jax.jit(lambda keys: jax.lax.map(lambda key: jax.random.bits(key, (n,)), keys))
        return lambda: many(keys), calls

    def over(function: Callable[[Any], Any], n: int) -> tuple[Callable[[], Any], int]:
        calls = _calls(n)
        values = numbers(calls, n)
        many = jax.jit(lambda values: jax.lax.map(function, values))
        return lambda: many(values), calls

    # Loops, or a vector of no length, are no work.
    products = {what: count for what, count in work.products.items() if what.flops}
    return {
        "products": each(products, product),
        "copies": each(work.copies, lambda n: over(lambda x: x + 1.0, n)),
        "random bits": each({n: count for n, count in work.bits.items() if n}, bits),
        **{
            name: each(
                {n: count for (own, n), count in work.special.items() if own == name},
                lambda n, name=name: over(SPECIAL[name], n),  # type: ignore[misc]
            )
            for name in sorted({name for name, _ in work.special})
        },
    }
