"""Operands that an instruction may overwrite with its result, as in XLA's buffer assignment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.ordering import behind
from hlo_tools.stats.flops import ELEMENTWISE, TRANSCENDENTAL

__all__ = ["overwritten"]

_BY_ELEMENT = (ELEMENTWISE | TRANSCENDENTAL) - {"rng", "rng-bit-generator"}
_PART_BY_PART = frozenset({"all-reduce", "scatter", "sort"})

Place = tuple[int, tuple[int, ...]]
"""An operand's number and a part of it."""


def overwritten(view: Instruction, index: tuple[int, ...]) -> Iterator[Place]:
    """Yield the operands that the result at an index can overwrite; required ones first.

    That an operand is needed no longer, and is as large, is not looked at.
    """
    for alias in view.aliases:
        if alias.output == index:
            yield alias.source, alias.part
    opcode = view.opcode
    if opcode in _BY_ELEMENT:
        yield from ((number, ()) for number in range(len(view.operands)))
    elif opcode == "dynamic-update-slice":
        yield 0, ()
    elif opcode in _PART_BY_PART:
        yield (index[0] if index else 0), ()
    elif opcode == "fusion" and view.called_computations:
        yield from _of_fusion(view.called_computations[0], index)


def _of_fusion(fused: Computation, index: Sequence[int]) -> Iterator[Place]:
    """Yield the parameters that a fusion reads elementwise, at the location that it writes."""
    root = fused.root
    if index:
        if root.opcode != "tuple" or len(index) > 1 or index[0] >= len(root.operands):
            return
        root = root.operands[index[0]]
    aligned: set[Instruction] = set()
    waiting = [root]
    while waiting:
        view = waiting.pop()
        if view in aligned:
            continue
        aligned.add(view)
        if view.opcode in _BY_ELEMENT or view.opcode in ("bitcast", "copy"):
            same = [o for o in view.operands if o.shape.element_count == view.shape.element_count]
            waiting += same
        elif view.opcode == "dynamic-update-slice":
            waiting += view.operands[:1]
    for parameter in fused.parameters:
        if parameter in aligned and all(
            _stays(user, parameter, aligned) for user in parameter.users
        ):
            yield parameter.proto.parameter_number, ()


def _stays(user: Instruction, parameter: Instruction, aligned: set[Instruction]) -> bool:
    """Return True if a use reads only elements that are written at the same location afterwards."""
    if user not in aligned:
        return False
    if user.opcode == "dynamic-update-slice":
        return [o for o in user.operands if o is parameter] == [behind(user.operands[0])]
    return True
