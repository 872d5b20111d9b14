"""The benchmark of floors: work is counted right, and every hot path runs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.floor_paths import PATHS, Sizes
from benchmarks.floor_work import SPECIAL, Product, Work, floor, traced

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


def test_a_batch_of_products_is_one():
    found = traced(lambda a, b: jnp.einsum("rik,rk->ri", a, b), jnp.ones((6, 4, 3)), jnp.ones((6, 3)))
    assert sum(found.products.values()) == 1
    assert found.flops == 2 * 6 * 4 * 3


def test_every_kind_of_work_takes_time():
    work = traced(lambda a: a @ a.T, jnp.ones((4, 3)))
    work.copies[100], work.bits[10] = 1, 2
    for name in SPECIAL:
        work.special[name, 50] = 3
    found = floor(work, 1)
    assert set(found) == {"products", "copies", "random bits", *SPECIAL}
    assert all(each.wall > 0 and each.cpu >= 0 for each in found.values())
    assert all(each.wall == 0 for each in floor(Work(), 1).values())


@pytest.mark.parametrize("name", ["probit", "ais"])
def test_paths_run(name):
    path = PATHS[name][0](TINY._replace(n_factors=0))
    assert path.work.flops > 0
    assert path.work.special
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(path.run()) if leaf.dtype == jnp.float32)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(PATHS) - {"probit", "ais"}))
def test_other_paths_run(name):
    path = PATHS[name][0](TINY)
    assert path.work.flops > 0
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(path.run()) if leaf.dtype == jnp.float32)
