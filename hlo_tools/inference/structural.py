"""Inference of opcodes that move, select and arrange elements."""

from __future__ import annotations

from collections.abc import Sequence

from hlo_tools._messages import counted
from hlo_tools.inference.reducers import check_reducer
from hlo_tools.inference.rule import Call, rule
from hlo_tools.inference.types import Array, TupleType, Type, number

__all__: list[str] = []

_S32 = number("s32")
_TOKEN = Array(number("token"))
_U32 = Array(number("u32"))


@rule("broadcast")
def _broadcast(call: Call) -> Type:
    """The result's extents are its own; the operand's must be found among them."""
    operand = call.array(0)
    result = call.result_array()
    axes = call.axes(call.row.dimensions, result.rank, "dimensions")
    call.check(len(axes) == operand.rank, f"names {counted(len(axes), 'dimension')} for {operand}")
    for source, axis in enumerate(axes):
        call.check(
            operand.dimensions[source] == result.dimensions[axis],
            f"puts dimension {source} of {operand} at {axis} of {result}, whose extent differs",
        )
    return result._replace(element=operand.element)


@rule("reshape bitcast-convert convert reduce-precision stochastic-convert dynamic-reshape")
def _explicit(call: Call) -> Type:
    return _EXPLICIT[call.row.opcode](call)


def _reshape(call: Call) -> Type:
    operand, result = call.array(0), call.result_array()
    call.check(
        _count(operand) == _count(result),
        f"makes {_count(result)} elements of {_count(operand)}",
    )
    return result._replace(element=operand.element)


def _convert(call: Call) -> Type:
    operand, result = call.array(0), call.result_array()
    return operand._replace(element=result.element, dynamic=operand.dynamic)


def _bitcast_convert(call: Call) -> Type:
    operand, result = call.array(0), call.result_array()
    call.check(
        _count(operand) * call.bits(operand) == _count(result) * call.bits(result),
        f"changes the number of bits from {operand} to {result}",
    )
    return result


def _reduce_precision(call: Call) -> Type:
    operand = call.array(0)
    call.check(operand.kind == "float", f"takes float elements, not {operand}")
    call.check(call.row.exponent_bits >= 1, "needs at least one exponent bit")
    call.check(call.row.mantissa_bits >= 0, "needs no fewer than zero mantissa bits")
    return operand


def _stochastic(call: Call) -> Type:
    operand, random, result = call.array(0), call.array(1), call.result_array()
    call.check(
        random.dimensions == operand.dimensions
        and random.kind == "uint"
        and call.bits(random) == call.bits(operand),
        f"takes unsigned random bits like {operand}, not {random}",
    )
    call.check(operand.kind == "float", f"takes float elements, not {operand}")
    return operand._replace(element=result.element)


_EXPLICIT = {
    "reshape": _reshape,
    "dynamic-reshape": _reshape,
    "convert": _convert,
    "bitcast-convert": _bitcast_convert,
    "reduce-precision": _reduce_precision,
    "stochastic-convert": _stochastic,
}


def _count(kind: Array) -> int:
    total = 1
    for size in kind.dimensions:
        total *= size
    return total


@rule("transpose")
def _transpose(call: Call) -> Type:
    operand = call.array(0)
    order = call.axes(call.row.dimensions, operand.rank, "dimensions")
    call.check(
        len(order) == operand.rank, f"orders {counted(len(order), 'dimension')} of {operand}"
    )
    return Array(
        operand.element,
        tuple(operand.dimensions[axis] for axis in order),
        tuple(position for position, axis in enumerate(order) if axis in operand.dynamic),
    )


@rule("reverse")
def _reverse(call: Call) -> Type:
    operand = call.array(0)
    call.axes(call.row.dimensions, operand.rank, "dimensions")
    return operand


@rule("slice")
def _slice(call: Call) -> Type:
    operand = call.array(0)
    rows = call.row.slice_dimensions
    call.check(len(rows) == operand.rank, f"has {counted(len(rows), 'range')} for {operand}")
    extents: list[int] = []
    for size, row in zip(operand.dimensions, rows, strict=True):
        call.check(
            0 <= row.start <= row.limit <= size and row.stride > 0,
            f"has the range [{row.start}:{row.limit}:{row.stride}] for an extent of {size}",
        )
        extents.append(-(-(row.limit - row.start) // row.stride))
    return Array(operand.element, tuple(extents))


def _check_starts(call: Call, first: int, rank: int) -> None:
    starts = call.arrays(first)
    if len(starts) == 1 and starts[0].rank == 1:
        call.check(
            starts[0].dimensions[0] == rank,
            f"takes {counted(rank, 'start index', 'start indices')}, not {starts[0]}",
        )
        return
    call.check(
        len(starts) == rank,
        f"takes {counted(rank, 'start index', 'start indices')}, not {len(starts)}",
    )
    for start in starts:
        call.check(
            start.rank == 0 and start.kind in ("int", "uint"),
            f"takes integer scalars as starts, not {start}",
        )


@rule("dynamic-slice")
def _dynamic_slice(call: Call) -> Type:
    operand = call.array(0)
    _check_starts(call, 1, operand.rank)
    sizes = tuple(call.row.dynamic_slice_sizes)
    call.check(len(sizes) == operand.rank, f"has {counted(len(sizes), 'size')} for {operand}")
    for size, extent in zip(sizes, operand.dimensions, strict=True):
        call.check(0 <= size <= extent, f"takes {size} of an extent of {extent}")
    return Array(operand.element, sizes)


@rule("dynamic-update-slice")
def _dynamic_update_slice(call: Call) -> Type:
    operand, update = call.array(0), call.array(1)
    _check_starts(call, 2, operand.rank)
    call.check(
        update.element == operand.element and update.rank == operand.rank,
        f"puts {update} into {operand}",
    )
    for size, extent in zip(update.dimensions, operand.dimensions, strict=True):
        call.check(size <= extent, f"puts {update} into the smaller {operand}")
    return operand


@rule("concatenate")
def _concatenate(call: Call) -> Type:
    call.check(len(call.operands) > 0, "takes at least one operand")
    parts = call.arrays()
    first = parts[0]
    axis = call.axis(call.row.dimensions, first.rank, "dimensions")
    total = 0
    for operand in parts:
        call.check(
            operand.element == first.element
            and operand.rank == first.rank
            and all(
                position == axis or size == first.dimensions[position]
                for position, size in enumerate(operand.dimensions)
            ),
            f"joins {first} and {operand} along dimension {axis}",
        )
        total += operand.dimensions[axis]
    return first._replace(
        dimensions=(*first.dimensions[:axis], total, *first.dimensions[axis + 1 :])
    )


@rule("pad")
def _pad(call: Call) -> Type:
    operand, value = call.array(0), call.array(1)
    call.check(value.rank == 0 and value.element == operand.element, f"pads {operand} with {value}")
    rows = call.row.padding_config.dimensions
    call.check(len(rows) == operand.rank, f"has {counted(len(rows), 'padding')} for {operand}")
    extents: list[int] = []
    for size, row in zip(operand.dimensions, rows, strict=True):
        call.check(row.interior_padding >= 0, "has a negative interior padding")
        extent = (
            row.edge_padding_low
            + row.edge_padding_high
            + size
            + max(size - 1, 0) * row.interior_padding
        )
        call.check(extent >= 0, f"leaves an extent of {extent}")
        extents.append(extent)
    return Array(operand.element, tuple(extents), operand.dynamic)


@rule("gather")
def _gather(call: Call) -> Type:
    operand, indices = call.array(0), call.array(1)
    numbers = call.row.gather_dimension_numbers
    sizes = tuple(call.row.gather_slice_sizes)
    call.check(len(sizes) == operand.rank, f"has {counted(len(sizes), 'slice size')} for {operand}")
    for size, extent in zip(sizes, operand.dimensions, strict=True):
        call.check(0 <= size <= extent, f"takes {size} of an extent of {extent}")
    call.check(indices.kind in ("int", "uint"), f"takes integer indices, not {indices}")
    batch = _index_batch(call, indices, numbers.index_vector_dim)
    collapsed = call.axes(numbers.collapsed_slice_dims, operand.rank, "collapsed_slice_dims")
    batching = call.axes(numbers.operand_batching_dims, operand.rank, "operand_batching_dims")
    _check_batching(call, operand, indices, batching, numbers.start_indices_batching_dims)
    dropped = call.axes(
        (*collapsed, *batching), operand.rank, "collapsed_slice_dims and operand_batching_dims"
    )
    for axis in sorted(dropped):
        call.check(
            sizes[axis] <= 1, f"drops dimension {axis}, of which it takes {sizes[axis]} and not one"
        )
    window = [size for axis, size in enumerate(sizes) if axis not in dropped]
    rank = len(batch) + len(numbers.offset_dims)
    call.check(
        len(window) == len(numbers.offset_dims), "has offset_dims that do not match its slice sizes"
    )
    offsets = call.axes(numbers.offset_dims, rank, "offset_dims")
    starts = call.axes(numbers.start_index_map, operand.rank, "start_index_map")
    call.axes((*starts, *batching), operand.rank, "start_index_map and operand_batching_dims")
    _check_vector(call, indices, numbers.index_vector_dim, starts, "start_index_map")
    extents = _interleave(rank, offsets, window, batch)
    return Array(operand.element, extents)


def _index_batch(call: Call, indices: Array, vector: int) -> list[int]:
    call.check(0 <= vector <= indices.rank, f"has no index_vector_dim {vector} in {indices}")
    return [size for axis, size in enumerate(indices.dimensions) if axis != vector]


def _check_vector(
    call: Call, indices: Array, vector: int, axes: tuple[int, ...], what: str
) -> None:
    """Check that each number of an index vector has a dimension."""
    size = indices.dimensions[vector] if vector < indices.rank else 1
    call.check(
        len(axes) == size, f"has {what} {list(axes)} for index vectors of {size} in {indices}"
    )


def _check_batching(
    call: Call, operand: Array, indices: Array, axes: tuple[int, ...], index_axes: Sequence[int]
) -> None:
    """Check the batching dimensions that indices and operand share."""
    named = call.axes(index_axes, indices.rank, "batching dimensions of the indices")
    call.check(
        [operand.dimensions[axis] for axis in axes] == [indices.dimensions[axis] for axis in named],
        f"has the batching dimensions {list(axes)} in {operand} and {list(named)} in {indices}",
    )


def _interleave(
    rank: int, axes: tuple[int, ...], inside: list[int], outside: list[int]
) -> tuple[int, ...]:
    """Extents where ``inside`` stands at ``axes`` and ``outside`` everywhere else."""
    inner, outer = iter(inside), iter(outside)
    return tuple(next(inner) if axis in axes else next(outer) for axis in range(rank))


@rule("scatter")
def _scatter(call: Call) -> Type:
    count = len(call.operands) // 2
    call.check(
        len(call.operands) % 2 == 1, f"takes an odd number of operands, not {len(call.operands)}"
    )
    inputs, indices = call.arrays(0, count), call.array(count)
    updates = call.arrays(count + 1)
    numbers = call.row.scatter_dimension_numbers
    batch = _index_batch(call, indices, numbers.index_vector_dim)
    into = tuple(numbers.scatter_dims_to_operand_dims)
    _check_vector(call, indices, numbers.index_vector_dim, into, "scatter_dims_to_operand_dims")
    for array in inputs:
        batching = call.axes(numbers.input_batching_dims, array.rank, "input_batching_dims")
        _check_batching(call, array, indices, batching, numbers.scatter_indices_batching_dims)
    for array, update in zip(inputs, updates, strict=True):
        _check_update(call, array, update, batch)
    check_reducer(call, updates, [Array(into.element) for into in inputs])
    return call.one_or_tuple(inputs)


def _check_update(call: Call, into: Array, update: Array, batch: list[int]) -> None:
    """An update has the extents of the indices, and windows that fit into the operand."""
    numbers = call.row.scatter_dimension_numbers
    call.check(update.element == into.element, f"puts {update} into {into}")
    rank = len(batch) + len(numbers.update_window_dims)
    call.check(
        update.rank == rank, f"takes an update of {counted(rank, 'dimension')}, not {update}"
    )
    window = call.axes(numbers.update_window_dims, rank, "update_window_dims")
    call.axes(
        (*numbers.scatter_dims_to_operand_dims, *numbers.input_batching_dims), into.rank,
        "scatter_dims_to_operand_dims and input_batching_dims",
    )  # fmt: skip
    inserted = (*numbers.inserted_window_dims, *numbers.input_batching_dims)
    call.axes(inserted, into.rank, "inserted_window_dims and input_batching_dims")
    window_extents = [size for axis, size in enumerate(into.dimensions) if axis not in inserted]
    inside = [update.dimensions[axis] for axis in sorted(window)]
    outside = [size for axis, size in enumerate(update.dimensions) if axis not in window]
    call.check(
        len(window_extents) == len(inside)
        and all(a <= b for a, b in zip(inside, window_extents, strict=True)),
        f"puts windows of {inside} where {into} has {window_extents}",
    )
    call.check(outside == batch, f"has updates for {outside} places, its indices for {batch}")


@rule("iota")
def _iota(call: Call) -> Type:
    result = call.result_array()
    call.axis(call.row.dimensions, result.rank, "iota_dimension")
    call.check(result.kind in ("int", "uint", "float", "complex"), f"cannot count in {result}")
    return result


@rule("tuple")
def _tuple(call: Call) -> Type:
    return TupleType(tuple(call.operands))


@rule("get-tuple-element")
def _element(call: Call) -> Type:
    operand = call.operand(0)
    index: int = call.row.tuple_index
    if not isinstance(operand, TupleType):
        raise call.broken(f"takes a tuple, not {operand}")
    if not 0 <= index < len(operand.parts):
        raise call.broken(f"takes element {index} of {operand}")
    return operand.parts[index]


@rule("get-dimension-size")
def _size(call: Call) -> Type:
    call.axis(call.row.dimensions, call.array(0).rank, "dimensions")
    return Array(_S32)


@rule("set-dimension-size")
def _set_size(call: Call) -> Type:
    operand = call.array(0)
    call.check(call.array(1) == Array(_S32), f"takes an s32[] as size, not {call.array(1)}")
    axis = call.axis(call.row.dimensions, operand.rank, "dimensions")
    return operand._replace(dynamic=tuple(sorted({*operand.dynamic, axis})))


@rule("after-all send-done")
def _token(call: Call) -> Type:
    return _TOKEN


@rule("add-dependency")
def _dependency(call: Call) -> Type:
    return call.operand(0)


@rule("send")
def _send(call: Call) -> Type:
    return TupleType((call.operand(0), _U32, _TOKEN))


@rule("recv-done")
def _recv_done(call: Call) -> Type:
    operand = call.operand(0)
    call.check(
        isinstance(operand, TupleType) and len(operand.parts) == 3,
        f"takes what recv returns, not {operand}",
    )
    assert isinstance(operand, TupleType)
    return TupleType((operand.parts[0], _TOKEN))


@rule("outfeed")
def _outfeed(call: Call) -> Type:
    return _TOKEN


@rule("replica-id partition-id")
def _identity(call: Call) -> Type:
    return _U32


@rule("topk")
def _topk(call: Call) -> Type:
    operand = call.array(0)
    call.check(
        operand.rank > 0 and 0 <= call.row.k <= operand.dimensions[-1],
        f"takes {call.row.k} of {operand}",
    )
    extents = (*operand.dimensions[:-1], call.row.k)
    return TupleType((Array(operand.element, extents), Array(_S32, extents)))
