"""Arithmetic on shapes and strides, with no tensor in sight."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

__all__ = ["infer", "merged_stride", "parse_pattern", "reshaped", "row_major"]


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense tensor."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def infer(shape: Sequence[int], total: int) -> tuple[int, ...] | None:
    """``shape`` with one -1 filled in so that it holds ``total`` elements; None if it cannot."""
    product = prod(extent for extent in shape if extent != -1)
    unknown = sum(1 for extent in shape if extent == -1)
    if unknown > 1 or any(extent < -1 for extent in shape):
        return None
    if unknown:
        if product == 0 or total % product:
            return None
        return tuple(total // product if extent == -1 else extent for extent in shape)
    return tuple(shape) if product == total else None


def merged_stride(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """Stride of the one dimension that all the given ones merge into; None if they cannot."""
    stride: int | None = None
    expected = 0
    for extent, step in zip(reversed(shape), reversed(strides), strict=True):
        if extent == 1:
            continue
        if stride is None:
            stride = step
        elif step != expected:
            return None
        expected = step * extent
    return 1 if stride is None else stride


def reshaped(
    shape: Sequence[int], strides: Sequence[int], new_shape: Sequence[int]
) -> tuple[int, ...] | None:
    """Strides of the same elements in ``new_shape``, or None when only a copy could do it.

    Both shapes are cut into the shortest runs of equal size; each old run must merge into one
    dimension, which the new run then divides.
    """
    result: list[int] = []
    old = [(extent, step) for extent, step in zip(shape, strides, strict=True) if extent != 1]
    position = axis = 0
    while axis < len(new_shape):
        if new_shape[axis] == 1:
            result.append(result[-1] if result else 1)
            axis += 1
            continue
        first = axis
        new_size = new_shape[axis]
        run = [old[position]]
        old_size = run[0][0]
        position, axis = position + 1, axis + 1
        while old_size != new_size:
            if old_size < new_size:
                run.append(old[position])
                old_size *= old[position][0]
                position += 1
            else:
                new_size *= new_shape[axis]
                axis += 1
        stride = merged_stride([extent for extent, _ in run], [step for _, step in run])
        if stride is None:
            return None
        inner = row_major(new_shape[first:axis])
        result.extend(stride * step for step in inner)
    return tuple(result)


def parse_pattern(pattern: Any) -> list[tuple[str, ...]]:
    """An einops-like pattern as groups of names: ``('b', ('h', 'w'))`` or ``'b (h w)'``."""
    if isinstance(pattern, str):
        groups: list[tuple[str, ...]] = []
        words = pattern.replace("(", " ( ").replace(")", " ) ").split()
        while words:
            word = words.pop(0)
            if word != "(":
                groups.append((word,))
                continue
            end = words.index(")")
            groups.append(tuple(words[:end]))
            words = words[end + 1 :]
        return groups
    return [(entry,) if isinstance(entry, str) else tuple(entry) for entry in pattern]
