"""Marks tensors whose content is carried from one iteration of a device loop to the next.

A tile that only a loop uses starts fresh in each iteration, because it was allocated inside the
loop. The instructions alone do not show where a tile was allocated. So a tile that was allocated
outside, and that an iteration may read before it writes it, is also used before the loop: by an
instruction that fills it with the content of unwritten memory.

Tensors in HBM are the opposite: the instructions alone say that they keep their content. So a
tensor that was allocated in a loop, and that an iteration may read before it writes it, is filled
inside the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from nki_lang.frontend.objects import is_sequence
from nki_lang.ir.coverage import Coverage, piece_of
from nki_lang.ir.fresh import fresh_copy, fresh_fill, scales_in
from nki_lang.ir.types import (
    Access,
    Block,
    ForLoop,
    Instruction,
    NoReorder,
    Statement,
    Tensor,
    WhileLoop,
    walk,
)
from nki_lang.semantics import TRAITS

__all__ = ["begin_in_loops", "name_before_loops"]

Loop = ForLoop | WhileLoop


def name_before_loops(body: Block, loop_of_tensor: Mapping[str, Loop | None]) -> None:
    """Fill carried tiles before their loop, unless each iteration writes them first.

    Args:
        body: statements of one core, changed in place.
        loop_of_tensor: name of a tensor -> the innermost loop that allocates it, or None.
    """
    if all(isinstance(statement, Instruction) for statement in body):
        return
    scales = scales_in(body)
    uses = _Uses()
    uses.follow(body, ())
    for name, instructions in uses.instructions.items():
        path = uses.paths[name]
        loop = _entered(path, loop_of_tensor.get(name)) if name in loop_of_tensor else None
        tensor = uses.tensors[name]
        if (
            loop is None
            or not tensor.on_chip
            or tensor.fixed
            or _begins_with_writes(name, instructions)
        ):
            continue
        block = _block_of(body, loop)
        position = next(i for i, statement in enumerate(block) if statement is loop)
        fill = fresh_fill(tensor, zero=name in scales, location=loop.location)
        block.insert(position, fill)


def begin_in_loops(
    body: Block,
    loop_of_tensor: Mapping[str, Loop | None],
    results: Collection[str],
    row: Callable[[Tensor], Tensor],
) -> None:
    """Fill HBM tensors inside the loop that allocates them, unless each iteration writes them first.

    Args:
        body: statements of one core, changed in place.
        loop_of_tensor: name of a tensor -> the innermost loop that allocates it, or None.
        results: names of the tensors that the caller reads after the run.
        row: returns the constant that fills a tensor, see ``fresh_copy``.
    """
    if all(isinstance(statement, Instruction) for statement in body):
        return
    uses = _Uses()
    uses.follow(body, ())
    for name, instructions in uses.instructions.items():
        creating_loop, tensor = loop_of_tensor.get(name), uses.tensors[name]
        if creating_loop is None or tensor.on_chip or not tensor.nbytes:
            continue
        if not _begins_with_writes(name, instructions, every_byte=name in results):
            block = creating_loop.body
            first = next(i for i, statement in enumerate(block) if _names(statement, name))
            block.insert(first, fresh_copy(tensor, row(tensor), location=creating_loop.location))


def _names(statement: Statement, name: str) -> bool:
    return any(
        access.tensor.name == name
        for instruction in walk([statement])
        for _, access in _accesses(instruction)
    )


class _Uses:
    """Every instruction that uses a tensor, and the loops around all of them."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.instructions: dict[str, list[tuple[Instruction, int]]] = {}
        self.paths: dict[str, tuple[Loop, ...]] = {}

    def follow(self, block: Block, path: tuple[Loop, ...]) -> None:
        """Add the statements of a block inside the loops of ``path``."""
        for statement in block:
            if isinstance(statement, Instruction):
                self._enter(statement, path)
            elif isinstance(statement, NoReorder):
                self.follow(statement.body, path)
            else:
                self.follow(statement.body, (*path, statement))

    def _enter(self, instruction: Instruction, path: tuple[Loop, ...]) -> None:
        for _, access in _accesses(instruction):
            name = access.tensor.name
            self.tensors[name] = access.tensor
            self.instructions.setdefault(name, []).append((instruction, len(path)))
            loops = self.paths.setdefault(name, path)
            if loops is not path:
                same = [
                    loop for loop, enclosing in zip(loops, path, strict=False) if loop is enclosing
                ]
                self.paths[name] = tuple(same)


def _entered(path: tuple[Loop, ...], loop_of_creation: Loop | None) -> Loop | None:
    """Return the outermost loop around all uses that is entered after the allocation."""
    positions = [position for position, loop in enumerate(path) if loop is loop_of_creation]
    entered = path[positions[0] + 1 :] if positions else path
    return entered[0] if entered else None


def _begins_with_writes(
    name: str, uses: list[tuple[Instruction, int]], *, every_byte: bool = False
) -> bool:
    """Return True if an iteration writes all elements that it reads first; with ``every_byte`` all
    bytes.
    """
    depth = min(depth for _, depth in uses)
    coverage: Coverage | None = None
    for instruction, inner in uses:
        certain: list[Access] = []
        for operand, access in _accesses(instruction):
            if access.tensor.name != name:
                continue
            if coverage is None:
                coverage = Coverage(access.tensor.nbytes)
            if _overwrites(instruction, operand):
                if not access.is_dynamic and inner == depth:
                    certain.append(access)
            elif access.is_dynamic or not coverage.has(piece_of(access)):
                return False
        for access in certain:
            assert coverage is not None
            coverage.add(piece_of(access))
    return not every_byte or (coverage is not None and coverage.try_finish())


def _overwrites(instruction: Instruction, operand: str) -> bool:
    """Return True if the operand is written independent of its old content."""
    traits = TRAITS.get(instruction.op)
    if traits is None or operand not in traits.writes:
        return False
    if instruction.op in ("nc_matmul", "nc_matmul_mx"):
        return instruction.operands.get("accumulate") is False
    return operand not in traits.updates


def _accesses(instruction: Instruction) -> list[tuple[str, Access]]:
    """Return the accesses of an instruction with their operands."""
    accesses: list[tuple[str, Access]] = []

    def take(name: str, value: object) -> None:
        if isinstance(value, Access):
            accesses.append((name, value))
            take("offset", value.scalar_offset)
            take("offset", value.vector_offset)
        elif is_sequence(value):
            for entry in value:
                take(name, entry)

    for name, value in instruction.operands.items():
        take(name, value)
    return accesses


def _block_of(body: Block, loop: Loop) -> Block:
    """Return the block that contains the loop."""
    for statement in body:
        if statement is loop:
            return body
        if not isinstance(statement, Instruction):
            block = _block_of(statement.body, loop)
            if block:
                return block
    return []
