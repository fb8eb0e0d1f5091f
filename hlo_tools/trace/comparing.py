"""Comparisons of integers of both signs, and with numbers that only 64 bits hold: exact, as NumPy's."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.array import TracedArray, kind_of
from hlo_tools.trace.elementwise import LOWERINGS
from hlo_tools.trace.graph import DType, Node, Operand
from hlo_tools.trace.promotion import narrow, resolved_dtypes

__all__ = ["COMPARISONS", "compare_number", "compare_signs", "mixes_signs"]

BOOL = np.dtype(bool)
S32, U32 = np.dtype(np.int32), np.dtype(np.uint32)
COMPARISONS = frozenset(
    (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
)
_SWAPPED: dict[np.ufunc, np.ufunc] = {
    np.less: np.greater, np.greater: np.less, np.less_equal: np.greater_equal,
    np.greater_equal: np.less_equal,
}  # fmt: skip
_FROM_BELOW: dict[np.ufunc, str] = {
    np.less: "LE",
    np.less_equal: "LE",
    np.greater: "GT",
    np.greater_equal: "GT",
}
"""How to compare with the largest value below a number that the dtype does not have."""
_FROM_ABOVE: dict[np.ufunc, str] = {
    np.less: "LT",
    np.less_equal: "LT",
    np.greater: "GE",
    np.greater_equal: "GE",
}
_EXACT: dict[np.ufunc, str] = {
    np.equal: "EQ", np.not_equal: "NE", np.less: "LT", np.less_equal: "LE", np.greater: "GT",
    np.greater_equal: "GE",
}  # fmt: skip


# Numbers


def compare_number(ufunc: np.ufunc, inputs: tuple[Operand, Operand]) -> Node | None:
    """An array compared with a number in 64 bits; None where NumPy compares in less.

    The array keeps its own dtype: it is compared with the value of that dtype next to the number.

    Raises:
        TypeError: NumPy's own, when there is no such comparison.
    """
    location = 1 if isinstance(inputs[0], TracedArray) else 0
    array, value = inputs[1 - location], inputs[location]
    if isinstance(value, TracedArray) or np.ndim(value):
        return None
    number = _wide_number(ufunc, array, value, (kind_of(inputs[0]), kind_of(inputs[1])), location)
    if number is None:
        return None
    if isinstance(number, complex):
        if ufunc not in (np.equal, np.not_equal):
            return None
        if array.dtype.kind == "c" and complex(np.complex64(number)) == number:
            return None
        if array.dtype.kind == "c" or number.imag or number != number:
            return _certain(array, ufunc is np.not_equal)
        number = number.real
    return _compared(_SWAPPED.get(ufunc, ufunc) if location == 0 else ufunc, array, number)


def _wide_number(
    ufunc: np.ufunc, array: TracedArray, value: Operand, kinds: Operand, position: int
) -> Operand:
    """The Python number that NumPy compares with, in 64 bits; None where it does in less."""
    if type(value) is int and array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        return None if limits.min <= value <= limits.max else value
    loop = resolved_dtypes(ufunc, kinds)[position]
    if narrow(loop) == loop:
        return None
    number = np.asarray(value)
    return (np.asarray(value, loop) if type(value) is int else number.astype(loop)).item()


def _compared(ufunc: np.ufunc, array: TracedArray, number: Operand) -> Node:
    dtype = np.dtype(np.int8) if array.dtype == BOOL else array.dtype
    if dtype.kind not in "iu":
        dtype = np.dtype(np.complex64 if dtype.kind == "c" else np.float32)
    elif number != number:
        return _certain(array, ufunc is np.not_equal)
    near = _nearest(number, dtype)
    if near == number or number != number:
        direction = _EXACT[ufunc]
    elif ufunc in (np.equal, np.not_equal):
        return _certain(array, ufunc is np.not_equal)
    else:
        direction = (_FROM_BELOW if near < number else _FROM_ABOVE)[ufunc]
    node = hlo.convert(array.node, dtype)
    return hlo.compare(direction, node, hlo.full(node.graph, node.shape, near, dtype))


def _nearest(number: Operand, dtype: DType) -> Operand:
    """A value of a dtype that has no other between itself and a number."""
    if dtype.kind not in "iu":
        with np.errstate(all="ignore"):
            return dtype.type(number).item()
    limits = np.iinfo(dtype)
    if isinstance(number, float) and math.isinf(number):
        return limits.max if number > 0 else limits.min
    rounded_down = math.floor(number)
    return min(max(rounded_down, limits.min), limits.max)


def _certain(array: TracedArray, answer: bool) -> Node:
    return hlo.full(array.graph, array.shape, answer, BOOL)


# Signs


def mixes_signs(inputs: tuple[Operand, ...]) -> bool:
    """Return True for uint32 and a signed type together; NumPy compares both as int64."""
    kinds = [kind_of(value) for value in inputs]
    dtypes = [kind for kind in kinds if isinstance(kind, np.dtype)]
    return (
        len(dtypes) == 2
        and {dtype.kind for dtype in dtypes} == {"i", "u"}
        and any(dtype.kind == "u" and dtype.itemsize >= 4 for dtype in dtypes)
    )


def compare_signs(ufunc: np.ufunc, nodes: list[Node]) -> Node:
    """A comparison of uint32 with int32: what is negative is below all, the rest is unsigned."""
    signed = 0 if nodes[0].dtype.kind == "i" else 1
    zero = hlo.full(nodes[signed].graph, nodes[signed].shape, 0, nodes[signed].dtype)
    negative = hlo.compare("LT", nodes[signed], zero)
    answer = bool(ufunc(-1, 0) if signed == 0 else ufunc(0, -1))
    certain = hlo.full(zero.graph, zero.shape, answer, BOOL)
    unsigned = [hlo.convert(node, U32) for node in nodes]
    return hlo.select(negative, certain, cast("Node", LOWERINGS[ufunc](*unsigned)))
