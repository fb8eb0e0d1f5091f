"""Editing: instructions added, removed, rewired, with ids, users, schedules and order kept right.

Edits change the messages at once, except for what would cost time in proportion to the module
each time: taking instructions out of their list (:func:`sweep`, when someone looks at the list),
and bringing lists into an order in which operands come first (:func:`settle`, when someone asks
for the message or saves).
"""

# pyright: reportPrivateUsage=false
# The views and what edits, writes and numbers them anew share the state behind the views.

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, cast

from hlo_tools._messages import counted
from hlo_tools.errors import HloError
from hlo_tools.ir.ordering import computations_in_order, instructions_in_order
from hlo_tools.types.ids import LOCAL_MASK, NO_ROOT, wide
from hlo_tools.types.shape import Shape

if TYPE_CHECKING:
    from hlo_tools.ir.computation import Computation
    from hlo_tools.ir.instruction import Instruction
    from hlo_tools.ir.module import Module
    from hlo_tools.schema.messages import (
        HloComputationProto,
        HloInstructionProto,
        ProgramShapeProto,
    )

__all__ = [
    "add",
    "add_computation",
    "drop_operand",
    "put_in_order",
    "remove",
    "remove_all",
    "remove_parameter",
    "replace_uses",
    "set_called",
    "set_control_predecessors",
    "set_operand",
    "set_root",
    "settle",
    "settle_module",
    "sweep",
    "unique_name",
]


def add(
    computation: Computation,
    opcode: str,
    shape: Shape,
    operands: tuple[Instruction, ...],
    *,
    name: str | None,
    like: Instruction | None,
    **fields: object,
) -> Instruction:
    """See :meth:`Computation.add`."""
    for operand in operands:
        _check_here(operand, computation)
    if not isinstance(cast(object, shape), Shape):
        raise HloError(
            f"{shape!r} is not a shape",
            code="HLO-EDIT",
            remedy="pass a Shape, such as array_shape('f32', (2, 3)) or parse_shape('f32[2,3]')",
        )
    index = computation._index()
    views = computation._instructions
    assert views is not None
    proto = _new_message(computation, opcode, name or opcode, fields)
    proto.shape.CopyFrom(shape.proto)
    proto.operand_ids.extend(operand.proto.id for operand in operands)
    if like is not None:
        _inherit(proto, like.proto)
    view = computation._view_of(proto)
    view._operands = operands
    if views and views[0]._users is not None:
        view._users = {}
        for operand in operands:
            _count(operand, view, 1)
    views.append(view)
    index[proto.id & LOCAL_MASK] = view
    if len(index) == 1:
        computation._proto.root_id = proto.id
        computation._has_implicit_root = True
    elif opcode != "parameter" and computation._has_implicit_root:
        computation._proto.root_id = NO_ROOT  # a parameter would be a silent wrong result
    if proto.called_computation_ids:
        computation.module.add_calls(view)
    if proto.control_predecessor_ids:
        computation._waited_ids = None
    _edited(computation)
    return view


def _new_message(
    computation: Computation, opcode: str, name: str, fields: dict[str, object]
) -> HloInstructionProto:
    """The message of an instruction that is added."""
    try:
        return computation._proto.instructions.add(
            name=unique_name(computation.module, name),
            opcode=opcode,
            id=_next_id(computation),
            **{field: getattr(value, "proto", value) for field, value in fields.items()},
        )
    except (TypeError, ValueError) as error:
        raise HloError(
            f"%{name} cannot be added: {error}",
            code="HLO-EDIT",
            remedy="fields are those of HloInstructionProto: tuple_index, dimensions, ...",
        ) from None


def set_operand(instruction: Instruction, index: int, operand: Instruction) -> None:
    """See :meth:`Instruction.replace_operand`."""
    _check_here(operand, instruction.computation)
    operands = list(instruction.operands)
    if not -len(operands) <= index < len(operands):
        raise HloError(
            f"%{instruction.name} has {counted(len(operands), 'operand')}, none at place {index}",
            code="HLO-EDIT",
            remedy="places are counted from 0",
        )
    _count(operands[index], instruction, -1)
    operands[index] = operand
    instruction._operands = tuple(operands)
    instruction.proto.operand_ids[index] = operand.proto.id
    _count(operand, instruction, 1)
    _edited(instruction.computation)


def drop_operand(instruction: Instruction, index: int) -> None:
    """Pass one operand less."""
    operands = list(instruction.operands)
    _count(operands.pop(index), instruction, -1)
    instruction._operands = tuple(operands)
    del instruction.proto.operand_ids[index]
    computation = instruction.computation
    ordered = computation._ordered
    _edited(computation)
    computation._ordered = ordered  # an order stays one with an operand less


def replace_uses(instruction: Instruction, replacement: Instruction) -> None:
    """See :meth:`Instruction.replace_uses`."""
    _check_here(replacement, instruction.computation)
    if replacement is instruction:
        return
    for user in instruction.users:
        if user is replacement:
            continue
        for index, operand in enumerate(user.operands):
            if operand is instruction:
                set_operand(user, index, replacement)
    if instruction.is_root:
        set_root(instruction.computation, replacement)


def set_control_predecessors(instruction: Instruction, predecessors: Iterable[Instruction]) -> None:
    """See :meth:`Instruction.set_control_predecessors`."""
    needed = list(dict.fromkeys(predecessors))
    for predecessor in needed:
        _check_here(predecessor, instruction.computation)
    instruction.proto.control_predecessor_ids[:] = [predecessor.proto.id for predecessor in needed]
    instruction.computation._waited_ids = None
    _edited(instruction.computation)


def set_called(instruction: Instruction, computations: Iterable[Computation]) -> None:
    """See :meth:`Instruction.set_called_computations`."""
    called = list(computations)
    computations_by_id = instruction.module.by_id()
    for computation in called:
        number = getattr(computation, "id", None)
        if number is None or computations_by_id.get(number) is not computation:
            raise HloError(
                f"{computation!r} is not a computation of module {instruction.module.name}",
                code="HLO-EDIT",
                remedy="module.computation(NAME) finds one, module.add_computation creates one",
            )
    module = instruction.module
    module.drop_calls(instruction)
    instruction.proto.called_computation_ids[:] = [computation.id for computation in called]
    module.add_calls(instruction)
    _edited(instruction.computation)


def set_root(computation: Computation, instruction: Instruction) -> None:
    """See :meth:`Computation.set_root`."""
    _check_here(instruction, computation)
    computation._proto.root_id = instruction.proto.id
    computation._has_implicit_root = False
    _edited(computation)


def remove(instruction: Instruction) -> None:
    """See :meth:`Instruction.remove`."""
    remove_all(instruction.computation, {instruction})


def remove_parameter(parameter: Instruction) -> None:
    """Remove a parameter that nothing uses; callers and the other parameters' numbers are to follow."""
    parameter.proto.opcode = "tuple"
    remove(parameter)


def remove_all(computation: Computation, doomed: set[Instruction]) -> None:
    """See :meth:`Computation.remove_all`."""
    root = computation.root
    for instruction in doomed:
        _check_removable(instruction, computation, doomed, root)
    index, gone = computation._index(), computation._gone
    stored_constants = computation.module._kept
    for instruction in doomed:
        for operand in instruction.operands:
            _count(operand, instruction, -1)
        if instruction.proto.called_computation_ids:
            computation.module.drop_calls(instruction)
        if instruction.proto.control_predecessor_ids:
            computation._waited_ids = None
        number = instruction.local_id
        gone[number] = index.pop(number)
        if stored_constants:
            stored_constants.pop((computation.id, number), None)
    ordered = computation._ordered
    _edited(computation)
    computation._ordered = ordered  # what is left stays where it is


def sweep(computation: Computation, views: list[Instruction]) -> list[Instruction]:
    """Take what was removed out of a computation's list; control edges lead past it."""
    gone = computation._gone
    left = [view for view in views if gone.get(view.local_id) is not view]
    for view in left:
        if view.proto.control_predecessor_ids:
            _lead_past(view, gone)
            computation._waited_ids = None
    computation._instructions = left
    computation._gone = {}
    return left


def _check_removable(
    instruction: Instruction, computation: Computation, doomed: set[Instruction], root: Instruction
) -> None:
    _check_here(instruction, computation)
    for user in instruction.users:
        if user not in doomed:
            raise _refused(instruction, f"%{user.name} still uses it")
    if instruction is root:
        raise _refused(instruction, "it is the root")
    if instruction.opcode == "parameter":
        raise _refused(instruction, "it is a parameter, and callers pass it by number")


def _lead_past(view: Instruction, gone: dict[int, Instruction]) -> None:
    """Replace removed control predecessors by their own predecessors."""
    predecessors: dict[int, None] = {}
    stack = list(reversed(view.proto.control_predecessor_ids))
    while stack:
        number = stack.pop()
        lost = gone.get(number & LOCAL_MASK)
        if lost is None:
            predecessors[number] = None
        else:
            stack += reversed(lost.proto.control_predecessor_ids)
    view.proto.control_predecessor_ids[:] = predecessors


def add_computation(module: Module, name: str) -> Computation:
    """See :meth:`Module.add_computation`."""
    computations_by_id = module.by_id()
    number = max(computations_by_id, default=0) + 1
    proto = module._proto.computations.add(name=unique_name(module, name), id=number)
    computations_by_id[number] = computation = module._view_of(proto)
    module._made.add(number)
    if module._places is not None:
        module._places[number] = len(module._places)
    if len(computations_by_id) == 1:
        module._proto.entry_computation_id = number
        module._proto.entry_computation_name = proto.name
    module.mark_changed()
    return computation


def unique_name(module: Module, base: str) -> str:
    """See :meth:`Module.unique_name`. The name counts as taken from then on."""
    names = module._names
    if names is None:
        names = module._names = {}
        for computation in module.computations:
            names.update(dict.fromkeys([view.proto.name for view in computation.views()], 0))
        names.update(dict.fromkeys([computation.name for computation in module.computations], 0))
    if base not in names:
        names[base] = 0
        return base
    while True:
        names[base] += 1
        name = f"{base}.{names[base]}"
        if name not in names:
            names[name] = 0
            return name


# Bringing messages up to date


def settle_module(module: Module) -> None:
    """Bring every changed computation, and their order, up to date; others are not visited."""
    changed = [c for c in module._unsettled if module.by_id().get(c.id) is c]
    if changed or module._made:
        for computation in changed:
            if computation._changed:
                settle(computation)
        if module._made:
            _settle_made(module, changed)
        if not _is_in_order(module, changed):
            _order_computations(module)
    module._unsettled.clear()


def _is_in_order(module: Module, changed: list[Computation]) -> bool:
    """Return True if all computations follow their callees, given the changed ones."""
    positions = module._places
    if positions is None or len(positions) != len(module.by_id()):
        return False
    return all(
        positions.get(number, len(positions)) < positions[computation.id]
        for computation in changed
        for number in computation.called_ids()
    )


def _order_computations(module: Module) -> None:
    positions = {c.id: position for position, c in enumerate(computations_in_order(module))}
    computations = module._proto.computations
    if any(positions[proto.id] != position for position, proto in enumerate(computations)):
        computations.sort(key=_place_in(positions))
        computations_by_id = module.by_id()
        module._computations = {proto.id: computations_by_id[proto.id] for proto in computations}
    module._places = positions


def settle(computation: Computation) -> None:
    """Take removed instructions out of the message and order the rest."""
    computation._changed = False
    order = put_in_order(computation)
    rank = {view.proto.id: number for number, view in enumerate(order)}
    last = len(order)
    protos = computation._proto.instructions
    protos.sort(key=_place_in(rank))
    del protos[last:]
    _settle_schedule(computation, order)
    _settle_program_shape(computation)


def put_in_order(computation: Computation) -> list[Instruction]:
    """See :meth:`Computation.put_in_order`; the instructions."""
    if not computation._ordered:
        computation._instructions = instructions_in_order(computation)
        computation._tuple = None
        computation._ordered = True
    return computation.views()


def _place_in(
    positions: Mapping[int, int],
) -> Callable[[HloInstructionProto | HloComputationProto], int]:
    """A sort key for messages: their places by id; those without one go last."""
    last = len(positions)
    return lambda proto: positions.get(proto.id, last)


def _settle_schedule(computation: Computation, order: list[Instruction]) -> None:
    """A scheduled computation runs in the order of its list after an edit."""
    sequences = computation.module._proto.schedule.sequences
    if computation.id not in sequences:
        return
    sequence = sequences[computation.id]
    del sequence.instruction_ids[:]
    sequence.instruction_ids.extend(view.proto.id for view in order)


def _settle_made(module: Module, changed: list[Computation]) -> None:
    """Mark new computations that fusions call; in a scheduled module, schedule the others."""
    new_computations, module._made = module._made, set()
    fused = {
        number
        for computation in changed
        for view in computation.instructions
        if view.proto.opcode == "fusion"
        for number in view.proto.called_computation_ids
    }
    sequences = module._proto.schedule.sequences
    for number in new_computations:
        computation = module.by_id()[number]
        if number in fused:
            computation._proto.is_fusion_computation = True
        elif sequences and not computation.is_fusion:
            ids = [view.proto.id for view in computation.instructions]
            sequences[number].instruction_ids.extend(ids)


def _settle_program_shape(computation: Computation) -> None:
    """Signatures follow the parameters and the root; layouts of what kept its shape stay."""
    proto = computation._proto
    if proto.root_id == NO_ROOT:  # verify reports it
        return
    _sign(proto.program_shape, computation)
    if computation.is_entry:
        _sign(computation.module._proto.host_program_shape, computation)


def _sign(program: ProgramShapeProto, computation: Computation) -> None:
    if not Shape(program.result).same_array(computation.root.shape):
        program.result.CopyFrom(computation.root.proto.shape)
    parameters = computation.parameters
    same = len(parameters) == len(program.parameters) and all(
        Shape(old).same_array(new.shape)
        for old, new in zip(program.parameters, parameters, strict=True)
    )
    if same:
        return
    del program.parameters[:]
    del program.parameter_names[:]
    program.parameters.extend(parameter.proto.shape for parameter in parameters)
    program.parameter_names.extend(parameter.name for parameter in parameters)


def _edited(computation: Computation) -> None:
    if not computation._changed:
        computation._changed = True
        computation.module._unsettled.append(computation)
    computation._ordered = False
    computation._tuple = None
    computation.module.mark_changed()


def _count(operand: Instruction, user: Instruction, change: int) -> None:
    """One use more or less, where uses are known."""
    users = operand._users
    if users is None:
        return
    count = users.get(user, 0) + change
    if count > 0:
        users[user] = count
    else:
        users.pop(user, None)


def _next_id(computation: Computation) -> int:
    """A free id in the module's scheme: dense in the computation, or in the module (legacy)."""
    module = computation.module
    if module._next_legacy_id is None:
        legacy = module.id_scheme == "legacy"
        numbers = (view.proto.id for view in module.instructions) if legacy else ()
        module._next_legacy_id = max(numbers, default=-1) + 1
    if module._next_legacy_id:
        module._next_legacy_id += 1
        return module._next_legacy_id - 1
    if computation._next_id == 0:
        used_ids = (*computation._index(), *computation._gone)
        computation._next_id = max(used_ids, default=-1) + 1
    computation._next_id += 1
    return wide(computation.id, computation._next_id - 1)


def _inherit(proto: HloInstructionProto, like: HloInstructionProto) -> None:
    for field in ("metadata", "frontend_attributes", "sharding"):
        if like.HasField(field):
            getattr(proto, field).CopyFrom(getattr(like, field))


def _check_here(instruction: Instruction, computation: Computation) -> None:
    """An operand, a root or something to remove must stand in the computation."""
    home = getattr(instruction, "computation", None)
    if home is computation:
        if computation._index().get(instruction.proto.id & LOCAL_MASK) is instruction:
            return
        reason, remedy = "was removed", "use its replacement"
    elif home is None:
        raise HloError(
            f"{instruction!r} is not an instruction",
            code="HLO-EDIT",
            remedy=f"pass an instruction of %{computation.name}; its find(NAME) finds one",
        )
    else:
        reason = f"belongs to %{home.name}, not to %{computation.name}"
        remedy = "instructions of one computation use only each other; pass values as parameters"
    raise HloError(f"%{instruction.name} {reason}", code="HLO-EDIT", remedy=remedy)


def _refused(instruction: Instruction, reason: str) -> HloError:
    return HloError(
        f"%{instruction.name} cannot be removed: {reason}",
        code="HLO-EDIT",
        remedy="replace its uses first",
    )
