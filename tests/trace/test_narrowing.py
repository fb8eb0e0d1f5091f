"""The warning where NumPy leaves 32 bits, and what brings none."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hlo_tools.trace import trace

S32 = np.array([2**31 - 1, 2**31 - 1], np.int32)
U32 = np.array([2**32 - 1, 3], np.uint32)
F32 = np.array([0.5, 2.0], np.float32)
Function = Callable[..., Any]


def warned(function: Function, *arrays: Any) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trace(function, *arrays)
    return caught


@pytest.mark.parametrize(
    ("function", "arrays", "words"),
    [
        (lambda a: np.sum(a), [S32], "numpy.sum of int32 has dtype int64"),
        (lambda a: a.sum(axis=0), [U32], "numpy.sum of uint32 has dtype uint64"),
        (lambda a: np.add.reduce(a), [S32], "numpy.sum of int32"),
        (lambda a: np.prod(a), [S32.astype(np.int16)], "numpy.prod of int16"),
        (lambda a: np.cumsum(a), [S32], "numpy.cumsum of int32"),
        (lambda a: a.cumprod(), [S32], "numpy.cumprod of int32"),
        (lambda a: np.sum(a, dtype=np.float64), [F32], "numpy.sum of float32 has dtype float64"),
        (lambda a, b: a + b, [S32, U32], "numpy.add has dtype int64"),
        (lambda a, b: np.maximum(a, b), [S32, U32], "numpy.maximum has dtype int64"),
        (lambda a, b: a @ b, [S32, U32], "numpy.matmul has dtype int64"),
        (lambda a, b: a * b, [S32, F32], "numpy.multiply has dtype float64"),
        (lambda a, b: a / b, [S32, S32], "numpy.divide has dtype float64"),
        (lambda a: a * np.int64(2), [S32], "numpy.multiply has dtype int64"),
        (lambda a: np.add(a, a, dtype=np.int64), [S32], "numpy.add has dtype int64"),
        (lambda a: a.astype(np.int64) * 2, [S32], "a cast of int32 has dtype int64"),
        (lambda a: np.astype(a, np.float64), [F32], "a cast of float32 has dtype float64"),
        (lambda a, b: np.where(a > b, a, b), [S32, U32], "several dtypes has dtype int64"),
        (lambda a, b: np.concatenate([a, b]), [S32, F32], "several dtypes has dtype float64"),
        (lambda a, b: np.stack([a, b]), [S32, U32], "several dtypes has dtype int64"),
    ],
)
def test_what_64_bits_would_hold(function: Function, arrays: list[Any], words: str) -> None:
    (warning,) = warned(function, *arrays)
    assert warning.category is UserWarning
    assert words in str(warning.message)
    assert "which NeuronCores do not have; it is traced as" in str(warning.message)
    assert Path(warning.filename).name == "test_narrowing.py"


@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (lambda a: a.sum() + a.mean(), [F32]),
        (lambda a: np.mean(a), [S32]),
        (lambda a: np.var(a), [S32]),
        (lambda a: a * 2 + 1, [S32]),
        (lambda a: a / 3 + np.sqrt(a), [S32]),
        (lambda a: a * np.sqrt(2.0) + np.float64(0.1), [F32]),
        (lambda a: a * np.arange(2), [F32]),
        (lambda a: (a > 0) * np.arange(2) + (a > 0) * 3, [F32]),
        (lambda a: np.argmax(a) + np.argsort(a), [F32]),
        (lambda a: a[np.arange(2)] + a[np.argmin(a)], [F32]),
        (lambda a, b: (a < b) | (a == b), [S32, U32]),
        (lambda a, b: np.minimum(a, np.arange(2)) + np.where(b > 0, a, np.int64(3)), [S32, F32]),
        (lambda a: np.sum(a > 0) + np.count_nonzero(a), [F32]),
        (lambda a: (a > 0).astype(np.int64) + (a > 0).astype(int), [F32]),
        (lambda a: np.sum(a) + np.cumsum(a)[0], [np.ones(300, np.uint8)]),
        (lambda a: np.sum(a[:1]) + np.prod(a[:1]), [S32]),
        (lambda a: np.sum(a, dtype=np.int32), [S32]),
        (lambda a: np.zeros_like(a, dtype=np.int64) + len(a) + a.shape[0], [S32]),
        (lambda a: np.dot(a, a) + np.max(a) + np.clip(a, 0, 3), [S32]),
        (lambda a: np.linalg.norm(a) + np.std(a), [F32]),
        (lambda a: np.average(a, weights=[1, 2]), [F32]),
    ],
)
def test_ordinary_code_brings_no_warning(function: Function, arrays: list[Any]) -> None:
    assert warned(function, *arrays) == []


def test_once_a_function_at_the_first_place() -> None:
    def function(a: Any, b: Any) -> Any:
        first = a.sum()
        return first + b.sum() + (a + b)

    (warning,) = warned(function, S32, U32)
    assert warning.lineno == function.__code__.co_firstlineno + 1
    assert len(warned(function, S32, U32)) == 1
