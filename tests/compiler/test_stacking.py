"""Arrays put together of parts: scans that are unrolled, concatenations computed in place."""

from __future__ import annotations

from typing import Any

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neff.compiler.record import Record
from neff.program import EngineLoop, Program
from neff.timing import estimate
from tests.compiler.compiling import TARGETS, check

pytestmark = pytest.mark.jax

Array = np.ndarray[Any, Any]
FEW_EXAMPLES = hypothesis.settings(max_examples=4, deadline=None)


def some(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *shape)).normal(size=shape).astype(np.float32)


def copies(record: Record) -> int:
    return sum(name in ("copy", "move") for unit in record.units for name in unit.kernels)


def loops(program: Program) -> int:
    return sum(
        isinstance(step, EngineLoop)
        for graph in program.subgraphs
        for steps in graph.engines.values()
        for step in steps
    )


def scanned(state: Any, xs: Any, reverse: bool = False) -> Any:
    def turn(state: Any, x: Any) -> Any:
        state = jnp.tanh(state * 0.9 + x)
        return state, (state, state * 2)

    return jax.lax.scan(turn, state, xs, reverse=reverse)


@hypothesis.given(
    st.integers(2, 70), st.integers(1, 140), st.integers(1, 60), st.booleans(),
    st.sampled_from(TARGETS),
)  # fmt: skip
@FEW_EXAMPLES
def test_scans_that_stack(
    iterations: int, rows: int, width: int, reverse: bool, target: str
) -> None:
    arrays = some(rows, width), some(iterations, rows, width)
    check(lambda s, x: scanned(s, x, reverse), *arrays, target=target, tolerance=1e-5)


@pytest.mark.parametrize(("iterations", "looped"), [(150, 0), (1000, 1)])
def test_small_turns_are_unrolled_up_to_a_limit(iterations: int, looped: int) -> None:
    program = check(scanned, some(4, 8), some(iterations, 4, 8), tolerance=1e-4)
    assert bool(loops(program)) == looped


def test_what_an_unrolled_scan_stacks_is_written_once() -> None:
    record = Record()
    program = check(scanned, some(64, 32), some(40, 64, 32), tolerance=1e-5, record=record)
    assert copies(record) == 1  # the last state is a result by itself too
    assert estimate(program).total.value < 40 * 5_000


@hypothesis.given(
    st.lists(st.integers(1, 40), min_size=1, max_size=4), st.integers(1, 150), st.integers(0, 1)
)
@FEW_EXAMPLES
def test_concatenations_of_what_units_compute(sizes: list[int], width: int, axis: int) -> None:
    arrays = [some(*((n, width) if axis == 0 else (width, n)), seed=n) for n in sizes]

    def function(*xs: Any) -> Any:
        parts = [jnp.tanh(x) * k for k, x in enumerate(xs, 1)]
        joined = jnp.concatenate([*parts, xs[0], parts[0]], axis)
        return joined, joined * 2, parts[0], jnp.concatenate([parts[-1], parts[-1]], axis)

    check(function, *arrays)


@hypothesis.given(st.integers(32, 100), st.integers(2, 90), st.sampled_from(TARGETS))
@FEW_EXAMPLES
def test_parts_of_rows_and_updates_of_the_whole(rows: int, width: int, target: str) -> None:
    def function(x: Any, y: Any) -> Any:
        soft, exponential = jax.nn.softmax(x), jnp.exp(y)
        joined = jnp.concatenate([soft, exponential])
        changed = jax.lax.dynamic_update_slice(joined, y[:1] + 1, (3, 0))
        return changed, soft - 1, jnp.stack([exponential, soft])

    check(function, some(rows, width), some(rows, width, seed=1), target=target, tolerance=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "int32", "bool", "bfloat16"])
def test_parts_of_other_types(dtype: str) -> None:
    def function(x: Any, y: Any) -> Any:
        parts = [(x > 0).astype(dtype), (y > 1).astype(dtype), (x * y > 0).astype(dtype)]
        return jnp.concatenate(parts), jnp.stack(parts)

    check(function, some(20, 9), some(20, 9, seed=1))


def test_a_branch_or_loop_does_not_write_over_a_part() -> None:
    def function(x: Any, n: Any) -> Any:
        tanh, exponential = jnp.tanh(x), jnp.exp(x)
        joined = jnp.concatenate([tanh, exponential])

        def turn(_: Any, state: Any) -> Any:
            return state.at[0].add(1.0)

        return jax.lax.fori_loop(0, n, turn, joined), tanh + 1, exponential + 1, joined

    check(function, some(16, 12), np.int32(5), tolerance=1e-5)
