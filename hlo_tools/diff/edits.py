"""Edits that make a module smaller: instructions, bodies, attributes, extents, loop counts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from itertools import count
from typing import Any

import numpy as np

from hlo_tools import schema
from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.slicing import extract_slice
from hlo_tools.types.element_types import BY_NUMBER
from hlo_tools.types.ids import LOCAL_MASK
from hlo_tools.types.literal import Literal, store

Message = Any

__all__ = [
    "droppable", "kept", "merged_parameters", "shrunk", "simplifications", "stubbed",
]  # fmt: skip

_STARTS = ("-start", "-update", "send", "recv")
_FIELDS = (
    "metadata", "frontend_attributes", "sharding", "backend_config", "original_value",
    "statistics_viz", "precision_config", "parameter_replication", "control_predecessor_ids",
)  # fmt: skip
_TABLES = (
    "schedule", "input_output_alias", "buffer_donor", "stack_frame_index", "frontend_attributes",
    "profile_info", "spmd_output_sharding", "spmd_parameters_shardings",
)  # fmt: skip
_STAYING = frozenset({"parameter", "constant", "tuple"})
_MOST_ZEROS = 1 << 16


def droppable(body: Computation) -> list[Instruction]:
    """Instructions that a smaller module may lack, operands first."""
    return [view for view in body.post_order() if view.opcode not in _STAYING]


def kept(chosen: Collection[Instruction]) -> Module | None:
    """A module of some instructions of one computation; the values that they take are parameters."""
    instructions = set(chosen)
    for view in chosen:
        if view.opcode.endswith(_STARTS):
            instructions |= {
                user for user in view.users if user.opcode.endswith(("-done", "-update"))
            }
    if not instructions:
        return None
    module = extract_slice(instructions).module
    module.proto.name = next(iter(instructions)).computation.module.name
    return module


def _copy(module: Module) -> Message:
    return schema.HloModuleProto.FromString(module.module_bytes())


def _rows(proto: Message) -> Iterator[Message]:
    for body in proto.computations:
        yield from body.instructions


# Bodies of calls


def stubbed(module: Module, body: str, chosen: Collection[str]) -> Module | None:
    """Return the module with some instructions of one body; zeros replace the others."""
    proto = _copy(module)
    row = next(row_or_body for row_or_body in proto.computations if row_or_body.name == body)
    before = len(row.instructions)
    for row_or_body in list(row.instructions):
        if row_or_body.opcode not in _STAYING and row_or_body.name not in chosen:
            _zero(row_or_body)
    _sweep(row)
    return Module(proto) if len(row.instructions) < before else None


def _zero(row: Message) -> None:
    """Make zeros of an instruction, where its type has some and they are few enough."""
    element_type = BY_NUMBER.get(row.shape.element_type)
    if (
        element_type is None
        or element_type.dtype is None
        or math.prod(row.shape.dimensions) > _MOST_ZEROS
    ):
        return
    fresh = schema.HloInstructionProto(name=row.name, id=row.id, opcode="constant", shape=row.shape)
    fresh.literal.shape.CopyFrom(row.shape)
    store(fresh.literal, np.zeros(tuple(row.shape.dimensions), element_type.dtype))
    row.CopyFrom(fresh)


def _sweep(body: Message) -> None:
    """Remove what the root does not need; parameters stay."""
    rows = {inst.id & LOCAL_MASK: inst for inst in body.instructions}
    needed, stack = set[int](), [body.root_id & LOCAL_MASK]
    while stack:
        number = stack.pop()
        if number not in needed:
            needed.add(number)
            stack += [operand_id & LOCAL_MASK for operand_id in rows[number].operand_ids]
    left = [inst for number, inst in rows.items() if number in needed or inst.opcode == "parameter"]
    copies = [schema.HloInstructionProto.FromString(inst.SerializeToString()) for inst in left]
    for inst in copies:
        del inst.control_predecessor_ids[:]
    del body.instructions[:]
    body.instructions.extend(copies)


# Attributes


def simplifications(module: Module) -> Iterator[tuple[str, Callable[[], Module | None]]]:
    """Attributes and tables left out: all at once, then each alone."""
    used = [name for name in _FIELDS if any(_has(row, name) for row in _rows(module.proto))]
    tables = [name for name in _TABLES if _has(module.proto, name)]
    if len(used) + len(tables) > 1:
        yield "without attributes", lambda: _without(module, used, tables)
    for name in used:
        yield f"without {name}", lambda name=name: _without(module, [name], [])
    for name in tables:
        yield f"without {name}", lambda name=name: _without(module, [], [name])


def _has(message: Message, name: str) -> bool:
    value = getattr(message, name)
    if isinstance(value, (bytes, str)) or hasattr(value, "append"):
        return bool(value)
    return message.HasField(name) and value.ByteSize() > 0


def _without(module: Module, fields: Collection[str], tables: Collection[str]) -> Module:
    proto = _copy(module)
    for row in _rows(proto):
        for name in fields:
            row.ClearField(name)
    for name in tables:
        proto.ClearField(name)
        if name == "stack_frame_index":
            for row in _rows(proto):
                row.metadata.stack_frame_id = 0
    return Module(proto)


def merged_parameters(module: Module) -> Module | None:
    """The module with one parameter for each type."""
    proto = _copy(module)
    entry = next(
        computation
        for computation in proto.computations
        if computation.id == proto.entry_computation_id
    )
    first: dict[bytes, Message] = {}
    instead: dict[int, int] = {}
    for row in entry.instructions:
        if row.opcode == "parameter":
            first_parameter = first.setdefault(row.shape.SerializeToString(), row)
            instead[row.id & LOCAL_MASK] = first_parameter.id
    if len(first) == len(instead) or entry.root_id & LOCAL_MASK in instead:
        return None
    left = set(map(id, first.values()))
    rows = [
        schema.HloInstructionProto.FromString(row.SerializeToString())
        for row in entry.instructions
        if row.opcode != "parameter" or id(row) in left
    ]
    numbers = count()
    for row in rows:
        row.operand_ids[:] = [instead.get(n & LOCAL_MASK, n) for n in row.operand_ids]
        if row.opcode == "parameter":
            row.parameter_number = next(numbers)
    del entry.instructions[:]
    entry.instructions.extend(rows)
    proto.ClearField("input_output_alias")
    proto.ClearField("buffer_donor")
    return Module(_signed(proto))


def _signed(proto: Message) -> Message:
    """Program shapes that follow from parameters and roots."""
    for body in proto.computations:
        rows = {row.id & LOCAL_MASK: row for row in body.instructions}
        shape = schema.ProgramShapeProto(result=rows[body.root_id & LOCAL_MASK].shape)
        parameters = [row for row in rows.values() if row.opcode == "parameter"]
        for row in sorted(parameters, key=lambda row: row.parameter_number):
            shape.parameters.append(row.shape)
            shape.parameter_names.append(row.name)
        body.program_shape.CopyFrom(shape)
        if body.id == proto.entry_computation_id:
            proto.host_program_shape.CopyFrom(shape)
    return proto


# Extents and counts


def shrunk(module: Module) -> Iterator[tuple[str, Callable[[], Module | None]]]:
    """Yield edits that shrink each extent everywhere, largest first; then the counts of loops."""
    extents = Counter(size for row in _rows(module.proto) for size in _sizes(row.shape))
    for size in sorted((extent for extent in extents if extent > 2), reverse=True):
        for smaller in (2, 8, 64):
            if smaller < size:
                yield (
                    f"extent {size} made {smaller}",
                    lambda size=size, smaller=smaller: _resized(module, size, smaller),
                )
    for name, value in _counts(module):
        yield f"count {value} made 2", lambda name=name: _counted(module, name)


def _sizes(shape: Message) -> Iterator[int]:
    yield from shape.dimensions
    for element_shape in shape.tuple_shapes:
        yield from _sizes(element_shape)


def _resized(module: Module, size: int, smaller: int) -> Module | None:
    proto = _copy(module)
    for row in _rows(proto):
        if row.opcode == "constant" and size in row.shape.dimensions:
            if not _recut(row, size, smaller):
                return None
            continue
        _resize(row.shape, size, smaller)
        for name in ("dynamic_slice_sizes", "gather_slice_sizes", "fft_length"):
            values = getattr(row, name)
            values[:] = [smaller if extent == size else extent for extent in values]
        for message in row.slice_dimensions:
            message.limit = smaller if message.limit == size else message.limit
        for message in row.window.dimensions:
            message.size = smaller if message.size == size else message.size
        for message in row.operand_shapes_with_layout:
            _resize(message, size, smaller)
    return Module(_signed(proto))


def _resize(shape: Message, size: int, smaller: int) -> None:
    shape.dimensions[:] = [smaller if extent == size else extent for extent in shape.dimensions]
    for element_shape in shape.tuple_shapes:
        _resize(element_shape, size, smaller)


def _recut(row: Message, size: int, smaller: int) -> bool:
    """The first elements of a constant along its dimensions of an extent."""
    literal = Literal(row.literal)
    if literal.is_tuple or literal.is_elided:
        return False
    cut = tuple(slice(smaller if extent == size else extent) for extent in row.shape.dimensions)
    values = literal.numpy()[cut]
    _resize(row.shape, size, smaller)
    fresh = schema.LiteralProto(shape=row.shape)
    fresh.shape.layout.element_size_in_bits = 0
    store(fresh, values)
    row.literal.CopyFrom(fresh)
    return True


def _counts(module: Module) -> Iterator[tuple[str, int]]:
    """Whole numbers over 2 in conditions of loops."""
    conditions = {
        inst.called_computation_ids[1]
        for inst in _rows(module.proto)
        if inst.opcode == "while" and len(inst.called_computation_ids) == 2
    }
    for body in module.proto.computations:
        if body.id in conditions:
            for row in body.instructions:
                if row.opcode == "constant" and not row.shape.dimensions:
                    value = Literal(row.literal).numpy()
                    if value.dtype.kind in "iu" and value > 2:
                        yield row.name, int(value)


def _counted(module: Module, name: str) -> Module:
    proto = _copy(module)
    row = next(inst for inst in _rows(proto) if inst.name == name)
    dtype = Literal(row.literal).numpy().dtype
    fresh = schema.LiteralProto(shape=row.literal.shape)
    store(fresh, np.array(2, dtype))
    row.literal.CopyFrom(fresh)
    return Module(proto)
