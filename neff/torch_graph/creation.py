"""Operators that make tensors from numbers."""

from __future__ import annotations

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.graph import Node, Operand
from neff.torch_graph.operator_call import OperatorCall, Row

__all__ = ["CREATION"]


def _constant(value: int) -> Row:
    """The same number everywhere; elements of ``empty`` are zeros, since they are undefined."""

    def row(call: OperatorCall, *arguments: Operand) -> Node:
        return call.full(value)

    return row


def _full(call: OperatorCall, size: Operand, value: Operand, *arguments: Operand) -> Node:
    return call.full(value)


def _scalar(call: OperatorCall, value: Operand, *arguments: Operand) -> Node:
    return call.full(value)


def _filled(call: OperatorCall, x: Node, value: Operand, *arguments: Operand) -> Node:
    return call.node(value, call.dtype, call.shape)


def _new_full(
    call: OperatorCall, x: Node, size: Operand, value: Operand, *arguments: Operand
) -> Node:
    return call.full(value)


def _arange(
    call: OperatorCall, start: Operand, end: Operand, step: Operand = 1, *_: Operand
) -> Node:
    """Computed as PyTorch does: ``start + n * step``."""
    count = call.shape[0]
    if isinstance(start, int) and isinstance(step, int) and call.dtype.kind in "iu":
        positions = hlo.iota(call.graph, (count,), 0, call.dtype)
        scaled = hlo.elementwise("multiply", positions, call.full(step))
        return hlo.elementwise("add", scaled, call.full(start))
    wide = np.float64 if call.dtype.kind in "fiu" else np.float32
    values = wide(start) + np.arange(count, dtype=wide) * wide(step)
    return call.graph.constant(values.astype(call.dtype))


def _arange_to(call: OperatorCall, end: Operand, *arguments: Operand) -> Node:
    return _arange(call, 0 if isinstance(end, int) else 0.0, end)


def _arange_from(call: OperatorCall, start: Operand, end: Operand, *arguments: Operand) -> Node:
    return _arange(call, start, end)


def _triangle_indices(is_upper: bool) -> Row:
    """Rows and columns of a triangle; PyTorch's decomposition takes roots of float64."""

    def row(call: OperatorCall, rows: int, columns: int, offset: int = 0, *_: Operand) -> Node:
        across = np.arange(columns) - np.arange(rows)[:, None]
        chosen = np.nonzero(across >= offset if is_upper else across <= offset)
        return call.graph.constant(np.stack(chosen).astype(call.dtype))

    return row


CREATION: dict[str, Row] = {
    "aten.arange.default": _arange_to,
    "aten.arange.start": _arange_from,
    "aten.arange.start_step": _arange,
    "aten.empty.memory_format": _constant(0),
    "aten.empty_like.default": _constant(0),
    "aten.empty_permuted.default": _constant(0),
    "aten.empty_strided.default": _constant(0),
    "aten.fill.Scalar": _filled,
    "aten.fill.Tensor": _filled,
    "aten.full.default": _full,
    "aten.full_like.default": _filled,
    "aten.new_empty.default": _constant(0),
    "aten.new_empty_strided.default": _constant(0),
    "aten.new_full.default": _new_full,
    "aten.new_ones.default": _constant(1),
    "aten.new_zeros.default": _constant(0),
    "aten.ones.default": _constant(1),
    "aten.ones_like.default": _constant(1),
    "aten.scalar_tensor.default": _scalar,
    "aten.tril_indices.default": _triangle_indices(is_upper=False),
    "aten.triu_indices.default": _triangle_indices(is_upper=True),
    "aten.zero.default": _constant(0),
    "aten.zeros.default": _constant(0),
    "aten.zeros_like.default": _constant(0),
}
"""Operator -> its lowering."""
