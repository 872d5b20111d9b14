"""What a computation cannot do without: its products of matrices, its random bits, and copies and functions by element.

Products and random bits are found in its traced form, so that those of gradients are counted too. All items of a kind
are timed in one compiled program that repeats them, as often as the computation does, in a loop whose length is an
argument: what starting a program and turning an empty loop take is subtracted.
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
from jax import lax

from thurbo import _runtime
from thurbo.latent.masses.boundaries import log_below

SPECIAL: dict[str, Callable[[Any], Any]] = {
    "log Φ and hazard": log_below,
    "exp": jnp.exp,
    "log": lambda x: jnp.log(jnp.abs(x) + 1e-3),
    "sigmoid": jax.nn.sigmoid,
}
LANES = 8  # calls of one turn of an inner loop: on a GPU a turn starts a kernel for the counter too
SECONDS = 0.06  # of one measurement, about
MOST_TURNS = 4096


class Product(NamedTuple):
    """`batch` products of matrices [rows, inner] and [inner, columns], `precise` if in full float32 on a GPU too."""

    batch: int
    rows: int
    inner: int
    columns: int
    precise: bool = False

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.rows * self.inner * self.columns


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


def traced(function: Callable[..., Any], *arguments: Any, turns: int = 1) -> Work:
    """The products and random bits of a function; loops whose length is known only when they run have `turns`."""
    found = Work()
    _walk(jax.make_jaxpr(function)(*arguments).jaxpr, 1, turns, found)
    return found


def _walk(jaxpr: Any, times: int, turns: int, found: Work) -> None:
    for equation in jaxpr.eqns:
        name, given = equation.primitive.name, equation.params
        if name == "dot_general":
            found.products[_product(equation)] += times
        elif name == "random_bits":
            found.bits[math.prod(equation.outvars[0].aval.shape)] += times
        elif name == "cond":
            _walk(given["branches"][-1].jaxpr, times, turns, found)
        else:
            inside = [getattr(each, "jaxpr", each) for each in given.values() if hasattr(each, "eqns") or _closed(each)]
            often = given["length"] if name == "scan" else turns if name == "while" else 1
            for each in inside:
                _walk(each, times * often, turns, found)


def _closed(value: Any) -> bool:
    return hasattr(value, "jaxpr") and hasattr(value.jaxpr, "eqns")


def _product(equation: Any) -> Product:
    (left_inner, _), (left_batch, _) = equation.params["dimension_numbers"]
    left, right = (each.aval.shape for each in equation.invars)
    inner = math.prod(left[axis] for axis in left_inner)
    batch = math.prod(left[axis] for axis in left_batch)
    size, precision = max(inner * batch, 1), equation.params["precision"]
    precise = precision is not None and lax.Precision.HIGHEST in np.ravel(precision)
    return Product(batch, math.prod(left) // size, inner, math.prod(right) // size, bool(precise))


class Seconds(NamedTuple):
    """Wall-clock and processor seconds (of all threads)."""

    wall: float
    cpu: float

    def __add__(self, other: Seconds) -> Seconds:  # type: ignore[override]
        return Seconds(self.wall + other.wall, self.cpu + other.cpu)

    def less(self, other: Seconds) -> Seconds:
        return Seconds(max(self.wall - other.wall, 0.0), max(self.cpu - other.cpu, 0.0))

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


def options() -> dict[str, Any] | None:
    """How programs are compiled: on a GPU as the library compiles its own."""
    return None if jax.default_backend() == "cpu" else _runtime.RUNS_ON_GPU


class Call(NamedTuple):
    """A function of arrays that a program repeats; an input of its own for each lane, the rest shared."""

    function: Callable[..., Any]
    own: tuple[Any, ...]
    shared: tuple[Any, ...]
    count: int


def _call(function: Callable[..., Any], own: Callable[[], Any], shared: tuple[Any, ...], count: int) -> Call:
    return Call(function, tuple(own() for _ in range(min(count, LANES))), shared, count)


def _repeated(call: Call, turn: Any, kept: tuple[Any, Any]) -> tuple[Any, tuple[Any, Any]]:
    """The call as often as it counts: whole turns of all lanes, and the rest.

    Every result is part of the state of the loop, so that none can be dropped.
    """

    def lanes(own: tuple[Any, ...], turn: Any) -> tuple[Any, Any]:
        fresh = []
        for each in own:
            # Inputs pass a barrier together with a counter: for the compiler they change from turn to turn.
            each, shared, turn = lax.optimization_barrier((each, call.shared, turn))
            fresh.append(call.function(each, *shared))
            turn = turn + 1
        return turn, tuple(fresh)

    n_turns, rest = divmod(call.count, len(call.own))
    turn, many = lax.fori_loop(0, n_turns, lambda _, so_far: lanes(call.own, so_far[0]), (turn, kept[0]))
    turn, few = lanes(call.own[:rest], turn)
    return turn, (many, few)


class Repeated(NamedTuple):
    """A compiled program that makes the calls so many times."""

    run: Callable[[int], Any]

    @classmethod
    def of(cls, calls: list[Call]) -> Repeated:
        def program(n: Any, inputs: list[tuple[Any, Any]]) -> Any:
            given = [call._replace(own=own, shared=shared) for call, (own, shared) in zip(calls, inputs, strict=True)]

            def body(_: Any, so_far: Any) -> Any:
                turn, kept = so_far
                turn, fresh = lax.optimization_barrier(turn) + 1, []  # without calls, an empty loop that is not dropped
                for call, own in zip(given, kept, strict=True):
                    turn, found = _repeated(call, turn, own)
                    fresh.append(found)
                return turn, fresh

            shapes = [tuple(jax.eval_shape(call.function, own, *call.shared) for own in call.own) for call in given]
            few = [own[: call.count % len(call.own)] for call, own in zip(given, shapes, strict=True)]
            empty = jax.tree.map(lambda like: jnp.zeros(like.shape, like.dtype), list(zip(shapes, few, strict=True)))
            return lax.fori_loop(0, n, body, (jnp.zeros((), jnp.int32), empty))

        inputs = [(call.own, call.shared) for call in calls]
        compiled = jax.jit(program, compiler_options=options()).lower(jnp.int32(1), inputs).compile()
        return cls(lambda n: compiled(jnp.int32(n), inputs))

    def seconds(self, repeats: int) -> Seconds:
        """Of one turn, without starting the program."""
        nothing = timed(lambda: self.run(0), repeats)
        n, is_cpu = 1, jax.default_backend() == "cpu"
        while n < MOST_TURNS:  # until it takes long enough, by the clock that other work does not move
            took = timed(lambda n=n: self.run(n), 1).less(nothing)  # type: ignore[misc]
            if (took.cpu if is_cpu else took.wall) > SECONDS / 4:
                break
            n *= 4
        return timed(lambda: self.run(n), repeats).less(nothing).times(1 / n)


def _whole(counts: Mapping[int, float]) -> list[tuple[int, int]]:
    """Numbers of elements and whole numbers of calls: a share of a call is a call of fewer elements."""
    found = [(n * count / math.ceil(count), math.ceil(count)) for n, count in counts.items() if n and count]
    return [(max(round(n), 1), count) for n, count in found]


def programs(work: Work) -> dict[str, Repeated | None]:
    """A compiled program for each kind of work; None where there is none."""
    rng = np.random.default_rng(0)

    def numbers(*shape: int) -> Any:
        return jnp.asarray(rng.standard_normal(shape, np.float32))

    def product(what: Product, count: int) -> Call:
        precision = lax.Precision.HIGHEST if what.precise else None
        function = lambda left, right: jnp.matmul(left, right, precision=precision)  # noqa: E731
        right = numbers(what.batch, what.inner, what.columns)
        return _call(function, lambda: numbers(what.batch, what.rows, what.inner), (right,), count)

    def bits(n: int, count: int) -> Call:
        key = lambda: jax.random.key_data(jax.random.key(rng.integers(1 << 30)))  # noqa: E731
        return _call(lambda data: jax.random.bits(jax.random.wrap_key_data(data), (n,)), key, (), count)

    def over(function: Callable[[Any], Any], counts: Mapping[int, float]) -> list[Call]:
        return [_call(function, lambda n=n: numbers(n), (), count) for n, count in _whole(counts)]  # type: ignore[misc]

    # Loops, or a vector of no length, are no work.
    kinds = {
        "products": [product(what, count) for what, count in work.products.items() if what.flops],
        "copies": over(lambda x: x + 1.0, work.copies),
        "random bits": [bits(n, count) for n, count in work.bits.items() if n],
    }
    for name in sorted({name for name, _ in work.special}):
        kinds[name] = over(SPECIAL[name], {n: count for (own, n), count in work.special.items() if own == name})
    return {name: Repeated.of(calls) if calls else None for name, calls in kinds.items()}


def floor(kinds: Mapping[str, Repeated | None], repeats: int) -> dict[str, Seconds]:
    """Seconds of each kind of work, without those of an empty loop."""
    empty, none = Repeated.of([]).seconds(repeats), Seconds(0.0, 0.0)
    return {name: none if each is None else each.seconds(repeats).less(empty) for name, each in kinds.items()}
