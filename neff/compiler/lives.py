"""When the tensors on chip are needed: from the first statement that touches one to the last."""

from __future__ import annotations

from dataclasses import dataclass

from neff.compiler.regions import operands_touched
from nki_lang.ir import Access, Block, ForLoop, Instruction, Tensor, WhileLoop

__all__ = ["Life", "lives_of"]


@dataclass(slots=True)
class Life:
    """A tensor and the statements, numbered in program order, between which it is needed."""

    tensor: Tensor
    first: int
    last: int
    where: str = ""


def lives_of(body: Block) -> dict[str, Life]:
    """Every on-chip tensor of a body by name, in the order of first use.

    A tensor that a loop of the device touches is needed for the whole loop.
    """
    lives: dict[str, Life] = {}
    _collect(body, 0, lives, None)
    return lives


def _collect(body: Block, number: int, lives: dict[str, Life], loop: tuple[int, int] | None) -> int:
    for statement in body:
        if isinstance(statement, Instruction):
            for access, _ in operands_touched(statement):
                if type(access) is Access and access.tensor.on_chip:
                    _extend(lives, access.tensor, loop or (number, number), statement)
            number += 1
        elif isinstance(statement, ForLoop | WhileLoop) and loop is None:
            end = number + _length(statement.body)
            number = _collect(statement.body, number, lives, (number, end))
        else:
            number = _collect(statement.body, number, lives, loop)
    return number


def _length(body: Block) -> int:
    return sum(
        1 if isinstance(statement, Instruction) else _length(statement.body) for statement in body
    )


def _extend(lives: dict[str, Life], tensor: Tensor, span: tuple[int, int], at: Instruction) -> None:
    life = lives.get(tensor.name)
    if life is None:
        lives[tensor.name] = Life(tensor, span[0], span[1], str(at.location or ""))
        return
    life.first = min(life.first, span[0])
    life.last = max(life.last, span[1])
