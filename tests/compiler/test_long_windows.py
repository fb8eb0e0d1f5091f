"""Windows so long that they are reduced by doubling, against jaxlib; programs stay small."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from neff.compiler import compile
from tests.compiler.compiling import check, lowered

pytestmark = pytest.mark.jax

lax = pytest.importorskip("jax.lax")


def integers(*shape: int, dtype: Any = np.int32) -> Any:
    low, high = (-100, 100) if np.dtype(dtype).kind == "i" else (0, 200)
    return np.random.default_rng(len(shape)).integers(low, high, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
def test_cumulative_integers(dtype: Any) -> None:
    x = integers(2, 1301, dtype=dtype)
    check(lambda x: (lax.cumsum(x, 1), lax.cumprod(x, 1, reverse=True), lax.cummax(x, 1)), x)


@pytest.mark.parametrize(
    "shape, window, strides, padding, holes",
    [
        ((3000,), (700,), (3,), ((349, 350),), {}),
        ((700, 90), (300, 40), (2, 1), ((0, 0), (20, 19)), {}),
        ((2000,), (300,), (1,), ((5, 17),), {"window_dilation": (3,), "base_dilation": (2,)}),
    ],
)
def test_windows_in_all_their_forms(
    shape: Any, window: Any, strides: Any, padding: Any, holes: Any
) -> None:
    x = integers(*shape)

    def summed(x: Any) -> Any:
        return lax.reduce_window(x, np.int32(0), lax.add, window, strides, padding, **holes)

    check(summed, x)


def test_floats_and_truth_values() -> None:
    x = np.random.default_rng(0).standard_normal(3000).astype(np.float32)

    def windows(x: Any, rare: Any) -> Any:
        return (
            lax.reduce_window(x, np.float32(0), lax.add, (700,), (1,), "SAME"),
            lax.reduce_window(x, -np.float32(np.inf), lax.max, (700,), (1,), "SAME"),
            lax.reduce_window(rare, np.False_, lax.bitwise_or, (700,), (1,), "SAME"),
        )

    check(windows, x, x > 3, tolerance=1e-4)


def test_halves_are_summed_as_float32() -> None:
    x = np.random.default_rng(0).standard_normal(2000).astype(np.float16)

    def summed(x: Any) -> Any:
        return lax.reduce_window(x, np.float16(0), lax.add, (700,), (1,), "VALID")

    def exact(x: Any) -> Any:
        return np.convolve(np.asarray(x, np.float64), np.ones(700), "valid").astype(np.float16)

    from neff import runtime

    program = compile(lowered(summed, x), target="trn2")
    (result,) = runtime.load(program).run({program.inputs[0]: x}).values()
    np.testing.assert_allclose(
        result.astype(np.float32), exact(x).astype(np.float32), rtol=1e-3, atol=1e-2
    )


def test_computations_of_several_operations_and_operands() -> None:
    x, positions = integers(2000), np.arange(2000, dtype=np.int32)

    def first_largest(a: Any, b: Any) -> Any:
        is_left = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        return lax.select(is_left, a[0], b[0]), lax.select(is_left, a[1], b[1])

    def windows(x: Any, locations: Any) -> Any:
        start = (np.int32(-(2**31)), np.int32(-1))
        chosen = lax.reduce_window((x, locations), start, first_largest, (500,), (1,), "VALID")
        combined = lax.reduce_window(
            x, np.int32(7), lambda a, b: a * b + a + b, (600,), (1,), "VALID"
        )
        return chosen, combined

    check(windows, x, positions)


@pytest.mark.parametrize("shape", [(10_000,), (40_000,), (2, 80_000)])
def test_a_cumulative_sum_has_few_instructions(shape: tuple[int, ...]) -> None:
    """A view of its windows has as many elements as the square of its length."""
    dim = len(shape) - 1
    program = compile(lowered(lambda x: lax.cumsum(x, dim), integers(*shape)), target="trn2")
    assert program.metadata["statistics"]["instructions"] < 400


@pytest.mark.parametrize("size", [39_991, 40_000])
def test_a_short_window_over_a_long_row_has_few_instructions(size: int) -> None:
    """39,998 results divide into 2857 or 14 equal blocks; a block costs two transfers."""
    x = np.random.default_rng(size).standard_normal(size).astype(np.float32)

    def sums(x: Any) -> Any:
        return lax.reduce_window(x, np.float32(0), lax.add, (3,), (1,), "VALID")

    program = compile(lowered(sums, x), target="trn2")
    assert program.metadata["statistics"]["instructions"] < 400
    check(sums, x)
