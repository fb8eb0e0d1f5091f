"""Where NumPy would keep an array's elements: strides, which decide what is a view and what a copy.

HLO has no memory layout that a program can see. NumPy has: ``ravel`` of a transposed array is a
copy, and order ``K`` follows the strides. Strides are counted in elements; None stands for those of
a C-contiguous array, by far the most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from hlo_tools.trace.graph import Array

__all__ = [
    "NeedsCopyError",
    "Strides",
    "contracted",
    "copied",
    "elementwise",
    "is_fortran",
    "normal",
    "outer_to_inner",
    "plain",
    "reduced",
    "regrouped",
    "strides_of",
]

Shape = tuple[int, ...]
Strides = tuple[int, ...] | None

_ELEMENT = np.zeros((), np.int8)
"""What arrays of given strides are made of; their elements are never read."""


def plain(shape: Shape) -> tuple[int, ...]:
    """The strides of a C-contiguous array."""
    steps = [1]
    for size in shape[:0:-1]:
        steps.append(steps[-1] * size)
    return tuple(reversed(steps)) if shape else ()


def normal(shape: Shape, strides: Sequence[int]) -> Strides:
    """``strides``, or None when they are those of a C-contiguous array (or of an empty one)."""
    if 0 in shape:
        return None
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return tuple(strides)
        expected *= size
    return None


def strides_of(array: Array) -> Strides:
    """Those of a NumPy array; of one whose elements share memory, those of a copy."""
    if array.flags.c_contiguous or not array.size:
        return None
    steps = zip(array.shape, array.strides, strict=True)
    if any(size > 1 and not stride for size, stride in steps):
        return None
    # Strides that are no multiple of the itemsize (fields) are as far from contiguous either way.
    unit = array.itemsize if all(s % array.itemsize == 0 for s in array.strides) else 1
    return normal(array.shape, [stride // unit for stride in array.strides])


def is_fortran(shape: Shape, strides: Strides) -> bool:
    """Whether the elements lie in Fortran order; with one dimension they lie in both."""
    known = plain(shape) if strides is None else strides
    return normal(shape[::-1], known[::-1]) is None


def copied(shape: Shape, strides: Sequence[int] | None, order: str) -> Strides:
    """The strides of a copy made with ``order``."""
    is_f = order == "A" and strides is not None and is_fortran(shape, tuple(strides))
    if order == "F" or is_f:
        return normal(shape, plain(shape[::-1])[::-1])
    if order != "K" or strides is None:
        return None
    outwards = outer_to_inner(strides)
    inner = plain(tuple(shape[axis] for axis in outwards))
    found = [0] * len(shape)
    for axis, stride in zip(outwards, inner, strict=True):
        found[axis] = stride
    return normal(shape, found)


def outer_to_inner(strides: Sequence[int]) -> tuple[int, ...]:
    """Dimensions as they lie in memory: the smallest stride innermost; of equal ones the last."""
    return tuple(sorted(range(len(strides)), key=lambda axis: (-abs(strides[axis]), axis)))


def _arrays(operands: Sequence[tuple[Shape, Strides]]) -> list[Array]:
    return [
        as_strided(_ELEMENT, own, plain(own) if strides is None else strides)
        for own, strides in operands
    ]


def elementwise(operands: Sequence[tuple[Shape, Strides]], shape: Shape) -> Strides:
    """The strides of a ufunc's new result: the order in which NumPy goes through the operands."""
    arrays = _arrays(operands)
    nditer: Any = np.nditer
    flags = [*[["readonly"]] * len(arrays), ["writeonly", "allocate"]]
    walk = nditer([*arrays, None], ["zerosize_ok"], flags, itershape=shape)
    return normal(shape, walk.operands[-1].strides)


def contracted(
    operands: Sequence[tuple[Shape, Strides]], labels: Sequence[Sequence[str]],
    output: Sequence[str], order: str = "K",
) -> Strides:  # fmt: skip
    """The strides of einsum's new result: NumPy goes through all operands at once."""
    summed = list(dict.fromkeys(one for names in labels for one in names if one not in output))
    walked = [*output, *summed]
    arrays = _arrays(operands)
    axes = [[names.index(one) if one in names else -1 for one in walked] for names in labels]
    axes.append([*range(len(output)), *[-1] * len(summed)])
    sizes = {
        name: size
        for (own, _), names in zip(operands, labels, strict=True)
        for name, size in zip(names, own, strict=True)
        if size != 1 or name not in output
    }
    shape = tuple(sizes.get(name, 1) for name in output)
    if 0 in shape:
        return None
    return normal(shape, _made(arrays, axes, order))


def reduced(
    operands: Sequence[tuple[Shape, Strides]], shape: Shape, axes: Sequence[int]
) -> Strides:
    """The strides of a reduction's new result, over the dimensions of ``shape``; those of ``axes`` are
    reduced. The operands are the array and perhaps a mask."""
    if 0 in shape or all(strides is None and own == shape for own, strides in operands):
        return None
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    places = [[-1] * (len(shape) - len(own)) + [*range(len(own))] for own, _ in operands]
    places.append([kept.index(axis) if axis in kept else -1 for axis in range(len(shape))])
    steps = iter(_made(_arrays(operands), places, "K"))
    return tuple(next(steps) if axis in kept else 0 for axis in range(len(shape)))


def _made(arrays: list[Array], axes: list[list[int]], order: str) -> tuple[int, ...]:
    """The strides of what NumPy allocates for a result when it goes through the arrays; -1 stands for
    a dimension that one lacks."""
    flags = [*[["readonly"]] * len(arrays), ["readwrite", "allocate"]]
    nditer: Any = np.nditer
    options = ["reduce_ok", "zerosize_ok"]
    return nditer([*arrays, None], options, flags, op_axes=axes, order=order).operands[-1].strides


class NeedsCopyError(Exception):
    """An array does not get another shape without being copied."""


def regrouped(shape: Shape, strides: Strides, target: Shape) -> Strides:
    """The strides of the same memory in another shape (C order).

    Raises:
        NeedsCopyError: there are none.
    """
    if strides is None or 0 in shape:
        return None
    try:
        array: Any = as_strided(_ELEMENT, shape, strides)
        found = np.reshape(array, target, copy=False)
    except ValueError as error:
        raise NeedsCopyError from error
    return normal(target, found.strides)
