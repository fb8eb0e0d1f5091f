"""Edits that move instructions between computations: clone, inline a call, outline, drop the dead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from hlo_tools._messages import counted
from hlo_tools.errors import HloError
from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.ir.ordering import instructions_in_order
from hlo_tools.rewrite.effects import effectful_computations, has_effect_within, is_pure
from hlo_tools.types.ids import LOCAL_MASK
from hlo_tools.types.shape import tuple_shape

__all__ = [
    "UnusedRemover",
    "clone_computation",
    "clone_instruction",
    "hand_on_control_edges",
    "inline_call",
    "outline",
    "remove_dead",
    "remove_unreachable",
]


def clone_instruction(
    instruction: Instruction, operands: Iterable[Instruction], into: Computation
) -> Instruction:
    """A copy of ``instruction`` with other operands, in a computation of the same module.

    Control edges are not copied. Computations that it calls are shared, but for the body of a
    fusion, which belongs to one fusion alone and is copied with it.
    """
    copy = _clone_sharing(instruction, operands, into)
    if copy.opcode == "fusion":
        bodies = [clone_computation(body) for body in instruction.called_computations]
        copy.proto.called_computation_ids[:] = [body.id for body in bodies]
    return copy


def _clone_sharing(
    instruction: Instruction, operands: Iterable[Instruction], into: Computation
) -> Instruction:
    proto = instruction.proto
    kept = instruction.module.kept_constant(instruction.computation.id, instruction.local_id)
    copy = into.add(proto.opcode, instruction.shape, tuple(operands), name=proto.name)
    own = copy.proto.name, copy.proto.id, list(copy.proto.operand_ids)
    copy.proto.CopyFrom(proto)
    copy.proto.name, copy.proto.id = own[:2]
    copy.proto.operand_ids[:] = own[2]
    del copy.proto.control_predecessor_ids[:]
    if kept is not None:
        instruction.module._kept[into.id, copy.local_id] = kept
    return copy


def clone_computation(computation: Computation, name: str | None = None) -> Computation:
    """A copy of a computation in the same module; what it calls is shared, but for fusions."""
    module = computation.module
    copy = module.add_computation(name or computation.name)
    copies = _copy_all(computation.post_order(), copy, {})
    copy._proto.is_fusion_computation = computation.is_fusion
    copy._proto.execution_thread = computation._proto.execution_thread
    copy.set_root(copies[computation.root])
    return copy


def _copy_all(
    views: Iterable[Instruction],
    into: Computation,
    known: Mapping[Instruction, Instruction],
    clone: Callable[..., Instruction] = clone_instruction,
) -> dict[Instruction, Instruction]:
    """Copies of instructions, operands first; operands among ``known`` are exchanged for theirs.

    Control edges between what is copied, or known, are copied too.
    """
    copies = dict(known)
    for view in views:
        if view in copies:
            continue
        operands = [copies[operand] for operand in view.operands]
        copies[view] = copy = clone(view, operands, into)
        before = [copies[p] for p in view.control_predecessors if p in copies]
        if before:
            copy.set_control_predecessors(before)
    return copies


def hand_on_control_edges(old: Instruction, new: Instruction) -> None:
    """Let ``new`` run where ``old`` does, which is about to be removed."""
    new.set_control_predecessors(old.control_predecessors)
    old.set_control_predecessors([new])  # on removal, what waited for it waits for that


def inline_call(call: Instruction) -> Instruction:
    """Put a ``call``'s computation in its place; returns what stands for its result.

    What the call waited for comes before everything in it, and that before what waited for it.

    Raises:
        HloError: it is no call, or its operands are not the parameters (HLO-EDIT).
    """
    if call.opcode != "call" or len(call.called_computations) != 1:
        raise _refused(call, "it is no call of one computation")
    target = call.called_computations[0]
    parameters = target.parameters
    if len(parameters) != len(call.operands):
        raise _refused(
            call,
            f"%{target.name} has {counted(len(parameters), 'parameter')}, the call {len(call.operands)}",
        )
    known = dict(zip(parameters, call.operands, strict=True))
    copies = _copy_all(target.post_order(), call.computation, known)
    result = copies[target.root]
    _hand_on_to_body(call, [copies[view] for view in target if view not in known])
    call.replace_uses(result)
    call.remove()
    return result


def _hand_on_to_body(call: Instruction, body: list[Instruction]) -> None:
    """Give the control edges of a call, which is about to be removed, to what it stood for."""
    needs = {view: {*view.operands, *view.control_predecessors} for view in body}
    before = call.control_predecessors
    if before:
        for view in body:
            if needs[view].isdisjoint(body):
                view.set_control_predecessors((*view.control_predecessors, *before))
    needed = set().union(*needs.values())
    last = [view for view in body if view not in needed]
    if last:  # on removal, what waited for the call waits for what the call waits for
        call.set_control_predecessors(last)


def outline(instructions: Iterable[Instruction], name: str = "outlined") -> Instruction:
    """Move instructions of one computation into a new one and call it in their place.

    What they take from outside becomes parameters; what others take from them becomes the result
    (a tuple when it is more than one). Control edges to and from them are the call's.

    Returns:
        the call.

    Raises:
        HloError: none, of several computations, a parameter among them, or something outside needs
            one of them and is needed by another (HLO-EDIT).
    """
    chosen = _chosen(instructions)
    here = next(iter(chosen)).computation
    order = [view for view in instructions_in_order(here) if view in chosen]
    inputs = list(dict.fromkeys(o for view in order for o in view.operands if o not in chosen))
    results = [view for view in order if view.is_root or any(u not in chosen for u in view.users)]
    _check_convex(chosen, here)
    body = here.module.add_computation(name)
    known = {
        value: body.add("parameter", value.shape, name=value.name, parameter_number=number)
        for number, value in enumerate(inputs)
    }
    copies = _copy_all(order, body, known, _clone_sharing)
    _set_result(body, [copies[view] for view in results])
    call = here.add("call", body.root.shape, inputs, name=name, called_computation_ids=[body.id])
    for number, view in enumerate(results):
        value = call
        if len(results) > 1:
            value = here.add("get-tuple-element", view.shape, [call], tuple_index=number)
        _replace_outside_uses(view, value, chosen)
    call.set_control_predecessors(
        other for view in order for other in view.control_predecessors if other not in copies
    )
    for view in order:  # on removal, what waited for one of them waits for the call
        view.set_control_predecessors([call])
    here.remove_all(chosen)
    return call


def _chosen(instructions: Iterable[Instruction]) -> set[Instruction]:
    chosen = set(instructions)
    if not chosen or len({view.computation for view in chosen}) != 1:
        raise HloError(
            "instructions of exactly one computation are outlined",
            code="HLO-EDIT",
            remedy="choose instructions of one computation",
        )
    parameter = next((view for view in chosen if view.opcode == "parameter"), None)
    if parameter is not None:
        raise _refused(parameter, "it is a parameter")
    return chosen


def _check_convex(chosen: set[Instruction], here: Computation) -> None:
    """Nothing outside may stand between two that are outlined: the call would need itself."""
    behind: set[Instruction] = set()
    for view in instructions_in_order(here):
        needs = (*view.operands, *view.control_predecessors)
        needs_chosen = any(o in chosen or o in behind for o in needs)
        if view in chosen:
            between = next((o for o in needs if o in behind), None)
            if between is not None:
                raise _refused(
                    view, f"it needs %{between.name}, which stays outside and needs others of them"
                )
        elif needs_chosen:
            behind.add(view)


def _set_result(body: Computation, results: list[Instruction]) -> None:
    if len(results) == 1:
        body.set_root(results[0])
        return
    body.set_root(body.add("tuple", tuple_shape([view.shape for view in results]), results))


def _replace_outside_uses(view: Instruction, value: Instruction, chosen: set[Instruction]) -> None:
    for user in view.users:
        if user in chosen:
            continue
        for index, operand in enumerate(user.operands):
            if operand is view:
                user.replace_operand(index, value)
    if view.is_root:
        view.computation.set_root(value)


def remove_dead(computation: Computation) -> int:
    """Remove what neither the root nor an instruction with an effect needs; how many."""
    effectful = effectful_computations(computation.module)
    live: set[Instruction] = set()
    stack = [view for view in computation.instructions if not is_pure(view.proto, effectful)]
    stack.append(computation.root)
    while stack:
        view = stack.pop()
        if view not in live:
            live.add(view)
            stack += view.operands
            if view.proto.control_predecessor_ids:
                stack += view.control_predecessors
    dead = {view for view in computation.instructions if view not in live}
    if dead:
        computation.remove_all(dead)
    return len(dead)


class UnusedRemover:
    """Removes instructions that lost their users, and what only they used, as a rewriting goes on.

    Costs as much as it removes and what that calls, once it is made. Made, it has brought the
    computation into order: new instructions stand where those stood that go.
    """

    def __init__(self, computation: Computation) -> None:
        self._computation = computation
        self._acting: dict[int, bool] = {}
        self._waited = {
            number & LOCAL_MASK
            for row in computation.proto.instructions
            for number in row.control_predecessor_ids
        }

    def drop(self, views: Iterable[Instruction]) -> None:
        """Remove those of ``views`` that nothing uses, waits for or needs done."""
        stack = list(views)
        while stack:
            view = stack.pop()
            if self._stays(view):
                continue
            stack += view.operands
            self._computation.remove_all({view})

    def _stays(self, view: Instruction) -> bool:
        number = view.local_id
        here = self._computation
        return (
            here._index().get(number) is not view
            or view.is_used
            or view is here.root
            or number in self._waited
            or has_effect_within(view, self._acting)
        )


def remove_unreachable(module: Module) -> int:
    """Remove computations that the entry does not lead to; how many."""
    entry = module.entry
    reached = {entry}
    stack = [entry]
    while stack:
        for number in stack.pop().called_ids():
            called = module.computation_by_id(number)
            if called not in reached:
                reached.add(called)
                stack.append(called)
    gone = [computation for computation in module.computations if computation not in reached]
    if gone:
        module._drop(gone)
    return len(gone)


def _refused(instruction: Instruction, reason: str) -> HloError:
    return HloError(
        f"%{instruction.name} cannot be moved: {reason}",
        code="HLO-EDIT",
        remedy="choose other instructions",
    )
