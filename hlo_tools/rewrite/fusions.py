"""Fused computations, which may hold nothing unused."""

from __future__ import annotations

from hlo_tools.ir import editing
from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.rewrite.dead_code import UnusedRemover

__all__ = ["drop_unused_parameters"]


def drop_unused_parameters(fused: Computation) -> None:
    """Remove the parameters of a fused computation that lost their users, and what is passed for them.

    What only passed for them is removed from the fusion's computation too.
    """
    parameters = fused.parameters
    gone = [one for one in parameters if not one.is_used and not one.is_root]
    if not gone:
        return
    for fusion in fused.module.callers_of(fused):
        given = [fusion.operands[parameters.index(one)] for one in gone]
        for one in reversed(gone):
            _drop_operand(fusion, parameters.index(one))
        outer = fusion.computation
        UnusedRemover(outer).drop(given)
        if outer.is_fusion:
            drop_unused_parameters(outer)
    for one in gone:
        editing.remove_parameter(one)
    for number, one in enumerate(one for one in parameters if one not in gone):
        one.proto.parameter_number = number


def _drop_operand(fusion: Instruction, index: int) -> None:
    editing.drop_operand(fusion, index)
    aliases = fusion.proto.output_operand_aliasing
    for at in reversed(range(len(aliases))):
        if aliases[at].operand_index == index:
            del aliases[at]
        elif aliases[at].operand_index > index:
            aliases[at].operand_index -= 1
