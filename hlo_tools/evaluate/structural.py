"""Operations that move, select and arrange elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hlo_tools.evaluate.bounded import fits_bounds, resized
from hlo_tools.evaluate.operation import Call, operation
from hlo_tools.evaluate.values import Array, Value, undefined
from hlo_tools.types.literal import Literal
from hlo_tools.types.tiled_memory import from_memory, to_memory

if TYPE_CHECKING:
    from hlo_tools.schema.messages import ShapeProto

__all__: list[str] = []


@operation("constant")
def _constant(call: Call) -> Value:
    return literal_value(Literal(call.row.literal))


def literal_value(literal: Literal) -> Value:
    """A literal as a value."""
    if literal.is_tuple:
        return tuple(literal_value(element) for element in literal.parts)
    return literal.numpy() if literal.shape.is_array else None


@operation("iota")
def _iota(call: Call) -> Value:
    axis = call.row.dimensions[0] if call.row.dimensions else 0
    shape = [1] * len(call.extents)
    shape[axis] = call.extents[axis]
    return np.broadcast_to(
        np.arange(call.extents[axis]).reshape(shape).astype(call.dtype), call.extents
    )


@operation("broadcast")
def _broadcast(call: Call) -> Value:
    operand = call.operands[0]
    if not call.extents:
        return operand
    axes = list(call.row.dimensions)
    shape = [1] * len(call.extents)
    for source, axis in enumerate(axes):
        shape[axis] = operand.shape[source]
    rising = operand.transpose(sorted(range(len(axes)), key=axes.__getitem__))
    return np.broadcast_to(rising.reshape(shape), call.extents)


@operation("dynamic-reshape")
def _dynamic_reshape(call: Call) -> Value:
    """The operands after the first are the extents of the result."""
    operand, *sizes = call.operands
    extents = tuple(int(size) for size in sizes)
    is_dynamic = list(call.row.shape.is_dynamic_dimension)
    if math.prod(extents) != operand.size:
        raise call.fail(f"makes {list(extents)} of {operand.size} elements")
    result = operand.reshape(extents)
    if not fits_bounds(result, list(call.extents), is_dynamic):
        raise call.fail(f"makes {list(extents)}, which does not fit its shape")
    if extents != call.extents:
        call.evaluator.has_bounded_values = True
    return result


@operation("reshape")
def _reshape(call: Call) -> Value:
    """A scalar that stays one may be an array of scalars here: a computation applied to all."""
    if not call.extents:
        source = call.evaluator.shape_of(call.row.operand_ids[0])
        if source is not None and not source.dimensions:
            return call.operands[0]
    return call.operands[0].reshape(call.extents)


@operation("bitcast")
def _bitcast(call: Call) -> Value:
    """The same bytes, read by another layout: elements in the order in which memory has them."""
    operand = call.operands[0]
    source = call.evaluator.shape_of(call.row.operand_ids[0])
    if source is not None and (source.layout.tiles or call.row.shape.layout.tiles):
        return _tiled_bitcast(call, source)
    size = math.prod(call.extents) * call.dtype.itemsize
    if operand.nbytes != size:
        raise call.fail(f"makes {size} bytes of {operand.nbytes}")
    stored = _in_memory_order(
        operand, list(source.layout.minor_to_major) if source is not None else []
    )
    order = list(reversed(call.row.shape.layout.minor_to_major)) or list(range(len(call.extents)))
    flat: Array = stored.reshape(-1).view(call.dtype)
    return flat.reshape([call.extents[axis] for axis in order]).transpose(np.argsort(order))


def _tiled_bitcast(call: Call, source: ShapeProto) -> Value:
    """Padding of tiles is memory, too: a bitcast may drop it, or read it as undefined elements."""
    operand = call.operands[0]
    try:
        stored = to_memory(operand, source, lambda extents: undefined(extents, operand.dtype))
        return from_memory(stored.view(call.dtype), call.row.shape)
    except ValueError as error:
        raise call.fail(f"cannot be evaluated: {error}") from error


def _in_memory_order(value: Array, minor_to_major: list[int]) -> Array:
    if not minor_to_major or minor_to_major == list(reversed(range(value.ndim))):
        return np.ascontiguousarray(value)
    return np.ascontiguousarray(value.transpose(list(reversed(minor_to_major))))


@operation("transpose")
def _transpose(call: Call) -> Value:
    return call.operands[0].transpose(list(call.row.dimensions))


@operation("reverse")
def _reverse(call: Call) -> Value:
    # A copy: NumPy's functions give other bits for elements that lie backwards.
    return np.flip(call.operands[0], tuple(call.row.dimensions)).copy()


@operation("slice")
def _slice(call: Call) -> Value:
    return call.operands[0][
        tuple(slice(r.start, r.limit, r.stride) for r in call.row.slice_dimensions)
    ]


@operation("concatenate")
def _concatenate(call: Call) -> Value:
    return np.concatenate(call.operands, axis=call.row.dimensions[0])


def _starts(call: Call, first: int, extents: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Start indices, moved so that the slice stays inside."""
    starts = call.operands[first:]
    if len(starts) == 1 and starts[0].ndim == 1:
        starts = list(starts[0])
    return [
        int(min(max(int(start), 0), extent - size))
        for start, extent, size in zip(starts, extents, sizes, strict=True)
    ]


@operation("dynamic-slice")
def _dynamic_slice(call: Call) -> Value:
    operand = call.operands[0]
    sizes = list(call.row.dynamic_slice_sizes)
    starts = _starts(call, 1, operand.shape, sizes)
    return operand[tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))]


@operation("dynamic-update-slice")
def _dynamic_update_slice(call: Call) -> Value:
    operand, update = call.operands[0], call.operands[1]
    starts = _starts(call, 2, operand.shape, update.shape)
    result = np.array(operand)
    result[tuple(slice(s, s + n) for s, n in zip(starts, update.shape, strict=True))] = update
    return result


@operation("pad")
def _pad(call: Call) -> Value:
    operand, value = call.operands
    rows = call.row.padding_config.dimensions
    spread = call.full(
        [max(n + max(n - 1, 0) * r.interior_padding, 0) for n, r in zip(operand.shape, rows, strict=True)],
        value, operand.dtype,
    )  # fmt: skip
    if operand.size:
        spread[tuple(slice(None, None, r.interior_padding + 1) for r in rows)] = operand
    result = np.full(call.extents, value, dtype=operand.dtype)
    into: list[slice] = []
    out: list[slice] = []
    for size, extent, row in zip(spread.shape, call.extents, rows, strict=True):
        low = row.edge_padding_low
        start, stop = max(low, 0), min(low + size, extent)
        into.append(slice(start, max(start, stop)))
        out.append(slice(start - low, max(start, stop) - low))
    result[tuple(into)] = spread[tuple(out)]
    return result


@operation("tuple")
def _tuple(call: Call) -> Value:
    return tuple(call.values)


@operation("get-tuple-element")
def _element(call: Call) -> Value:
    value = call.values[0]
    assert isinstance(value, tuple)
    return value[call.row.tuple_index]


@operation("after-all")
def _token(call: Call) -> Value:
    return None


@operation("add-dependency")
def _dependency(call: Call) -> Value:
    return call.values[0]


@operation("get-dimension-size")
def _size(call: Call) -> Value:
    return np.asarray(call.operands[0].shape[call.row.dimensions[0]], dtype=np.int32)


@operation("set-dimension-size")
def _set_size(call: Call) -> Value:
    operand, size = call.operands
    axis = call.row.dimensions[0]
    if int(size) != call.extents[axis]:
        call.evaluator.has_bounded_values = True
    return resized(call, operand, axis, int(size))
