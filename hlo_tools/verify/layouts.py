"""Layouts once they are final: who may change them, and what must agree in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from hlo_tools.inference.types import of
from hlo_tools.types.element_types import BY_NUMBER
from hlo_tools.types.opcodes import opcodes_of_kind
from hlo_tools.verify.findings import Finding
from hlo_tools.verify.index import Body, Index
from hlo_tools.verify.options import Options
from hlo_tools.verify.structure import Message

__all__ = ["check_layouts"]

Pair = tuple[Message, Message, frozenset[str]]
"""Two shapes whose layouts must agree, and the properties that may differ."""

_HOST, _FAST = 5, 1
"""Memory spaces: of the host, and near the compute units."""
_PRED = 1
_KEEPING = (
    (opcodes_of_kind("elementwise") - {"mulhi"})
    | (opcodes_of_kind("collective") - {"collective-permute-done", "collective-permute-start"})
    | {
        "add-dependency", "cholesky", "concatenate", "dynamic-slice", "dynamic-update-slice", "fft",
        "map", "opt-barrier", "pad", "reduce-window", "reverse", "scan", "scatter",
        "select-and-scatter", "set-dimension-size", "slice", "sort", "topk", "triangular-solve",
        "while",
    }
)  # fmt: skip
"""Opcodes that take and give one order of dimensions."""
_RESIZING = frozenset({"convert", "compare", "is-finite", "scatter"})
_OFFLOADING = frozenset({"dynamic-slice", "dynamic-update-slice"})
_NOTHING: frozenset[str] = frozenset()
_ENTRY = frozenset({"tiles", "tail_padding_alignment_in_elements", "memory_space"})
_PROPERTIES = (
    "minor_to_major", "tiles", "element_size_in_bits", "memory_space", "split_configs",
    "tail_padding_alignment_in_elements", "dynamic_shape_metadata_prefix_bytes",
)  # fmt: skip
_ORDER_ONLY = frozenset(_PROPERTIES) - {"minor_to_major"}


def check_layouts(index: Index, options: Options) -> Iterator[Finding]:
    """Findings that the options ask for about layouts and memory."""
    if options.device_memory:
        yield from _on_device(index)
    if not options.layout_sensitive:
        return
    for body in index.bodies.values():
        for inst, opcode in zip(body.instructions, body.opcodes, strict=True):
            if opcode in _KEEPING:
                yield from _kept(inst, opcode, body)
            if opcode == "bitcast":
                yield from _cast(inst, body)
            if opcode in _AGREEING:
                yield from _agreement(index, inst, opcode, body)
            if opcode == "scan" and inst.is_associative != 1:
                yield body.finding(
                    "HLO-V020", "a scan that is not associative has no layouts", inst
                )
            if opcode == "reshape" and options.bitcast_reshapes and not index.is_fused(body):
                yield from _moved(inst, body)
    yield from _entry(index)
    yield from _aliases(index.proto)


def _on_device(index: Index) -> Iterator[Finding]:
    for body in index.bodies.values():
        for inst in body.instructions:
            if any(leaf.layout.memory_space == _HOST for leaf in _leaves(inst.shape)):
                yield body.finding("HLO-V040", "its result lies in the memory of the host", inst)


def _leaves(shape: Message) -> Iterator[Message]:
    if shape.tuple_shapes:
        for element_shape in shape.tuple_shapes:
            yield from _leaves(element_shape)
    else:
        yield shape


# Operations that keep layouts


def _kept(inst: Message, opcode: str, body: Body) -> Iterator[Finding]:
    if not inst.shape.HasField("layout"):
        return
    ignored = {"tiles", "memory_space"}
    for operand in body.operands(inst):
        shape = operand.shape
        if not shape.HasField("layout") or len(shape.dimensions) != len(inst.shape.dimensions):
            continue
        resizes = opcode in _RESIZING or (opcode == "select" and shape.element_type == _PRED)
        also = ignored | {"element_size_in_bits"} if resizes else ignored
        if opcode in _OFFLOADING:
            yield from _offloaded(inst, opcode, shape.layout, body)
        differing = _differing(shape.layout, inst.shape.layout, frozenset(also))
        if differing:
            yield body.finding(
                "HLO-V020", f"{opcode} changes the layout ({differing}) of %{operand.name}", inst
            )


def _offloaded(inst: Message, opcode: str, layout: Message, body: Body) -> Iterator[Finding]:
    """A slice is taken from the host's memory and an update put there, not the other way round."""
    before, after = layout.memory_space, inst.shape.layout.memory_space
    wrong = {"dynamic-slice": (0, _HOST), "dynamic-update-slice": (_HOST, 0)}[opcode]
    if (before, after) == wrong or (before == _FAST) is not (after == _FAST):
        yield body.finding("HLO-V040", f"{opcode} moves from memory {before} to {after}", inst)


def _moved(inst: Message, body: Body) -> Iterator[Finding]:
    """Check that a reshape moves no element: the first step along each dimension decides."""
    before, after = body.operands(inst)[0].shape, inst.shape
    if 0 in before.dimensions:
        return
    if not (_in_place(before, after) and _in_place(after, before)):
        yield body.finding("HLO-V020", "the reshape is no bitcast of memory", inst)


def _in_place(before: Message, after: Message) -> bool:
    extents = list(after.dimensions)
    positions, steps = _steps(before, in_memory=True), _steps(before, in_memory=False)
    there, rows = _steps(after, in_memory=True), _steps(after, in_memory=False)
    for axis, extent in enumerate(before.dimensions):
        if extent > 1:
            indices = [steps[axis] // row % size for row, size in zip(rows, extents, strict=True)]
            if sum(a * b for a, b in zip(indices, there, strict=True)) != positions[axis]:
                return False
    return True


def _steps(shape: Message, *, in_memory: bool) -> list[int]:
    """Return the distance to the next element along each dimension."""
    rank = len(shape.dimensions)
    order = list(reversed(range(rank)))
    if in_memory and len(shape.layout.minor_to_major) == rank:
        order = list(shape.layout.minor_to_major)
    steps, step = [0] * rank, 1
    for axis in order:
        steps[axis] = step
        step *= shape.dimensions[axis]
    return steps


def _cast(inst: Message, body: Body) -> Iterator[Finding]:
    """A bitcast reads the same bytes in the same memory."""
    operand = body.operands(inst)[0]
    sizes = _size(operand.shape), _size(inst.shape)
    if sizes[0] != sizes[1]:
        yield body.finding(
            "HLO-V019",
            f"bitcast makes {of(inst.shape)} of {of(operand.shape)}, of another size",
            inst,
        )
    while operand.opcode == "copy":
        operand = body.operands(operand)[0]
    if operand.opcode == "constant" or not inst.shape.HasField("layout"):
        return
    on_host = [row.shape.layout.memory_space == _HOST for row in (body.operands(inst)[0], inst)]
    if on_host[0] is not on_host[1]:
        yield body.finding("HLO-V040", "bitcast moves between the memory of host and device", inst)


# Shapes that agree with their layouts


def _agreement(index: Index, inst: Message, opcode: str, body: Body) -> Iterator[Finding]:
    for actual, required, ignored in _AGREEING[opcode](index, inst, body):
        differing = _unlike(actual, required, ignored)
        if differing:
            yield body.finding(
                "HLO-V020", f"{opcode} connects shapes of other layouts ({differing})", inst
            )
            return


def _unlike(before: Message, after: Message, ignored: frozenset[str]) -> str:
    """The first property in which two shapes' layouts differ; types are checked elsewhere."""
    for a, b in zip(_leaves(before), _leaves(after), strict=False):
        if a.HasField("layout") and b.HasField("layout"):
            difference = _differing(a.layout, b.layout, ignored)
            if difference:
                return difference
    return ""


def _differing(before: Message, after: Message, ignored: frozenset[str]) -> str:
    for name in _PROPERTIES:
        if name not in ignored and _value(before, name) != _value(after, name):
            return name
    return ""


def _value(layout: Message, name: str) -> object:
    value = getattr(layout, name)
    if name == "tail_padding_alignment_in_elements":
        return value or 1
    if isinstance(value, int):
        return value
    return [row if isinstance(row, int) else row.SerializeToString() for row in value]


def _called(index: Index, inst: Message, body: Body) -> Iterator[Pair]:
    """Arguments and parameters, result and root."""
    operands = body.operands(inst)
    for called in index.called(inst):
        for row, opcode in zip(called.instructions, called.opcodes, strict=True):
            if opcode == "parameter" and row.parameter_number < len(operands):
                yield operands[row.parameter_number].shape, row.shape, _NOTHING
        yield inst.shape, called.root.shape, _NOTHING


def _while(index: Index, inst: Message, body: Body) -> Iterator[Pair]:
    state = body.operands(inst)[0].shape
    loop, condition = index.called(inst)
    yield inst.shape, loop.root.shape, _NOTHING
    for called in (loop, condition):
        for row, opcode in zip(called.instructions, called.opcodes, strict=True):
            if opcode == "parameter":
                yield state, row.shape, _NOTHING


def _conditional(index: Index, inst: Message, body: Body) -> Iterator[Pair]:
    for operand, called in zip(body.operands(inst)[1:], index.called(inst), strict=False):
        yield inst.shape, called.root.shape, _NOTHING
        for row, opcode in zip(called.instructions, called.opcodes, strict=True):
            if opcode == "parameter":
                yield operand.shape, row.shape, _NOTHING


def _tuple(index: Index, inst: Message, body: Body) -> Iterator[Pair]:
    for operand, element_shape in zip(body.operands(inst), inst.shape.tuple_shapes, strict=False):
        yield operand.shape, element_shape, _NOTHING


def _element(index: Index, inst: Message, body: Body) -> Iterator[Pair]:
    parts = body.operands(inst)[0].shape.tuple_shapes
    if inst.tuple_index < len(parts):
        yield parts[inst.tuple_index], inst.shape, _NOTHING


def _same(index: Index, inst: Message, body: Body) -> Iterator[Pair]:
    yield body.operands(inst)[0].shape, inst.shape, _NOTHING


def _copy_start(index: Index, inst: Message, body: Body) -> Iterator[Pair]:
    for element_shape in inst.shape.tuple_shapes[:2]:
        yield body.operands(inst)[0].shape, element_shape, _ORDER_ONLY


def _copy_done(index: Index, inst: Message, body: Body) -> Iterator[Pair]:
    to, source, *_ = body.operands(inst)[0].shape.tuple_shapes
    yield to, source, frozenset({"memory_space", "split_configs"})
    yield to, inst.shape, _NOTHING


def _copy(index: Index, inst: Message, body: Body) -> Iterator[Pair]:
    """A copy from the host's memory changes nothing else."""
    before = body.operands(inst)[0].shape
    if before.layout.memory_space == _HOST and inst.shape.layout.memory_space != _HOST:
        yield before, inst.shape, frozenset({"memory_space"})


def _update(index: Index, inst: Message, body: Body) -> Iterator[Pair]:
    ignored = frozenset({"memory_space", "tiles"}) if index.is_fused(body) else _NOTHING
    yield body.operands(inst)[0].shape, inst.shape, ignored


def _async_start(index: Index, inst: Message, body: Body) -> Iterator[Pair]:
    arguments, result, *_ = inst.shape.tuple_shapes
    for operand, argument in zip(body.operands(inst), arguments.tuple_shapes, strict=False):
        yield operand.shape, argument, _NOTHING
    for called in index.called(inst):
        yield result, called.root.shape, _NOTHING


def _async_done(index: Index, inst: Message, body: Body) -> Iterator[Pair]:
    yield body.operands(inst)[0].shape.tuple_shapes[1], inst.shape, _NOTHING


def _aliased(index: Index, inst: Message, body: Body) -> Iterator[Pair]:
    """An output that is written over an operand lies like it."""
    for alias in inst.output_operand_aliasing:
        if "xla_skip_custom_call_alias_shape_check" in inst.frontend_attributes.map:
            return
        output = _part(inst.shape, alias.output_shape_index)
        operand = _part(body.operands(inst)[alias.operand_index].shape, alias.operand_shape_index)
        if output is None or operand is None:
            continue
        scalar = math.prod(operand.dimensions) == 1 and inst.opcode == "custom-call"
        yield operand, output, frozenset({"memory_space"}) if scalar else _NOTHING


def _part(shape: Message, location: list[int]) -> Message | None:
    for index in location:
        if index >= len(shape.tuple_shapes):
            return None
        shape = shape.tuple_shapes[index]
    return shape


def _fusion(index: Index, inst: Message, body: Body) -> Iterator[Pair]:
    yield from _called(index, inst, body)
    nested = index.is_fused(body)
    for operand, output, ignored in _aliased(index, inst, body):
        yield operand, output, ignored | {"tiles", "memory_space"} if nested else ignored


_AGREEING: dict[str, Callable[[Index, Message, Body], Iterator[Pair]]] = {
    "call": _called, "fusion": _fusion, "while": _while, "conditional": _conditional,
    "tuple": _tuple, "get-tuple-element": _element, "opt-barrier": _same, "copy": _copy,
    "copy-start": _copy_start, "copy-done": _copy_done, "dynamic-update-slice": _update,
    "async-start": _async_start, "async-update": _same, "async-done": _async_done,
    "custom-call": _aliased,
}  # fmt: skip


# The module's own layouts


def _entry(index: Index) -> Iterator[Finding]:
    """The entry's parameters and root lie as the module says."""
    stated, body = index.proto.host_program_shape, index.bodies[index.proto.entry_computation_id]
    pairs = [(body.root, stated.result)]
    for inst, opcode in zip(body.instructions, body.opcodes, strict=True):
        if opcode == "parameter" and inst.parameter_number < len(stated.parameters):
            pairs.append((inst, stated.parameters[inst.parameter_number]))
    for inst, shape in pairs:
        differing = _unlike(inst.shape, shape, _ENTRY)
        if differing:
            yield body.finding(
                "HLO-V020", f"the module states another layout for it ({differing})", inst
            )


def _aliases(proto: Message) -> Iterator[Finding]:
    """An output that must be aliased lies where its parameter lies."""
    stated = proto.host_program_shape
    for entry in proto.input_output_alias.entries:
        if entry.parameter_number >= len(stated.parameters):
            continue
        output = _part(stated.result, entry.output_shape_index)
        source = _part(stated.parameters[entry.parameter_number], entry.parameter_shape_index)
        if output is None or source is None:
            continue
        if entry.kind == _MUST and _unlike(output, source, _NOTHING):
            yield Finding(
                "HLO-V017",
                f"an output must be parameter {entry.parameter_number}, whose layout differs",
            )
        if _size(output) != _size(source):
            yield Finding(
                "HLO-V017", f"the output {of(output)} is aliased with the input {of(source)}"
            )


_MUST = 2


def _size(shape: Message) -> int:
    """Bits of an array."""
    element_type = BY_NUMBER.get(shape.element_type)
    return math.prod(shape.dimensions) * (element_type.bits if element_type else 0)
