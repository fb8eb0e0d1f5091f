"""Make the accumulation of matrix products explicit.

``nc_matmul(accumulate=None)`` leaves it to the compiler: "first write overwrites, subsequent
writes accumulate" (isa stub, nc_matmul, Accumulation mode). Here that becomes True or False on
each instruction, by looking at which elements of the destination were written before it.

Where no single answer exists (a device loop that accumulates into a tensor from outside, or a
destination that was written in part), the unwritten part is zeroed first and the product
accumulates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from nki_lang.dtypes import Array
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
from nki_lang.memory import MemoryRegion

__all__ = ["resolve_accumulation", "zero_before_loops"]

_PRODUCTS = frozenset({"nc_matmul", "nc_matmul_mx"})


def resolve_accumulation(kernel_ir: KernelIR) -> KernelIR:
    """The kernel with ``accumulate`` True or False on every matrix product.

    The same object when there is nothing to resolve; else a copy that shares every other
    instruction.
    """
    if not any(_open(instruction) for instruction in kernel_ir.instructions()):
        return kernel_ir
    return replace(kernel_ir, bodies=tuple(_Resolver(body).run() for body in kernel_ir.bodies))


def zero_before_loops(body: Block, homes: Mapping[str, object]) -> None:
    """Zero what device loops accumulate into and nothing outside of them names.

    ``nc_matmul(accumulate=None)`` adds up over the iterations of a loop when its destination was made
    outside of it. The instructions alone do not show where a tensor was made, so the tracer marks
    it with a memset before the loop.

    Args:
        body: statements of one core, changed in place.
        homes: name of a PSUM tensor -> the innermost loop it was made in, or None.
    """
    if all(isinstance(statement, Instruction) for statement in body):
        return
    uses = _uses(body)
    inside: dict[int, Counter[str]] = {}
    zeroed: set[Access] = set()
    for instruction, path in _with_loops(body, ()):
        if not _open(instruction):
            continue
        dst: Access = instruction.operands["dst"]
        name = dst.tensor.name
        block, loop = _entered(path, homes.get(name))
        if loop is None:
            continue
        if id(loop) not in inside:
            inside[id(loop)] = _uses(loop.body)
        part = _everything(dst.tensor) if dst.is_dynamic else dst
        # Where it is named outside too, resolve_accumulation sees that.
        if inside[id(loop)][name] == uses[name] and part not in zeroed:
            zeroed.add(part)
            position = next(i for i, statement in enumerate(block) if statement is loop)
            block.insert(position, _memset(part, instruction))


_Path = tuple[tuple[Block, ForLoop | WhileLoop], ...]


def _entered(path: _Path, home: object) -> tuple[Block, ForLoop | WhileLoop | None]:
    """The outermost loop that is entered after a tensor was made in ``home``, and its block."""
    places = [place for place, (_, loop) in enumerate(path) if loop is home]
    entered = path[places[0] + 1 :] if places else path
    return entered[0] if entered else ([], None)


def _memset(part: Access, product: Instruction) -> Instruction:
    return Instruction("memset", {"dst": part, "value": 0}, location=product.location)


def _with_loops(block: Block, path: _Path) -> list[tuple[Instruction, _Path]]:
    """Every instruction with the loops around it and the blocks those stand in, outermost first."""
    found: list[tuple[Instruction, _Path]] = []
    for statement in block:
        if isinstance(statement, Instruction):
            found.append((statement, path))
        elif isinstance(statement, NoReorder):
            found += _with_loops(statement.body, path)
        else:
            found += _with_loops(statement.body, (*path, (block, statement)))
    return found


def _open(instruction: Instruction) -> bool:
    return instruction.op in _PRODUCTS and instruction.operands.get("accumulate") is None


def _psum_accesses(instruction: Instruction) -> list[tuple[str, Access]]:
    return [
        (name, value)
        for name, value in instruction.operands.items()
        if type(value) is Access and value.tensor.buffer is MemoryRegion.psum
    ]


class _Written:
    """Which elements of one tensor were written so far."""

    __slots__ = ("coverage",)

    def __init__(self, tensor: Tensor) -> None:
        self.coverage = Coverage(tensor.nbytes)

    def mask(self, access: Access) -> bool | Array:
        """True or False for the whole region, or a map of it where it is mixed."""
        if access.is_dynamic or self.coverage.untouched:
            return not self.coverage.untouched
        piece = piece_of(access)
        if self.coverage.has(piece):
            return True
        missing = self.coverage.missing(piece)
        return False if missing.all() else ~missing

    def add(self, access: Access) -> None:
        """The region was written; of a dynamic one all that it could be."""
        self.coverage.add(piece_of(_everything(access.tensor) if access.is_dynamic else access))


class _Resolver:
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
        inside = _uses(loop.body)
        before: list[Statement] = []
        for instruction in walk(loop.body):
            if not _open(instruction):
                continue
            dst: Access = instruction.operands["dst"]
            name = dst.tensor.name
            if inside[name] == self.uses[name]:
                # Used nowhere else: a fresh tensor in each iteration.
                self.written.pop(name, None)
                continue
            before.extend(self._zero(instruction, dst))
        return [*before, replace(loop, body=self._block(loop.body))]

    def _instruction(self, instruction: Instruction) -> list[Statement]:
        if not _open(instruction):
            for name, access in _psum_accesses(instruction):
                if name.startswith(("dst", "reduce_res", "val_dst", "idx_dst")):
                    self._of(access).add(access)
            return [instruction]
        dst: Access = instruction.operands["dst"]
        mask = self._of(dst).mask(dst)
        before: list[Statement] = []
        if isinstance(mask, np.ndarray):
            before = self._zero(instruction, dst)
            mask = True
        self._of(dst).add(dst)
        operands = {**instruction.operands, "accumulate": bool(mask)}
        return [*before, with_operands(instruction, operands)]

    def _of(self, access: Access) -> _Written:
        found = self.written.get(access.tensor.name)
        if found is None:
            found = self.written[access.tensor.name] = _Written(access.tensor)
        return found

    def _zero(self, instruction: Instruction, dst: Access) -> list[Statement]:
        """Instructions that zero what of ``dst`` was not written yet."""
        written = self._of(dst)
        mask = written.mask(dst)
        if mask is True:
            return []
        if dst.is_dynamic:
            parts = [_everything(dst.tensor)]
        elif mask is False:
            parts = [dst]
        else:
            assert isinstance(mask, np.ndarray)
            parts = _rectangles(dst, ~mask)
        for part in parts:
            written.add(part)
        return [_memset(part, instruction) for part in parts]


def _uses(block: Block) -> Counter[str]:
    """How often each PSUM tensor is named."""
    return Counter(
        access.tensor.name
        for instruction in walk(block)
        for _, access in _psum_accesses(instruction)
    )


def _everything(tensor: Tensor) -> Access:
    free = tensor.free_elements
    return Access(tensor, 0, ((free, tensor.shape[0]), (1, free)))


def _rectangles(access: Access, missing: Array) -> list[Access]:
    """Accesses that together cover the True elements of ``missing``."""
    if missing.all():
        return [access]
    step, _ = access.pattern[0]
    rest = access.pattern[1:]
    if not rest:
        edges = np.flatnonzero(np.diff(missing, prepend=False, append=False))
        return [
            access._replace(
                offset=access.offset + int(first) * step, pattern=((step, int(end - first)),)
            )
            for first, end in zip(edges[::2], edges[1::2], strict=True)
        ]
    if (missing == missing[:1]).all():
        inner = _rectangles(access._replace(pattern=rest), missing[0])
        return [part._replace(pattern=(access.pattern[0], *part.pattern)) for part in inner]
    found: list[Access] = []
    for row in np.flatnonzero(missing.reshape(len(missing), -1).any(axis=1)):
        start = access._replace(offset=access.offset + int(row) * step, pattern=rest)
        found += [
            part._replace(pattern=((step, 1), *part.pattern))
            for part in _rectangles(start, missing[row])
        ]
    return found
