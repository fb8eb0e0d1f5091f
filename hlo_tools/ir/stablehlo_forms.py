"""Operations that only HLO has, as operations that StableHLO has too: one form for each opcode."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from hlo_tools import schema
from hlo_tools.ir.stablehlo_emitter import Emitter, NewIds
from hlo_tools.ir.stablehlo_functions import FUNCTIONS
from hlo_tools.types.element_types import BY_NUMBER, Array
from hlo_tools.types.ids import LOCAL_MASK
from hlo_tools.types.shape import Shape, array_shape, tuple_shape
from hlo_tools.types.tiled_memory import from_memory, to_memory

if TYPE_CHECKING:
    from hlo_tools.schema.messages import (
        HloComputationProto,
        HloInstructionProto,
        HloModuleProto,
        ProgramShapeProto,
        ShapeProto,
    )

__all__ = ["expressible"]

Form = Callable[[Emitter], "HloInstructionProto | None"]
"""Returns the message that takes the instruction's place, an operand that does, or None if
the instruction itself was changed."""

_DROPPED_FIELDS: Final = ("schedule", "cross_program_prefetches")
_MAX_TRACED_ELEMENTS: Final = 1 << 24
"""Bitcasts between tiled layouts are checked element by element up to this size."""
_STARTS: Final = frozenset({"copy-start", "async-start", "async-update"})
"""Left out: what completes them computes the result."""


def expressible(proto: HloModuleProto) -> bool:
    """Rewrite a module so that StableHLO has all of its operations; True if it changed.

    Schedules, control edges, prefetches and tiles of layouts, which StableHLO lacks, are dropped.

    Raises:
        HloUnsupportedError: an opcode has no form in StableHLO (HLO-STABLEHLO-OPCODE).
    """
    changed = False
    for field in _DROPPED_FIELDS:
        changed |= any(field == descriptor.name for descriptor, _ in proto.ListFields())
        proto.ClearField(field)
    ids: NewIds | None = None
    added: list[HloComputationProto] = []
    for body in proto.computations:
        if all(row.opcode not in _FORMS for row in body.instructions):
            continue
        ids = ids or NewIds(proto)
        added += _rewritten(body, ids)
        changed = True
    changed |= _without_tiles(proto)
    if added:
        proto_computations = [*added, *proto.computations]
        del proto.computations[:]
        proto.computations.extend(proto_computations)
    return changed


def _without_tiles(proto: HloModuleProto) -> bool:
    """Reduce layouts to the order of dimensions; True if one said more."""
    changed = False
    for body in proto.computations:
        program = body.program_shape
        for shape in (*program.parameters, program.result):
            changed |= _reduced_layout(shape)
        for row in body.instructions:
            for shape in (row.shape, row.literal.shape, *row.operand_shapes_with_layout):
                changed |= _reduced_layout(shape)
    program = proto.host_program_shape
    for shape in (*program.parameters, program.result):
        changed |= _reduced_layout(shape)
    return changed


def _reduced_layout(shape: ShapeProto) -> bool:
    changed = False
    for leaf in shape.tuple_shapes:
        changed |= _reduced_layout(leaf)
    layout = shape.layout
    if not layout.tiles and not layout.memory_space and not layout.element_size_in_bits:
        return changed
    order = list(layout.minor_to_major)
    layout.Clear()
    layout.minor_to_major.extend(order)
    layout.tail_padding_alignment_in_elements = 1
    return True


def _rewritten(body: HloComputationProto, ids: NewIds) -> list[HloComputationProto]:
    """Rewrite one computation; returns the computations that it calls besides."""
    rows: list[HloInstructionProto] = []
    rows_by_id = {row.id & LOCAL_MASK: row for row in body.instructions}
    added: list[HloComputationProto] = []
    forwarded: dict[int, int] = {}
    body.ClearField("execution_thread")
    for row in body.instructions:
        form = _FORMS.get(row.opcode)
        if row.opcode in _STARTS:
            _check_start(Emitter(row, body, rows_by_id, ids), body)
            continue
        if form is None:
            rows.append(row)
            continue
        emitter = Emitter(row, body, rows_by_id, ids)
        result = form(emitter)
        added += emitter.computations
        if result is None:
            rows.append(row)
        elif emitter.rows and result is emitter.rows[-1]:
            _take_place(result, row)
            rows += emitter.rows
        else:
            forwarded[row.id] = result.id
    completed = [_with_operands(row, forwarded) for row in rows]
    root_id = _last(body.root_id, forwarded)
    del body.instructions[:]
    body.instructions.extend(completed)
    body.root_id = root_id
    return added


def _take_place(result: HloInstructionProto, row: HloInstructionProto) -> None:
    """Give a new message the id, the name and the origin of the instruction that it replaces."""
    result.id, result.name = row.id, row.name
    result.metadata.CopyFrom(row.metadata)
    result.frontend_attributes.CopyFrom(row.frontend_attributes)
    if row.HasField("sharding"):
        result.sharding.CopyFrom(row.sharding)


def _with_operands(row: HloInstructionProto, forwarded: dict[int, int]) -> HloInstructionProto:
    operands = [_last(number, forwarded) for number in row.operand_ids]
    del row.operand_ids[:]
    row.operand_ids.extend(operands)
    del row.control_predecessor_ids[:]
    return row


def _last(number: int, forwarded: dict[int, int]) -> int:
    while number in forwarded:
        number = forwarded[number]
    return number


def _check_start(emitter: Emitter, body: HloComputationProto) -> None:
    """Refuse the start of an asynchronous operation that something but its end reads."""
    number = emitter.row.id
    allowed = {"copy-done", "async-done", "async-update"}
    readers = [row for row in body.instructions if number in row.operand_ids]
    if body.root_id == number or any(row.opcode not in allowed for row in readers):
        emitter.refuse("its result is used by other operations than the one that completes it")


def _start(emitter: Emitter) -> HloInstructionProto:
    """The first instruction of an asynchronous operation, whose end is rewritten."""
    [start] = emitter.operands
    while start.opcode == "async-update":
        start = emitter.definition(start.operand_ids[0])
    if start.opcode not in _STARTS:
        emitter.refuse(f"it ends %{start.name}, which is {start.opcode}")
    return start


def _copy_done(emitter: Emitter) -> HloInstructionProto:
    start = _start(emitter)
    return emitter.definition(start.operand_ids[0])


def _async_done(emitter: Emitter) -> HloInstructionProto:
    start = _start(emitter)
    operands = [emitter.definition(number) for number in start.operand_ids]
    return emitter.add(
        "call", emitter.row.shape, *operands, called_computation_ids=start.called_computation_ids
    )


def _forwarded(emitter: Emitter) -> HloInstructionProto:
    return emitter.operands[0]


def _fusion(emitter: Emitter) -> None:
    emitter.row.opcode = "call"
    for field in ("fusion_kind", "output_operand_aliasing", "backend_config"):
        emitter.row.ClearField(field)


def _copy(emitter: Emitter) -> HloInstructionProto:
    """A reshape, which keeps the instruction's attributes; of a tuple, the tuple itself.

    A TPU's copy may convert floats.
    """
    source, shape = emitter.operands[0], emitter.row.shape
    if not Shape(shape).is_array:
        return source
    if any(Shape(shape).dynamic):
        emitter.refuse("its shape is dynamic")
    if source.shape.element_type != shape.element_type:
        return emitter.add("convert", shape, source)
    return emitter.add("reshape", shape, source)


def _bitcast(emitter: Emitter) -> HloInstructionProto:
    """Transposed to the order in memory, reshaped, and transposed to the logical order."""
    source, shape = emitter.operands[0], emitter.row.shape
    if not (Shape(source.shape).is_array and Shape(shape).is_array) or any(Shape(shape).dynamic):
        emitter.refuse("it is not between arrays of fixed shapes")
    if source.shape.layout.tiles or shape.layout.tiles:
        _check_tiled(emitter, source.shape, shape)
    stored = _stored(emitter, source)
    order = list(reversed(Shape(shape).layout))
    extents = [shape.dimensions[axis] for axis in order]
    stored = _reinterpreted(emitter, stored, extents)
    if order == list(range(len(order))):
        return emitter.add("reshape", shape, stored)
    return emitter.add("transpose", shape, stored, dimensions=np.argsort(order).tolist())


def _stored(emitter: Emitter, source: HloInstructionProto) -> HloInstructionProto:
    """The array with its dimensions in the order of memory."""
    order = list(reversed(Shape(source.shape).layout))
    if order == list(range(len(order))):
        return source
    element = BY_NUMBER[source.shape.element_type]
    extents = [source.shape.dimensions[axis] for axis in order]
    return emitter.array(element, extents, "transpose", source, dimensions=order)


def _reinterpreted(
    emitter: Emitter, stored: HloInstructionProto, extents: Sequence[int]
) -> HloInstructionProto:
    """The same bytes with other extents and the elements of the result."""
    before, after = BY_NUMBER[stored.shape.element_type], emitter.element
    count = math.prod(stored.shape.dimensions)
    if (before.bits < 8 or after.bits < 8) and before.name != after.name:
        emitter.refuse("it reinterprets elements below a byte")
    if count * before.bits != math.prod(extents) * after.bits:
        emitter.refuse("it changes the number of bytes")
    if before.name == after.name:
        return emitter.array(after, extents, "reshape", stored)
    if "pred" in (before.name, after.name):
        emitter.refuse("it reinterprets booleans")
    ratio = max(before.bits, after.bits) // min(before.bits, after.bits)
    grouped = ratio > 1 and before.bits < after.bits
    flat_extents = [count // ratio, ratio] if grouped else [count]
    flat = emitter.array(before, flat_extents, "reshape", stored)
    flat_after = [count, ratio] if ratio > 1 and not grouped else [flat_extents[0]]
    flat = emitter.array(after, flat_after, "bitcast-convert", flat)
    return emitter.array(after, extents, "reshape", flat)


def _check_tiled(emitter: Emitter, source: ShapeProto, shape: ShapeProto) -> None:
    """Refuse a bitcast that, because of tiles, moves elements otherwise than its layout says."""
    before, after = Shape(source), Shape(shape)
    if before.element.name != after.element.name or before.element_count != after.element_count:
        emitter.refuse("it reinterprets elements of tiled memory")
    if before.element_count > _MAX_TRACED_ELEMENTS:
        emitter.refuse("its layout has tiles, and it is too large to be checked")
    locations = np.arange(before.element_count).reshape(before.dimensions)
    try:
        stored = to_memory(locations, source, lambda extents: np.full(extents, -1, np.int64))
        moved = from_memory(stored, shape)
    except ValueError as error:
        emitter.refuse(str(error))
    if not np.array_equal(moved, _plainly_moved(locations, before, after)):
        emitter.refuse("its tiles move elements otherwise than the layout without them")


def _plainly_moved(locations: Array, before: Shape, after: Shape) -> Array:
    """The places of the result's elements if there were no tiles."""
    order = list(reversed(after.layout))
    stored = locations.transpose(list(reversed(before.layout))).reshape(
        [after.dimensions[axis] for axis in order]
    )
    return stored.transpose(np.argsort(order)) if order else stored


def _function(emitter: Emitter) -> HloInstructionProto:
    """A function of floats; f16, bf16 and narrower ones are computed in f32."""
    [operand] = emitter.operands
    element = emitter.element
    if element.kind != "float":
        emitter.refuse(f"for {element.name}")
    x = emitter.converted(operand, element.name if element.bits >= 32 else "f32")
    result = FUNCTIONS[emitter.row.opcode](emitter, x)
    return emitter.converted(result, element.name)


def _high_product(emitter: Emitter) -> HloInstructionProto:
    """The upper half of a product of integers."""
    left, right = emitter.operands
    element = emitter.element
    if element.bits == 64:
        return _high_product_of_64(emitter, left, right)
    wide = "s64" if element.kind == "int" else "u64"
    product = emitter.like(
        "multiply", emitter.converted(left, wide), emitter.converted(right, wide)
    )
    shift = "shift-right-arithmetic" if element.kind == "int" else "shift-right-logical"
    upper = emitter.like(shift, product, emitter.number(element.bits, product))
    return emitter.converted(upper, element.name)


def _high_product_of_64(
    emitter: Emitter, left: HloInstructionProto, right: HloInstructionProto
) -> HloInstructionProto:
    """By halves of 32 bits; a negative factor counts 2**64 too much, which is subtracted."""
    extents = left.shape.dimensions
    a, b = (
        operand if emitter.element.name == "u64"
        else emitter.array("u64", extents, "bitcast-convert", operand)
        for operand in (left, right)
    )  # fmt: skip
    width, mask = emitter.number(32, a), emitter.number(0xFFFFFFFF, a)

    def low(x: HloInstructionProto) -> HloInstructionProto:
        return emitter.like("and", x, mask)

    def high(x: HloInstructionProto) -> HloInstructionProto:
        return emitter.like("shift-right-logical", x, width)

    def product(x: HloInstructionProto, y: HloInstructionProto) -> HloInstructionProto:
        return emitter.like("multiply", x, y)

    first = emitter.like("add", product(high(a), low(b)), high(product(low(a), low(b))))
    second = emitter.like("add", product(low(a), high(b)), low(first))
    upper = emitter.like("add", product(high(a), high(b)), high(first))
    upper = emitter.like("add", upper, high(second))
    if emitter.element.name == "u64":
        return upper
    zero = emitter.number(0, left)
    for sign, factor in ((left, b), (right, a)):
        is_negative = emitter.compared("LT", sign, zero)
        excess = emitter.add("select", factor.shape, is_negative, factor, emitter.number(0, factor))
        upper = emitter.like("subtract", upper, excess)
    return emitter.array("s64", extents, "bitcast-convert", upper)


def _topk(emitter: Emitter) -> HloInstructionProto:
    """A stable sort with places, of which the first are sliced."""
    row = emitter.row
    [operand] = emitter.operands
    shape = Shape(operand.shape)
    axis = shape.rank - 1
    numbers = array_shape("s32", shape.dimensions)
    locations = emitter.add("iota", numbers.proto, dimensions=[axis])
    values = array_shape(shape.element, shape.dimensions)
    order = _comparator(emitter, shape, "GT" if row.largest else "LT")
    ordered = emitter.add(
        "sort", tuple_shape([values, numbers]).proto, operand, locations, dimensions=[axis],
        is_stable=True, called_computation_ids=[order.id],
    )  # fmt: skip
    results: list[HloInstructionProto] = []
    for index, lane in enumerate((values, numbers)):
        all_sorted = emitter.add("get-tuple-element", lane.proto, ordered, tuple_index=index)
        leading = emitter.add("slice", row.shape.tuple_shapes[index], all_sorted)
        for extent in row.shape.tuple_shapes[index].dimensions:
            leading.slice_dimensions.add(start=0, limit=extent, stride=1)
        results.append(leading)
    return emitter.add("tuple", row.shape, *results)


def _comparator(emitter: Emitter, shape: Shape, direction: str) -> HloComputationProto:
    """A computation that compares values in the total order; places are not compared."""
    number = emitter.ids.computation_id()
    body = schema.HloComputationProto(id=number, name=emitter.ids.name("topk_order"))
    inner = Emitter(
        schema.HloInstructionProto(name="order", id=number << 32), body, {}, emitter.ids
    )
    value, location, result = (array_shape(name).proto for name in (shape.element, "s32", "pred"))
    parameters = [
        inner.add("parameter", kind, parameter_number=index)
        for index, kind in enumerate((value, value, location, location))
    ]
    root = inner.add("compare", result, *parameters[:2], comparison_direction=direction)
    if shape.element.kind == "float":
        root.comparison_type = "TOTALORDER"
    body.instructions.extend(inner.rows)
    body.root_id = root.id
    _describe(body.program_shape, parameters, result)
    emitter.computations.append(body)
    return body


def _describe(
    program: ProgramShapeProto, parameters: Sequence[HloInstructionProto], result: ShapeProto
) -> None:
    for parameter in parameters:
        program.parameters.add().CopyFrom(parameter.shape)
        program.parameter_names.append(parameter.name)
    program.result.CopyFrom(result)


def _no_form(emitter: Emitter) -> None:
    emitter.refuse(remedy=_REMEDIES.get(emitter.row.opcode, ""))


_REMEDIES: Final = {
    "ragged-dot": "StableHLO has it as chlo.ragged_dot only; save the module as HLO: .hlo, .pb",
}
_FORMS: Final[dict[str, Form]] = {
    "add-dependency": _forwarded,
    "async-done": _async_done,
    "async-start": _no_form,
    "async-update": _no_form,
    "bitcast": _bitcast,
    "copy": _copy,
    "copy-done": _copy_done,
    "copy-start": _no_form,
    "domain": _forwarded,
    "fusion": _fusion,
    "mulhi": _high_product,
    "ragged-dot": _no_form,
    "rng-get-and-update-state": _no_form,
    "stochastic-convert": _no_form,
    "topk": _topk,
    **dict.fromkeys(FUNCTIONS, _function),
}
"""Opcodes for which jaxlib 0.10.2 writes an operation of its own (dialect ``mhlo``), which StableHLO
lacks and its readers refuse."""
