"""Scatters that apply any elementwise computation, to one operand or several."""

from __future__ import annotations

from typing import Any

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo_tools
from neff.compiler import compile
from neff.compiler.record import Record
from tests.compiler.compiling import TARGETS, check, lowered, oracle, run

pytestmark = pytest.mark.jax

_METHODS = ["add", "subtract", "multiply", "divide", "min", "max", "set"]
_INDICES = np.array([1, 3, 3, 9, -2, 0], np.int32)


def _normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("method", _METHODS)
@hypothesis.settings(max_examples=3, deadline=None, derandomize=True)
@hypothesis.given(rows=st.integers(1, 7), columns=st.sampled_from([1, 5, 129]))
def test_methods(method: str, rows: int, columns: int) -> None:
    update = _normal(6, columns) + 2
    check(
        lambda x, i, u: getattr(x.at[i], method)(u), _normal(rows, columns), _INDICES, update
    )  # fmt: skip


def test_computations_of_one_operand_and_other_types() -> None:
    check(lambda x, i: x.at[i].apply(jnp.sin), _normal(6, 5), _INDICES)
    check(lambda x, i, u: x.at[i].subtract(u), *_small(np.int8))
    check(lambda x, i, u: x.at[i].max(u), *_small(np.uint16))
    check(lambda x, i, u: x.at[i].set(u), *_small(np.bool_))


def _small(dtype: Any) -> tuple[Any, ...]:
    return (_normal(6, 5) * 30).astype(dtype), _INDICES, (_normal(6, 5) * 90).astype(dtype)


_SEVERAL = """HloModule several
both {
  a = f32[] parameter(0)
  b = s32[] parameter(1)
  c = f32[] parameter(2)
  d = s32[] parameter(3)
  s = f32[] add(a, c)
  m = s32[] maximum(b, d)
  ROOT t = (f32[], s32[]) tuple(s, m)
}
ENTRY main {
  x = f32[4,8] parameter(0)
  y = s32[4,8] parameter(1)
  i = s32[3,1] parameter(2)
  u = f32[3,8] parameter(3)
  v = s32[3,8] parameter(4)
  ROOT r = (f32[4,8], s32[4,8]) scatter(x, y, i, u, v), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=both
}"""


def test_several_operands() -> None:
    module = hlo_tools.load(_SEVERAL.encode())
    indices = np.array([[1], [1], [7]], np.int32)
    integers = [(10 * _normal(*shape)).astype(np.int32) for shape in ((4, 8), (3, 8))]
    arrays = [_normal(4, 8), integers[0], indices, _normal(3, 8), integers[1]]
    results = run(compile(module, target="trn2"), arrays)
    for result, reference in zip(results, oracle(module, arrays), strict=True):
        np.testing.assert_allclose(result, reference, rtol=1e-6)


MANY = 300
KINDS = [np.float32, jnp.bfloat16, np.int32, np.uint32, np.int8]


def _drawn(seed: int, low: int, high: int, *shape: int) -> Any:
    return np.random.default_rng(seed).integers(low, high, shape, endpoint=True)


@pytest.mark.parametrize("method", ["add", "min", "max"])
@hypothesis.settings(max_examples=6, deadline=None)
@hypothesis.given(
    extents=st.tuples(st.integers(1, 9), st.integers(1, 5), st.integers(1, 4)),
    indexed=st.sampled_from([(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)]),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 99),
)
def test_many_updates_of_few_elements(
    method: str, extents: tuple[int, ...], indexed: tuple[int, ...], kind: Any, seed: int
) -> None:
    """Some indices lie outside; whole rows and single elements, in any dimensions."""
    base = _drawn(seed, -50, 50, *extents).astype(kind)
    positions = tuple(
        _drawn(seed + number, -extents[dim] - 2, extents[dim] + 1, MANY).astype(np.int32)
        for number, dim in enumerate(indexed)
    )

    def program(x: Any, u: Any, *numbers: Any) -> Any:
        index: list[Any] = [slice(None)] * 3
        for dim, number in zip(indexed, numbers, strict=True):
            index[dim] = number
        return getattr(x.at[tuple(index)], method)(u, mode="drop")

    shape = jnp.asarray(base)[tuple(positions[indexed.index(d)] if d in indexed else slice(None)
                                    for d in range(3))].shape  # fmt: skip
    # Whole numbers, small ones where precision is: sums are exact in every order.
    least, maximum = (0, 1) if kind == jnp.bfloat16 else (-60, 60)
    check(program, base, _drawn(seed + 9, least, maximum, *shape).astype(kind), *positions)


def test_updates_that_are_not_finite_stay_where_they_go() -> None:
    positions = _drawn(0, 0, 6, MANY).astype(np.int32)
    update = _normal(MANY)
    update[positions == 2], update[positions == 3] = np.nan, np.inf
    for method in ("add", "max"):
        check(lambda x, i, u, m=method: getattr(x.at[i], m)(u), _normal(9), positions, update)


def test_a_histogram_of_many_is_built_at_once() -> None:
    """A hundred thousand updates, one behind the other, were half a million instructions."""
    values = _drawn(0, 0, 99, 100_000).astype(np.int32)
    program = check(lambda x: jnp.bincount(x, length=100), values)
    steps = sum(len(rows) for graph in program.subgraphs for rows in graph.engines.values())
    assert steps < 5000


@hypothesis.settings(max_examples=5, deadline=None)
@hypothesis.given(
    method=st.sampled_from(["add", "multiply", "min", "max", "set"]),
    extents=st.tuples(st.integers(1, 140), st.integers(1, 40), st.integers(1, 5)),
    batch=st.permutations(range(3)).flatmap(lambda dims: st.integers(1, 2).map(lambda n: dims[:n])),
    turns=st.sampled_from([(), (3,), (2, 2)]),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 99),
)
def test_updates_of_each_row_of_a_batch(
    method: str, extents: tuple[int, ...], batch: list[int], turns: tuple[int, ...], kind: Any,
    seed: int,
) -> None:  # fmt: skip
    """Batch dimensions anywhere; indices of the first other one, some of them outside."""
    remaining = [extents[dim] for dim in range(3) if dim not in batch]
    base = _drawn(seed, -50, 50, *extents).astype(kind)
    rows = [extents[dim] for dim in batch]
    positions = _drawn(seed + 1, -2, remaining[0] + 1, *rows, *turns).astype(np.int32)
    updates = _drawn(seed + 2, -4, 4, *rows, *turns, *remaining[1:]).astype(kind)

    def scatter_row(x: Any, i: Any, u: Any) -> Any:
        return getattr(x.at[i], method)(u, mode="drop", wrap_negative_indices=False)

    program, left = scatter_row, list(range(3))
    axes: list[int] = []
    for dim in batch:
        axes.append(left.index(dim))
        left.remove(dim)
    for axis in reversed(axes):
        program = jax.vmap(program, in_axes=(axis, 0, 0), out_axes=axis)
    if method == "set":  # of several updates of an element any may stay
        updates = np.broadcast_to(updates.reshape(*rows, -1)[..., :1].reshape(
            *rows, *(1 for _ in (*turns, *remaining[1:]))), updates.shape)  # fmt: skip
    record = Record()
    check(program, base, positions, updates, record=record)
    assert "scatter-by-rows" in {rewrite.rule for rewrite in record.rewrites}


def test_updates_of_rows_change_nothing_else() -> None:
    base, update = _normal(9, 40), _normal(9, 1)
    base[:, 1], base[2, 2], base[3, 3] = -0.0, np.nan, np.inf
    update[4], update[5] = np.nan, -np.inf
    positions = _drawn(3, 0, 39, 9, 1).astype(np.int32)
    program = jax.vmap(lambda x, i, u: x.at[i].add(u))
    module = lowered(program, base, positions, update)
    (actual,) = run(compile(module, target="trn2"), [base, positions, update])
    expected = np.asarray(program(base, positions, update))
    np.testing.assert_array_equal(actual.view(np.int32), expected.view(np.int32))


@hypothesis.settings(max_examples=5, deadline=None)
@hypothesis.given(
    count=st.integers(16, 300),
    extents=st.tuples(st.integers(5, 60), st.integers(1, 9), st.sampled_from([100, 601, 1100])),
    indexed=st.sampled_from([(0,), (1,), (0, 1), (2,), (0, 1, 2)]),
    kind=st.sampled_from([np.float32, jnp.bfloat16, np.float16]),
    target=st.sampled_from(TARGETS),
    seed=st.integers(0, 99),
)
def test_sums_of_many_updates(
    count: int,
    extents: tuple[int, ...],
    indexed: tuple[int, ...],
    kind: Any,
    target: str,
    seed: int,
) -> None:
    """Equal places, places outside, numbers that are not finite; windows of any dimensions."""
    base = _drawn(seed, -9, 9, *extents).astype(kind)
    base.reshape(-1)[::97] = -np.inf
    first = tuple(np.zeros(count, int) if dim in indexed else slice(None) for dim in range(3))
    update = _drawn(seed + 1, -9, 9, *base[first].shape).astype(kind)
    flat = update.reshape(-1)
    flat[::31], flat[7::53], flat[11::83] = np.inf, -np.inf, np.nan
    positions = [_drawn(seed + 2 + dim, -3, extents[dim] // 2 + 1, count).astype(np.int32)
              for dim in indexed]  # fmt: skip
    positions[0][::9] = extents[indexed[0]] + 4

    def program(x: Any, u: Any, *numbers: Any) -> Any:
        index = [numbers[indexed.index(d)] if d in indexed else slice(None) for d in range(3)]
        return x.at[tuple(index)].add(u, mode="drop", wrap_negative_indices=False)

    check(program, base, update, *positions, target=target)


def test_sums_of_very_many_updates_are_a_loop() -> None:
    positions = _drawn(1, 0, 6000, 9000).astype(np.int32)
    program = check(lambda x, i, u: x.at[i].add(u), _normal(6001), positions, _normal(9000))
    assert sum(len(rows) for graph in program.subgraphs for rows in graph.engines.values()) < 1000


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", ["gather", "set", "add"])
def test_windows_as_large_as_the_operand(name: str, seed: int) -> None:
    """No component of an index says where the window is: XLA makes such a scatter of ``at[:n]``."""
    x = np.random.default_rng(seed).normal(size=(6, 5)).astype(np.float32)
    y = np.random.default_rng(seed + 9).normal(size=(6, 5)).astype(np.float32)
    functions: dict[str, Any] = {
        "gather": lambda x, y: jnp.exp(x)[:6, :5] + y,
        "set": lambda x, y: jnp.exp(x).at[:6, :5].set(y) * 2,
        "add": lambda x, y: jnp.exp(x).at[:6].add(y) * 2,
    }
    check(functions[name], x, y, tolerance=2e-5)
