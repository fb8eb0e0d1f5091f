"""When the tensors on chip are needed: from the first statement that touches one to the last."""

from __future__ import annotations

from dataclasses import dataclass

from neff.compiler.assembly.regions import operands_touched
from nki_lang.ir import Access, Block, ForLoop, Instruction, Tensor, WhileLoop

__all__ = ["LiveRange", "live_ranges"]


@dataclass(slots=True)
class LiveRange:
    """A tensor and the statements, numbered in program order, between which it is needed."""

    tensor: Tensor
    first: int
    last: int
    where: str = ""


def live_ranges(body: Block) -> dict[str, LiveRange]:
    """Every on-chip tensor of a body by name, in the order of first use.

    A tensor that a loop of the device touches is needed for the whole loop.
    """
    ranges: dict[str, LiveRange] = {}
    _collect(body, 0, ranges, None)
    return ranges


def _collect(
    body: Block, number: int, ranges: dict[str, LiveRange], loop: tuple[int, int] | None
) -> int:
    for statement in body:
        if isinstance(statement, Instruction):
            for access, _ in operands_touched(statement):
                if type(access) is Access and access.tensor.on_chip:
                    _extend(ranges, access.tensor, loop or (number, number), statement)
            number += 1
        elif isinstance(statement, ForLoop | WhileLoop) and loop is None:
            end = number + _length(statement.body)
            number = _collect(statement.body, number, ranges, (number, end))
        else:
            number = _collect(statement.body, number, ranges, loop)
    return number


def _length(body: Block) -> int:
    return sum(
        1 if isinstance(statement, Instruction) else _length(statement.body) for statement in body
    )


def _extend(
    ranges: dict[str, LiveRange], tensor: Tensor, span: tuple[int, int], instruction: Instruction
) -> None:
    live = ranges.get(tensor.name)
    if live is None:
        ranges[tensor.name] = LiveRange(tensor, span[0], span[1], str(instruction.location or ""))
        return
    live.first = min(live.first, span[0])
    live.last = max(live.last, span[1])
