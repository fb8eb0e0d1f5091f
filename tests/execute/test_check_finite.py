"""The check of finite numbers agrees with NumPy on every bit pattern."""

import ml_dtypes
import numpy as np
import pytest

from nki_lang.execute.checks.finite import first_not_finite

SMALL_TYPES = [
    np.float16,
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e3m4,
    ml_dtypes.float8_e4m3,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2,
]


@pytest.mark.parametrize("kind", SMALL_TYPES, ids=lambda kind: kind.__name__)
def test_every_bit_pattern(kind):
    size = np.dtype(kind).itemsize
    values = np.arange(1 << 8 * size, dtype=f"u{size}").view(kind)
    with np.errstate(invalid="ignore"):  # signalling NaN
        finite = np.isfinite(values)
        for pattern, expected in zip(values.reshape(-1, 1), finite, strict=True):
            assert (first_not_finite(pattern) is None) == expected
    assert first_not_finite(values[finite]) is None


@pytest.mark.parametrize("kind", [*SMALL_TYPES, np.float32], ids=lambda kind: kind.__name__)
def test_the_first_of_a_strided_tile(kind):
    tile = np.ones((4, 16), kind)
    tile[2, 3] = tile[3, 0] = np.nan
    assert first_not_finite(tile) == (2, 3)
    assert first_not_finite(tile[:, 1::2]) == (2, 1)
    assert first_not_finite(tile[:2]) is None
    assert first_not_finite(tile[:, 4:]) is None
    assert first_not_finite(tile[:0]) is None


def test_numbers_whose_squares_are_infinite():
    tile = np.full((4, 16), 1e30, np.float32)
    assert first_not_finite(tile) is None
    tile[3, 15] = -np.inf
    assert first_not_finite(tile) == (3, 15)
