"""Fills memory that a program may read before it writes it: NaN, in integers all bits set.

A device leaves arbitrary values there. Here the values are the same on every call and in every
execution mode, and are not a number. Memory that is certainly written before it is read costs
nothing; the rest is filled once a run, before its first use.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from nki_lang.analysis.liveness import accesses_in, accesses_of
from nki_lang.analysis.program_order import certain_iterations
from nki_lang.analysis.regions import dense_pattern
from nki_lang.base.memory import MemoryRegion
from nki_lang.ir.coverage import Coverage, piece_of
from nki_lang.ir.fresh import fresh_fill, is_fresh_fill, scales_in
from nki_lang.ir.types import (
    Access,
    Block,
    ForLoop,
    Instruction,
    NoReorder,
    Tensor,
    WhileLoop,
    walk,
)
from nki_lang.semantics import TRAITS

__all__ = ["MATMUL_OPS", "filled_in", "inside", "with_fresh_memory"]

_MAX_TRACKED_BYTES = 1 << 28
"""A larger tensor counts as written: the map of its bytes would take too much memory."""

MATMUL_OPS = frozenset({"nc_matmul", "nc_matmul_mx"})
"""Instructions that read their destination when they accumulate."""


def with_fresh_memory(
    bodies: Sequence[Block],
    initialised: Collection[str],
    results: Sequence[Tensor],
    *,
    shared_bytes: bool = True,
) -> tuple[Block, ...]:
    """Return the bodies with instructions that fill memory that may be read before it is written.

    A tile that only a loop uses is filled in each iteration.

    Args:
        bodies: the statements of each core, with accumulation made explicit.
        initialised: names of the tensors that have content from the start.
        results: tensors that the caller reads after the run.
        shared_bytes: two tensors with addresses may use the same bytes at the same time.
    """
    shared: dict[str, Coverage] = {}
    filled_bodies: list[Block] = []
    fresh_shared: dict[str, Tensor] = {}
    for index, body in enumerate(bodies):
        core = _CertainWrites(body, initialised, shared, shared_bytes=shared_bytes)
        fresh_shared |= core.shared
        filled_bodies.append(core.filled())
        if index + 1 < len(bodies):
            continue
        for tensor in results:
            coverage = shared.get(tensor.name) or core.written.get(tensor.name)
            written = coverage is not None and _is_full(coverage)
            if tensor.name not in initialised and not written and tensor.nbytes:
                fresh_shared[tensor.name] = tensor
    if fresh_shared:
        filled_bodies[0] = [
            *(fresh_fill(tensor) for tensor in fresh_shared.values()),
            *filled_bodies[0],
        ]
    return tuple(filled_bodies)


def filled_in(bodies: Sequence[Block]) -> frozenset[str]:
    """Return the names of the tensors that :func:`with_fresh_memory` fills."""
    return frozenset(
        instruction.operands["dst"].tensor.name
        for body in bodies
        for instruction in walk(body)
        if is_fresh_fill(instruction)
    )


class _CertainWrites:
    """Follows the certain writes of one core in program order, and collects doubtful reads."""

    def __init__(
        self,
        body: Block,
        initialised: Collection[str],
        shared: dict[str, Coverage],
        *,
        shared_bytes: bool,
    ) -> None:
        self._body, self._initialised, self._shared_bytes = body, initialised, shared_bytes
        self.written: dict[str, Coverage] = {}
        self._shared_writes = shared
        self._doubtful: dict[str, Tensor] = {}
        self.shared: dict[str, Tensor] = {}
        self._block(body)

    def filled(self) -> Block:
        """Return the body with fills of this core's private memory."""
        if not self._doubtful:
            return self._body
        scales = scales_in(self._body)
        fills = {name: fresh_fill(t, zero=name in scales) for name, t in self._doubtful.items()}
        early = {name for name, tensor in self._doubtful.items() if self._is_shared(tensor)}
        filler = _Filler(self._body, {n: fill for n, fill in fills.items() if n not in early})
        return [*(fills[name] for name in fills if name in early), *filler.filled]

    def _is_shared(self, tensor: Tensor) -> bool:
        """Return True if another tensor may write the same bytes before."""
        return tensor.address is not None and (tensor.fixed or self._shared_bytes)

    def _block(self, body: Block) -> None:
        for statement in body:
            if isinstance(statement, Instruction):
                self._instruction(statement)
            elif isinstance(statement, NoReorder):
                self._block(statement.body)
            else:
                self._loop(statement)

    def _loop(self, loop: ForLoop | WhileLoop) -> None:
        """Follow a loop; one that may have no iteration writes nothing for certain."""
        if isinstance(loop, ForLoop) and certain_iterations(loop):
            self._block(loop.body)
            return
        before = {name: coverage.copy() for name, coverage in self.written.items()}
        shared_before = {name: coverage.copy() for name, coverage in self._shared_writes.items()}
        self._block(loop.body)
        self.written = before
        self._shared_writes.clear()
        self._shared_writes.update(shared_before)

    def _instruction(self, instruction: Instruction) -> None:
        traits = TRAITS.get(instruction.op)
        if traits is None:
            return
        operands, writes = instruction.operands, traits.writes
        certain: list[Access] = []
        for name, value in operands.items():
            kind = type(value)  # pyright: ignore[reportUnknownVariableType]
            if kind is Access and name not in writes and not value.is_dynamic:
                self._read(value)
            elif kind is Access or kind is tuple or kind is list:
                certain += self._operand(instruction, name, value, name in writes)
        for access in certain:
            self._write(access)

    def _operand(
        self, instruction: Instruction, name: str, value: Any, writes: bool
    ) -> list[Access]:
        """Record what an operand reads; return the accesses that are certainly written through
        it.
        """
        if not writes:
            for access in accesses_in(value):
                self._read(access)
            return []
        accesses = [value] if type(value) is Access else [v for v in value if type(v) is Access]
        for access in accesses:
            if access.is_dynamic:
                for offset in (access.scalar_offset, access.vector_offset):
                    if type(offset) is Access:
                        self._read(offset)
        if instruction.op in MATMUL_OPS:
            if instruction.operands.get("accumulate"):
                self._read(value)
        elif name in TRAITS[instruction.op].updates:
            return []
        if instruction.operands.get("oob_mode") == "skip":
            return []
        return [access for access in accesses if not access.is_dynamic]

    def _write(self, access: Access) -> None:
        tensor = access.tensor
        coverage = self._coverage(tensor)
        if coverage.complete:
            return
        if (
            access.dtype is None
            and access.offset == 0
            and access.pattern == dense_pattern(tensor.shape)
        ):
            coverage.finish()
        elif inside(access):
            coverage.add(piece_of(access))

    def _coverage(self, tensor: Tensor) -> Coverage:
        table = self._shared_writes if tensor.buffer is MemoryRegion.shared_hbm else self.written
        coverage = table.get(tensor.name)
        if coverage is None:
            large = tensor.nbytes > _MAX_TRACKED_BYTES
            coverage = table[tensor.name] = Coverage(tensor.nbytes, complete=large)
        return coverage

    def _read(self, access: Access) -> None:
        tensor = access.tensor
        if tensor.name in self._initialised or tensor.name in self._doubtful:
            return
        coverage = self._coverage(tensor)
        if coverage.complete or 0 in access.shape:
            return
        if access.is_dynamic or not inside(access):
            is_written = _is_full(coverage)
        else:
            is_written = coverage.has(piece_of(access))
        if is_written:
            return
        if tensor.buffer is MemoryRegion.shared_hbm:
            self.shared[tensor.name] = tensor
        else:
            self._doubtful[tensor.name] = tensor


_Path = tuple[ForLoop | WhileLoop, ...]


class _Filler:
    """Inserts the fill of each tensor before the first statement that uses it.

    Tiles that only a loop uses are filled inside it, so that each iteration starts fresh.
    """

    def __init__(self, body: Block, fills: dict[str, Instruction]) -> None:
        self._pending = dict(fills)
        self._common_loops: dict[str, _Path] = {}
        if any(not isinstance(statement, Instruction) for statement in body):
            self._find_common_loops(body, ())
        self._due: dict[str, None] = {}
        self.filled = self._block(body, ())

    def _find_common_loops(self, body: Block, path: _Path) -> None:
        """Find the loops around all uses of each tile."""
        for statement in body:
            if isinstance(statement, Instruction):
                for tensor in self._named(statement):
                    common = self._common_loops.setdefault(
                        tensor.name, path if tensor.on_chip else ()
                    )
                    if common is not path:
                        same = zip(common, path, strict=False)
                        self._common_loops[tensor.name] = tuple(a for a, b in same if a is b)
            elif isinstance(statement, NoReorder):
                self._find_common_loops(statement.body, path)
            else:
                self._find_common_loops(statement.body, (*path, statement))

    def _named(self, instruction: Instruction) -> list[Tensor]:
        return [a.tensor for a in accesses_of(instruction) if a.tensor.name in self._pending]

    def _block(self, body: Block, path: _Path) -> Block:
        done: Block = []
        for statement in body:
            if not self._pending:
                done.append(statement)
                continue
            if isinstance(statement, Instruction):
                self._due |= {tensor.name: None for tensor in self._named(statement)}
            else:
                inner = path if isinstance(statement, NoReorder) else (*path, statement)
                statement = replace(statement, body=self._block(statement.body, inner))
            for name in list(self._due):
                if len(self._common_loops.get(name, ())) == len(path):
                    del self._due[name]
                    done.append(self._pending.pop(name))
            done.append(statement)
        return done


def _is_full(coverage: Coverage) -> bool:
    return coverage.try_finish() or not coverage.holes().any()


def inside(access: Access) -> bool:
    """Return True if all elements of a static access are within its tensor."""
    low = high = access.offset
    for step, count in access.pattern:
        low += min(0, step * (count - 1))
        high += max(0, step * (count - 1))
    return low >= 0 and (high + 1) * access.element_type.itemsize <= access.tensor.nbytes
