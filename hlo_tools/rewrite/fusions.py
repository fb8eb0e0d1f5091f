"""Fused computations, which may hold nothing unused."""

from __future__ import annotations

from hlo_tools.ir import editing
from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.rewrite.dead_code import UnusedRemover

__all__ = ["drop_unused_parameters"]


def drop_unused_parameters(fused: Computation) -> None:
    """Remove the unused parameters of a fused computation, and the operands for them.

    What only passed for them is removed from the fusion's computation too.
    """
    parameters = fused.parameters
    gone = [
        parameter for parameter in parameters if not parameter.is_used and not parameter.is_root
    ]
    if not gone:
        return
    for fusion in fused.module.callers_of(fused):
        operands = [fusion.operands[parameters.index(parameter)] for parameter in gone]
        for parameter in reversed(gone):
            _drop_operand(fusion, parameters.index(parameter))
        outer = fusion.computation
        UnusedRemover(outer).drop(operands)
        if outer.is_fusion:
            drop_unused_parameters(outer)
    for parameter in gone:
        editing.remove_parameter(parameter)
    for number, parameter in enumerate(
        parameter for parameter in parameters if parameter not in gone
    ):
        parameter.proto.parameter_number = number


def _drop_operand(fusion: Instruction, index: int) -> None:
    editing.drop_operand(fusion, index)
    aliases = fusion.proto.output_operand_aliasing
    for position in reversed(range(len(aliases))):
        if aliases[position].operand_index == index:
            del aliases[position]
        elif aliases[position].operand_index > index:
            aliases[position].operand_index -= 1
