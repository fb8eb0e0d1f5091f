"""A call becomes what it calls, and instructions become a call."""

from __future__ import annotations

from collections.abc import Iterable

from hlo_tools._messages import counted
from hlo_tools.errors import HloError
from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.ir.ordering import instructions_in_order, is_continuation
from hlo_tools.rewrite.cloning import clone_sharing, copy_all
from hlo_tools.rewrite.dead_code import remove_unreachable
from hlo_tools.types.shape import tuple_shape

__all__ = ["MOST_MADE", "inline_call", "inline_calls", "is_inlinable", "outline"]

MOST_MADE = 1_000_000
"""Instructions that inlining makes at most, unless more are allowed."""


def inline_calls(
    module: Module, *, limit: int = 0, composites: bool = False, most: int = MOST_MADE
) -> bool:
    """Inline every call of a module, called computations first; True when there was one.

    What is called from nowhere afterwards is removed.

    Args:
        limit: instructions that an inlined computation has at most; 0 for no limit.
        composites: inline composite calls too.
        most: instructions that are made at most.

    Raises:
        HloError: calls of calls would make more than that (HLO-INLINE-LIMIT).
    """

    calls = _calls_to_inline(module, limit, composites, most)
    for call in calls:
        inline_call(call)
    if calls:
        remove_unreachable(module)
    return bool(calls)


def _calls_to_inline(
    module: Module, limit: int, composites: bool, maximum: int
) -> list[Instruction]:
    """The calls that :func:`inline_calls` inlines, in order; nothing is changed yet."""
    calls: list[Instruction] = []
    sizes: dict[int, int] = {}  # instructions of each computation once its calls are inlined
    inlined_count = 0
    for computation in module.computations_in_order():
        sizes[computation.id] = len(computation)
        for view in computation.post_order():
            if not is_inlinable(view, composites=composites):
                continue
            [target] = view.called_computations
            size = sizes[target.id]
            if limit and size > limit:
                continue
            inlined_count += size
            sizes[computation.id] += size - len(target.parameters) - 1
            calls.append(view)
            if inlined_count > maximum:
                raise HloError(
                    f"inlining makes more than {counted(maximum, 'instruction')}",
                    code="HLO-INLINE-LIMIT", place=view.name,
                    remedy="inline small computations only: limit=N; or allow more: most=N",
                )  # fmt: skip
    return calls


def is_inlinable(view: Instruction, *, composites: bool = False) -> bool:
    """Return True if an instruction is a call that its computation can replace."""
    proto = view.proto
    if proto.opcode != "call" or len(proto.called_computation_ids) != 1:
        return False
    if proto.is_composite and not composites:
        return False
    [target] = view.called_computations
    return len(target.parameters) == len(view.operands)


def inline_call(call: Instruction) -> Instruction:
    """Replace a ``call`` by its computation; returns the replacement of its result.

    What the call waited for comes before everything in it, and that before what waited for it.

    Raises:
        HloError: it is not a call, or its operands are not the parameters (HLO-EDIT).
    """
    if call.opcode != "call" or len(call.called_computations) != 1:
        raise _refused(call, "it is not a call of one computation")
    target = call.called_computations[0]
    parameters = target.parameters
    if len(parameters) != len(call.operands):
        raise _refused(
            call,
            f"%{target.name} has {counted(len(parameters), 'parameter')}, the call {len(call.operands)}",
        )
    arguments = dict(zip(parameters, call.operands, strict=True))
    copies = copy_all(target.post_order(), call.computation, arguments)
    result = copies[target.root]
    _move_control_edges(call, [copies[view] for view in target if view not in arguments])
    call.replace_uses(result)
    call.remove()
    return result


def _move_control_edges(call: Instruction, body: list[Instruction]) -> None:
    """Move the control edges of a call, which is about to be removed, to its inlined body."""
    needs = {view: {*view.operands, *view.control_predecessors} for view in body}
    before = call.control_predecessors
    if before:
        for view in body:
            if needs[view].isdisjoint(body):
                view.set_control_predecessors((*view.control_predecessors, *before))
    needed = {predecessor for predecessors in needs.values() for predecessor in predecessors}
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
        HloError: none, of several computations, a parameter among them, a part of an asynchronous
            operation, or something outside needs one of them and is needed by another (HLO-EDIT).
    """
    chosen = _chosen(instructions)
    here = next(iter(chosen)).computation
    order = [view for view in instructions_in_order(here) if view in chosen]
    inputs = list(dict.fromkeys(o for view in order for o in view.operands if o not in chosen))
    results = [view for view in order if view.is_root or any(u not in chosen for u in view.users)]
    _check_pairs(chosen, here)
    _check_convex(chosen, here)
    body = here.module.add_computation(name)
    parameters_by_operand = {
        value: body.add("parameter", value.shape, name=value.name, parameter_number=number)
        for number, value in enumerate(inputs)
    }
    copies = copy_all(order, body, parameters_by_operand, clone_sharing)
    _set_result(body, [copies[view] for view in results])
    call = here.add("call", body.root.shape, inputs, name=name, called_computation_ids=[body.id])
    for number, view in enumerate(results):
        value = call
        if len(results) > 1:
            value = here.add("get-tuple-element", view.shape, [call], tuple_index=number)
        _replace_outside_uses(view, value, chosen)
    call.set_control_predecessors(
        predecessor
        for view in order
        for predecessor in view.control_predecessors
        if predecessor not in copies
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
    """Refuse a path that leaves the outlined instructions and returns: the call would need itself."""
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


def _check_pairs(chosen: set[Instruction], here: Computation) -> None:
    """Refuse to separate the start of an asynchronous operation from its end."""
    for later in here:
        if not is_continuation(later):
            continue
        for earlier in later.operands:
            if (earlier in chosen) != (later in chosen):
                alone, missing = (later, earlier) if later in chosen else (earlier, later)
                raise _refused(alone, f"%{missing.name}, which belongs to it, is not chosen")


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


def _refused(instruction: Instruction, reason: str) -> HloError:
    return HloError(
        f"%{instruction.name} cannot be moved: {reason}",
        code="HLO-EDIT",
        remedy="choose other instructions",
    )
