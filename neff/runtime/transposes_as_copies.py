"""Transpositions as copies, so that products read through them.

The tensor engine turns an operand block by block. As copies with a turned access pattern the
blocks of a tile can be joined, and the tile be looked through.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from nki_lang.analysis.regions import may_overlap
from nki_lang.ir import Access, Block, Engine, Instruction, walk

__all__ = ["transposes_as_copies", "with_sorted_copies"]

_COPIES = frozenset({"dma_copy", "tensor_copy"})


def transposes_as_copies(body: Block) -> Block | None:
    """The body with transpositions of what lies in HBM as copies; None when it has none."""
    if not any(_turns(instruction) for instruction in walk(body)):
        return None
    return with_sorted_copies(body)


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


def with_sorted_copies(body: Block) -> Block:
    """Return the body with transpositions as copies, and runs of copies sorted by what they fill.

    Copies into one tensor are in the order of its elements; if they overlap they keep their order.
    """
    done: Block = []
    run: list[Instruction] = []
    for statement in body:
        if not isinstance(statement, Instruction):
            statement = replace(statement, body=with_sorted_copies(statement.body))
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


MAX_SORTED_COPIES = 64
"""Into one tensor: each is compared with all others."""


def _sorted(run: list[Instruction]) -> list[Instruction]:
    by_tensor: dict[str, list[Instruction]] = {}
    for copy in run:
        by_tensor.setdefault(copy.operands["dst"].tensor.name, []).append(copy)
    return [copy for copies in by_tensor.values() for copy in _by_offset(copies)]


def _by_offset(copies: list[Instruction]) -> list[Instruction]:
    """Return the copies into one tensor in the order of its elements, if no two overlap."""
    if len(copies) == 1 or len(copies) > MAX_SORTED_COPIES:
        return copies
    pairs = combinations((copy.operands["dst"] for copy in copies), 2)
    if any(may_overlap(first, second) for first, second in pairs):
        return copies
    return sorted(copies, key=lambda copy: copy.operands["dst"].offset)
