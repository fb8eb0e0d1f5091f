"""Bytes that an instruction reads and writes when it runs unfused.

The rule is operands plus result. What only renames memory moves nothing; what looks at a part of
an operand reads that part; of triangular matrices one half is read and written. Of several start
indices the first counts: all this is as XLA's ``HloCostAnalysis`` counts it (jaxlib 0.10.2).
"""

from __future__ import annotations

from hlo_tools.stats.flops import Extent, Operands
from hlo_tools.types.opcodes import opcodes_with

__all__ = ["UNMOVED", "traffic"]

UNMOVED = opcodes_with("unmoved")
"""Opcodes that move nothing themselves."""

_POINTER = 8


def traffic(opcode: str, result: Extent, operands: Operands) -> int:
    """Bytes read and written by one run of an instruction.

    Args:
        operands: in order; an instruction that takes one value twice reads it twice.
    """
    if opcode in UNMOVED:
        return 0
    if opcode == "tuple":
        return _POINTER * result.parts
    if opcode == "slice":
        return 2 * result.size
    if opcode == "dynamic-slice" and operands:
        return 2 * result.size + sum(index.size for index in operands[1:2])
    if opcode == "dynamic-update-slice" and len(operands) > 1:
        return 2 * operands[1].size + sum(index.size for index in operands[2:3])
    if opcode == "gather" and len(operands) > 1:
        return 2 * result.size + operands[1].size
    if opcode == "scatter" and len(operands) > 2:
        arrays = len(operands) // 2
        return 3 * sum(u.size for u in operands[arrays + 1 :]) + operands[arrays].size
    everything = result.size + sum(operand.size for operand in operands)
    if opcode == "cholesky":
        return everything // 2
    if opcode == "triangular-solve" and operands:
        return everything - operands[0].size // 2
    return everything
