"""Opcodes that are made of others: bits, rounding to any format, hyperbolic functions, windows."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo_tools
from hlo_tools.evaluate import evaluate
from neff.compiler import compile
from tests.compiler.compiling import Array, check, run

pytestmark = pytest.mark.jax

_few = hypothesis.settings(max_examples=5, deadline=None, derandomize=True)
_RANGES = {
    "acos": (-1.0, 1.0), "acosh": (1.0, 40.0), "asin": (-1.0, 1.0), "asinh": (-40.0, 40.0),
    "atanh": (-0.999, 0.999), "cosh": (-30.0, 30.0), "exp2": (-120.0, 127.5),
    "log2": (0.02, 90.0), "sinh": (-30.0, 30.0),
}  # fmt: skip


@pytest.mark.parametrize("opcode", _RANGES)
def test_functions_are_numpys(opcode: str) -> None:
    low, high = _RANGES[opcode]
    names = {"acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh",
             "atanh": "arctanh"}  # fmt: skip
    x = np.linspace(low, high, 127, dtype=np.float32)
    module = hlo_tools.load(
        f"HloModule m\nENTRY e {{ x = f32[127] parameter(0)\n ROOT r = f32[127] {opcode}(x) }}".encode()
    )
    (actual,) = run(compile(module, target="trn2"), [x])
    expected = getattr(np, names.get(opcode, opcode))(x.astype(np.float64))
    np.testing.assert_allclose(actual, expected, rtol=3e-6, atol=3e-7)


@pytest.mark.parametrize("opcode", _RANGES)
def test_functions_are_numpys_far_outside(opcode: str) -> None:
    """Beyond what they are defined for and where squares overflow: NaN and infinities as NumPy's."""
    sizes = np.concatenate([np.logspace(-38, 38.5, 61, dtype=np.float32), [np.float32(np.inf)]])
    x = np.concatenate([-sizes, sizes]).astype(np.float32)
    text = f"HloModule m ENTRY e {{ x = f32[124] parameter(0) ROOT r = f32[124] {opcode}(x) }}"
    names = {"acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh,
             "atanh": np.arctanh, "cosh": np.cosh, "exp2": np.exp2, "log2": np.log2,
             "sinh": np.sinh}  # fmt: skip
    with np.errstate(all="ignore"):
        expected = names[opcode](x.astype(np.float64)).astype(np.float32)
    (actual,) = run(compile(hlo_tools.load(text.encode()), target="trn2"), [x])
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-37)


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_powers_of_two_are_exact(target: str) -> None:
    exponents = np.arange(-126, 128, dtype=np.float32)
    powers = np.ldexp(np.float32(1), exponents.astype(int)).astype(np.float32)
    for opcode, arrays, expected in (("exp2", exponents, powers), ("log2", powers, exponents)):
        text = f"HloModule m ENTRY e {{ x = f32[254] parameter(0) ROOT r = f32[254] {opcode}(x) }}"
        module = hlo_tools.load(text.encode())
        (result,) = run(compile(module, target=target), [arrays])
        np.testing.assert_array_equal(result, expected)
        np.testing.assert_array_equal(evaluate(module, [arrays])[0], expected)


@pytest.mark.parametrize("element", ["bfloat16", "float16"])
def test_short_floats_have_powers_and_logarithms_of_two(element: str) -> None:
    x = np.linspace(0.1, 12.0, 90).astype(jnp.dtype(element))
    name = {"bfloat16": "bf16", "float16": "f16"}[element]
    for opcode, function in (("exp2", np.exp2), ("log2", np.log2)):
        text = (
            f"HloModule m ENTRY e {{ x = {name}[90] parameter(0) ROOT r = {name}[90] {opcode}(x) }}"
        )
        module = hlo_tools.load(text.encode())
        expected = function(x.astype(np.float64)).astype(x.dtype)
        for result in (run(compile(module, target="trn2"), [x])[0], evaluate(module, [x])[0]):
            assert result.dtype == x.dtype
            steps = np.abs(result.view(np.int16).astype(int) - expected.view(np.int16))
            assert steps.max() <= 1


def _bytes(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(0, 255, shape, dtype=np.uint8)


@_few
@hypothesis.given(
    rows=st.integers(1, 130),
    wide=st.sampled_from(["uint16", "uint32", "float32", "bfloat16", "int32"]),
    narrow=st.sampled_from(["uint8", "int8", "uint16", "bfloat16"]),
)
def test_bitcasts_between_sizes(rows: int, wide: str, narrow: str) -> None:
    large, small = jnp.dtype(wide), jnp.dtype(narrow)
    if large.itemsize <= small.itemsize:
        return
    ratio = large.itemsize // small.itemsize
    array = np.ones((rows, 3), np.float32).astype(large) * np.arange(3).astype(large)
    check(lambda x: lax.bitcast_convert_type(x, small), array)
    parts = _bytes(rows, ratio * small.itemsize).view(small)
    cast = lambda x: lax.bitcast_convert_type(  # noqa: E731
        lax.bitcast_convert_type(x, large), small
    )
    check(cast, parts)


@_few
@hypothesis.given(exponent=st.integers(2, 8), mantissa=st.integers(1, 23))
def test_rounding_to_any_format(exponent: int, mantissa: int) -> None:
    bits = np.random.default_rng(exponent).integers(0, 2**32, 300, dtype=np.uint32)
    bits[:8] = [0, 1, 0x80000000, 0x7F800000, 0xFF800000, 0x3F800000, 0x7F7FFFFF, 0x00800000]
    x = bits.view(np.float32)
    x = np.where(np.abs(x) < np.finfo(np.float32).tiny, 0, x)
    x = np.where(np.isnan(x), np.float32(np.nan), x)
    check(lambda x: lax.reduce_precision(x, exponent, mantissa), x, tolerance=0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_rounding_to_a_format_flushes_what_jaxlib_flushes(dtype: str) -> None:
    """Results below the format's normal numbers are zero, unless float16 has its exponents."""
    bits = np.arange(65536, dtype=np.uint16)
    values = bits.view(np.float16) if dtype == "float16" else bits.view(jnp.bfloat16)
    numbers = values.astype(np.float32)
    x = numbers[~np.isnan(numbers)].astype(dtype)
    formats = ((5, 10), (5, 2), (8, 7), (5, 7))
    check(lambda x: [lax.reduce_precision(x, *bits) for bits in formats], x, tolerance=0)


@_few
@hypothesis.given(rows=st.integers(2, 9), columns=st.integers(2, 9), stride=st.integers(1, 2))
def test_windows_over_several_operands(rows: int, columns: int, stride: int) -> None:
    values = np.random.default_rng(rows).standard_normal((rows, columns)).astype(np.float32)
    positions = np.arange(rows * columns, dtype=np.int32).reshape(rows, columns)

    def larger(a, b):
        first = a[0] > b[0]
        return jnp.where(first, a[0], b[0]), jnp.where(first, a[1], b[1])

    def picked(x, i):
        start = (np.float32(-np.inf), np.int32(-1))
        return lax.reduce_window((x, i), start, larger, (2, 2), (1, stride), "SAME")

    check(picked, values, positions)


def test_the_high_half_of_a_product() -> None:
    module = hlo_tools.load(
        b"HloModule m\nENTRY e { x = s32[5] parameter(0)\n y = s32[5] parameter(1)\n"
        b" ROOT r = s32[5] mulhi(x, y) }"
    )
    x = np.array([2**31 - 1, -7, 2**30, -(2**31), -(2**31)], np.int32)
    y = np.array([9, 7, -(2**31), -(2**31), -1], np.int32)
    (actual,) = run(compile(module, target="trn2"), [x, y])
    expected = [a * b >> 32 for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    np.testing.assert_array_equal(actual, expected)
    from hlo_tools.evaluate import evaluate

    np.testing.assert_array_equal(evaluate(module, [x, y])[0], actual)
