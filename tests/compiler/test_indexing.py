"""Gather, scatter and slices with runtime starts against JAX on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from neff.compiler.assembly.verify import verify
from neff.program import EngineLoop, Program
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


def _steps(steps: list[Any]) -> int:
    return sum(1 + (_steps(step.body) if isinstance(step, EngineLoop) else 0) for step in steps)


def _written(program: Program) -> int:
    """Steps of the engines' programs; those of a loop once."""
    return sum(_steps(rows) for graph in program.subgraphs for rows in graph.engines.values())


def _drawn(seed: int, low: int, high: int, *shape: int) -> Any:
    return np.random.default_rng(seed).integers(low, high, shape).astype(np.int32)


@pytest.mark.parametrize(
    ("count", "width"), [(129, 1), (1001, 33), (100_003, 1), (5003, 700), (9001, 2049), (260, 5000)]
)
def test_many_indices_are_turns_of_a_loop(count: int, width: int) -> None:
    """A hundred thousand were 4,800 steps, each with the whole table to look at in the schedule."""
    table, indices = floats(30, width), _drawn(count, -3, 34, count)
    program = check(lambda x, i: x.at[i].get(mode="clip"), table, indices)
    verify(program)
    assert _written(program) < 600


@pytest.mark.parametrize("method", ["set", "add"])
@pytest.mark.parametrize(("count", "width"), [(64, 5), (65, 1), (1000, 3), (3001, 1), (97, 5000)])
def test_many_updates_are_turns_of_a_loop(method: str, count: int, width: int) -> None:
    import jax.numpy as jnp

    values = jnp.round(9 * floats(count, width, seed=1))  # sums are exact in every order
    program = check(
        lambda x, i, u: getattr(x.at[i], method)(u, mode="drop"), jnp.round(9 * floats(5000, width)),
        _drawn(count, -9, 5100, count), values,
    )  # fmt: skip
    verify(program)
    assert _written(program) < 1500


def test_updates_in_any_order_of_dimensions_and_in_loops() -> None:
    import jax

    i, j = _drawn(0, 0, 9, 13, 21), _drawn(1, 0, 40, 13, 21)
    check(lambda x, i, j, u: x.at[i, :, j].max(u), floats(9, 70, 40), i, j, floats(13, 21, 70))
    check(
        lambda x, i, u: x.at[:, i].multiply(u),
        floats(50, 90),
        _drawn(2, 0, 90, 201),
        floats(50, 201),
    )
    check(
        lambda x, i, u: jax.lax.fori_loop(0, 600, lambda k, x: x.at[i].max(u + x[i + k]), x),
        floats(2000), _drawn(3, 0, 900, 100), floats(100),
    )  # fmt: skip
