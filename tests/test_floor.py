"""The benchmark of floors: work is counted right, and every hot path runs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.floor import measure, prepared
from benchmarks.floor_paths import PATHS, Sizes
from benchmarks.floor_work import LANES, SPECIAL, Product, Repeated, Work, _call, _whole, floor, programs, traced

TINY = Sizes(8, 4, 3, 2)


def test_products_and_bits_are_counted_with_loops_and_gradients():
    x, w = jnp.ones((5, 3)), jnp.ones((3, 3))

    def loss(w):
        end, _ = jax.lax.scan(lambda x, _: (x @ w, None), x, None, length=4)
        return end.sum() + jax.random.uniform(jax.random.key(0), (7,)).sum()

    forward = traced(loss, w)
    assert forward.products == {Product(1, 5, 3, 3): 4}
    assert forward.bits == {7: 1}
    assert forward.flops == 4 * 2 * 5 * 3 * 3
    assert traced(jax.grad(loss), w).flops == 3 * forward.flops  # of each product, one for either operand


def test_loops_of_unknown_length_are_counted_by_their_turns():
    def often(n, x):
        return jax.lax.fori_loop(0, n, lambda _, x: jnp.matmul(x, x, precision="highest"), x)

    assert traced(often, 3, jnp.ones((2, 2)), turns=5).products == {Product(1, 2, 2, 2, True): 5}


def test_a_batch_of_products_is_one():
    found = traced(lambda a, b: jnp.einsum("rik,rk->ri", a, b), jnp.ones((6, 4, 3)), jnp.ones((6, 3)))
    assert sum(found.products.values()) == 1
    assert found.flops == 2 * 6 * 4 * 3


def test_shares_of_calls_are_calls_of_fewer_elements():
    assert _whole({100: 2.5, 7: 0.0, 0: 3.0, 40: 4.0}) == [(83, 3), (40, 4)]


@pytest.mark.parametrize("count", [1, LANES, LANES + 3, 2 * LANES + 1])
def test_a_program_makes_every_call_in_every_turn(count):
    seen = []

    def counted(x, y):
        jax.debug.callback(lambda: seen.append(1))
        return x @ y

    run = Repeated.of([_call(counted, lambda: jnp.ones((2, 3)), (jnp.ones((3, 4)),), count)]).run
    for turns in (0, 1, 3):
        seen.clear()
        turn, ((many, few),) = jax.block_until_ready(run(turns))
        jax.effects_barrier()
        assert len(seen) == turns * count
        assert int(turn) == turns * (count + 1)  # and one for the turn itself
        assert all((each == (3.0 if turns else 0.0)).all() for each in (*many, *few))


def test_every_kind_of_work_takes_time():
    work = traced(lambda a: a @ a.T, jnp.ones((64, 300)))
    work.copies[20_000], work.bits[1000] = 1, 2
    for name in SPECIAL:
        work.special[name, 5000] = 3
    found = floor(programs(work), 3)
    assert set(found) == {"products", "copies", "random bits", *SPECIAL}
    assert all(each.wall > 0 and each.cpu >= 0 for each in found.values())
    assert all(each.wall == 0 for each in floor(programs(Work()), 1).values())


def test_ten_times_the_work_takes_longer():
    """No product is hoisted out of the loops or dropped."""
    some, more = Work(), Work()
    some.products[Product(1, 64, 64, 64)], more.products[Product(1, 64, 64, 64)] = 13, 130
    few, many = (floor(programs(work), 5)["products"].cpu for work in (some, more))
    assert 3 * few < many


@pytest.mark.parametrize("name", ["probit", "ais"])
def test_paths_run(name):
    ready = prepared(name, TINY._replace(n_factors=0))
    path, found = ready.path, measure(ready, 1)
    assert found["ratio_wall"] > 0
    assert set(found["items_wall_ms"]) == set(ready.kinds)
    assert path.work.flops > 0
    assert path.work.special
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(path.run()) if leaf.dtype == jnp.float32)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(PATHS) - {"probit", "ais"}))
def test_other_paths_run(name):
    path = PATHS[name][0](TINY)
    assert path.work.flops > 0
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(path.run()) if leaf.dtype == jnp.float32)
