"""Rules for operations that take parts of arrays, or put arrays together."""

from __future__ import annotations

from hlo_tools import schema
from hlo_tools.ir.instruction import Instruction
from hlo_tools.rewrite.emitting import broadcast, plain, splat
from hlo_tools.rewrite.patterns import Rules, op

__all__ = ["SLICING"]


def _bounds(view: Instruction) -> list[tuple[int, int, int]]:
    return [(bounds.start, bounds.limit, bounds.stride) for bounds in view.proto.slice_dimensions]


def _slice(it: Instruction, source: Instruction, bounds: list[tuple[int, int, int]]) -> Instruction:
    bounds_proto = schema.HloInstructionProto.SliceDimensions
    rows = [
        bounds_proto(start=start, limit=limit, stride=stride) for start, limit, stride in bounds
    ]
    return plain(it, "slice", it.shape, [source], slice_dimensions=rows)


def _same_shape(it: Instruction, x: Instruction, **_: Instruction) -> Instruction | None:
    return x if x.shape.proto == it.shape.proto else None


def _all_of_it(it: Instruction) -> Instruction | None:
    return _same_shape(it, it.operands[0])


def _all_updated(it: Instruction) -> Instruction | None:
    return _same_shape(it, it.operands[1])


def _slice_of_slice(it: Instruction, inner: Instruction, x: Instruction) -> Instruction:
    bounds = [
        (
            first + start * step,
            first + (limit - 1) * step + 1 if limit > start else first + start * step,
            stride * step,
        )
        for (first, _, step), (start, limit, stride) in zip(
            _bounds(inner), _bounds(it), strict=True
        )
    ]
    return _slice(it, x, bounds)


def _slice_of_concatenate(it: Instruction, joined: Instruction) -> Instruction | None:
    """A slice that lies in one operand."""
    axis = joined.proto.dimensions[0]
    bounds = _bounds(it)
    start, limit, stride = bounds[axis]
    offset = 0
    for operand in joined.operands:
        size = operand.shape.dimensions[axis]
        if start >= offset and limit <= offset + size:
            bounds[axis] = (start - offset, limit - offset, stride)
            return _slice(it, operand, bounds)
        offset += size
    return None


def _slice_of_scalar(it: Instruction, wide: Instruction, x: Instruction) -> Instruction | None:
    return broadcast(x, it.shape, (), it) if x.shape.is_scalar else None


def _joined(it: Instruction) -> Instruction | None:
    """Remove empty operands of a concatenation; replace it by a single remaining operand."""
    axis = it.proto.dimensions[0]
    parts = [operand for operand in it.operands if operand.shape.dimensions[axis] > 0]
    if len(parts) == 1:
        return parts[0]
    if not parts or len(parts) == len(it.operands):
        return None
    return plain(it, "concatenate", it.shape, parts, dimensions=[axis])


def _neighbours(it: Instruction) -> Instruction | None:
    """Merge concatenated adjacent slices of one array into one slice."""
    axis = it.proto.dimensions[0]
    parts = it.operands
    if any(operand.opcode != "slice" for operand in parts):
        return None
    source = parts[0].operands[0]
    rows = [_bounds(operand) for operand in parts]
    first = rows[0]
    end = first[axis][1]
    for operand, row in zip(parts[1:], rows[1:], strict=True):
        other_bounds = [bound for position, bound in enumerate(row) if position != axis]
        same = other_bounds == [bound for position, bound in enumerate(first) if position != axis]
        if operand.operands[0] is not source or not same or row[axis][0] != end:
            return None
        end = row[axis][1]
    if any(row[axis][2] != 1 for row in rows):
        return None
    merged = list(first)
    merged[axis] = (first[axis][0], end, 1)
    return _slice(it, source, merged)


def _known_start(it: Instruction) -> Instruction | None:
    """A dynamic slice whose starts are constants; starts are moved so that it stays inside."""
    starts = [splat(operand) for operand in it.operands[1:]]
    source = it.operands[0]
    if len(starts) != source.shape.rank or any(start is None for start in starts):
        return None
    bounds: list[tuple[int, int, int]] = []
    for start, size, extent in zip(
        starts, it.proto.dynamic_slice_sizes, source.shape.dimensions, strict=True
    ):
        first = min(max(int(start), 0), extent - size)
        bounds.append((first, first + size, 1))
    return _slice(it, source, bounds)


def _no_padding(it: Instruction, x: Instruction, **_: Instruction) -> Instruction | None:
    rows = it.proto.padding_config.dimensions
    padded = any(
        row.edge_padding_low or row.edge_padding_high or row.interior_padding for row in rows
    )
    return None if padded else x


def _reversed_one(it: Instruction, x: Instruction) -> Instruction | None:
    sizes = x.shape.dimensions
    return x if all(sizes[axis] == 1 for axis in it.proto.dimensions) else None


SLICING = Rules(
    (op("slice", "x"), _same_shape),
    (op("slice", op("slice", "x", capture="inner")), _slice_of_slice),
    (op("slice", op("concatenate", capture="joined")), _slice_of_concatenate),
    (op("slice", op("broadcast", "x", capture="wide")), _slice_of_scalar),
    (op("concatenate"), _joined),
    (op("concatenate"), _neighbours),
    (op("dynamic-slice"), _all_of_it),
    (op("dynamic-slice"), _known_start),
    (op("dynamic-update-slice"), _all_updated),
    (op("pad", "x", "c"), _no_padding),
    (op("reverse", "x"), _reversed_one),
)
