"""Tiles that keep what they hold from one turn of a device loop to the next.

A tile that only a loop names begins anew with each of its turns, for it was made in there. The
instructions alone do not show where a tile was made. So one that was made outside, and that a
turn may read before it writes it, is named before the loop too: by an instruction that makes its
memory what it is before the first write.

Tensors in HBM are the other way about: the instructions alone say that they keep what they hold.
So one that was made in a loop, and that a turn may read before it writes it, is filled there.
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


def name_before_loops(body: Block, homes: Mapping[str, Loop | None]) -> None:
    """Name tiles from outside of a loop before it, unless each turn writes them first.

    Args:
        body: statements of one core, changed in place.
        homes: name of a tensor -> the innermost loop it was made in, or None.
    """
    if all(isinstance(statement, Instruction) for statement in body):
        return
    scales = scales_in(body)
    uses = _Uses()
    uses.follow(body, ())
    for name, instructions in uses.of.items():
        path = uses.paths[name]
        loop = _entered(path, homes.get(name)) if name in homes else None
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
    homes: Mapping[str, Loop | None],
    results: Collection[str],
    row: Callable[[Tensor], Tensor],
) -> None:
    """Fill tensors in HBM that were made in a loop, unless each turn writes them first.

    Args:
        body: statements of one core, changed in place.
        homes: name of a tensor -> the innermost loop it was made in, or None.
        results: names of the tensors that are read in the end.
        row: the constant that fills a tensor, see ``fresh_copy``.
    """
    if all(isinstance(statement, Instruction) for statement in body):
        return
    uses = _Uses()
    uses.follow(body, ())
    for name, instructions in uses.of.items():
        home, tensor = homes.get(name), uses.tensors[name]
        if home is None or tensor.on_chip or not tensor.nbytes:
            continue
        if not _begins_with_writes(name, instructions, whole=name in results):
            block = home.body
            first = next(i for i, statement in enumerate(block) if _names(statement, name))
            block.insert(first, fresh_copy(tensor, row(tensor), location=home.location))


def _names(statement: Statement, name: str) -> bool:
    return any(
        access.tensor.name == name
        for instruction in walk([statement])
        for _, access in _accesses(instruction)
    )


class _Uses:
    """Every instruction that names a tile, and the loops that hold all of them."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.of: dict[str, list[tuple[Instruction, int]]] = {}
        self.paths: dict[str, tuple[Loop, ...]] = {}

    def follow(self, block: Block, path: tuple[Loop, ...]) -> None:
        """Enter the statements of a block, which stands in the loops of ``path``."""
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
            self.of.setdefault(name, []).append((instruction, len(path)))
            known = self.paths.setdefault(name, path)
            if known is not path:
                same = [one for one, other in zip(known, path, strict=False) if one is other]
                self.paths[name] = tuple(same)


def _entered(path: tuple[Loop, ...], home: Loop | None) -> Loop | None:
    """The outermost loop around all uses that is entered after the tile was made."""
    inside = [place for place, loop in enumerate(path) if loop is home]
    entered = path[inside[0] + 1 :] if inside else path
    return entered[0] if entered else None


def _begins_with_writes(
    name: str, uses: list[tuple[Instruction, int]], *, whole: bool = False
) -> bool:
    """Whatever a turn reads of the tile it certainly wrote before; with ``whole`` it writes all."""
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
    return not whole or (coverage is not None and coverage.try_finish())


def _overwrites(instruction: Instruction, operand: str) -> bool:
    """The operand is written, and what it was before does not matter."""
    traits = TRAITS.get(instruction.op)
    if traits is None or operand not in traits.writes:
        return False
    if instruction.op in ("nc_matmul", "nc_matmul_mx"):
        return instruction.operands.get("accumulate") is False
    return operand not in traits.updates


def _accesses(instruction: Instruction) -> list[tuple[str, Access]]:
    """The accesses of an instruction with the operands that they are in."""
    found: list[tuple[str, Access]] = []

    def take(name: str, value: object) -> None:
        if isinstance(value, Access):
            found.append((name, value))
            take("offset", value.scalar_offset)
            take("offset", value.vector_offset)
        elif is_sequence(value):
            for entry in value:
                take(name, entry)

    for name, value in instruction.operands.items():
        take(name, value)
    return found


def _block_of(body: Block, loop: Loop) -> Block:
    """The block that the loop stands in."""
    for statement in body:
        if statement is loop:
            return body
        if not isinstance(statement, Instruction):
            found = _block_of(statement.body, loop)
            if found:
                return found
    return []
