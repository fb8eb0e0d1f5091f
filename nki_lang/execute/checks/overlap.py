"""Tensors at fixed addresses that overwrite each other's live data."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.source import SourceLocation
from nki_lang.execute.checks.base import Check, Step
from nki_lang.execute.checks.report import Finding
from nki_lang.execute.checks.shadow import Shadow
from nki_lang.execute.memory import twin
from nki_lang.ir.types import Access, Instruction, Tensor

__all__ = ["OverlapCheck"]

_CELL_BYTES = 1024
"""The lookup index divides a partition into cells of this size; a tensor is listed in each of its
cells.
"""

_OWNER_WORD_BYTES = 4
"""Owners are recorded per word of this size, until tensors with smaller elements appear."""


@dataclass(slots=True, eq=False)
class _Placed:
    """A tensor at an address.

    Attributes:
        number: the owner number of its bytes.
        order: number of tensors of its memory that were written before it.
        reach: first and last partition, first and last byte.
        writes: the accesses that were written through it.
        disturbed: an overlapping tensor was written since.
        checked_count: number of tensors of its memory that its last write compared with it.
        alive: the tensor, while the kernel can reach it.
    """

    name: str
    number: int
    order: int
    reach: tuple[int, int, int, int]
    writes: list[Access] = field(default_factory=list[Access])
    disturbed: bool = False
    checked_count: int = 0
    alive: weakref.ref[Tensor] | None = None

    @property
    def cells(self) -> range:
        """The cells of a partition that it covers."""
        return range(self.reach[2] // _CELL_BYTES, self.reach[3] // _CELL_BYTES + 1)


class OverlapCheck(Check):
    """Finds reads of bytes that another tensor at the same address overwrote.

    Every write through a tensor makes it the owner of the bytes. A read through a tensor of bytes
    that it owned once and another tensor owns now is a finding, reported once per pair of lines.
    Owners are looked up only for tensors that another one disturbed; until then writes are just
    listed. A write is compared only with the tensors created since the last write through its own
    tensor, except those that are disturbed already, so the cost stays linear.
    """

    name = "overlap"
    is_static = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._owners: dict[MemoryRegion, Shadow] = {}
        self._placed: dict[str, _Placed] = {}
        self._calm: dict[MemoryRegion, dict[int, dict[int, _Placed]]] = {}
        self._all: dict[MemoryRegion, list[_Placed]] = {}
        self._writes: list[tuple[int, Access, SourceLocation | None]] = []
        self._entered = 0
        self._scratch: dict[MemoryRegion, Shadow] = {}
        self._marker = 0
        self._names: list[str] = [""]
        self._written_at: dict[int, SourceLocation | None] = {}
        self._findings: dict[Any, Finding] = {}

    def concerns(self, instruction: Instruction) -> bool:
        """Return True if an operand has a fixed address."""
        for value in instruction.operands.values():
            if type(value) is Access:
                if value.tensor.address is not None:
                    return True
            elif type(value) is tuple:
                return True
        return False

    def before(self, step: Step) -> None:
        """Look up the owners of the bytes that are read."""
        for name, access in step.reads:
            if _is_placed(access):
                placed = self._placed.get(access.tensor.name)
                if placed is not None and placed.disturbed:
                    self._check_read(step.instruction, name, access, placed)

    def after(self, step: Step) -> None:
        """List the written accesses, and mark the tensors that they disturb."""
        for _, access in step.writes:
            if not _is_placed(access):
                continue
            placed = self._placed.get(access.tensor.name) or self._place(access.tensor)
            written = self._resolved(access)
            placed.writes.append(written)
            self._disturb(placed, access.tensor.buffer)
            self._writes.append((placed.number, written, step.instruction.location))

    def _resolved(self, access: Access) -> Access:
        """Return the access with the current register value, on a copy of the tensor that keeps
        nothing alive.
        """
        offset = access.offset
        if access.scalar_offset is not None:
            offset += self.memory.scalar(access.scalar_offset) * access.index_step
        return access._replace(tensor=twin(access.tensor), offset=offset, scalar_offset=None)

    def _place(self, tensor: Tensor) -> _Placed:
        assert tensor.address is not None
        partition, byte = tensor.address
        rows = tensor.shape[0] if tensor.shape else 1
        reach = (partition, partition + rows - 1, byte, byte + max(1, tensor.free_bytes) - 1)
        before = self._all.setdefault(tensor.buffer, [])
        placed = _Placed(tensor.name, len(self._names), len(before), reach)
        before.append(placed)
        self._names.append(tensor.name)
        cells = self._calm.setdefault(tensor.buffer, {})
        for cell in placed.cells:
            cells.setdefault(cell, {})[placed.number] = placed
        buffer = tensor.buffer
        placed.alive = weakref.ref(tensor, lambda _: self._remove(placed, buffer))
        self._placed[tensor.name] = placed
        return placed

    def _disturb(self, placed: _Placed, buffer: MemoryRegion) -> None:
        """Mark the overlapping tensors that were created since the last write through this one."""
        count = len(self._all[buffer])
        if placed.checked_count == count:
            return
        for candidate in self._since(placed, buffer):
            if (
                candidate is not placed
                and not candidate.disturbed
                and _meet(placed.reach, candidate.reach)
            ):
                candidate.disturbed = True
                self._remove(candidate, buffer)
        placed.checked_count = count

    def _since(self, placed: _Placed, buffer: MemoryRegion) -> list[_Placed]:
        """Return the tensors created since the last write through this one that it may overlap."""
        everything = self._all[buffer]
        if len(everything) - placed.checked_count <= len(placed.cells):
            return everything[placed.checked_count :]
        cells, candidates = self._calm[buffer], list[_Placed]()
        for cell in placed.cells:
            for candidate in reversed(cells.get(cell, {}).values()):
                if candidate.order < placed.checked_count:
                    break
                candidates.append(candidate)
        return candidates

    def _remove(self, placed: _Placed, buffer: MemoryRegion) -> None:
        """Remove a tensor from the lookup index: it is disturbed, or the kernel cannot read it any
        more.
        """
        cells = self._calm[buffer]
        for cell in placed.cells:
            cells.get(cell, {}).pop(placed.number, None)

    def _shadow(self, access: Access) -> Shadow:
        """Return the owners of the memory of the access, brought up to date."""
        for number, written, location in self._writes[self._entered :]:
            self._owners_of(written).set(self.memory.layout(written), number)
            self._written_at[number] = location
        self._entered = len(self._writes)
        return self._owners_of(access)

    def _owners_of(self, access: Access) -> Shadow:
        shadow = self._owners.get(access.tensor.buffer)
        if shadow is None:
            size = self.memory.storage(access.tensor).data.size
            shadow = self._owners[access.tensor.buffer] = Shadow(size, _OWNER_WORD_BYTES)
        return shadow

    def _written_through(self, placed: _Placed, access: Access) -> Array:
        """Return which elements of the access were ever written through its own tensor."""
        buffer = access.tensor.buffer
        scratch = self._scratch.get(buffer)
        if scratch is None:
            scratch = self._scratch[buffer] = Shadow(self._owners[buffer].size, _OWNER_WORD_BYTES)
        self._marker += 1
        for written in placed.writes:
            scratch.set(self.memory.layout(written), self._marker)
        return scratch.get(self.memory.layout(access)) == self._marker

    def _check_read(
        self, instruction: Instruction, operand: str, access: Access, placed: _Placed
    ) -> None:
        shadow, layout = self._shadow(access), self.memory.layout(access)
        if shadow.holds(layout, placed.number):
            return
        owners = shadow.get(layout)
        foreign = (owners != placed.number) & (owners != 0)
        if foreign.any():
            foreign &= self._written_through(placed, access)
        if not foreign.any():
            return
        index = tuple(int(i) for i in np.unravel_index(int(np.argmax(foreign)), foreign.shape))
        number = int(owners[index])
        key = (instruction.location, access.tensor.name, number)
        if key in self._findings:
            return
        position = ", ".join(str(coordinate) for coordinate in index)
        overwriter = self._names[number]
        self._findings[key] = Finding(
            self.name,
            "NKI-OVERLAP",
            f"{instruction.op} reads element [{position}] of {operand}, tensor "
            f"{access.tensor.name!r} at {access.tensor.address}, but what is there was written "
            f"through {overwriter!r} at an overlapping address, at {self._written_at[number]}",
            instruction.location,
            "move one of the two tensors, or finish with one before the other is written",
            {"tensor": access.tensor.name, "overwritten_by": overwriter, "index": list(index)},
        )

    def finish(self) -> list[Finding]:
        """Return the findings in program order."""
        return list(self._findings.values())


def _is_placed(access: Access) -> bool:
    tensor = access.tensor
    return tensor.address is not None and tensor.on_chip and access.vector_offset is None


def _meet(first: tuple[int, int, int, int], second: tuple[int, int, int, int]) -> bool:
    return (
        first[0] <= second[1]
        and second[0] <= first[1]
        and first[2] <= second[3]
        and second[2] <= first[3]
    )
