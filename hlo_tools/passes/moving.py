"""Rules that move slices, broadcasts, reverses and conversions past each other, to the last bit."""

from __future__ import annotations

import math

import numpy as np

from hlo_tools import schema
from hlo_tools.ir.instruction import Instruction
from hlo_tools.passes.integers import is_whole
from hlo_tools.rewrite.emitting import broadcast, constant, dimensions_of, plain, splat
from hlo_tools.rewrite.patterns import FLOAT, WHOLE, Rules, op
from hlo_tools.types.opcodes import opcodes_of_kind
from hlo_tools.types.replica_groups import replica_groups_of
from hlo_tools.types.shape import Shape, array_shape

__all__ = ["FAST_MOVING", "MOVING"]

_UNARY = " ".join(
    sorted(opcodes_of_kind("elementwise", arity=1) - {"bitcast-convert", "reduce-precision"})
)
_BINARY = " ".join(
    sorted(opcodes_of_kind("elementwise", arity=2) - {"mulhi", "stochastic-convert"})
)
_FIELDS = ("comparison_direction", "comparison_type", "comparison_order")


def _is_static(view: Instruction) -> bool:
    return not any(view.shape.dynamic)


def _shaped(view: Instruction, sizes: list[int]) -> Shape:
    return array_shape(view.shape.element, sizes)


def _attributes(view: Instruction) -> dict[str, object]:
    return {name: value for name in _FIELDS if (value := getattr(view.proto, name))}


# Broadcasts


def _single(it: Instruction, x: Instruction, wide: Instruction) -> Instruction | None:
    """f(broadcast(x)) is broadcast(f(x))."""
    if not _is_static(wide):
        return None
    inner = plain(it, it.opcode, _shaped(it, list(x.shape.dimensions)), [x])
    return broadcast(inner, it.shape, dimensions_of(wide), it)


def _pair(
    it: Instruction, x: Instruction, y: Instruction, wide: Instruction, other_wide: Instruction
) -> Instruction | None:
    """f(broadcast(x), broadcast(y)) is broadcast(f(x, y)) where both are broadcast alike."""
    same = x.shape.dimensions == y.shape.dimensions and dimensions_of(wide) == dimensions_of(
        other_wide
    )
    if not (same and _is_static(wide) and _is_static(other_wide)):
        return None
    shape = _shaped(it, list(x.shape.dimensions))
    inner = plain(it, it.opcode, shape, [x, y], **_attributes(it))
    return broadcast(inner, it.shape, dimensions_of(wide), it)


def _with_number(
    it: Instruction, wide: Instruction, other_wide: Instruction, x: Instruction, y: Instruction
) -> Instruction | None:
    """f(broadcast(x), number) is broadcast(f(x, number)), in either order."""
    source = other_wide.operands[0]
    if (
        not source.shape.is_scalar
        or x.shape.is_scalar
        or not (_is_static(wide) and _is_static(other_wide))
    ):
        return None
    if x.shape.element_count >= it.shape.element_count:
        return None
    sizes = list(x.shape.dimensions)
    small = broadcast(y, _shaped(other_wide, sizes), (), it)
    pair = [x, small] if it.operands[0] is wide else [small, x]
    inner = plain(it, it.opcode, _shaped(it, sizes), pair, **_attributes(it))
    return broadcast(inner, it.shape, dimensions_of(wide), it)


def _adds_nothing(view: Instruction) -> bool:
    return len(view.proto.dimensions) == len(view.proto.shape.dimensions)


def _as_transpose(it: Instruction, x: Instruction) -> Instruction | None:
    """A broadcast that adds nothing puts dimensions in another order."""
    axes = dimensions_of(it)
    if not _is_static(it) or list(axes) == sorted(axes):
        return None
    return plain(
        it, "transpose", it.shape, [x], dimensions=[axes.index(n) for n in range(len(axes))]
    )


def _all_alike(it: Instruction) -> Instruction | None:
    """Replace a concatenation of one array with itself by a broadcast along the dimension."""
    axis = dimensions_of(it)[0]
    first = it.operands[0]
    count = len(it.operands)
    if count < 2 or any(operand is not first for operand in it.operands) or not _is_static(it):
        return None
    if (
        first.shape.dimensions[axis] != 1
        or not first.shape.is_row_major
        or not it.shape.is_row_major
    ):
        return None
    left = [size for position, size in enumerate(first.shape.dimensions) if position != axis]
    small = plain(it, "reshape", _shaped(it, left), [first])
    axes = [position for position in range(it.shape.rank) if position != axis]
    return broadcast(small, it.shape, axes, it)


def _flat(it: Instruction) -> Instruction | None:
    """Flatten a concatenation of concatenations along the same dimension."""
    axes = list(dimensions_of(it))
    inner = [
        operand.opcode == "concatenate" and list(dimensions_of(operand)) == axes
        for operand in it.operands
    ]
    if not any(inner):
        return None
    parts = [
        piece
        for operand, nested in zip(it.operands, inner, strict=True)
        for piece in (operand.operands if nested and len(operand.users) == 1 else (operand,))
    ]
    if len(parts) == len(it.operands):
        return None
    return plain(it, "concatenate", it.shape, parts, dimensions=axes)


def _same_values(it: Instruction) -> Instruction | None:
    """Fold a concatenation of constants of one value."""
    constants = [splat(operand) for operand in it.operands]
    if (
        any(operand is None for operand in constants)
        or len({np.asarray(operand).tobytes() for operand in constants}) != 1
    ):
        return None
    return constant(it, constants[0], it.shape) if len(constants) > 1 else None


# Slices


def _bounds(view: Instruction) -> list[tuple[int, int, int]]:
    return [(bounds.start, bounds.limit, bounds.stride) for bounds in view.proto.slice_dimensions]


def _slice(it: Instruction, source: Instruction, bounds: list[tuple[int, int, int]]) -> Instruction:
    bounds_proto = schema.HloInstructionProto.SliceDimensions
    rows = [
        bounds_proto(start=start, limit=limit, stride=stride) for start, limit, stride in bounds
    ]
    sizes = [-(-(limit - start) // stride) for start, limit, stride in bounds]
    shape = it.shape if list(it.shape.dimensions) == sizes else _shaped(it, sizes)
    return plain(it, "slice", shape, [source], slice_dimensions=rows)


def _slice_of_broadcast(it: Instruction, x: Instruction, wide: Instruction) -> Instruction | None:
    if not _is_static(wide):
        return None
    bounds = _bounds(it)
    axes = dimensions_of(wide)
    chosen = [bounds[axis] for axis in axes]
    is_full = all(b == (0, size, 1) for b, size in zip(chosen, x.shape.dimensions, strict=True))
    return broadcast(x if is_full else _slice(it, x, chosen), it.shape, axes, it)


def _slice_of_pad(
    it: Instruction, x: Instruction, c: Instruction, wide: Instruction
) -> Instruction | None:
    """A slice that lies in the padding, or in what is padded."""
    rows = wide.proto.padding_config.dimensions
    if not _is_static(wide) or 0 in it.shape.dimensions:
        return None
    inside: list[tuple[int, int, int]] = []
    for (start, limit, stride), row, size in zip(
        _bounds(it), rows, x.shape.dimensions, strict=True
    ):
        last = start + (limit - 1 - start) // stride * stride
        low = row.edge_padding_low
        end = low + (size + (size - 1) * row.interior_padding if size else 0)
        if last < low or start >= end:
            return broadcast(c, it.shape, (), it)
        if not row.interior_padding and start >= low and last < end:
            inside.append((start - low, limit - low if limit <= end else last + 1 - low, stride))
    return _slice(it, x, inside) if len(inside) == it.shape.rank else None


def _slice_of_reverse(it: Instruction, x: Instruction, back: Instruction) -> Instruction | None:
    """The same elements from the other end, reversed; steps must be 1 where it is reversed."""
    axes = set(dimensions_of(back))
    bounds = _bounds(it)
    if any(bounds[axis][2] != 1 for axis in axes) or not _is_static(back):
        return None
    sizes = x.shape.dimensions
    moved = [
        (sizes[axis] - limit, sizes[axis] - start, step) if axis in axes else (start, limit, step)
        for axis, (start, limit, step) in enumerate(bounds)
    ]
    return plain(it, "reverse", it.shape, [_slice(it, x, moved)], dimensions=sorted(axes))


def _slice_of_transpose(it: Instruction, x: Instruction, turned: Instruction) -> Instruction | None:
    order = dimensions_of(turned)
    if not _is_static(turned):
        return None
    bounds = _bounds(it)
    moved = [bounds[order.index(axis)] for axis in range(len(order))]
    sizes = [-(-(limit - start) // stride) for start, limit, stride in moved]
    bounds_proto = schema.HloInstructionProto.SliceDimensions
    rows = [bounds_proto(start=start, limit=limit, stride=stride) for start, limit, stride in moved]
    sliced = plain(it, "slice", _shaped(it, sizes), [x], slice_dimensions=rows)
    return plain(it, "transpose", it.shape, [sliced], dimensions=list(order))


def _dynamic(it: Instruction, source: Instruction, starts: list[Instruction], sizes: list[int]) -> Instruction:  # fmt: skip
    shape = _shaped(it, sizes)
    return plain(it, "dynamic-slice", shape, [source, *starts], dynamic_slice_sizes=sizes)


def _starts(it: Instruction) -> list[Instruction] | None:
    """The start indices of a dynamic slice, where each is an operand of its own."""
    starts = list(it.operands[1:])
    return starts if len(starts) == it.operands[0].shape.rank else None


def _dynamic_of_broadcast(it: Instruction) -> Instruction | None:
    wide = it.operands[0]
    starts = _starts(it)
    if wide.opcode != "broadcast" or starts is None or not _is_static(wide):
        return None
    axes = dimensions_of(wide)
    x = wide.operands[0]
    sizes = [it.proto.dynamic_slice_sizes[axis] for axis in axes]
    is_full = sizes == list(x.shape.dimensions)
    sliced = x if is_full else _dynamic(it, x, [starts[axis] for axis in axes], sizes)
    return broadcast(sliced, it.shape, axes, it)


def _dynamic_of_transpose(it: Instruction) -> Instruction | None:
    turned = it.operands[0]
    starts = _starts(it)
    if turned.opcode != "transpose" or starts is None or not _is_static(turned):
        return None
    order = dimensions_of(turned)
    back = [order.index(axis) for axis in range(len(order))]
    sizes = [it.proto.dynamic_slice_sizes[axis] for axis in back]
    sliced = _dynamic(it, turned.operands[0], [starts[axis] for axis in back], sizes)
    return plain(it, "transpose", it.shape, [sliced], dimensions=list(order))


def _dynamic_of_reshape(it: Instruction) -> Instruction | None:
    """Move a dynamic slice over a reshape that only adds or removes dimensions of size 1."""
    view = it.operands[0]
    starts = _starts(it)
    if view.opcode != "reshape" or starts is None or not _is_static(view):
        return None
    x = view.operands[0]
    axes = [axis for axis, size in enumerate(view.shape.dimensions) if size != 1]
    positions = [axis for axis, size in enumerate(x.shape.dimensions) if size != 1]
    if [view.shape.dimensions[a] for a in axes] != [x.shape.dimensions[a] for a in positions]:
        return None
    if 0 in it.shape.dimensions or not (x.shape.is_row_major and it.shape.is_row_major and starts):
        return None
    zero = constant(it, 0, starts[0].shape)
    sizes = [1] * x.shape.rank
    inner = [zero] * x.shape.rank
    for axis, position in zip(axes, positions, strict=True):
        sizes[position] = it.proto.dynamic_slice_sizes[axis]
        inner[position] = starts[axis]
    return plain(it, "reshape", it.shape, [_dynamic(it, x, inner, sizes)])


def _put_back(it: Instruction) -> Instruction | None:
    """Remove an update that writes back the slice that was read from the same location."""
    into, update = it.operands[:2]
    if update.opcode != "dynamic-slice" or update.operands[0] is not into:
        return None
    return into if update.operands[1:] == it.operands[2:] else None


def _cut(it: Instruction, x: Instruction, c: Instruction) -> Instruction | None:
    """Padding that only takes away is a slice."""
    rows = it.proto.padding_config.dimensions
    low = [row.edge_padding_low for row in rows]
    high = [row.edge_padding_high for row in rows]
    if max([*low, *high, 0]) > 0 or any(r.interior_padding for r in rows) or not _is_static(it):
        return None
    sizes = x.shape.dimensions
    if any(-a > n or n + a + b < 0 for a, b, n in zip(low, high, sizes, strict=True)):
        return None
    return _slice(it, x, [(-a, n + b, 1) for a, b, n in zip(low, high, sizes, strict=True)])


def _padded_twice(it: Instruction, x: Instruction, c: Instruction, inner: Instruction) -> Instruction | None:  # fmt: skip
    """Merge two pads with the same value, if no padding is negative or interior."""
    rows, inner_rows = it.proto.padding_config.dimensions, inner.proto.padding_config.dimensions
    for row in [*rows, *inner_rows]:
        if min(row.edge_padding_low, row.edge_padding_high) < 0 or row.interior_padding:
            return None
    config = schema.PaddingConfig()
    for outer_row, inner_row in zip(rows, inner_rows, strict=True):
        config.dimensions.add(
            edge_padding_low=outer_row.edge_padding_low + inner_row.edge_padding_low,
            edge_padding_high=outer_row.edge_padding_high + inner_row.edge_padding_high,
        )
    return plain(it, "pad", it.shape, [x, c], padding_config=config)


# Reverses


def _reversed_twice(it: Instruction, x: Instruction, back: Instruction) -> Instruction:
    left = sorted(set(dimensions_of(it)) ^ set(dimensions_of(back)))
    return plain(it, "reverse", it.shape, [x], dimensions=left) if left else x


def _reversed_short(it: Instruction, x: Instruction) -> Instruction | None:
    """Dimensions of size 1 need no reversing."""
    axes = dimensions_of(it)
    left = [axis for axis in axes if x.shape.dimensions[axis] != 1]
    if not left or len(left) == len(axes):
        return None
    return plain(it, "reverse", it.shape, [x], dimensions=left)


def _reversed_broadcast(it: Instruction, x: Instruction, wide: Instruction) -> Instruction | None:
    """Dimensions that a broadcast adds are alike from both ends."""
    axes = dimensions_of(wide)
    left = [axes.index(axis) for axis in dimensions_of(it) if axis in axes]
    if not _is_static(wide):
        return None
    inner = x
    if left:
        inner = plain(it, "reverse", _shaped(it, list(x.shape.dimensions)), [x], dimensions=left)
    return broadcast(inner, it.shape, axes, it)


def _reversed_sum(
    it: Instruction, elementwise: Instruction, x: Instruction, y: Instruction
) -> Instruction | None:
    """reverse(f(x, constant)) is f(reverse(x), constant)."""
    if (
        len(elementwise.users) != 1
        or sum(splat(operand) is not None for operand in elementwise.operands) != 1
    ):
        return None
    operands = [
        operand if splat(operand) is not None else plain(it, "reverse", operand.shape, [operand], dimensions=list(dimensions_of(it)))
        for operand in elementwise.operands
    ]  # fmt: skip
    return plain(it, elementwise.opcode, it.shape, operands, **_attributes(elementwise))


# Gathers, conversions, collectives


def _bits_twice(it: Instruction, x: Instruction) -> Instruction | None:
    between = it.operands[0].shape
    if between.rank != x.shape.rank or it.shape.rank != x.shape.rank:
        return None
    return plain(it, "bitcast-convert", it.shape, [x])


def _same_type(it: Instruction, x: Instruction) -> Instruction | None:
    return x if x.shape.proto == it.shape.proto else None


def _converted_constant(it: Instruction, x: Instruction) -> Instruction | None:
    """Fold the conversion of a constant that the type represents exactly."""
    constant_value = splat(x)
    if constant_value is None or "complex" in (x.shape.element.kind, it.shape.element.kind):
        return None
    if it.shape.dtype is None or not (is_whole(x) or it.shape.element.kind == "float"):
        return None
    converted = constant_value.astype(it.shape.dtype)
    if not (
        converted.astype(constant_value.dtype) == constant_value
        and math.isfinite(float(constant_value))
    ):
        return None
    return constant(it, converted, it.shape)


def _is_empty(view: Instruction) -> bool:
    return 0 in view.proto.shape.dimensions


def _empty(it: Instruction) -> Instruction | None:
    """An array without elements."""
    return constant(it, 0, it.shape) if it.shape.is_array and _is_static(it) else None


def _one_iota(it: Instruction) -> Instruction | None:
    axis = dimensions_of(it)[0]
    small = it.shape.dimensions[axis] == 1 and _is_static(it)
    return constant(it, 0, it.shape) if small else None


def _whole_again(it: Instruction, z: Instruction) -> Instruction | None:
    return z if z.shape.proto == it.shape.proto else None


def _gathered(it: Instruction) -> Instruction | None:
    """Replace an all-gather of a broadcast scalar by a broadcast."""
    if len(it.operands) != 1 or not it.shape.is_array:
        return None
    wide = it.operands[0]
    if wide.opcode != "broadcast" or not wide.operands[0].shape.is_scalar or not _is_static(it):
        return None
    return broadcast(wide.operands[0], it.shape, (), it)


def _reduced_alike(it: Instruction, x: Instruction) -> Instruction | None:
    """Remove a reduction (maximum, minimum, ...) over devices that hold equal values."""
    opcode = it.called_computations[0].root.opcode if it.called_computations else ""
    if opcode not in ("and", "maximum", "minimum", "or") or not it.shape.is_array:
        return None
    return x if _is_alike(x) else None


def _summed_alike(it: Instruction, x: Instruction) -> Instruction | None:
    """Replace the sum of equal values by the value times the number of devices in a group."""
    if not it.called_computations or it.called_computations[0].root.opcode != "add":
        return None
    wide = x.operands[0] if _is_alike(x) and x.opcode == "broadcast" else None
    sizes = {len(group) for group in replica_groups_of(it.proto)}
    if wide is None or len(sizes) != 1 or not wide.shape.is_scalar:
        return None
    with np.errstate(all="ignore"):
        total = np.asarray(splat(wide) * np.asarray(sizes.pop()).astype(wide.shape.dtype))
    return constant(it, total.astype(wide.shape.dtype), it.shape)


def _is_alike(view: Instruction) -> bool:
    return splat(view) is not None


_MOVED = "add and concatenate dynamic-slice multiply pad reduce reverse slice subtract transpose"

MOVING = Rules(
    (op(_MOVED, where=_is_empty), _empty),
    # Broadcasts
    (op(_UNARY, op("broadcast", "x", capture="wide")), _single),
    (
        op(
            _BINARY,
            op("broadcast", "x", capture="wide"),
            op("broadcast", "y", capture="other_wide"),
        ),
        _pair,
    ),
    *(
        (op(_BINARY, *pair), _with_number)
        for pair in (
            (op("broadcast", "x", capture="wide"), op("broadcast", "y", capture="other_wide")),
            (op("broadcast", "y", capture="other_wide"), op("broadcast", "x", capture="wide")),
        )
    ),
    (op("broadcast", "x", where=_adds_nothing), _as_transpose),
    (op("concatenate"), _same_values),
    (op("concatenate"), _all_alike),
    (op("concatenate"), _flat),
    (op("iota"), _one_iota),
    # Slices
    (op("slice", op("broadcast", "x", capture="wide")), _slice_of_broadcast),
    (op("slice", op("pad", "x", "c", capture="wide")), _slice_of_pad),
    (op("slice", op("reverse", "x", capture="back")), _slice_of_reverse),
    (op("slice", op("transpose", "x", capture="turned")), _slice_of_transpose),
    (op("dynamic-slice"), _dynamic_of_broadcast),
    (op("dynamic-slice"), _dynamic_of_transpose),
    (op("dynamic-slice"), _dynamic_of_reshape),
    (op("dynamic-update-slice"), _put_back),
    (op("pad", "x", "c"), _cut),
    (op("pad", op("pad", "x", "c", capture="inner"), "c"), _padded_twice),
    # Reverses
    (op("reverse", op("reverse", "x", capture="back")), _reversed_twice),
    (op("reverse", "x"), _reversed_short),
    (op("reverse", op("broadcast", "x", capture="wide")), _reversed_broadcast),
    (
        op("reverse", op(_BINARY, "x", "y", capture="elementwise")),
        _reversed_sum,
    ),
    # Types
    (op("bitcast-convert", "x"), _same_type),
    (op("bitcast-convert", op("bitcast-convert", "x")), _bits_twice),
    (op("convert", op("constant", capture="x")), _converted_constant),
    (op("complex", op("real", "z"), op("imag", "z")), _whole_again),
    (op("all-gather"), _gathered),
    (op("all-reduce", "x"), _reduced_alike),
    (op("all-reduce reduce-scatter", "x", kinds=WHOLE), _summed_alike),
)
"""Rules that hold to the last bit."""

FAST_MOVING = Rules(
    (op("all-reduce reduce-scatter", "x", kinds=FLOAT), _summed_alike),
)  # fmt: skip
"""Rules that hold for real numbers."""
