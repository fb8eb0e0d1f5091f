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
"""Two shapes that are alike, but for some properties of their layouts."""

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
        for one, opcode in zip(body.instructions, body.opcodes, strict=True):
            if opcode in _KEEPING:
                yield from _kept(one, opcode, body)
            if opcode == "bitcast":
                yield from _cast(one, body)
            if opcode in _AGREEING:
                yield from _agreement(index, one, opcode, body)
            if opcode == "scan" and one.is_associative != 1:
                yield body.finding("HLO-V020", "a scan that is not associative has no layouts", one)
            if opcode == "reshape" and options.bitcast_reshapes and not index.is_fused(body):
                yield from _moved(one, body)
    yield from _entry(index)
    yield from _aliases(index.proto)


def _on_device(index: Index) -> Iterator[Finding]:
    for body in index.bodies.values():
        for one in body.instructions:
            if any(leaf.layout.memory_space == _HOST for leaf in _leaves(one.shape)):
                yield body.finding("HLO-V040", "its result lies in the memory of the host", one)


def _leaves(shape: Message) -> Iterator[Message]:
    if shape.tuple_shapes:
        for part in shape.tuple_shapes:
            yield from _leaves(part)
    else:
        yield shape


# Operations that keep layouts


def _kept(one: Message, opcode: str, body: Body) -> Iterator[Finding]:
    if not one.shape.HasField("layout"):
        return
    ignored = {"tiles", "memory_space"}
    for operand in body.operands(one):
        shape = operand.shape
        if not shape.HasField("layout") or len(shape.dimensions) != len(one.shape.dimensions):
            continue
        resizes = opcode in _RESIZING or (opcode == "select" and shape.element_type == _PRED)
        also = ignored | {"element_size_in_bits"} if resizes else ignored
        if opcode in _OFFLOADING:
            yield from _offloaded(one, opcode, shape.layout, body)
        differing = _differing(shape.layout, one.shape.layout, frozenset(also))
        if differing:
            yield body.finding(
                "HLO-V020", f"{opcode} changes the layout ({differing}) of %{operand.name}", one
            )


def _offloaded(one: Message, opcode: str, layout: Message, body: Body) -> Iterator[Finding]:
    """A slice is taken from the host's memory and an update put there, not the other way round."""
    before, after = layout.memory_space, one.shape.layout.memory_space
    wrong = {"dynamic-slice": (0, _HOST), "dynamic-update-slice": (_HOST, 0)}[opcode]
    if (before, after) == wrong or (before == _FAST) is not (after == _FAST):
        yield body.finding("HLO-V040", f"{opcode} moves from memory {before} to {after}", one)


def _moved(one: Message, body: Body) -> Iterator[Finding]:
    """Every element stays where it is when those one step along each dimension do."""
    before, after = body.operands(one)[0].shape, one.shape
    if 0 in before.dimensions:
        return
    if not (_in_place(before, after) and _in_place(after, before)):
        yield body.finding("HLO-V020", "the reshape is no bitcast of memory", one)


def _in_place(one: Message, other: Message) -> bool:
    extents = list(other.dimensions)
    places, steps = _steps(one, in_memory=True), _steps(one, in_memory=False)
    there, rows = _steps(other, in_memory=True), _steps(other, in_memory=False)
    for axis, extent in enumerate(one.dimensions):
        if extent > 1:
            at = [steps[axis] // row % size for row, size in zip(rows, extents, strict=True)]
            if sum(a * b for a, b in zip(at, there, strict=True)) != places[axis]:
                return False
    return True


def _steps(shape: Message, *, in_memory: bool) -> list[int]:
    """How far the next element along each dimension is."""
    rank = len(shape.dimensions)
    order = list(reversed(range(rank)))
    if in_memory and len(shape.layout.minor_to_major) == rank:
        order = list(shape.layout.minor_to_major)
    steps, step = [0] * rank, 1
    for axis in order:
        steps[axis] = step
        step *= shape.dimensions[axis]
    return steps


def _cast(one: Message, body: Body) -> Iterator[Finding]:
    """A bitcast reads the same bytes in the same memory."""
    operand = body.operands(one)[0]
    sizes = _size(operand.shape), _size(one.shape)
    if sizes[0] != sizes[1]:
        yield body.finding(
            "HLO-V019",
            f"bitcast makes {of(one.shape)} of {of(operand.shape)}, of another size",
            one,
        )
    while operand.opcode == "copy":
        operand = body.operands(operand)[0]
    if operand.opcode == "constant" or not one.shape.HasField("layout"):
        return
    on_host = [row.shape.layout.memory_space == _HOST for row in (body.operands(one)[0], one)]
    if on_host[0] is not on_host[1]:
        yield body.finding("HLO-V040", "bitcast moves between the memory of host and device", one)


# Shapes that agree with their layouts


def _agreement(index: Index, one: Message, opcode: str, body: Body) -> Iterator[Finding]:
    for got, wanted, ignored in _AGREEING[opcode](index, one, body):
        differing = _unlike(got, wanted, ignored)
        if differing:
            yield body.finding(
                "HLO-V020", f"{opcode} connects shapes of other layouts ({differing})", one
            )
            return


def _unlike(one: Message, other: Message, ignored: frozenset[str]) -> str:
    """The first property in which two shapes' layouts differ; types are checked elsewhere."""
    for a, b in zip(_leaves(one), _leaves(other), strict=False):
        if a.HasField("layout") and b.HasField("layout"):
            found = _differing(a.layout, b.layout, ignored)
            if found:
                return found
    return ""


def _differing(one: Message, other: Message, ignored: frozenset[str]) -> str:
    for name in _PROPERTIES:
        if name not in ignored and _value(one, name) != _value(other, name):
            return name
    return ""


def _value(layout: Message, name: str) -> object:
    value = getattr(layout, name)
    if name == "tail_padding_alignment_in_elements":
        return value or 1
    if isinstance(value, int):
        return value
    return [row if isinstance(row, int) else row.SerializeToString() for row in value]


def _called(index: Index, one: Message, body: Body) -> Iterator[Pair]:
    """Arguments and parameters, result and root."""
    operands = body.operands(one)
    for called in index.called(one):
        for row, opcode in zip(called.instructions, called.opcodes, strict=True):
            if opcode == "parameter" and row.parameter_number < len(operands):
                yield operands[row.parameter_number].shape, row.shape, _NOTHING
        yield one.shape, called.root.shape, _NOTHING


def _while(index: Index, one: Message, body: Body) -> Iterator[Pair]:
    state = body.operands(one)[0].shape
    loop, condition = index.called(one)
    yield one.shape, loop.root.shape, _NOTHING
    for called in (loop, condition):
        for row, opcode in zip(called.instructions, called.opcodes, strict=True):
            if opcode == "parameter":
                yield state, row.shape, _NOTHING


def _conditional(index: Index, one: Message, body: Body) -> Iterator[Pair]:
    for operand, called in zip(body.operands(one)[1:], index.called(one), strict=False):
        yield one.shape, called.root.shape, _NOTHING
        for row, opcode in zip(called.instructions, called.opcodes, strict=True):
            if opcode == "parameter":
                yield operand.shape, row.shape, _NOTHING


def _tuple(index: Index, one: Message, body: Body) -> Iterator[Pair]:
    for operand, part in zip(body.operands(one), one.shape.tuple_shapes, strict=False):
        yield operand.shape, part, _NOTHING


def _element(index: Index, one: Message, body: Body) -> Iterator[Pair]:
    parts = body.operands(one)[0].shape.tuple_shapes
    if one.tuple_index < len(parts):
        yield parts[one.tuple_index], one.shape, _NOTHING


def _same(index: Index, one: Message, body: Body) -> Iterator[Pair]:
    yield body.operands(one)[0].shape, one.shape, _NOTHING


def _copy_start(index: Index, one: Message, body: Body) -> Iterator[Pair]:
    for part in one.shape.tuple_shapes[:2]:
        yield body.operands(one)[0].shape, part, _ORDER_ONLY


def _copy_done(index: Index, one: Message, body: Body) -> Iterator[Pair]:
    to, source, *_ = body.operands(one)[0].shape.tuple_shapes
    yield to, source, frozenset({"memory_space", "split_configs"})
    yield to, one.shape, _NOTHING


def _copy(index: Index, one: Message, body: Body) -> Iterator[Pair]:
    """A copy from the host's memory changes nothing else."""
    before = body.operands(one)[0].shape
    if before.layout.memory_space == _HOST and one.shape.layout.memory_space != _HOST:
        yield before, one.shape, frozenset({"memory_space"})


def _update(index: Index, one: Message, body: Body) -> Iterator[Pair]:
    ignored = frozenset({"memory_space", "tiles"}) if index.is_fused(body) else _NOTHING
    yield body.operands(one)[0].shape, one.shape, ignored


def _async_start(index: Index, one: Message, body: Body) -> Iterator[Pair]:
    given, result, *_ = one.shape.tuple_shapes
    for operand, part in zip(body.operands(one), given.tuple_shapes, strict=False):
        yield operand.shape, part, _NOTHING
    for called in index.called(one):
        yield result, called.root.shape, _NOTHING


def _async_done(index: Index, one: Message, body: Body) -> Iterator[Pair]:
    yield body.operands(one)[0].shape.tuple_shapes[1], one.shape, _NOTHING


def _aliased(index: Index, one: Message, body: Body) -> Iterator[Pair]:
    """An output that is written over an operand lies like it."""
    for alias in one.output_operand_aliasing:
        if "xla_skip_custom_call_alias_shape_check" in one.frontend_attributes.map:
            return
        output = _part(one.shape, alias.output_shape_index)
        operand = _part(body.operands(one)[alias.operand_index].shape, alias.operand_shape_index)
        if output is None or operand is None:
            continue
        scalar = math.prod(operand.dimensions) == 1 and one.opcode == "custom-call"
        yield operand, output, frozenset({"memory_space"}) if scalar else _NOTHING


def _part(shape: Message, place: list[int]) -> Message | None:
    for at in place:
        if at >= len(shape.tuple_shapes):
            return None
        shape = shape.tuple_shapes[at]
    return shape


def _fusion(index: Index, one: Message, body: Body) -> Iterator[Pair]:
    yield from _called(index, one, body)
    nested = index.is_fused(body)
    for operand, output, ignored in _aliased(index, one, body):
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
    for one, opcode in zip(body.instructions, body.opcodes, strict=True):
        if opcode == "parameter" and one.parameter_number < len(stated.parameters):
            pairs.append((one, stated.parameters[one.parameter_number]))
    for one, shape in pairs:
        differing = _unlike(one.shape, shape, _ENTRY)
        if differing:
            yield body.finding(
                "HLO-V020", f"the module states another layout for it ({differing})", one
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
    known = BY_NUMBER.get(shape.element_type)
    return math.prod(shape.dimensions) * (known.bits if known else 0)
