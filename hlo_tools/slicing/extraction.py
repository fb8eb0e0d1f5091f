"""A set of instructions of one computation as a module.

Instructions, computations and ids stay what they were in the module that the slice was taken
from; a value that the slice needs and does not have is a parameter with the value's name and id.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_tools import schema
from hlo_tools.errors import HloError
from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.ir.ordering import behind, is_continuation
from hlo_tools.types.ids import LOCAL_MASK, wide
from hlo_tools.types.shape import Shape, tuple_shape

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloComputationProto, HloModuleProto

__all__ = ["Slice", "extract_slice"]


_TABLES = ("stack_frame_index", "payloads", "debug_attributes", "device_type")
"""Tables of the module that instructions of the slice refer to."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice, and what its parameters and results are in the original.

    Attributes:
        module: the slice; its results are a tuple when there are several.
        inputs: instructions of the original, one for each parameter.
        outputs: instructions of the original, one for each result.
    """

    module: Module
    inputs: tuple[Instruction, ...]
    outputs: tuple[Instruction, ...]


def extract_slice(
    chosen: Iterable[Instruction],
    *,
    targets: Iterable[Instruction] = (),
    constants: bool = True,
) -> Slice:
    """The module that computes ``chosen``.

    Args:
        chosen: instructions of one computation, in any order.
        targets: of these, what must be a result; besides them, what nothing in the slice uses is.
        constants: take in constants (and their broadcasts) that the slice needs; else they become
            parameters.

    Raises:
        HloError: nothing is chosen, or it lies in several computations (HLO-ARGUMENT).
    """
    instructions = set(chosen)
    here = _computation_of(instructions)
    here.module.require_known_fields()
    _complete(instructions, constants)
    order = [
        view for view in here.post_order() if view in instructions and view.opcode != "parameter"
    ]
    outputs = _outputs(order, instructions, list(targets))
    if not order:  # parameters only: passed through
        outputs = [view for view in here.parameters if view in instructions]
    inputs = _inputs(order, instructions | set(outputs), outputs)
    proto = _module_around(here, order)
    _fill(_entry_of(proto, here), inputs, order, outputs)
    module = Module(_signed(proto, here), path=here.module.path)
    _keep_constants(module, here.module)
    return Slice(module, tuple(inputs), tuple(outputs))


def _computation_of(chosen: set[Instruction]) -> Computation:
    computations = {view.computation for view in chosen}
    if len(computations) != 1:
        raise HloError(
            "a slice has instructions of exactly one computation",
            code="HLO-ARGUMENT",
            remedy="choose instructions of one computation",
        )
    return computations.pop()


def _complete(instructions: set[Instruction], constants: bool) -> None:
    """Add the instructions that must stay with their operands or users."""
    stack = list(instructions)
    while stack:
        view = stack.pop()
        needed = [user for user in view.users if is_continuation(user)]
        needed += (
            operand
            for operand in view.operands
            if is_continuation(view) or (constants and _is_constant(operand))
        )
        stack += (needed_inst for needed_inst in needed if needed_inst not in instructions)
        instructions.update(needed)


def _is_constant(view: Instruction) -> bool:
    return behind(view, "broadcast", "reshape", "bitcast").opcode in ("constant", "iota")


def _outputs(
    order: list[Instruction], instructions: set[Instruction], targets: list[Instruction]
) -> list[Instruction]:
    """Return the slice's results: finished targets, then values without users (except constants)."""
    used = {operand for view in order for operand in view.operands}
    ends = [view for view in order if view not in used and view.opcode != "constant"]
    if not ends:
        ends = [view for view in order if view not in used]
    present = (view for view in targets if view in instructions)
    finished = (view for view in present if not any(map(is_continuation, view.users)))
    return list(dict.fromkeys([*finished, *ends]))


def _inputs(
    order: list[Instruction], instructions: set[Instruction], outputs: list[Instruction]
) -> list[Instruction]:
    """Return the slice's inputs: original parameters by number, then values in order of use."""
    inside = set(order)
    needed = dict.fromkeys(operand for view in order for operand in view.operands)
    needed.update(dict.fromkeys(view for view in outputs if view.opcode == "parameter"))
    outside = [view for view in needed if view not in inside]
    first = [view for view in outside if view.opcode == "parameter"]
    first.sort(key=lambda view: view.proto.parameter_number)
    return first + [view for view in outside if view.opcode != "parameter"]


def _module_around(here: Computation, order: list[Instruction]) -> HloModuleProto:
    """A module with the computations that the slice calls, and the tables it refers to."""
    source = here.module
    proto = schema.HloModuleProto(name=f"{source.name}.slice")
    for name in _TABLES:
        value = getattr(source.proto, name)
        if isinstance(value, str):
            setattr(proto, name, value)
        elif hasattr(value, "extend"):
            getattr(proto, name).extend(value)
        elif source.proto.HasField(name):
            getattr(proto, name).CopyFrom(value)
    called: dict[Computation, None] = {}
    stack = [callee for view in order for callee in view.called_computations]
    while stack:
        computation = stack.pop()
        if computation not in called:
            called[computation] = None
            stack += [source.computation_by_id(number) for number in computation.called_ids()]
    for computation in source.computations_in_order():
        if computation in called:
            proto.computations.add().CopyFrom(computation.proto)
    return proto


def _entry_of(proto: HloModuleProto, here: Computation) -> HloComputationProto:
    proto.entry_computation_id, proto.entry_computation_name = here.id, here.name
    return proto.computations.add(name=here.name, id=here.id)


def _fill(
    entry: HloComputationProto,
    inputs: list[Instruction],
    order: list[Instruction],
    outputs: list[Instruction],
) -> None:
    for number, view in enumerate(inputs):
        row = entry.instructions.add(
            name=view.name, id=view.id, opcode="parameter", parameter_number=number
        )
        row.shape.CopyFrom(view.proto.shape)
        for field in ("metadata", "sharding", "frontend_attributes"):
            if view.proto.HasField(field):
                getattr(row, field).CopyFrom(getattr(view.proto, field))
    inside = {view.local_id for view in order}
    for view in order:
        row = entry.instructions.add()
        row.CopyFrom(view.proto)
        predecessor_ids = [n for n in row.control_predecessor_ids if n & LOCAL_MASK in inside]
        row.control_predecessor_ids[:] = predecessor_ids
    entry.root_id = outputs[0].id if len(outputs) == 1 else _add_tuple(entry, outputs)


def _add_tuple(entry: HloComputationProto, outputs: list[Instruction]) -> int:
    """A tuple of the results; its id, above all others of the original."""
    here = outputs[0].computation
    if here.module.id_scheme == "wide":
        number = wide(here.id, max(view.local_id for view in here) + 1)
    else:
        number = max(view.id for view in here.module.instructions) + 1
    names = {view.name for view in here}
    name = next(n for n in ("results", *(f"results.{i}" for i in range(len(names) + 1))) if n not in names)  # fmt: skip
    row = entry.instructions.add(name=name, id=number, opcode="tuple")
    row.shape.CopyFrom(tuple_shape([view.shape for view in outputs]).proto)
    row.operand_ids.extend(view.id for view in outputs)
    return number


def _signed(proto: HloModuleProto, here: Computation) -> HloModuleProto:
    """The module with its entry's signature filled in."""
    entry = proto.computations[-1]
    shape = entry.program_shape
    for row in entry.instructions:
        if row.opcode == "parameter":
            shape.parameters.add().CopyFrom(row.shape)
            shape.parameter_names.append(row.name)
    root = next(row for row in entry.instructions if row.id == entry.root_id)
    shape.result.CopyFrom(Shape(root.shape).proto)
    proto.host_program_shape.CopyFrom(shape)
    return proto


def _keep_constants(module: Module, source: Module) -> None:
    """Keep constants in the original's file that are stored there."""
    if not source.has_kept_constants:
        return
    for computation in module.computations:
        for view in computation.instructions:
            stored = source.kept_constant(computation.id, view.local_id)
            if stored is not None:
                module.keep_constant(computation.id, view.local_id, stored)
