"""Pooling over windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.functions.reductions import lowest
from hlo_tools.trace.graph import Array, Node, Operand
from neff.torch_graph.operator_call import F32, S64, OperatorCall, Row

__all__ = ["WINDOWS"]


def _for_each(values: Sequence[int], rank: int) -> list[int]:
    return list(values) * rank if len(values) == 1 else list(values)


def _max_pool(rank: int) -> Row:
    def row(
        call: OperatorCall, x: Node, kernel_size: Sequence[int], stride: Sequence[int] = (),
        padding: Sequence[int] = (0,), dilation: Sequence[int] = (1,), ceil_mode: bool = False,
    ) -> tuple[Node, Node]:  # fmt: skip
        """The greatest element of each window with its flat position, tap by tap."""
        sizes = _for_each(kernel_size, rank)
        steps = _for_each(stride or kernel_size, rank)
        around, gaps = _for_each(padding, rank), _for_each(dilation, rank)
        space = x.shape[-rank:]
        out = call.shape[-rank:]
        lead = len(x.shape) - rank
        high = [
            max(0, (count - 1) * step + (size - 1) * gap + 1 - extent - pad)
            for count, step, size, gap, extent, pad in zip(
                out, steps, sizes, gaps, space, around, strict=True
            )
        ]
        start = hlo.constant(call.graph, lowest(x.dtype), x.dtype)
        padded = hlo.pad(x, start, [0] * lead + around, [0] * lead + high)
        flat = _flat_positions(space, around, high)
        best = call.full(lowest(x.dtype))
        position: Node | None = None
        for taps in product(*(range(size) for size in sizes)):
            starts = [tap * gap for tap, gap in zip(taps, gaps, strict=True)]
            limits = [s + (n - 1) * step + 1 for s, n, step in zip(starts, out, steps, strict=True)]
            values = hlo.slice_(
                padded, [0] * lead + starts, [*x.shape[:lead], *limits], [1] * lead + steps
            )
            window = tuple(slice(*b) for b in zip(starts, limits, steps, strict=True))
            positions = hlo.broadcast(call.graph.constant(flat[window]), call.shape)
            if position is None:
                best, position = values, positions
                continue
            wins = hlo.compare("GT", values, best)
            if x.dtype.kind not in "biu":
                wins = hlo.elementwise("or", wins, hlo.compare("NE", values, values))
            best = hlo.select(wins, values, best)
            position = hlo.select(wins, positions, position)
        assert position is not None
        return _window_maximum(call, padded, sizes, steps, gaps), hlo.convert(position, S64)

    return row


def _flat_positions(space: Sequence[int], low: Sequence[int], high: Sequence[int]) -> Array:
    """The position of every element in its flattened space, surrounded by zeros."""
    flat = np.zeros([sum(row) for row in zip(space, low, high, strict=True)], np.int32)
    inner = tuple(slice(start, start + size) for start, size in zip(low, space, strict=True))
    flat[inner] = np.arange(math.prod(space)).reshape(tuple(space))
    return flat


def _windows_of(
    lead: int, sizes: Sequence[int], steps: Sequence[int], gaps: Sequence[int]
) -> list[dict[str, int]]:
    plain = [(1, 1, 1)] * lead + list(zip(sizes, steps, gaps, strict=True))
    return [
        {
            "size": size, "stride": step, "padding_low": 0, "padding_high": 0,
            "window_dilation": gap, "base_dilation": 1,
        }
        for size, step, gap in plain
    ]  # fmt: skip


def _window_maximum(
    call: OperatorCall, padded: Node, sizes: list[int], steps: list[int], gaps: list[int]
) -> Node:
    lead = len(padded.shape) - len(sizes)
    reduced = _reduced_windows(padded, lowest(padded.dtype), "maximum", lead, sizes, steps, gaps)
    for axis in range(lead, len(padded.shape)):  # the ceiling may leave a row beyond the last one
        if reduced.shape[axis] != call.shape[axis]:
            limits = [n if i != axis else call.shape[axis] for i, n in enumerate(reduced.shape)]
            reduced = hlo.slice_(reduced, [0] * len(limits), limits)
    return reduced


def _reduced_windows(
    node: Node, neutral: Operand, opcode: str, lead: int, sizes: Sequence[int],
    steps: Sequence[int], gaps: Sequence[int],
) -> Node:  # fmt: skip
    extents = tuple(
        (extent - (size - 1) * gap - 1) // step + 1
        for extent, size, step, gap in zip(node.shape[lead:], sizes, steps, gaps, strict=True)
    )
    start = hlo.constant(node.graph, neutral, node.dtype)
    return node.graph.emit(
        "reduce-window", (*node.shape[:lead], *extents), node.dtype, (node, start),
        window={"dimensions": _windows_of(lead, sizes, steps, gaps)}, apply=(opcode, node.dtype),
    )  # fmt: skip


def _average_pool(rank: int) -> Row:
    def row(
        call: OperatorCall, x: Node, kernel_size: Sequence[int], stride: Sequence[int] = (),
        padding: Sequence[int] = (0,), ceil_mode: bool = False, count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Node:  # fmt: skip
        """Means of windows without padding; others are replaced before they get here."""
        if any(padding) or ceil_mode or divisor_override or x.dtype.kind in "biu":
            raise call.refused("for integers with these windows")
        sizes = _for_each(kernel_size, rank)
        steps = _for_each(stride or kernel_size, rank)
        wide = call.node(x, F32) if x.dtype.itemsize < 4 else x
        sums = _reduced_windows(wide, 0, "add", len(x.shape) - rank, sizes, steps, [1] * rank)
        divisor = call.full(math.prod(sizes), dtype=wide.dtype)
        return call.node(hlo.elementwise("divide", sums, divisor), call.dtype)

    return row


WINDOWS: dict[str, Row] = {
    "aten.avg_pool2d.default": _average_pool(2),
    "aten.avg_pool3d.default": _average_pool(3),
    "aten.max_pool2d_with_indices.default": _max_pool(2),
    "aten.max_pool3d_with_indices.default": _max_pool(3),
}
"""Operator -> its lowering."""
