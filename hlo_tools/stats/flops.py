"""Arithmetic of one instruction, as XLA's ``HloCostAnalysis`` counts it.

One operation of an element is one FLOP whatever its type, a multiply-add is two, and functions
such as ``exponential`` are counted by themselves. Checked opcode by opcode against jaxlib 0.10.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hlo_tools.types.opcodes import opcodes_of_cost

__all__ = ["APPLIED", "ELEMENTWISE", "FORMULAS", "TRANSCENDENTAL", "Extent", "applications"]

Message = Any

ELEMENTWISE = opcodes_of_cost("flop")
"""One FLOP an element of the result."""

TRANSCENDENTAL = opcodes_of_cost("transcendental")
"""One transcendental operation an element of the result."""

_LARGEST_WINDOW = 1 << 16
"""For windows of this size, locations in the padding are counted like others."""


class Extent(NamedTuple):
    """The size of a shape: of all its parts, and the dimensions of the first array among them."""

    elements: int
    size: int
    dimensions: tuple[int, ...]
    parts: int

    @property
    def first(self) -> int:
        """Elements of the first array."""
        return math.prod(self.dimensions)


Operands = Sequence[Extent]


def _extent(extents: Sequence[int], dimension: int) -> int:
    return extents[dimension]


def _dot(row: Message, result: Extent, operands: Operands) -> int:
    numbers = row.dot_dimension_numbers
    left = operands[0].dimensions
    axes = [a for a in numbers.lhs_contracting_dimensions if 0 <= a < len(left)]
    return 2 * result.elements * math.prod(_extent(left, a) for a in axes)


def _convolution(row: Message, result: Extent, operands: Operands) -> int:
    numbers = row.convolution_dimension_numbers
    window = row.window.dimensions
    left, right, out = operands[0].dimensions, operands[1].dimensions, result.dimensions
    try:
        positions = math.prod(
            _places(dimension, _extent(left, a), _extent(out, b))
            for dimension, a, b in zip(
                window,
                numbers.input_spatial_dimensions,
                numbers.output_spatial_dimensions,
                strict=False,
            )
        )
        batch = _extent(left, numbers.input_batch_dimension) // max(int(row.batch_group_count), 1)
        features = _extent(right, numbers.kernel_input_feature_dimension)
        output_features = _extent(out, numbers.output_feature_dimension)
        return 2 * positions * batch * features * output_features
    except IndexError:
        return 0


def _places(window: Message, input_extent: int, output_extent: int) -> int:
    """Count the pairs of window and result locations that read an element, not padding."""
    if window.size > _LARGEST_WINDOW:
        return window.size * output_extent
    stride, base = max(window.stride, 1), max(window.base_dilation, 1)
    limit = base * (input_extent - 1) + 1
    total = 0
    for position in range(window.size):
        offset = position * max(window.window_dilation, 1) - window.padding_low
        total += _hits(offset, stride, base, limit, output_extent)
    return total


def _hits(offset: int, stride: int, base: int, limit: int, count: int) -> int:
    """Count the ``offset + k * stride`` (k < count) in [0, limit) that are multiples of base."""
    common = math.gcd(stride, base)
    if offset % common:
        return 0
    period = base // common
    first = (-offset // common) * pow(stride // common, -1, period) % period if period > 1 else 0
    low = max(0, -(offset // stride))
    low += (first - low) % period
    high = min(count - 1, (limit - 1 - offset) // stride)
    return (high - low) // period + 1 if high >= low else 0


def _fft(row: Message, result: Extent, operands: Operands) -> int:
    """Two FLOPs for each of four products of log2(length) butterflies an element."""
    largest = max(result.elements, operands[0].elements)
    length = math.prod(row.fft_length)
    return 8 * max(length.bit_length() - 1, 0) * largest


def _sort(row: Message, result: Extent, operands: Operands) -> int:
    count = operands[0].elements
    return count * max(count - 1, 0).bit_length()


def _cholesky(row: Message, result: Extent, operands: Operands) -> int:
    return operands[0].dimensions[-1] * operands[0].elements // 3


def _triangular_solve(row: Message, result: Extent, operands: Operands) -> int:
    return 2 * operands[0].dimensions[-1] * operands[1].elements


FORMULAS: dict[str, Callable[[Message, Extent, Operands], int]] = {
    "dot": _dot,
    "convolution": _convolution,
    "fft": _fft,
    "sort": _sort,
    "cholesky": _cholesky,
    "triangular-solve": _triangular_solve,
}
"""FLOPs of the opcodes that need a formula."""

APPLIED = opcodes_of_cost("applied")
"""Opcodes that apply computations of theirs many times; see :func:`applications`."""


def applications(row: Message, result: Extent, operands: Operands) -> tuple[int, ...]:
    """Return how often an opcode of :data:`APPLIED` applies each called computation."""
    opcode = row.opcode
    if opcode == "reduce":
        return (max(operands[0].first - result.first, 0),)
    if opcode == "reduce-window":
        return ((_window_size(row) - 1) * result.first,)
    if opcode == "select-and-scatter":
        return (operands[1].first * (_window_size(row) - 1), operands[1].first)
    if opcode == "scatter":
        return (operands[len(operands) // 2 + 1].first,)
    return (result.elements,)


def _window_size(row: Message) -> int:
    return math.prod(dimension.size for dimension in row.window.dimensions)
