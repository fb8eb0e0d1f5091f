"""Memory that a program may read before it wrote it holds NaN, in integers all bits set.

Engines find there whatever was left behind. Here the values are the same on every call and in
every way of running, and no number: what is certainly written before it is read costs nothing,
the rest is filled once a run, where it is first touched.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from nki_lang.execute.liveness import accesses_in, accesses_of
from nki_lang.execute.storage import dense_pattern
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
from nki_lang.memory import MemoryRegion
from nki_lang.semantics import TRAITS

__all__ = ["PRODUCTS", "filled_in", "inside", "turns", "with_fresh_memory"]

_MAX_BYTES = 1 << 28
"""A larger tensor counts as written: the map of its bytes would take too much memory."""

PRODUCTS = frozenset({"nc_matmul", "nc_matmul_mx"})
"""Instructions that read where they write when they accumulate."""


def with_fresh_memory(
    bodies: Sequence[Block],
    given: Collection[str],
    results: Sequence[Tensor],
    *,
    shared_bytes: bool = True,
) -> tuple[Block, ...]:
    """The bodies with instructions that fill what may be read before it is written.

    A tile that only a loop names begins anew with each of its iterations.

    Args:
        bodies: the statements of each core, with accumulation made explicit.
        given: names of the tensors that have content from the start.
        results: tensors that are read in the end.
        shared_bytes: two tensors that are placed may hold the same bytes at one time.
    """
    shared: dict[str, Coverage] = {}
    found: list[Block] = []
    seen: dict[str, Tensor] = {}
    for index, body in enumerate(bodies):
        core = _Core(body, given, shared, shared_bytes=shared_bytes)
        seen |= core.shared
        found.append(core.filled())
        if index + 1 < len(bodies):
            continue
        for tensor in results:
            coverage = shared.get(tensor.name) or core.written.get(tensor.name)
            written = coverage is not None and _is_full(coverage)
            if tensor.name not in given and not written and tensor.nbytes:
                seen[tensor.name] = tensor
    if seen:
        found[0] = [*(fresh_fill(tensor) for tensor in seen.values()), *found[0]]
    return tuple(found)


def filled_in(bodies: Sequence[Block]) -> frozenset[str]:
    """Names of the tensors that :func:`with_fresh_memory` fills with the values of fresh memory."""
    return frozenset(
        instruction.operands["dst"].tensor.name
        for body in bodies
        for instruction in walk(body)
        if is_fresh_fill(instruction)
    )


class _Core:
    """What one core certainly wrote, followed in program order."""

    def __init__(
        self,
        body: Block,
        given: Collection[str],
        shared: dict[str, Coverage],
        *,
        shared_bytes: bool,
    ) -> None:
        self._body, self._given, self._shared_bytes = body, given, shared_bytes
        self.written: dict[str, Coverage] = {}
        self._all = shared
        self._doubtful: dict[str, Tensor] = {}
        self.shared: dict[str, Tensor] = {}
        self._block(body)

    def filled(self) -> Block:
        """The body with the filling of this core's own memory."""
        if not self._doubtful:
            return self._body
        scales = scales_in(self._body)
        fills = {name: fresh_fill(t, zero=name in scales) for name, t in self._doubtful.items()}
        early = {name for name, tensor in self._doubtful.items() if self._is_shared(tensor)}
        filler = _Filler(self._body, {n: fill for n, fill in fills.items() if n not in early})
        return [*(fills[name] for name in fills if name in early), *filler.filled]

    def _is_shared(self, tensor: Tensor) -> bool:
        """Others may write the same bytes before."""
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
        """A loop whose iterations are not known may have none: what it writes is not certain after it."""
        if isinstance(loop, ForLoop) and turns(loop):
            self._block(loop.body)
            return
        before = {name: each.copy() for name, each in self.written.items()}
        beside = {name: each.copy() for name, each in self._all.items()}
        self._block(loop.body)
        self.written = before
        self._all.clear()
        self._all.update(beside)

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
        """Note what an operand reads; what is certainly written through it."""
        if not writes:
            for access in accesses_in(value):
                self._read(access)
            return []
        own = [value] if type(value) is Access else [v for v in value if type(v) is Access]
        for access in own:
            if access.is_dynamic:
                for place in (access.scalar_offset, access.vector_offset):
                    if type(place) is Access:
                        self._read(place)
        if instruction.op in PRODUCTS:
            if instruction.operands.get("accumulate"):
                self._read(value)
        elif name in TRAITS[instruction.op].updates:
            return []
        if instruction.operands.get("oob_mode") == "skip":
            return []
        return [access for access in own if not access.is_dynamic]

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
        table = self._all if tensor.buffer is MemoryRegion.shared_hbm else self.written
        found = table.get(tensor.name)
        if found is None:
            large = tensor.nbytes > _MAX_BYTES
            found = table[tensor.name] = Coverage(tensor.nbytes, complete=large)
        return found

    def _read(self, access: Access) -> None:
        tensor = access.tensor
        if tensor.name in self._given or tensor.name in self._doubtful:
            return
        coverage = self._coverage(tensor)
        if coverage.complete or 0 in access.shape:
            return
        if access.is_dynamic or not inside(access):
            known = _is_full(coverage)
        else:
            known = coverage.has(piece_of(access))
        if known:
            return
        if tensor.buffer is MemoryRegion.shared_hbm:
            self.shared[tensor.name] = tensor
        else:
            self._doubtful[tensor.name] = tensor


_Path = tuple[ForLoop | WhileLoop, ...]


class _Filler:
    """Puts the filling of each tensor before the first statement that names it.

    Tiles that only a loop names are filled in there, so that each of its iterations begins anew.
    """

    def __init__(self, body: Block, fills: dict[str, Instruction]) -> None:
        self._left = dict(fills)
        self._homes: dict[str, _Path] = {}
        if any(not isinstance(statement, Instruction) for statement in body):
            self._find_homes(body, ())
        self._due: dict[str, None] = {}
        self.filled = self._block(body, ())

    def _find_homes(self, body: Block, path: _Path) -> None:
        """The loops around all uses of each tile."""
        for statement in body:
            if isinstance(statement, Instruction):
                for tensor in self._named(statement):
                    known = self._homes.setdefault(tensor.name, path if tensor.on_chip else ())
                    if known is not path:
                        same = zip(known, path, strict=False)
                        self._homes[tensor.name] = tuple(a for a, b in same if a is b)
            elif isinstance(statement, NoReorder):
                self._find_homes(statement.body, path)
            else:
                self._find_homes(statement.body, (*path, statement))

    def _named(self, instruction: Instruction) -> list[Tensor]:
        return [a.tensor for a in accesses_of(instruction) if a.tensor.name in self._left]

    def _block(self, body: Block, path: _Path) -> Block:
        done: Block = []
        for statement in body:
            if not self._left:
                done.append(statement)
                continue
            if isinstance(statement, Instruction):
                self._due |= {tensor.name: None for tensor in self._named(statement)}
            else:
                inner = path if isinstance(statement, NoReorder) else (*path, statement)
                statement = replace(statement, body=self._block(statement.body, inner))
            for name in list(self._due):
                if len(self._homes.get(name, ())) == len(path):
                    del self._due[name]
                    done.append(self._left.pop(name))
            done.append(statement)
        return done


def _is_full(coverage: Coverage) -> bool:
    return coverage.try_finish() or not coverage.holes().any()


def turns(loop: ForLoop) -> int:
    """How often the loop's body certainly runs; 0 when that is not known."""
    bounds = (loop.start, loop.stop, loop.step)
    known = loop.step != 0 and all(type(value) is int for value in bounds)
    return len(range(*bounds)) if known else 0  # type: ignore[arg-type]


def inside(access: Access) -> bool:
    """A static access has all of its elements within its tensor."""
    low = high = access.offset
    for step, count in access.pattern:
        low += min(0, step * (count - 1))
        high += max(0, step * (count - 1))
    return low >= 0 and (high + 1) * access.element_type.itemsize <= access.tensor.nbytes
