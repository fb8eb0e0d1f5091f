"""Rows sorted on chip, bit for bit as jaxlib sorts them: ties, zeros, NaN, random extents."""

from __future__ import annotations

from typing import Any

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import hlo_tools
from neff.compiler import compile
from tests.compiler.compiling import TARGETS, lowered, oracle, run

pytestmark = pytest.mark.jax

Array = np.ndarray[Any, Any]
SPECIAL = (np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 2e-38, -2e-38, 3.4e38, 3.3999e38)
TYPES: dict[str, Any] = {
    "float32": np.float32,
    "bfloat16": ml_dtypes.bfloat16,
    "int32": np.int32,
    "uint32": np.uint32,
    "int8": np.int8,
}


def drawn(dtype: str, seed: int, *shape: int) -> Array:
    """Numbers of a whole type's range, some of them equal, some special."""
    draw = np.random.default_rng(seed)
    if dtype in ("float32", "bfloat16"):
        values = np.where(draw.random(shape) < 0.4, draw.choice(SPECIAL, shape),
                          np.round(draw.standard_normal(shape), 1))  # fmt: skip
        with np.errstate(over="ignore"):
            return values.astype(TYPES[dtype])
    info = np.iinfo(TYPES[dtype])
    values = draw.integers(info.min, info.max, shape, TYPES[dtype], endpoint=True)
    return np.where(draw.random(shape) < 0.4, draw.choice(values.reshape(-1)[:5], shape), values)


def equal(module: Any, arrays: list[Array], target: str = "trn2") -> int:
    """Bits as jaxlib's; the instructions that it takes."""
    program = compile(module, target=target)
    for result, reference in zip(run(program, arrays), oracle(module, arrays), strict=True):
        assert result.dtype == reference.dtype
        np.testing.assert_array_equal(result.view(np.uint8), reference.view(np.uint8))
    return program.metadata["statistics"]["instructions"]


@hypothesis.given(
    shape=st.tuples(st.integers(1, 300), st.integers(1, 140), st.integers(1, 3)),
    dim=st.integers(0, 2),
    dtype=st.sampled_from(list(TYPES)),
    descending=st.booleans(),
    target=st.sampled_from(TARGETS),
)
@hypothesis.settings(max_examples=5, deadline=None)
def test_sorted_with_their_places(
    shape: tuple[int, ...], dim: int, dtype: str, descending: bool, target: str
) -> None:
    x = drawn(dtype, sum(shape), *shape)

    def function(x: Any) -> Any:
        positions = jnp.argsort(x, dim, stable=True, descending=descending)
        return jnp.sort(x, dim, descending=descending), positions

    equal(lowered(function, x), [x], target)


@pytest.mark.parametrize("rows", [1, 700])
def test_what_goes_with_the_keys(rows: int) -> None:
    """Several rows of a partition, and rows that are no power of two."""
    keys, half = drawn("float32", 1, rows, 37), drawn("bfloat16", 2, rows, 37)
    full_rows = drawn("uint32", 3, rows, 37)
    equal(
        lowered(lambda *x: lax.sort(x, num_keys=1), keys, half, full_rows), [keys, half, full_rows]
    )


_TEXT = """HloModule ordered
before {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  one = f32[] constant(1)
  e = f32[] {first}
  f = f32[] {second}
  ROOT t = pred[] compare({order}
}}
ENTRY main {{
  x = f32[5,50] parameter(0)
  i = s32[5,50] parameter(1)
  ROOT r = (f32[5,50], s32[5,50]) sort(x, i), dimensions={{1}}, is_stable=true, to_apply=before
}}"""

_COMPARED = {
    "plain": ("add(a, one)", "add(b, one)", "e, f), direction=LT"),
    "falling": ("negate(a)", "negate(b)", "f, e), direction=LT"),
    "of the other operand": ("add(a, one)", "add(b, one)", "c, d), direction=GT"),
    "greater first": ("multiply(a, one)", "multiply(b, one)", "e, f), direction=GT"),
}


@pytest.mark.parametrize("name", _COMPARED)
def test_comparisons_of_one_number(name: str) -> None:
    first, second, order = _COMPARED[name]
    module = hlo_tools.load(_TEXT.format(first=first, second=second, order=order).encode())
    values = np.round(np.random.default_rng(1).standard_normal((5, 50)), 1).astype(np.float32)
    values[:, ::7] = np.array([0.0, -0.0, np.inf, -np.inf, 0, 1, 2, -0.0], np.float32)
    assert equal(module, [values, drawn("int32", 2, 5, 50)]) < 400


def test_a_comparison_of_two_functions_only_looks_alike() -> None:
    """``-a < b``: no order, so the result is what the network makes of it; but not by keys."""
    text = _TEXT.format(first="negate(a)", second="add(b, one)", order="e, f), direction=LT")
    program = compile(hlo_tools.load(text.encode()), target="trn2")
    assert program.metadata["statistics"]["instructions"] > 400


def test_elements_of_the_greatest_that_are_many() -> None:
    x = drawn("float32", 4, 3, 600)
    equal(lowered(lambda x: lax.top_k(x, 590), x), [x])


def test_the_gradient_of_a_sort() -> None:
    x = np.random.default_rng(5).standard_normal((4, 33)).astype(np.float32)
    equal(lowered(jax.grad(lambda x: (jnp.sort(x) * jnp.arange(33)).sum()), x), [x])
