"""Copies of instructions and computations, within a module and from one into another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module

__all__ = [
    "clone_computation",
    "clone_instruction",
    "clone_into",
    "clone_sharing",
    "copy_all",
    "hand_on_control_edges",
]


def clone_instruction(
    instruction: Instruction, operands: Iterable[Instruction], into: Computation
) -> Instruction:
    """A copy of ``instruction`` with other operands, in a computation of the same module.

    Control edges are not copied. Computations that it calls are shared, but for the body of a
    fusion, which belongs to one fusion alone and is copied with it.
    """
    copy = clone_sharing(instruction, operands, into)
    if copy.opcode == "fusion":
        copy.set_called_computations(
            [clone_computation(body) for body in instruction.called_computations]
        )
    return copy


def clone_sharing(
    instruction: Instruction, operands: Iterable[Instruction], into: Computation
) -> Instruction:
    """Clone like :func:`clone_instruction`; share the body of a fusion, too."""
    proto = instruction.proto
    stored = instruction.module.kept_constant(instruction.computation.id, instruction.local_id)
    copy = into.add(proto.opcode, instruction.shape, tuple(operands), name=proto.name)
    identity = copy.proto.name, copy.proto.id, list(copy.proto.operand_ids)
    copy.proto.CopyFrom(proto)
    copy.proto.name, copy.proto.id = identity[:2]
    copy.proto.operand_ids[:] = identity[2]
    del copy.proto.control_predecessor_ids[:]
    instruction.module.add_calls(copy)
    if stored is not None:
        instruction.module.keep_constant(into.id, copy.local_id, stored)
    return copy


def clone_computation(computation: Computation, name: str | None = None) -> Computation:
    """A copy of a computation in the same module; what it calls is shared, but for fusions."""
    module = computation.module
    copy = module.add_computation(name or computation.name)
    copies = copy_all(computation.post_order(), copy, {})
    copy.raw_proto.is_fusion_computation = computation.is_fusion
    copy.raw_proto.execution_thread = computation.raw_proto.execution_thread
    copy.set_root(copies[computation.root])
    return copy


def copy_all(
    views: Iterable[Instruction],
    into: Computation,
    replacements: Mapping[Instruction, Instruction],
    clone: Callable[..., Instruction] = clone_instruction,
) -> dict[Instruction, Instruction]:
    """Copies of instructions, operands first; ``replacements`` replaces operands.

    Control edges between copied or replaced instructions are copied, too.
    """
    copies = dict(replacements)
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


def clone_into(source: Module, into: Module) -> Computation:
    """Copy a module's entry, and all that it calls, into another module; the copied entry.

    Names are made unique; places in the source files are not copied, because they refer to the
    other module's tables.
    """
    copied: dict[int, Computation] = {}
    for computation in source.computations_in_order():
        copied[computation.id] = _clone_computation_into(computation, into, copied)
    return copied[source.entry.id]


def _clone_computation_into(
    computation: Computation, into: Module, copied: dict[int, Computation]
) -> Computation:
    target = into.add_computation(computation.name)
    clones: dict[Instruction, Instruction] = {}
    for view in computation.post_order():
        operands = [clones[operand] for operand in view.operands]
        clones[view] = new = target.add(view.opcode, view.shape, operands, name=view.name)
        identity = new.proto.name, new.proto.id, list(new.proto.operand_ids)
        config = view.backend_config
        new.proto.CopyFrom(view.proto)
        new.proto.name, new.proto.id = identity[:2]
        new.proto.operand_ids[:] = identity[2]
        for field in ("metadata", "backend_config_payload", "control_predecessor_ids"):
            new.proto.ClearField(field)
        if config:
            new.proto.backend_config = config
        literal = view.literal
        if literal is not None:
            new.proto.literal.CopyFrom(literal.proto)
        new.set_called_computations(
            [copied[number] for number in view.proto.called_computation_ids]
        )
    for view in computation.instructions:
        predecessors = [clones[predecessor] for predecessor in view.control_predecessors]
        if predecessors:
            clones[view].set_control_predecessors(predecessors)
    target.set_root(clones[computation.root])
    target.raw_proto.is_fusion_computation = computation.is_fusion
    return target
