"""Every NumPy and Python number beside arrays of every dtype, traced and untraced.

Usage: python -m tests.fuzz.drivers.numpy_scalars [--share N] [--show N]

A combination is a ufunc or an operator, the dtype of an array of edge values, a number, and the way
in which they meet (either order, in place, ``out=``, a 0-d array). It passes when the traced
function gives NumPy's values in the documented narrower dtype, raises where NumPy raises, or is
refused with a code. ``--share N`` runs every N-th combination. Exit code 1 when a combination
differs.
"""

from __future__ import annotations

import argparse
import operator
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo_tools import HloError
from hlo_tools.evaluate import evaluate
from hlo_tools.trace import trace

__all__ = ["Combination", "combinations", "difference"]

ARRAY_DTYPES = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32",
    "complex64",
)  # fmt: skip
SCALAR_TYPES = (
    "int", "float", "complex", "bool", "bool_", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
    "uint64", "float16", "float32", "float64", "longdouble", "complex64", "complex128",
)  # fmt: skip
UNTRACED = (
    np.datetime64("2020-01-01"), np.timedelta64(3, "s"), np.str_("a"), np.bytes_(b"a"),
    np.void(b"abcd"), np.clongdouble(1),
)  # fmt: skip
EXACT = ("add", "subtract", "multiply", "maximum", "minimum", "fmax", "fmin", "copysign")
QUOTIENTS = ("divide", "floor_divide", "remainder", "fmod")
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
LOGIC = ("logical_and", "logical_or", "logical_xor")
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
OTHERS = ("power", "arctan2", "hypot", "logaddexp", "heaviside", "float_power")
UFUNCS = (*EXACT, *QUOTIENTS, *BITS, *LOGIC, *COMPARISONS, *OTHERS)
OPERATORS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor_divide": "//",
    "remainder": "%", "bitwise_and": "&", "left_shift": "<<", "less": "<", "equal": "==",
}  # fmt: skip
IN_PLACE = {
    "add": operator.iadd, "subtract": operator.isub, "multiply": operator.imul,
    "divide": operator.itruediv, "floor_divide": operator.ifloordiv, "remainder": operator.imod,
    "bitwise_and": operator.iand, "left_shift": operator.ilshift,
}  # fmt: skip
WITHOUT_UFUNC = ("clip", "where", "pad", "assign", "concatenate", "full_like", "append")
NARROWER = {"float64": "float32", "int64": "int32", "uint64": "uint32", "complex128": "complex64"}
"""The documented dtype of a result that has 64 bits in NumPy."""


@dataclass(frozen=True, slots=True)
class Combination:
    """A way in which a number of a type meets an array of a dtype in a ufunc."""

    ufunc: str
    dtype: str
    number: Any
    way: str

    @property
    def function(self) -> Callable[[Any], Any]:
        """The function that is traced."""
        ufunc, number = getattr(np, self.ufunc), self.number
        modes: dict[str, Callable[[Any], Any]] = {
            "right": lambda a: ufunc(a, number),
            "left": lambda a: ufunc(number, a),
            "0-d": lambda a: ufunc(a, np.array(number)),
            "element": lambda a: ufunc(a[0], number),
            "out": lambda a: ufunc(a, number, out=a),
            "in place": lambda a: IN_PLACE[self.ufunc](a, number),
            "operator": lambda a: _operate(OPERATORS[self.ufunc], a, number),
            "reflected": lambda a: _operate(OPERATORS[self.ufunc], number, a),
            "clip": lambda a: np.clip(a, None, number),
            "where": lambda a: np.where(a == a, number, a),
            "pad": lambda a: np.pad(a, 1, constant_values=number),
            "assign": lambda a: operator.setitem(a, 0, number),
            "concatenate": lambda a: np.concatenate([a, np.array([number])]),
            "full_like": lambda a: np.full_like(a, number),
            "append": lambda a: np.append(a, number),
        }
        return modes[self.way]

    def __str__(self) -> str:
        return f"{self.ufunc} {self.way}: {self.dtype} with {type(self.number).__name__} {self.number!r}"


def _operate(sign: str, left: Any, right: Any) -> Any:
    return eval(f"left {sign} right", {"left": left, "right": right})


def edges(dtype: str) -> np.ndarray[Any, Any]:
    """An array of edge values of a dtype."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.array([True, False])
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return np.array(
            [limits.min, limits.max, 0, 1, 2, limits.max - 1, limits.min + 1, 100], kind
        )
    limits = np.finfo(kind)
    values = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        0.1,
        limits.max,
        limits.min,
        limits.tiny,
        np.inf,
        -np.inf,
        np.nan,
    ]
    return np.array(values, kind) if kind.kind == "f" else np.array([*values, 1 + 2j, 2j], kind)


def numbers(kind: str) -> Iterator[Any]:
    """Edge values of a type of numbers."""
    if kind in ("bool", "bool_"):
        yield from (bool(1), bool(0)) if kind == "bool" else (np.bool_(1), np.bool_(0))
        return
    integers = [0, 1, -1, 3, 127, 128, 255, -128, 2**31 - 1, 2**31, -(2**31), 2**32 - 1, 2**32,
             2**32 + 1, 2**40, 2**63 - 1, -(2**63), 2**63, 2**64 - 1]  # fmt: skip
    real = [0.0, -0.0, 1.0, -1.0, 0.5, 0.1, -2.5, 16777217.0, 2.0**31, 2.0**32, 2.0**63, 65504.0,
            3.4028234663852886e38, 1e39, 1.7e308, -1e300, 1e-40, 1e-300, 5e-324, np.inf, -np.inf,
            np.nan]  # fmt: skip
    if kind == "int":
        yield from (*integers, 2**70, -(2**70), 2**2000)
    elif kind in ("float", "complex"):
        yield from real if kind == "float" else [complex(x, 0) for x in real] + [1 + 2j, 1e300j]
    elif np.dtype(kind).kind in "iu":
        limits = np.iinfo(kind)
        yield from [np.dtype(kind).type(n) for n in integers if limits.min <= n <= limits.max]
    else:
        with np.errstate(all="ignore"):
            yield from [np.dtype(kind).type(x) for x in real]
        if np.dtype(kind).kind == "c":
            yield from [np.dtype(kind).type(1 + 2j), np.dtype(kind).type(0.1j)]


def combinations() -> Iterator[Combination]:
    """All of them, in the same order each time."""
    every = [*(n for kind in SCALAR_TYPES for n in numbers(kind)), *UNTRACED]
    for dtype in ARRAY_DTYPES:
        for number in every:
            for ufunc in UFUNCS:
                if "power" in ufunc and _is_left_out(dtype, number):
                    continue
                for mode in ("right", "left", "0-d", "element", "out"):
                    yield Combination(ufunc, dtype, number, mode)
                if ufunc in OPERATORS:
                    yield Combination(ufunc, dtype, number, "operator")
                    yield Combination(ufunc, dtype, number, "reflected")
                if ufunc in IN_PLACE:
                    yield Combination(ufunc, dtype, number, "in place")
            for mode in WITHOUT_UFUNC:
                yield Combination("add", dtype, number, mode)


def _is_left_out(dtype: str, number: Any) -> bool:
    """Powers that the tracer documents as C's: roots of -0.0 and -inf; complex ones that overflow."""
    return (
        "complex" in dtype
        or isinstance(number, complex | np.complexfloating)
        or (isinstance(number, float | np.floating) and number == 0.5)
    )


def difference(case: Combination) -> str:
    """Return the difference from NumPy; "" for NumPy's values, NumPy's error or a coded refusal."""
    array = edges(case.dtype)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, after = _by_numpy(case.function, array)
        try:
            traced = trace(case.function, array.copy())
        except HloError as error:
            return (
                "" if error.code.startswith("HLO-TRACE") and error.remedy else f"code {error.code}"
            )
        except Exception as error:
            is_error = isinstance(expected, Exception)
            return "" if is_error else f"raises {type(error).__name__}: {error}"
        if isinstance(expected, Exception):
            is_excused = "negative integer powers" in str(
                expected
            )  # of elements, see numpy-tracing.md
            return "" if is_excused else f"NumPy raises {type(expected).__name__}: {expected}"
        outputs = evaluate(traced.to_module(), [array])
        if expected is None or expected is after:
            return _compare(case, after, outputs[0], array)
        return _compare(case, expected, outputs[0], array)


def _by_numpy(function: Callable[[Any], Any], array: Any) -> tuple[Any, Any]:
    """NumPy's result or error, and the argument afterwards."""
    after = array.copy()
    try:
        return function(after), after
    except Exception as error:
        return error, after


def _compare(case: Combination, expected: Any, actual: Any, array: Any) -> str:
    wanted_value = np.asarray(expected)
    name = NARROWER.get(str(wanted_value.dtype), str(wanted_value.dtype))
    if str(actual.dtype) != name or actual.shape != wanted_value.shape:
        return f"{actual.dtype}{list(actual.shape)}, NumPy has {wanted_value.dtype}{list(wanted_value.shape)}"
    narrow = wanted_value.astype(name)
    if _same(narrow, actual):
        return ""
    if _same(_in_32_bits(case, array, name), actual):
        return ""
    return f"{actual.tolist()}, NumPy has {narrow.tolist()}"


def _same(expected: Any, actual: Any) -> bool:
    if expected is None or np.shape(expected) != actual.shape:
        return False
    if expected.dtype.kind in "biu":
        return np.array_equal(expected, actual)
    tolerance = (
        2e-3 if expected.dtype.itemsize == 2 else 3e-5 if expected.dtype.kind == "c" else 4e-6
    )
    kind = complex if expected.dtype.kind == "c" else float
    return np.allclose(
        actual.astype(kind), expected.astype(kind), rtol=tolerance, atol=1e-44, equal_nan=True
    )


def _in_32_bits(case: Combination, array: Any, name: str) -> Any:
    """NumPy's result in the documented dtype, where NumPy computes with floats of 64 bits.

    None where it does not, and for a number that 32 bits do not hold.
    """
    if case.way in WITHOUT_UFUNC:
        return None
    ufunc = getattr(np, case.ufunc)
    try:
        number = np.array(case.number) if case.way == "0-d" else case.number
        loop = ufunc(array, number).dtype
    except Exception:
        return None
    if str(loop) not in ("float64", "complex128"):
        return None
    narrower = np.dtype(NARROWER[str(loop)])
    number = np.asarray(case.number).astype(narrower)
    if np.isinf(number) != np.isinf(case.number):
        return None
    operands = (array.astype(narrower), number)
    result = ufunc(*(operands[::-1] if case.way in ("left", "reflected") else operands))
    return (result[0] if case.way == "element" else result).astype(name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=int, default=1, help="run every N-th combination")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--show", type=int, default=40, help="differences that are shown")
    options = parser.parse_args()
    count, kinds, shown = 0, Counter[str](), 0
    for position, case in enumerate(combinations()):
        if position % options.share != options.start:
            continue
        count += 1
        what = difference(case)
        if what:
            kinds[f"{case.ufunc} {case.way} {case.dtype} {type(case.number).__name__}"] += 1
            shown += 1
            if shown <= options.show:
                print(f"{case}: {what}"[:300])
    print(f"{count} combinations, {sum(kinds.values())} differ")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
