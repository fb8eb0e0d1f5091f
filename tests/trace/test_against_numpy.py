"""The tracer beside NumPy: each kind of difference that was found, and a share of the fuzzer."""

from __future__ import annotations

import itertools
import random
import re
import warnings
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from numbers import Number
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hlo_tools.errors import HloError
from hlo_tools.evaluate import evaluate
from hlo_tools.trace import TraceError, supported, trace
from hlo_tools.trace.elementwise import LOWERINGS
from tests.trace.running import same_memory

F32, I32, I8, U8, F16 = (np.dtype(name) for name in ("f4", "i4", "i1", "u1", "f2"))
BF16 = np.dtype(ml_dtypes.bfloat16)


def of(*values: Any, dtype: Any = F32) -> Any:
    return np.array(values, dtype)


INF, NAN = np.inf, np.nan
EDGES = of(0.0, -0.0, 1, -1, 2.5, -2.5, INF, -INF, NAN, 3e38, 2e19)
WHOLE = of(-4, -3, 2, 0, 127, -128, dtype=I8)


@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (lambda a: np.equal(a, a + 1, dtype=bool), [of(1, 2, dtype=I32)]),
        (lambda a: np.equal(a, a, dtype=bool), [of(1, 2, dtype=I32)]),
        (lambda a, w: np.average(a, weights=w), [of(100, 50, dtype=I8), of(100, 100, dtype=I8)]),
        (lambda a, w: np.average(a, weights=w), [of(200, 100, dtype=U8), of(200, 200, dtype=U8)]),
        (lambda a, b: np.isclose(a, b, atol=4), [of(3, 9, dtype=U8), of(5, 7, dtype=U8)]),
        (lambda a, b: np.isclose(a, b, equal_nan=True), [EDGES, EDGES]),
        (lambda a: a.cumprod(dtype=np.float16), [of(-0.0, 3e38, dtype=BF16)]),
        (lambda a: np.pad(a, (2, 0), "reflect", reflect_type="odd"), [of(1, 2, 4, 8)]),
        (lambda a: np.pad(a, 12, "reflect", reflect_type="odd"), [of(-10.875, -7.5, -0.75, dtype=BF16)]),
        (lambda a: np.pad(a, 12, "symmetric", reflect_type="odd"), [of(6.125, -6.125, -9.875, dtype=BF16)]),
        (lambda a: np.pad(a, 2, "symmetric", reflect_type="odd"), [of(INF)]),
        (lambda a: np.pad(a, (7, 9), "symmetric", reflect_type="odd"), [of(1, 2, 4)]),
        (lambda a: np.max(a, initial=2.5), [WHOLE]), (lambda a: np.sum(a, initial=2.5), [WHOLE]),
        (lambda a: np.prod(a, initial=2.9), [of(2, 3, dtype=I32)]),
        (lambda a: a.astype(np.uint8), [of(-1, 300, 200, 3.7)]),
        (lambda a: a.astype(np.int8), [of(-1, 300, 200, 3.7)]),
        (lambda a: a.astype(np.uint32), [of(-1, 300, 4e9)]),
        (lambda a: np.round(a, -1), [of(123456789, 16777225, -15, 25, dtype=I32)]),
        (lambda a: np.arcsinh(a), [EDGES]), (lambda a: np.sinh(a), [of(-9, 9, 0.5, -0.0)]), (lambda a: np.modf(a), [of(-1, 5, -INF)]),
        (lambda a: a // np.float32(INF), [of(1, -1, 0)]), (lambda a: 0.5 // a, [EDGES]),
        (lambda a: np.sign(a), [EDGES]), (lambda a: a % 1, [of(-1, 2, -0.0)]),
        (lambda a: a**0.5, [of(-0.0, 4)]), (lambda a: a**2, [of(True, False, dtype=bool)]),
        (lambda a: [a < 300, a == -200, a <= 1000], [WHOLE]),
        (lambda a: np.clip(a, -300, 300), [WHOLE]), (lambda a: np.clip(a, 0.5, 1), [WHOLE]),
        (lambda a: np.sum(a), [of(-0.0, -0.0)]), (lambda a: np.log2(a), [of(2.625, 7, dtype=F16)]),
        (lambda a: np.reciprocal(a), [of(1, -1, 5, 0, dtype=I8)]),
        (lambda a: np.select([a > 1], [a], -1), [of(1, 2, dtype=U8)]),
        (lambda a: np.linalg.norm(a[None].T, axis=0), [of(3, 4)]),
        (lambda a: np.argsort(a[0] + np.zeros((), np.float32)), [of(3, 4)]),
        (lambda a: np.mean(a, where=a > 1), [of(1, 2, 5)]),
        (lambda a: np.std(a, ddof=9), [of(1, 2, 5)]),
        (lambda a: np.add.reduce(a, 0, None, None, True), [of(1, 2)]),
        (lambda a, o: np.sum(a * 0.6, out=o), [of(1, 2), np.zeros((), np.int8)]),
        (lambda a, o: np.prod(a, out=o), [of(-1.25, -2.25, -2.75), np.zeros((), np.int32)]),
        (lambda a: np.clip(a, 0, 3), [EDGES]),
        (lambda a: np.arccosh(a), [of(1, 2.5, 9999, 10001, 2e19, 3e38, INF, NAN)]),
        (lambda a: np.arccosh(a), [of(1, 300, 65504, dtype=F16)]),
        (lambda a: np.sign(a), [EDGES.astype(ml_dtypes.bfloat16)]),
        (lambda a, b, o: np.einsum("...j,...j", a, b, out=o), [of(0, 1, 1, dtype=bool), of(1, 1, 1, dtype=bool), np.zeros((), F32)]),
        (lambda a, o: np.einsum("j,j", a, a, out=o), [WHOLE, np.zeros((), I32)]),
        (lambda a, o: [np.dot(a, a, out=o), o * 1], [of(1, 2, 3), np.zeros((), F32)]),
        (lambda a: np.isclose(a, a + 1, rtol=0.1), [np.asfortranarray(of([-1, 0, 5], [9, -9, -7], dtype=I32))]),
        (lambda a: np.linalg.norm(a, ord=1), [np.zeros((2, 0), F32)]),
        (lambda a: np.linalg.norm(a, ord=np.inf), [np.zeros(0, F32)]),
        (lambda a, o: np.ptp(a, out=o), [of(True, False, dtype=bool), np.zeros((), F32)]),
        (lambda a, o: np.ptp(a, out=o), [WHOLE, np.zeros((), I32)]),
        (lambda a: [np.sort(a, kind="stable"), np.argsort(a, kind="stable")], [of(0, 2, -0.0, -1, 0, NAN, -NAN, INF)]),
        (lambda a: np.sort(a // 0, axis=0), [of([0.0, 0.375, 0.125])]),
        (lambda a, b: a.clip(-1, b), [of(1, 200, dtype=U8), of(3, -2, dtype=ml_dtypes.bfloat16)]),
        (lambda a, b: a.clip(-1, b), [of(True, False, dtype=bool), of(3, -2, dtype=F16)]),
        (lambda a: a.clip(0, 300) + 255, [of(1, 200, dtype=U8)]),
        (lambda a: [np.nan_to_num(a), np.nansum(a)], [of(1, NAN, -INF, dtype=ml_dtypes.bfloat16)]),
        (lambda a: np.pad(a, 2, "reflect", reflect_type="odd"), [of(False, True, True, dtype=bool)]),
        (lambda a, o: np.einsum("i->i", a, out=o), [of(-0.0, 1), of(5, 5)]),
        (lambda a, o: np.multiply.reduce(a, out=o, initial=2.5), [of([-0.625, -0.375], [1.125, -2.625], [0.125, -2.875]), of(-1, 0, dtype=I32)]),
        (lambda a: [np.nan_to_num(a, copy=False).reshape(-1), np.nan_to_num(a, copy=False) + 1], [np.array(NAN, F32)]),
        (lambda a: [np.triu(a.T, 1), np.tril(a, -1)], [np.asfortranarray(np.arange(12, dtype="f4").reshape(2, 3, 2))]),
        (lambda a: np.fmax(a, -1.5, casting="unsafe", dtype=np.uint8), [of(1, 7)]),
        (lambda a: np.einsum("i->i", a), [of(-0.0, 1)]), (lambda a: [np.linalg.norm(a[0] + np.zeros(()), keepdims=True)], [of(3)]),
        (lambda a, b: [np.einsum(equation, a, b) for equation in ("ij,kj->ik", "ij,kj->ki", "ij,kl->iljk")], [np.asfortranarray(np.arange(6, dtype="f4").reshape(2, 3)), np.arange(3, 9, dtype="f4").reshape(2, 3)]),
        (lambda a: [np.einsum("ij,ij->ij", a, a, order=order) for order in "KCFA"], [np.asfortranarray(np.arange(6, dtype="f4").reshape(2, 3))]),
        (lambda a: (a <= 70000), [np.asfortranarray(of([-1, 0, 5], [9, -9, -7], dtype=np.int16))]),
        (lambda a, m: np.multiply.reduce(a, where=m), [np.asfortranarray(np.arange(12, dtype="f4").reshape(2, 3, 2)), np.arange(12).reshape(2, 3, 2) % 3 > 0]),
    ],
)  # fmt: skip
def test_values_and_dtypes(function: Any, arrays: list[Any]) -> None:
    same_memory(function, *arrays)


@pytest.mark.parametrize(
    "compare", [np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal]
)
@pytest.mark.parametrize("signed", [I8, I32])
def test_unsigned_beside_signed_compares_as_in_64_bits(compare: Any, signed: Any) -> None:
    large, small = of(2**32 - 1, 5, 0, 2**31, dtype=np.uint32), of(-1, 5, 0, 9, dtype=signed)
    same_memory(lambda a, b: compare(a, b[:, None]), large, small)
    same_memory(lambda a, b: compare(b, a[:, None]), large, small)
    same_memory(lambda a: [compare(a, [-1, 5, 3, 2]), compare(np.int8(-3), a)], large)


def test_a_number_does_not_repeat_a_list() -> None:
    with pytest.raises(HloError) as caught:
        trace(lambda a: a[0] * [1, 2], of(2, dtype=I32))
    assert caught.value.code == "HLO-TRACE-VALUE" and "numpy.array" in caught.value.remedy
    for function in (lambda a: a[0] * [1, 2], lambda a: (1, 2) * a[0]):
        with pytest.raises(TypeError, match="can't multiply sequence"):
            trace(function, of(2.5))
    same_memory(lambda a: a[0] * np.array([1, 2]), of(2, dtype=I32))


def test_a_constant_beyond_32_bits_is_refused() -> None:
    with pytest.raises(HloError) as caught:
        trace(lambda a: a + np.array([5, 2**40]), of(1, dtype=I32))
    assert caught.value.code == "HLO-TRACE-DTYPE" and str(2**40) in str(caught.value)
    same_memory(lambda a: a * np.array([2.0**40]), of(1, 2))


def test_rounding_into_integers_is_refused_as_in_numpy() -> None:
    with pytest.raises(TypeError):
        trace(lambda a, o: np.round(a, out=o), of(1.5), of(1, dtype=I32))


@pytest.mark.parametrize("name", ["sinh", "cosh", "rint", "log2", "log10", "arctanh", "arccosh"])
def test_functions_of_complex_numbers(name: str) -> None:
    a = np.array([1 + 2j, -3.5 - 1j, 0.25j, 0, 1], np.complex64)
    same_memory(lambda a: getattr(np, name)(a), a)


@pytest.mark.parametrize("dtype", [F32, BF16])
def test_the_conjugate_of_a_real_number_is_itself_or_a_copy(dtype: Any) -> None:
    def written(a: Any) -> Any:
        conjugate = a.conjugate()
        conjugate += conjugate.dtype.type(1)
        return a * 1

    same_memory(written, of(0.125, dtype=dtype))
    same_memory(written, np.array(0.125, dtype))


def test_complex_numbers() -> None:
    a = np.array([1 + 2j, 3 - 1j], np.complex64)
    same_memory(
        lambda a: [a.conj(), np.vdot(a, a), np.round(a + 0.4), np.isnan(a * np.nan), np.var(a),
                   np.inner(a, np.conj(a)), np.isfinite(a), a.astype(np.float32)], a
    )  # fmt: skip

    def parts(a: Any) -> Any:
        real, imag = np.real(a), np.imag(a)
        real[...], imag[0] = 7, -1
        return a * 1

    same_memory(parts, a)


@pytest.mark.parametrize(
    "function",
    [
        lambda a: np.max(a, where=a > 1), lambda a: np.sum(a, where=a), lambda a: a.astype("i4", casting="safe"),
        lambda a: np.concatenate([a, a], dtype=np.int32), lambda a: np.vsplit(a, 1),
        lambda a: a[np.array([True])], lambda a: np.copyto(a, a, where=a),
        lambda a: np.sin(a, dtype=np.int32), lambda a: np.sqrt(a, out=a.astype(np.int32)),
        lambda a: np.dot(a, a, out=np.zeros_like(a)), lambda a: np.std(a, ddof=1, correction=1),
        lambda a: np.logical_and.reduce(a, where=np.ones((2, 3), bool)), lambda a: np.sum(a, where=a[None] > 1),
        lambda a: np.average(a[0] * np.ones(()), 0, weights=a[0]),
        lambda a: (a > 1).astype(np.uint8).clip(300, 400),
    ],
)  # fmt: skip
def test_what_numpy_does_not_take_is_an_error(function: Any) -> None:
    a = of(1, 2, 3)
    with pytest.raises((TypeError, ValueError, IndexError, OverflowError)):
        function(a.copy())
    with pytest.raises((TypeError, ValueError, IndexError, OverflowError)):
        trace(function, a)


@pytest.mark.parametrize(
    "function",
    [
        lambda a: np.max(a * 1j), lambda a: np.mean(a, out=np.zeros_like(a[0] + a, dtype="f2")),
        lambda a: np.matmul(a, a, axes=[(0,), (0,), ()]), lambda a: np.cross(a[:2], a[:2]),
        lambda a: np.var(a, dtype=np.int32), lambda a: np.arcsinh(a * 1j), lambda a: np.arctan(a * 1j),
        lambda a: np.fmin(a * 1j, a), lambda a: a * 1j < 2, lambda a: np.clip(a * 1j, 0, 1), lambda a: np.std(a * 1j, dtype=np.float32),
        lambda a: np.max(a, out=np.zeros((), np.uint16)),  # NumPy has 65535 of -1 and 5
    ],
)  # fmt: skip
def test_what_would_be_wrong_is_refused(function: Any) -> None:
    with pytest.raises(HloError) as caught:
        trace(function, of(1, 2, 3))
    assert caught.value.code == "HLO-TRACE-ARGUMENT" and caught.value.remedy


@pytest.mark.parametrize("shape", [(1,), (3,), (1, 2), (2, 1)])
@pytest.mark.parametrize("function", [np.sum, np.add.reduce, np.mean])
def test_the_sign_of_a_sum_of_zeros(function: Any, shape: tuple[int, ...]) -> None:
    zeros = np.full(shape, -0.0, np.float32)
    traced = trace(lambda a: function(a, axis=0), zeros)
    (actual,) = evaluate(traced.to_module(), [zeros])
    np.testing.assert_array_equal(np.signbit(actual), np.signbit(function(zeros, axis=0)))


def test_outputs_of_other_types() -> None:
    integers = of(-1, 0, 5, dtype=np.int8)
    zero = np.array(0.125, np.float32)
    same_memory(lambda a, o: [np.max(a, out=o), np.min(a, out=o.astype("i2"))], integers, zero)
    same_memory(lambda a, o: [np.dot(a, a, out=o)], integers[0:1].reshape(()), zero)


NOT_DRAWN = {
    "numpy.ndim": "a Python number of the shape",
    "numpy.shape": "a tuple of Python numbers",
    "numpy.size": "a Python number of the shape",
}
"""Functions that random calls leave out, and why."""


def test_every_supported_function_is_drawn() -> None:
    from tests.fuzz.drivers import numpy_cases

    words = " ".join(f"{entry.function} {entry.arguments}" for entry in numpy_cases.ENTRIES)
    drawn = {f"numpy.{name}" for name in re.findall(r"\bnp\.([A-Za-z_0-9.]+)", words)}
    drawn |= {f"numpy.{ufunc.__name__}" for ufunc in LOWERINGS}
    assert set(supported()) - drawn == set(NOT_DRAWN)


@pytest.mark.parametrize("seed", range(4))
def test_random_calls(seed: int) -> None:
    """A share of ``tests/fuzz/drivers/fuzz_numpy.py``."""
    from tests.fuzz.drivers import fuzz_numpy, numpy_cases

    rng = random.Random(100 + seed)
    for _ in range(250):
        case = numpy_cases.generate(rng)
        what = fuzz_numpy.difference(case)
        assert not what, fuzz_numpy.told(case, what)


@pytest.mark.parametrize("seed", range(3))
def test_random_programs(seed: int) -> None:
    """Views, writes in place, steps, index arrays and loops, on two sets of data."""
    from tests.fuzz.drivers import fuzz_numpy, numpy_programs

    rng = random.Random(seed)
    for _ in range(80):
        program = numpy_programs.programs(rng)
        what = fuzz_numpy.difference(program)
        assert not what, fuzz_numpy.told(program, what)


def test_the_fuzzer_sees_a_wrong_result(monkeypatch: pytest.MonkeyPatch) -> None:
    from hlo_tools.trace.elementwise import LOWERINGS
    from tests.fuzz.drivers import fuzz_numpy
    from tests.fuzz.drivers.numpy_cases import Array, Case, shrunk

    monkeypatch.setitem(LOWERINGS, np.subtract, LOWERINGS[np.add])
    arrays = (("a", Array("float32", (2, 3), "F", 5)), ("o", Array("float32", (2, 3))))
    case = Case("np.subtract", ("a", "1"), (("out", "o"), ("order", "'F'")), arrays)
    assert fuzz_numpy.difference(case)
    small = shrunk(case, lambda candidate: bool(fuzz_numpy.difference(candidate)))
    assert small.named == () and small.arrays[0][1].shape == (2,)
    monkeypatch.undo()


@pytest.mark.parametrize("start", range(2))
def test_numbers_beside_arrays(start: int) -> None:
    """A share of ``tests/fuzz/drivers/numpy_scalars.py``, which runs every combination."""
    from tests.fuzz.drivers import numpy_scalars

    for case in itertools.islice(numpy_scalars.combinations(), 1000 * start, None, 2003):
        what = numpy_scalars.difference(case)
        assert not what, f"{case}: {what}"


def test_the_fuzzer_survives_the_end_of_its_process() -> None:
    """A crash of NumPy alone is left out; a crash of only the traced function is a fault."""
    from tests.fuzz.drivers import fuzz_numpy
    from tests.fuzz.drivers.numpy_cases import Array, Case

    asked = fuzz_numpy.Asked()
    case = Case("np.negative", ("a",), (), (("a", Array("float32", (3,))),))
    end = "__import__('os')._exit(3)"
    assert asked.difference(replace(case, before=(end,)), "evaluate") == ""
    assert asked.deaths == 1
    traced = f"type(a).__name__ == 'TracedArray' and {end}"
    assert "died (3)" in asked.difference(replace(case, before=(traced,)), "evaluate")
    assert asked.difference(case, "evaluate") == "" and asked.deaths == 1
    asked.stop()


def test_reductions_of_ufuncs_are_computed_in_the_dtype_of_their_output() -> None:
    """NumPy hands ``out`` to the traced array in a tuple."""
    bytes_ = of((4, 5, 7), (9, 0, 1), (8, 9, 2), dtype=U8)
    counts = of((2**31, 2**31), (2**31, 2**31), dtype=np.dtype("u4"))
    for out in (np.zeros(3, F32), np.zeros(3, F16)):
        same_memory(lambda a, o: np.multiply.reduce(a, out=o, initial=-1), bytes_, out)
        same_memory(lambda a, o: np.add.accumulate(a, out=o)[0], bytes_, np.zeros((3, 3), F32))
    same_memory(lambda a, o: np.add.reduce(a, out=o), counts, np.zeros(2, F32))
    same_memory(lambda a, o: np.add.reduce(a, 0, None, o), counts, np.zeros(2, F32))


def test_a_product_without_dimensions_is_a_number_beside_its_output() -> None:
    def product(a: Any, o: Any) -> Any:
        product = np.dot(a, a, out=o)
        alias = product
        alias += 1
        return [product, alias, o]

    number = np.array(0.5, F32)
    same_memory(product, number, number)
    same_memory(product, of(1, 2), number)


def test_initial_values_that_an_output_does_not_hold() -> None:
    """NumPy keeps them in the output: right for integers, which wrap, of floats in no defined way."""
    row, total = of(3, 4, dtype=I32), np.zeros((), U8)
    for initial in (-1, 300):
        same_memory(lambda a, o: np.add.reduce(a, out=o, initial=initial), row, total)  # noqa: B023
        with pytest.raises(HloError, match="initial") as caught:
            trace(lambda a, o: np.sum(a, out=o, initial=initial), of(1, 2), total)  # noqa: B023
        assert caught.value.code == "HLO-TRACE-ARGUMENT"


def test_a_product_in_place_keeps_its_shape() -> None:
    def product(a: Any, b: Any) -> Any:
        a @= b
        return a

    same_memory(product, of((1, 2), (3, 4)), of((1, 2), (3, 5)))
    with pytest.raises(ValueError, match="output operand"):
        trace(product, of(1, 2, 3, 4), of((1,), (2,), (3,), (4,)))


def test_elements_taken_into_an_output_are_cast_as_numpy_casts_them() -> None:
    """It asks whether the output's dtype fits the array's, and then writes whatever it is."""
    array = of((2.5, 3), (4, 1))
    for out in (np.zeros((2, 2), bool), np.zeros((2, 2), U8), np.zeros((2, 2), F16)):
        same_memory(lambda a, o: [np.take(a, [1, 0], 0, o), o], array, out)
    with pytest.raises(TypeError, match="Cannot cast"):
        trace(lambda a, o: np.take(a, [1, 0], 0, o), array, np.zeros((2, 2), I32))


def test_what_numpy_refuses_of_rounding_and_clipping() -> None:
    numbers = np.array([0.5 + 2j, 3], np.complex64)
    for out in (np.zeros(2, F32), np.zeros(2, F16), np.zeros(2, I32)):
        with pytest.raises(TypeError, match="imaginary part"):
            trace(lambda a, o: np.around(a, out=o), numbers, out)
    with pytest.raises(TypeError, match="Cannot cast"):
        trace(lambda a, c: np.clip(a, 0, c, dtype=F32), of(1, 2), numbers)


def test_products_of_dimensions_of_one_element() -> None:
    a, b = of((1, 2, 3), (4, 5, 6)), of((7, 8, 9), (1, 2, 4))
    for words in ("ij,ij->ij", "ij,kj->ik", "ij,kj->k", "...j,...j", "ij,ij->"):
        for x, y in ((a[:1], b), (a, b[:, :1]), (a[:1, :1], b), (a[:, :1], b[:1])):
            same_memory(lambda x, y, w=words: np.einsum(w, x, y), x, y)
    with pytest.raises(ValueError, match="two sizes"):
        trace(lambda x, y: np.einsum("ij,ij", x, y), a, b[:, :2])


def test_a_python_number_in_a_product_is_an_array() -> None:
    """Numbers of 64 bits keep 8-bit operands from wrapping: only ufuncs adopt the other dtype."""
    for dtype in (np.int8, U8, F16):
        array = of((100, 3), (7, 90), dtype=np.dtype(dtype))
        for number in (2, 2.5):
            same_memory(lambda a, n=number: [np.dot(a, n), np.inner(n, a)], array)
            same_memory(lambda a, n=number: [np.outer(a, n), np.kron(a, n)], array)
            same_memory(lambda a, n=number: np.tensordot(a, n, 0), array)
            same_memory(lambda a, n=number: np.einsum("ij,->ij", a, n), array)
    for dtype in (np.int8, F16):
        same_memory(lambda a: [np.kron(a, 100), np.kron(2.5, a)], np.ones((), dtype))


def test_a_python_number_that_the_dtype_does_not_hold() -> None:
    """``where`` and ``select`` make it an array first; ``concatenate`` does where it flattens nothing."""
    array, chosen = of((1, 2), (3, 4), dtype=U8), np.array([True, False])
    for number in (-1, 300, 1 << 40):
        same_memory(lambda a, m, n=number: [np.where(m, a, n), np.where(m, n, a)], array, chosen)
        same_memory(lambda a, m, n=number: np.select([m], [a], n), array, chosen)
        same_memory(lambda a, n=number: np.concatenate((a, n), None), array)
    for number in (1, 2.5, True):
        same_memory(lambda a, n=number: np.concatenate((a, n), None), array.astype(F16))
        for dtype in (F32, F16):
            same_memory(lambda a, n=number, d=dtype: np.concatenate((a, n), None, dtype=d), array)
    same_memory(lambda a: np.concatenate((a, 1), None, dtype=U8), array)
    with pytest.raises(TypeError, match="Cannot cast"):
        trace(lambda a: np.concatenate((a, 2.5), None, dtype=I32), array)


def test_copyto_casts_a_python_number_as_numpy_does() -> None:
    def copied(number: Any, casting: Any) -> Any:
        def function(a: Any) -> Any:
            np.copyto(a, number, casting=casting)
            return a

        return function

    for dtype in (U8, F32):
        for casting in ("no", "equiv", "safe", "same_kind", "unsafe"):
            for number in (1, 2.5, True, 1j):
                function, array = copied(number, casting), np.zeros(2, dtype)
                try:
                    with np.errstate(all="ignore"), warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        function(array.copy())
                except TypeError as error:
                    with pytest.raises(TypeError, match=re.escape(str(error))):
                        trace(function, array)
                else:
                    same_memory(function, array)


def test_nothing_repeated_stays_read_only() -> None:
    empty = np.zeros((2, 0), F32)
    for counts in (2, (1, 2), (1, 2, 1)):

        def written(a: Any, n: Any = counts) -> Any:
            tiled = np.tile(np.broadcast_to(a, (3, 2, 0)), n)
            tiled[...] = 1
            return tiled

        with pytest.raises(ValueError, match="read-only"):
            written(empty)
        with pytest.raises(ValueError, match="read-only"):
            trace(written, empty)


def test_elements_of_nothing() -> None:
    index = np.array([0, 1, 0], I32)
    for shape in ((2, 0), (0, 2), (0, 0)):
        array = np.zeros(shape, F32)
        along = 0 if shape == (2, 0) else 1
        same_memory(
            lambda a, i, d=along: np.take_along_axis(a, i[:, None] if d == 0 else i[None], d),
            array, index,
        )  # fmt: skip
        if not shape[0]:
            same_memory(lambda a, i: np.take(a, i, 1), array, index)
            with pytest.raises(IndexError, match="out of bounds"):
                trace(lambda a, i: np.take(a, i, 0), array, index)


@pytest.mark.parametrize("constant", [None, "x", b"x", {}, set(), int, object(), range(3), of])
def test_equality_with_what_is_no_number(constant: Any) -> None:
    def function(a: Any) -> Any:
        number = 1 if a.sum() == constant else 2  # of a number and None, Python knows the answer
        return a == constant, a != constant, constant == a, constant != a[0], a.T[1:] * number

    if isinstance(constant, range):
        same_memory(
            lambda a: (a == constant, a != constant, constant == a, a + constant),
            of([0, 1, 5], [7, 1, 2]),
        )
    else:
        same_memory(function, of([0, 1, 5], [7, 1, 2]))


def test_an_array_of_no_dimensions_compared_with_none_is_a_number() -> None:
    def function(a: Any) -> Any:
        compared = a[0, ...] == None  # noqa: E711
        alias = compared
        alias |= True
        return compared, alias

    same_memory(function, of(1, 2))


@pytest.mark.parametrize("constant", [Fraction(1, 2), Decimal(1)])
def test_equality_with_numbers_of_other_libraries_is_refused(constant: Any) -> None:
    for function in (lambda a: a == constant, lambda a: constant != a):
        with pytest.raises(TraceError, match="has == of its own") as caught:
            trace(function, EDGES)
        assert caught.value.code == "HLO-TRACE-ARGUMENT"
        assert __file__ in str(caught.value)


def test_a_number_is_one_to_numpy() -> None:
    same_memory(
        lambda a: (np.isscalar(a.sum()), np.isscalar(a), isinstance(a[0], Number)), of(1, 2)
    )


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (lambda a: setattr(a, "shape", (2, 1)), "HLO-TRACE-FUNCTION"),
        (lambda a: setattr(a, "dtype", I32), "HLO-TRACE-FUNCTION"),
        (lambda a: a.tobytes(), "HLO-TRACE-FUNCTION"),
        (lambda a: a.partition(1), "HLO-TRACE-FUNCTION"),
        (lambda a: a.item(0), "HLO-TRACE-VALUE"),
        (lambda a: round(a[0]), "HLO-TRACE-VALUE"),
        (lambda a: f"{a[0]:.2f}", "HLO-TRACE-VALUE"),
        (lambda a: a.astype(str), "HLO-TRACE-DTYPE"),
        (lambda a: np.where(a > 0, a, None), "HLO-TRACE-DTYPE"),
    ],
)
def test_what_arrays_have_and_traced_ones_have_not(function: Any, code: str) -> None:
    with pytest.raises(TraceError) as caught:
        trace(function, of(1, 2))
    assert caught.value.code == code
    assert __file__ in str(caught.value)


def test_attributes_that_are_asked_for() -> None:
    same_memory(lambda a: a * hasattr(a, "nonsense") + len(f"{a.ndim}"), of(1, 2))
    assert trace(lambda a: a * hasattr(a, "tobytes"), of(1, 2)).outputs
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        trace(lambda a: a.nonsense, of(1, 2))


@pytest.mark.parametrize("key", [1.0, "x", object()])
def test_keys_that_are_no_index(key: Any) -> None:
    for function in (lambda a: a[key], lambda a: a.__setitem__(key, 1)):
        with pytest.raises(IndexError, match="only integers, slices"):
            trace(function, of(1, 2))


@pytest.mark.parametrize(("value", "error"), [(NAN, ValueError), (INF, OverflowError)])
def test_what_integers_do_not_take(value: float, error: type[Exception]) -> None:
    def function(a: Any) -> None:
        a[0] = value

    for call in (lambda: function(WHOLE.copy()), lambda: trace(function, WHOLE)):
        with pytest.raises(error):
            call()


def test_rounded_numbers_and_complex_fills() -> None:
    same_memory(lambda a: (round(a[0], 1), round(a.sum(), 2)), of(1.26, 2.384))
    same_memory(lambda a: (np.full_like(a, 2 + 1j), np.full_like(a, 1j, dtype=bool)), WHOLE)


class Doubled(np.ndarray):
    """Arrays with an addition of their own."""

    def __add__(self, operand: Any) -> Any:
        return 2 * np.asarray(self) + np.asarray(operand)


SUBCLASSES = [np.ma.array(EDGES, mask=EDGES > 1), EDGES.view(np.matrix), EDGES.view(Doubled)]


@pytest.mark.parametrize("array", SUBCLASSES)
def test_subclasses_with_operators_of_their_own_are_refused(array: Any) -> None:
    plain = np.asarray(array)
    for function, argument in ((lambda a: a + a, array), (lambda a: a + array, plain)):
        with pytest.raises(TraceError, match="operators of its own") as caught:
            trace(function, argument)
        assert caught.value.code == "HLO-TRACE-ARGUMENT"
        assert "numpy.asarray" in str(caught.value)
    same_memory(lambda a: a + plain, plain)


def test_mapped_arrays_are_arrays(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "data", np.float32, "w+", shape=(3,))
    mapped[:] = (1, 2, 3)
    same_memory(lambda a: a + mapped, mapped)
