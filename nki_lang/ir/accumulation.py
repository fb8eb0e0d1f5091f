"""Make the accumulation of matrix products explicit.

``nc_matmul(accumulate=None)`` leaves the decision to the compiler: "first write overwrites,
subsequent writes accumulate" (isa stub, nc_matmul, Accumulation mode). This module sets True or
False on each instruction, from the elements of the destination that were written before it.

If neither holds (a device loop accumulates into a tensor from outside, or the destination was
written partially), the unwritten elements are zeroed first and the product accumulates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.base.memory import MemoryRegion
from nki_lang.ir.coverage import Coverage, piece_of
from nki_lang.ir.types import (
    Access,
    Block,
    ForLoop,
    Instruction,
    KernelIR,
    NoReorder,
    Statement,
    Tensor,
    WhileLoop,
    walk,
    with_operands,
)

__all__ = ["resolve_accumulation", "zero_before_loops"]

_MATMUL_OPS = frozenset({"nc_matmul", "nc_matmul_mx"})


def resolve_accumulation(kernel_ir: KernelIR) -> KernelIR:
    """Return the kernel with ``accumulate`` True or False on every matrix product.

    It is the same object when there is nothing to resolve; else a copy that shares every other
    instruction.
    """
    if not any(_is_unresolved(instruction) for instruction in kernel_ir.instructions()):
        return kernel_ir
    return replace(
        kernel_ir, bodies=tuple(_AccumulationResolver(body).run() for body in kernel_ir.bodies)
    )


def zero_before_loops(body: Block, loop_of_tensor: Mapping[str, object]) -> None:
    """Zero the tensors that only a device loop uses and that it accumulates into.

    ``nc_matmul(accumulate=None)`` sums over the iterations of a loop when its destination was
    created outside of the loop. The instructions alone do not show where a tensor was created, so
    the tracer inserts a memset before the loop.

    Args:
        body: statements of one core, changed in place.
        loop_of_tensor: name of a PSUM tensor -> the innermost loop that creates it, or None.
    """
    if all(isinstance(statement, Instruction) for statement in body):
        return
    uses = _uses(body)
    uses_in_loop: dict[int, Counter[str]] = {}
    zeroed: set[Access] = set()
    for instruction, path in _with_loops(body, ()):
        if not _is_unresolved(instruction):
            continue
        dst: Access = instruction.operands["dst"]
        name = dst.tensor.name
        block, loop = _entered(path, loop_of_tensor.get(name))
        if loop is None:
            continue
        if id(loop) not in uses_in_loop:
            uses_in_loop[id(loop)] = _uses(loop.body)
        region = _whole_tensor(dst.tensor) if dst.is_dynamic else dst
        # resolve_accumulation handles a tensor that is used outside of the loop too.
        if uses_in_loop[id(loop)][name] == uses[name] and region not in zeroed:
            zeroed.add(region)
            position = next(i for i, statement in enumerate(block) if statement is loop)
            block.insert(position, _memset(region, instruction))


_Path = tuple[tuple[Block, ForLoop | WhileLoop], ...]


def _entered(path: _Path, loop_of_creation: object) -> tuple[Block, ForLoop | WhileLoop | None]:
    """Return the outermost loop inside ``loop_of_creation`` on the path, and the block that
    contains it.
    """
    positions = [position for position, (_, loop) in enumerate(path) if loop is loop_of_creation]
    entered = path[positions[0] + 1 :] if positions else path
    return entered[0] if entered else ([], None)


def _memset(region: Access, product: Instruction) -> Instruction:
    return Instruction("memset", {"dst": region, "value": 0}, location=product.location)


def _with_loops(block: Block, path: _Path) -> list[tuple[Instruction, _Path]]:
    """Return every instruction with the loops around it and their blocks, outermost first."""
    instructions: list[tuple[Instruction, _Path]] = []
    for statement in block:
        if isinstance(statement, Instruction):
            instructions.append((statement, path))
        elif isinstance(statement, NoReorder):
            instructions += _with_loops(statement.body, path)
        else:
            instructions += _with_loops(statement.body, (*path, (block, statement)))
    return instructions


def _is_unresolved(instruction: Instruction) -> bool:
    return instruction.op in _MATMUL_OPS and instruction.operands.get("accumulate") is None


def _psum_accesses(instruction: Instruction) -> list[tuple[str, Access]]:
    return [
        (name, value)
        for name, value in instruction.operands.items()
        if type(value) is Access and value.tensor.buffer is MemoryRegion.psum
    ]


class _Written:
    """The elements of one tensor that were written so far."""

    __slots__ = ("coverage",)

    def __init__(self, tensor: Tensor) -> None:
        self.coverage = Coverage(tensor.nbytes)

    def mask(self, access: Access) -> bool | Array:
        """Return True or False for the whole region, or a map of the region when it is mixed."""
        if access.is_dynamic or self.coverage.untouched:
            return not self.coverage.untouched
        piece = piece_of(access)
        if self.coverage.has(piece):
            return True
        missing = self.coverage.missing(piece)
        return False if missing.all() else ~missing

    def add(self, access: Access) -> None:
        """Record a write of the region; a dynamic access may write the whole tensor."""
        self.coverage.add(piece_of(_whole_tensor(access.tensor) if access.is_dynamic else access))


class _AccumulationResolver:
    """Walks one core's statements in program order."""

    def __init__(self, body: Block) -> None:
        self.body = body
        self.written: dict[str, _Written] = {}
        self.uses = _uses(body)

    def run(self) -> Block:
        return self._block(self.body)

    def _block(self, block: Block) -> Block:
        done: Block = []
        for statement in block:
            done.extend(self._statement(statement))
        return done

    def _statement(self, statement: Statement) -> list[Statement]:
        if isinstance(statement, Instruction):
            return self._instruction(statement)
        if isinstance(statement, NoReorder):
            return [replace(statement, body=self._block(statement.body))]
        return self._loop(statement)

    def _loop(self, loop: ForLoop | WhileLoop) -> list[Statement]:
        uses_in_loop = _uses(loop.body)
        before: list[Statement] = []
        for instruction in walk(loop.body):
            if not _is_unresolved(instruction):
                continue
            dst: Access = instruction.operands["dst"]
            name = dst.tensor.name
            if uses_in_loop[name] == self.uses[name]:
                # Used nowhere else: a fresh tensor in each iteration.
                self.written.pop(name, None)
                continue
            before.extend(self._zero(instruction, dst))
        return [*before, replace(loop, body=self._block(loop.body))]

    def _instruction(self, instruction: Instruction) -> list[Statement]:
        if not _is_unresolved(instruction):
            for name, access in _psum_accesses(instruction):
                if name.startswith(("dst", "reduce_res", "val_dst", "idx_dst")):
                    self._written_to(access).add(access)
            return [instruction]
        dst: Access = instruction.operands["dst"]
        mask = self._written_to(dst).mask(dst)
        before: list[Statement] = []
        if isinstance(mask, np.ndarray):
            before = self._zero(instruction, dst)
            mask = True
        self._written_to(dst).add(dst)
        operands = {**instruction.operands, "accumulate": bool(mask)}
        return [*before, with_operands(instruction, operands)]

    def _written_to(self, access: Access) -> _Written:
        written = self.written.get(access.tensor.name)
        if written is None:
            written = self.written[access.tensor.name] = _Written(access.tensor)
        return written

    def _zero(self, instruction: Instruction, dst: Access) -> list[Statement]:
        """Return instructions that zero the unwritten elements of ``dst``."""
        written = self._written_to(dst)
        mask = written.mask(dst)
        if mask is True:
            return []
        if dst.is_dynamic:
            regions = [_whole_tensor(dst.tensor)]
        elif mask is False:
            regions = [dst]
        else:
            assert isinstance(mask, np.ndarray)
            regions = _rectangles(dst, ~mask)
        for region in regions:
            written.add(region)
        return [_memset(region, instruction) for region in regions]


def _uses(block: Block) -> Counter[str]:
    """Count the uses of each PSUM tensor."""
    return Counter(
        access.tensor.name
        for instruction in walk(block)
        for _, access in _psum_accesses(instruction)
    )


def _whole_tensor(tensor: Tensor) -> Access:
    free = tensor.free_elements
    return Access(tensor, 0, ((free, tensor.shape[0]), (1, free)))


def _rectangles(access: Access, missing: Array) -> list[Access]:
    """Return accesses that together cover the True elements of ``missing``."""
    if missing.all():
        return [access]
    step, _ = access.pattern[0]
    inner_pattern = access.pattern[1:]
    if not inner_pattern:
        edges = np.flatnonzero(np.diff(missing, prepend=False, append=False))
        return [
            access._replace(
                offset=access.offset + int(first) * step, pattern=((step, int(end - first)),)
            )
            for first, end in zip(edges[::2], edges[1::2], strict=True)
        ]
    if (missing == missing[:1]).all():
        inner = _rectangles(access._replace(pattern=inner_pattern), missing[0])
        return [
            rectangle._replace(pattern=(access.pattern[0], *rectangle.pattern))
            for rectangle in inner
        ]
    rectangles: list[Access] = []
    for row in np.flatnonzero(missing.reshape(len(missing), -1).any(axis=1)):
        start = access._replace(offset=access.offset + int(row) * step, pattern=inner_pattern)
        rectangles += [
            rectangle._replace(pattern=((step, 1), *rectangle.pattern))
            for rectangle in _rectangles(start, missing[row])
        ]
    return rectangles
