"""The greatest elements of rows of random extents against jaxlib: ties, zeros, infinities, NaN."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pytest

import hlo_tools
from neff.compiler import compile
from tests.compiler.compiling import Array, check, lowered, oracle, run

pytestmark = pytest.mark.jax

SPECIAL = (np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 3.4028235e38, -3.4028235e38)
TYPES = {
    "float32": np.float32,
    "bfloat16": ml_dtypes.bfloat16,
    "int8": np.int8,
    "uint16": np.uint16,
}


def rows(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    draw = np.random.default_rng(seed)
    if dtype not in ("float32", "bfloat16"):
        return draw.integers(0, 100, shape).astype(TYPES[dtype])
    values = np.round(draw.standard_normal(shape) * 3)
    with np.errstate(over="ignore"):
        values = np.where(draw.random(shape) < 0.3, draw.choice(SPECIAL, shape), values)
        return values.astype(TYPES[dtype])


def equal(actual: list[Array], reference: list[Array]) -> None:
    """Equal places, and equal values with their signs."""
    np.testing.assert_array_equal(actual[1], reference[1])
    values, expected = (array.astype(np.float64) for array in (actual[0], reference[0]))
    np.testing.assert_array_equal(values, expected)
    is_number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(values[is_number]), np.signbit(expected[is_number]))
    assert actual[0].dtype == reference[0].dtype


@hypothesis.given(
    lead=st.lists(st.integers(1, 40), min_size=0, max_size=2),
    extent=st.integers(1, 70),
    share=st.floats(0, 1),
    dtype=st.sampled_from(tuple(TYPES)),
    target=st.sampled_from(("trn1", "trn2", "trn3")),
)
@hypothesis.settings(max_examples=8, deadline=None, derandomize=True)
def test_top(lead: list[int], extent: int, share: float, dtype: str, target: str) -> None:
    import jax

    x = rows((*lead, extent), dtype, extent)
    count = max(1, round(share * extent))

    def function(x):
        return jax.lax.top_k(x, count)

    actual = run(compile(lowered(function, x), target=target), [x])
    equal(actual, [np.asarray(array) for array in jax.jit(function)(x)])


def test_rows_that_come_in_parts() -> None:
    import jax

    x = rows((3, 20000), "float32", 1)
    x[:, 9000:] = np.round(np.random.default_rng(2).standard_normal((3, 11000)) * 9)

    def function(x):
        return jax.lax.top_k(x, 21)

    actual = run(compile(lowered(function, x), target="trn2"), [x])
    equal(actual, [np.asarray(array) for array in jax.jit(function)(x)])


def test_the_least() -> None:
    text = b"""HloModule m
ENTRY main {
  x = f32[5,30]{1,0} parameter(0)
  t = (f32[5,9]{1,0}, s32[5,9]{1,0}) topk(x), k=9, largest=false
  v = f32[5,9]{1,0} get-tuple-element(t), index=0
  i = s32[5,9]{1,0} get-tuple-element(t), index=1
  ROOT r = (f32[5,9]{1,0}, s32[5,9]{1,0}) tuple(v, i)
}"""
    x = rows((5, 30), "float32", 4)
    module = hlo_tools.load(text)
    values, positions = run(compile(module, target="trn2"), [x])
    bits = x.view(np.int32)
    keys = np.where(bits < 0, bits ^ 0x7FFFFFFF, bits)  # the total order of floats
    keys = np.where(np.isnan(x), np.where(bits < 0, -(2**31), 2**31 - 1), keys)
    order = np.argsort(keys, axis=1, kind="stable")[:, :9]
    np.testing.assert_array_equal(positions, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_no_sort_is_made(target: str) -> None:
    import jax

    x = rows((200, 1024), "float32", 5)
    program = compile(lowered(lambda x: jax.lax.top_k(x, 8), x), target=target)
    assert program.metadata["statistics"]["instructions"] < 60


def test_of_a_custom_call() -> None:
    text = b"""HloModule m
%compare { p.0 = f32[] parameter(0) p.1 = f32[] parameter(1) p.2 = s32[] parameter(2)
  p.3 = s32[] parameter(3) ROOT lt = pred[] compare(p.0, p.1), direction=GT, type=TOTALORDER }
ENTRY main {
  x = f32[4,50]{1,0} parameter(0)
  ROOT t = (f32[4,6]{1,0}, s32[4,6]{1,0}) custom-call(x), custom_call_target="TopK", called_computations={%compare}
}"""
    x = rows((4, 50), "float32", 6)
    module = hlo_tools.load(text)
    equal(run(compile(module, target="trn2"), [x]), oracle(module, [x]))


def test_in_a_loop() -> None:
    import jax

    x = rows((6, 24), "float32", 7)
    x = np.where(np.isfinite(x), x, 0)

    def function(x):
        def turn(_, state):
            values, positions = jax.lax.top_k(state, 24)
            return values * 0.5 + positions

        return jax.lax.fori_loop(0, 600, turn, x)

    check(function, x)
