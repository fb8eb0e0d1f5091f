"""Transpositions as copies, so that products read through them.

The tensor engine turns an operand block by block. As copies with a turned access pattern the
blocks of a tile can be joined, and the tile be looked through.
"""

from __future__ import annotations

from dataclasses import replace

from nki_lang.ir import Access, Block, Engine, Instruction, walk

__all__ = ["transposes_as_copies"]

_COPIES = frozenset({"dma_copy", "tensor_copy"})


def transposes_as_copies(body: Block) -> Block | None:
    """The body with transpositions of what lies in HBM as copies; None when it has none."""
    if not any(_turns(instruction) for instruction in walk(body)):
        return None
    return _straight(body)


def _turns(instruction: Instruction) -> bool:
    """A transposition that a copy can do as well, bit for bit."""
    if instruction.op != "nc_transpose":
        return False
    dst, data = instruction.operands["dst"], instruction.operands["data"]
    return (
        not (data.tensor.on_chip or data.is_dynamic or dst.is_dynamic)
        and len(data.pattern) == len(dst.pattern) == 2
        and dst.element_type == data.element_type
    )


def _straight(body: Block) -> Block:
    """Runs of copies are sorted by what they fill; the copies into one tensor keep their order."""
    done: Block = []
    run: list[Instruction] = []
    for statement in body:
        if not isinstance(statement, Instruction):
            statement = replace(statement, body=_straight(statement.body))
        elif _turns(statement):
            statement = _copy(statement)
        if isinstance(statement, Instruction) and _fills(statement):
            run.append(statement)
            continue
        done += _sorted(run)
        run = []
        done.append(statement)
    return done + _sorted(run)


def _copy(iteration: Instruction) -> Instruction:
    data: Access = iteration.operands["data"]
    operands = {"dst": iteration.operands["dst"], "src": data._replace(pattern=data.pattern[::-1])}
    return replace(iteration, op="tensor_copy", engine=Engine.vector, operands=operands)


def _fills(copy: Instruction) -> bool:
    """A copy from HBM to chip; those into different tensors may change places."""
    if copy.op not in _COPIES:
        return False
    dst, src = copy.operands["dst"], copy.operands["src"]
    return dst.tensor.on_chip and not (src.tensor.on_chip or dst.is_dynamic or src.is_dynamic)


def _sorted(run: list[Instruction]) -> list[Instruction]:
    positions: dict[str, int] = {}
    for copy in run:
        positions.setdefault(copy.operands["dst"].tensor.name, len(positions))
    return sorted(run, key=lambda copy: positions[copy.operands["dst"].tensor.name])
