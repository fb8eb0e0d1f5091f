"""Elementwise operations against JAX on the CPU: every opcode, every type that it is for."""

from __future__ import annotations

from typing import Any

import hypothesis
import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pytest

from neff.compiler import compile
from neff.options import CompileOptions
from tests.compiler.compiling import TARGETS, check, lowered, run, wide_types

pytestmark = pytest.mark.jax

_SHAPE = (37, 45)
_EDGES = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, 3.5, 1e-8, -1e-8, 1e-3, 88.0, -88.0, 100.0,
     1e30, -1e30, np.inf, -np.inf, np.nan, 2**22 + 0.5, 8388609.0, 123456.7],
    np.float32,
)  # fmt: skip


def floats(seed: int, dtype: object = np.float32) -> np.ndarray:
    values = np.random.default_rng(seed).standard_normal(_SHAPE) * 3
    return values.astype(dtype)


def positive(seed: int) -> np.ndarray:
    return np.abs(floats(seed)) + np.float32(0.05)


def integers(seed: int, dtype: object = np.int32) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(
        info.min, info.max, _SHAPE, dtype=dtype, endpoint=True
    )


UNARY = {
    "abs": lambda n, x: n.abs(x),
    "negative": lambda n, x: -x,
    "exp": lambda n, x: n.exp(x),
    "expm1": lambda n, x: n.expm1(x),
    "tanh": lambda n, x: n.tanh(x),
    "sin": lambda n, x: n.sin(x),
    "cos": lambda n, x: n.cos(x),
    "tan": lambda n, x: n.tan(x),
    "floor": lambda n, x: n.floor(x),
    "ceil": lambda n, x: n.ceil(x),
    "round": lambda n, x: n.round(x),
    "trunc": lambda n, x: n.trunc(x),
    "sign": lambda n, x: n.sign(x),
    "square": lambda n, x: n.square(x),
    "isfinite": lambda n, x: n.isfinite(x),
    "isnan": lambda n, x: n.isnan(x),
    "int32": lambda n, x: x.astype(n.int32),
    "int8": lambda n, x: x.astype(n.int8),
    "bool": lambda n, x: x.astype(bool),
    "bfloat16": lambda n, x: x.astype(n.bfloat16),
    "float16": lambda n, x: x.astype(n.float16),
}

OF_POSITIVE = {
    "log": lambda n, x: n.log(x),
    "log1p": lambda n, x: n.log1p(x),
    "sqrt": lambda n, x: n.sqrt(x),
    "reciprocal": lambda n, x: 1 / x,
    "cbrt": lambda n, x: n.cbrt(x),
}


_TOTAL = (
    "abs", "negative", "floor", "ceil", "round", "trunc", "sign", "isfinite", "isnan", "int32",
    "int8", "bool", "exp", "tanh",
)  # fmt: skip
"""Operations that are right for every float, infinities and NaN included."""


def test_unary() -> None:
    import jax.numpy as jnp

    check(lambda x: [op(jnp, x) for op in UNARY.values()], floats(1), tolerance=2e-5)


def test_unary_of_positive() -> None:
    import jax.numpy as jnp

    check(lambda x: [op(jnp, x) for op in OF_POSITIVE.values()], positive(2), tolerance=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_unary_at_the_edges(target: str) -> None:
    import jax.numpy as jnp

    check(lambda x: [UNARY[name](jnp, x) for name in _TOTAL], _EDGES, target=target)


def test_small_arguments_keep_their_digits() -> None:
    import jax.numpy as jnp

    small = np.array([1e-7, -1e-7, 1e-5, -1e-5, 3e-4, 0.1, -0.1, 0.9], np.float32)
    check(lambda x: (jnp.log1p(x) / x, jnp.expm1(x) / x), small, tolerance=1e-6)


def test_lax_only_operations() -> None:
    import jax
    from jax import lax

    def function(x, y):
        return (
            jax.nn.sigmoid(x), lax.rsqrt(y), lax.erf(x), lax.clamp(np.float32(-1), x, y),
            lax.round(x), lax.is_finite(x), lax.pow(y, x), lax.max(x, y), lax.min(x, y),
        )  # fmt: skip

    check(function, floats(1), positive(2), tolerance=1e-5)


BINARY = {
    "add": lambda n, a, b: a + b,
    "subtract": lambda n, a, b: a - b,
    "multiply": lambda n, a, b: a * b,
    "maximum": lambda n, a, b: n.maximum(a, b),
    "minimum": lambda n, a, b: n.minimum(a, b),
    "equal": lambda n, a, b: a == b,
    "not_equal": lambda n, a, b: a != b,
    "less": lambda n, a, b: a < b,
    "less_equal": lambda n, a, b: a <= b,
    "greater": lambda n, a, b: a > b,
    "greater_equal": lambda n, a, b: a >= b,
}
_FLOATS = [np.float32, ml_dtypes.bfloat16, np.float16]
_INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32]


@pytest.mark.parametrize("dtype", _FLOATS + _INTEGERS, ids=lambda dtype: np.dtype(dtype).name)
def test_binary(dtype: object) -> None:
    import jax.numpy as jnp

    make = integers if dtype in _INTEGERS else floats
    a, b = make(1, dtype), make(2, dtype)
    b[:5] = a[:5]
    tolerance = 1e-6 if dtype is np.float32 else 1e-2
    check(lambda a, b: [op(jnp, a, b) for op in BINARY.values()], a, b, tolerance=tolerance)


@pytest.mark.parametrize("dtype", _INTEGERS, ids=lambda dtype: np.dtype(dtype).name)
def test_integer_unary_and_bits(dtype: object) -> None:
    import jax.numpy as jnp

    def function(a, b):
        return a & b, a | b, a ^ b, ~a, jnp.abs(a), -a, jnp.sign(a)

    check(function, integers(1, dtype), integers(2, dtype))


@pytest.mark.parametrize("dtype", [np.int32, np.uint32], ids=lambda dtype: np.dtype(dtype).name)
def test_shifts(dtype: object) -> None:
    from jax import lax

    by = (np.arange(np.prod(_SHAPE)).reshape(_SHAPE) % 40).astype(dtype)

    def function(a, b):
        return (
            lax.shift_left(a, b), lax.shift_right_logical(a, b), lax.shift_right_arithmetic(a, b),
            a << 3, lax.shift_right_logical(a, dtype(7)), lax.shift_right_arithmetic(a, dtype(31)),
            lax.shift_left(a, dtype(32)),
        )  # fmt: skip

    check(function, integers(3, dtype), by)


def test_integer_division_is_exact() -> None:
    from jax import lax

    a, b = integers(4), integers(5)
    b[0] = np.arange(1, 46)
    b[1] = -np.arange(1, 46)
    b[2, :4] = [0, 1, -1, 2]
    a[3:10] = np.arange(45) - 20
    b[3:10] = np.array([1, 2, 3, -1, -2, -3, 7])[:, None]
    check(lambda a, b: (lax.div(a, b), lax.rem(a, b)), a, b)


def test_float_division_and_remainder() -> None:
    from jax import lax

    check(lambda a, b: (lax.div(a, b), lax.rem(a, b)), floats(6), positive(7), tolerance=1e-5)


_ALL = ["bool_", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float32", "bfloat16"]


@pytest.mark.parametrize("source", _ALL)
def test_convert(source: str) -> None:
    import jax.numpy as jnp

    if source == "bool_":
        values = floats(8) > 0
    elif "int" in source:
        values = integers(8, np.dtype(source))
    else:
        values = (floats(8) * 40).astype(ml_dtypes.bfloat16 if source == "bfloat16" else source)
        if source == "float32":
            values = np.abs(values)
    targets = [name for name in _ALL if not ("float" in source and name.startswith("uint"))]
    check(lambda x: tuple(x.astype(getattr(jnp, name)) for name in targets), values, tolerance=1e-2)


@pytest.mark.parametrize("kind", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize("between", [ml_dtypes.bfloat16, np.float16])
def test_each_cast_rounds(between: Any, kind: Any) -> None:
    """A value near the middle of two numbers of the last type is rounded to the middle first."""
    x = np.linspace(-4, 4, 999, dtype=np.float32)
    casts = lowered(
        lambda x: (x.astype(between).astype(kind), (x.astype(between) * 3).astype(kind)), x
    )
    cast, product = run(compile(casts, target="trn2"), [x])
    np.testing.assert_array_equal(cast, x.astype(between).astype(kind))
    np.testing.assert_array_equal(product, (x.astype(between) * between(3)).astype(kind))
    assert (cast != x.astype(kind)).any()


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2"])
def test_eight_bit_floats(kind: str) -> None:
    import jax.numpy as jnp

    values = (floats(9) / 4).astype(getattr(ml_dtypes, kind))
    check(lambda x: (x.astype(jnp.float32) * 2).astype(x.dtype), values, tolerance=0.1)


def test_bitcast_convert() -> None:
    from jax import lax

    check(
        lambda x: (lax.bitcast_convert_type(x, np.int32), lax.bitcast_convert_type(x, np.uint32)),
        floats(10),
    )


def test_select_with_one_predicate() -> None:
    from jax import lax

    check(
        lambda p, a, b: (lax.select(p[0, 0] > 0, a, b), lax.select(p > 0, a, b)),
        floats(1), floats(2), floats(3),
    )  # fmt: skip


def test_predicates() -> None:
    import jax.numpy as jnp

    a, b = floats(1) > 0, floats(2) > 0
    check(lambda a, b: (a & b, a | b, a ^ b, ~a, a == b, jnp.where(a, 3, 4)), a, b)


@pytest.mark.parametrize("target", TARGETS)
def test_broadcast_operands(target: str) -> None:
    row, column = floats(1)[0], floats(2)[:, :1]

    def function(x, row, column, number):
        return (x + row) * column - number * 2

    check(function, floats(3), row, column, np.float32(1.5), target=target)


@pytest.mark.parametrize(
    "shape", [(), (1,), (1, 1), (7,), (129,), (1000, 3), (3, 1000), (2, 3, 4, 5, 6), (128, 2049),
              (1, 5000), (70000,)]
)  # fmt: skip
def test_shapes(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    y = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    check(lambda x, y: (x * y + 1, x > y), x, y)


@pytest.mark.parametrize("name", [*UNARY, *OF_POSITIVE])
def test_tiles_of_large_tensors_fit_on_chip(name: str) -> None:
    import jax
    import jax.numpy as jnp

    large = jax.ShapeDtypeStruct((2048, 4096), np.float32)
    operation = {**UNARY, **OF_POSITIVE}[name]
    compile(lowered(lambda x: operation(jnp, x), large), target="trn1")


def test_empty_arrays() -> None:
    x = np.zeros((0, 3), np.float32)
    check(lambda x: (x + 1, x.sum(0)), x)


def test_sixty_four_bit_integers_are_computed_in_thirty_two() -> None:

    with wide_types():
        a = np.arange(-50, 50, dtype=np.int64).reshape(10, 10)
        b = (np.arange(100, dtype=np.int64) * 7919 - 3).reshape(10, 10)
        program = check(lambda a, b: (a + b, a * 3, a < b, -b, a.astype(np.int32)), a, b)
        assert [program.variables[name].dtype for name in program.inputs] == ["int64", "int64"]
        u = np.arange(100, dtype=np.uint64)
        check(lambda u: (u + 5, u.astype(np.float32)), u)


@hypothesis.given(
    shape=st.tuples(st.integers(1, 9), st.integers(1, 40), st.integers(1, 150)),
    steps=st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 9)),
    order=st.permutations(range(3)),
    dtype=st.sampled_from([np.float32, ml_dtypes.bfloat16, np.int32]),
    target=st.sampled_from(TARGETS),
    cores=st.sampled_from([1, 2]),
    seed=st.integers(0, 99),
)
@hypothesis.settings(max_examples=6, deadline=None)
def test_parts_that_lie_apart(
    shape: tuple[int, ...], steps: tuple[int, ...], order: list[int], dtype: Any, target: str,
    cores: int, seed: int,
) -> None:  # fmt: skip
    """Tiles of few partitions, and elements that stand apart, of operands with a margin."""
    drawn = np.random.default_rng(seed)
    wide = [(n - 1) * step + 3 for n, step in zip(shape, steps, strict=True)]
    x, y = (drawn.integers(-99, 99, wide).astype(dtype) for _ in range(2))

    import jax.numpy as jnp

    def part(array: Any, start: int) -> Any:
        cut = [slice(start, start + (n - 1) * k + 1, k) for n, k in zip(shape, steps, strict=True)]
        return array[tuple(cut)]

    def program(x: Any, y: Any) -> Any:
        high = jnp.maximum(part(x, 0), part(y, 1))
        return jnp.transpose(high + part(x, 2), order), jnp.where(part(x, 1) > 5, high, 7)

    options = CompileOptions(lnc=cores if target != "trn1" else 1)
    check(program, x, y, target=target, options=options)
