"""Gather, scatter and slices with runtime starts against JAX on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.compiling import TARGETS, check

pytestmark = pytest.mark.jax


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def indices(limit: int, *shape: int, dtype: object = np.int32) -> np.ndarray:
    return np.random.default_rng(5).integers(-2, limit + 2, shape).astype(dtype)


@pytest.mark.parametrize("target", TARGETS)
def test_rows_of_a_table(target: str) -> None:
    import jax.numpy as jnp

    def function(table, rows):
        return (
            table[rows],
            jnp.take(table, rows, axis=0),
            jnp.take(table, rows, axis=1),
            table.T[rows],
        )

    check(function, floats(20, 17), indices(15, 6), target=target)


def test_gathers_of_many_shapes() -> None:
    import jax.numpy as jnp

    def function(x, i, j):
        return (
            x[i, j], x[:, i], x[:, :, j], x[i, :, j], x[i[:, None], j[None, :]],
            jnp.take_along_axis(x, i[:, None, None] % 3, axis=2), x[i.reshape(2, 2), 1],
        )  # fmt: skip

    check(function, floats(4, 5, 6), indices(2, 4) % 4, indices(3, 4) % 5)


def test_many_rows_and_long_rows() -> None:
    check(lambda x, i: x[i], floats(300, 40), indices(290, 500))
    check(lambda x, i: x[i], floats(7, 9000), indices(6, 3))


@pytest.mark.parametrize("target", TARGETS)
def test_slices_that_start_at_run_time(target: str) -> None:
    from jax import lax

    def function(x, update, i):
        return (
            lax.dynamic_slice(x, (i[0], i[1]), (3, 4)),
            lax.dynamic_update_slice(x, update, (i[1], i[2])),
            lax.dynamic_slice(x.T, (i[3], i[0]), (5, 2)) + 1,
        )

    for start in (0, 1, 5, 100, -3):
        moved = np.array([start, 2, 9, 1], np.int32)
        check(function, floats(8, 10), floats(2, 3, seed=1), moved, target=target)


def test_scatters() -> None:
    def function(x, rows, i, j):
        return (
            x.at[i].add(rows), x.at[i].set(2.5), x.at[i].max(rows), x.at[i, j].add(1.0),
            x.at[:, j].multiply(0.5), x.at[i[0]].set(rows[0]),
        )  # fmt: skip

    i, j = np.array([3, 1, 3, 9], np.int32), np.array([0, 4, 2, 2], np.int32)
    check(function, floats(10, 6), floats(4, 6, seed=1), i, j, tolerance=1e-5)


def test_updates_outside_are_left_out() -> None:
    import jax

    modes = jax.lax.GatherScatterMode.FILL_OR_DROP
    check(
        lambda x, i: (x.at[i].add(1.0, mode=modes), x.at[i].set(7.0, mode="drop")),
        floats(6, 5), np.array([0, 6, 100, 3, 3], np.int32),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32"])
def test_integer_scatter_wraps_around(dtype: str) -> None:
    info = np.iinfo(dtype)
    values = np.random.default_rng(0).integers(info.min, info.max, (9, 4), dtype=dtype)
    check(lambda x, i: (x.at[i].add(x[i]), x.at[i].min(1)), values, np.array([1, 1, 8], np.int32))


def test_gradient_of_an_embedding() -> None:
    import jax
    import jax.numpy as jnp

    def loss(table, weights, tokens):
        return jnp.sum((table[tokens] @ weights) ** 2)

    tokens = np.random.default_rng(0).integers(0, 30, (3, 7)).astype(np.int32)
    check(
        lambda table, weights, tokens: jax.value_and_grad(loss, (0, 1))(table, weights, tokens),
        floats(30, 12), floats(12, 5, seed=1), tokens, tolerance=1e-4,
    )  # fmt: skip


def test_batched_gather_and_scatter() -> None:
    import jax

    def pick(x, i):
        return x[i]

    def put(x, i):
        return x.at[i].add(2.0)

    check(
        lambda x, i: (jax.vmap(pick)(x, i), jax.vmap(put)(x, i)),
        floats(5, 8), np.array([0, 3, 7, 7, 2], np.int32),
    )  # fmt: skip
