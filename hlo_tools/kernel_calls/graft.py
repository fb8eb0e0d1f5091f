"""Computations of one module copied into another."""

from __future__ import annotations

from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module

__all__ = ["graft"]


def graft(source: Module, into: Module) -> Computation:
    """Copy a module's entry, and all that it calls, into another module; the copied entry.

    Names are made unique; places in the source files are not copied, because they refer to the
    other module's tables.
    """
    copied: dict[int, Computation] = {}
    for computation in source.computations_in_order():
        copied[computation.id] = _copy(computation, into, copied)
    return copied[source.entry.id]


def _copy(computation: Computation, into: Module, copied: dict[int, Computation]) -> Computation:
    target = into.add_computation(computation.name)
    made: dict[Instruction, Instruction] = {}
    for view in computation.post_order():
        operands = [made[operand] for operand in view.operands]
        made[view] = new = target.add(view.opcode, view.shape, operands, name=view.name)
        own = new.proto.name, new.proto.id, list(new.proto.operand_ids)
        config = view.backend_config
        new.proto.CopyFrom(view.proto)
        new.proto.name, new.proto.id = own[:2]
        new.proto.operand_ids[:] = own[2]
        for field in ("metadata", "backend_config_payload", "control_predecessor_ids"):
            new.proto.ClearField(field)
        if config:
            new.proto.backend_config = config
        literal = view.literal
        if literal is not None:
            new.proto.literal.CopyFrom(literal.proto)
        new.proto.called_computation_ids[:] = [
            copied[number].id for number in view.proto.called_computation_ids
        ]
    for view in computation.instructions:
        predecessors = [made[one].id for one in view.control_predecessors]
        made[view].proto.control_predecessor_ids.extend(predecessors)
    target.set_root(made[computation.root])
    target._proto.is_fusion_computation = computation.is_fusion
    return target
