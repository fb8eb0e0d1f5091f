"""Tensors at fixed addresses that overwrite each other's live data."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nki_lang.dtypes import Array
from nki_lang.execute.checks.base import Check, Step
from nki_lang.execute.checks.report import Finding
from nki_lang.execute.checks.shadow import Shadow
from nki_lang.execute.memory import twin
from nki_lang.ir.types import Access, Instruction, Tensor
from nki_lang.memory import MemoryRegion
from nki_lang.source import SourceLocation

__all__ = ["OverlapCheck"]

_CELL = 1024
"""Tensors are looked up by the pieces of a partition, of so many bytes, that they lie in."""

_WORD = 4
"""Owners are kept for words of so many bytes, until tensors of smaller elements come."""


@dataclass(slots=True, eq=False)
class _Placed:
    """A tensor at an address.

    Attributes:
        number: its owner's mark.
        place: how many tensors of its memory were written before it.
        reach: first and last partition, first and last byte.
        writes: what was written through it.
        disturbed: something was written since through another tensor that overlaps it.
        seen: how many tensors of its memory its last write found, and disturbed as far as they meet.
        alive: the tensor, while the kernel can reach it.
    """

    name: str
    number: int
    place: int
    reach: tuple[int, int, int, int]
    writes: list[Access] = field(default_factory=list[Access])
    disturbed: bool = False
    seen: int = 0
    alive: weakref.ref[Tensor] | None = None

    @property
    def cells(self) -> range:
        """The pieces of a partition that it lies in."""
        return range(self.reach[2] // _CELL, self.reach[3] // _CELL + 1)


class OverlapCheck(Check):
    """Finds reads of bytes that another tensor at the same address overwrote.

    Every write through a tensor makes it the owner of those bytes. Reading through a tensor
    bytes that it once owned and another owns now is a finding, once for each pair of lines. Owners are looked up
    only for tensors that another one disturbed; until then writes are just listed. A write looks at
    the tensors that came since the last one through its own, and at none that is disturbed already.
    """

    name = "overlap"

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
        """Some tensor lies at an address."""
        for value in instruction.operands.values():
            if type(value) is Access:
                if value.tensor.address is not None:
                    return True
            elif type(value) is tuple:
                return True
        return False

    def before(self, step: Step) -> None:
        """Look at who owns what is read."""
        for name, access in step.reads:
            if _is_placed(access):
                placed = self._placed.get(access.tensor.name)
                if placed is not None and placed.disturbed:
                    self._look(step.instruction, name, access, placed)

    def after(self, step: Step) -> None:
        """List what was written, and who is disturbed."""
        for _, access in step.writes:
            if not _is_placed(access):
                continue
            placed = self._placed.get(access.tensor.name) or self._place(access.tensor)
            written = self._fixed(access)
            placed.writes.append(written)
            self._disturb(placed, access.tensor.buffer)
            self._writes.append((placed.number, written, step.instruction.location))

    def _fixed(self, access: Access) -> Access:
        """The access with its register's value of now, and without keeping the tensor alive."""
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
        made = _Placed(tensor.name, len(self._names), len(before), reach)
        before.append(made)
        self._names.append(tensor.name)
        cells = self._calm.setdefault(tensor.buffer, {})
        for cell in made.cells:
            cells.setdefault(cell, {})[made.number] = made
        buffer = tensor.buffer
        made.alive = weakref.ref(tensor, lambda _: self._remove(made, buffer))
        self._placed[tensor.name] = made
        return made

    def _disturb(self, placed: _Placed, buffer: MemoryRegion) -> None:
        """Something is written through a tensor: those it meets that came since are disturbed."""
        count = len(self._all[buffer])
        if placed.seen == count:
            return
        for other in self._since(placed, buffer):
            if other is not placed and not other.disturbed and _meet(placed.reach, other.reach):
                other.disturbed = True
                self._remove(other, buffer)
        placed.seen = count

    def _since(self, placed: _Placed, buffer: MemoryRegion) -> list[_Placed]:
        """Tensors that came since the last write through this one, all that it may meet among them."""
        everything = self._all[buffer]
        if len(everything) - placed.seen <= len(placed.cells):
            return everything[placed.seen :]
        cells, found = self._calm[buffer], list[_Placed]()
        for cell in placed.cells:
            for other in reversed(cells.get(cell, {}).values()):
                if other.place < placed.seen:
                    break
                found.append(other)
        return found

    def _remove(self, placed: _Placed, buffer: MemoryRegion) -> None:
        """Find the tensor no more: it is disturbed, or the kernel cannot reach and read it."""
        cells = self._calm[buffer]
        for cell in placed.cells:
            cells.get(cell, {}).pop(placed.number, None)

    def _shadow(self, access: Access) -> Shadow:
        """The owners of the memory that the access lies in, brought up to date."""
        for number, written, location in self._writes[self._entered :]:
            self._owners_of(written).set(self.memory.layout(written), number)
            self._written_at[number] = location
        self._entered = len(self._writes)
        return self._owners_of(access)

    def _owners_of(self, access: Access) -> Shadow:
        found = self._owners.get(access.tensor.buffer)
        if found is None:
            size = self.memory.storage(access.tensor).data.size
            found = self._owners[access.tensor.buffer] = Shadow(size, _WORD)
        return found

    def _own(self, placed: _Placed, access: Access) -> Array:
        """Which elements of the access were ever written through its own tensor."""
        buffer = access.tensor.buffer
        scratch = self._scratch.get(buffer)
        if scratch is None:
            scratch = self._scratch[buffer] = Shadow(self._owners[buffer].size, _WORD)
        self._marker += 1
        for written in placed.writes:
            scratch.set(self.memory.layout(written), self._marker)
        return scratch.get(self.memory.layout(access)) == self._marker

    def _look(
        self, instruction: Instruction, operand: str, access: Access, placed: _Placed
    ) -> None:
        shadow, layout = self._shadow(access), self.memory.layout(access)
        if shadow.holds(layout, placed.number):
            return
        owners = shadow.get(layout)
        foreign = (owners != placed.number) & (owners != 0)
        if foreign.any():
            foreign &= self._own(placed, access)
        if not foreign.any():
            return
        index = tuple(int(i) for i in np.unravel_index(int(np.argmax(foreign)), foreign.shape))
        number = int(owners[index])
        key = (instruction.location, access.tensor.name, number)
        if key in self._findings:
            return
        place = ", ".join(str(part) for part in index)
        other = self._names[number]
        self._findings[key] = Finding(
            self.name,
            "NKI-OVERLAP",
            f"{instruction.op} reads element [{place}] of {operand}, tensor "
            f"{access.tensor.name!r} at {access.tensor.address}, but what is there was written "
            f"through {other!r} at an overlapping address, at {self._written_at[number]}",
            instruction.location,
            "move one of the two tensors, or finish with one before the other is written",
            {"tensor": access.tensor.name, "overwritten_by": other, "index": list(index)},
        )

    def finish(self) -> list[Finding]:
        """In program order."""
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
