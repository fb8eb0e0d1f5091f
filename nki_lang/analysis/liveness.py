"""Lets tensors whose lifetimes do not overlap share memory.

A traced kernel names a new tensor for every tile of every iteration of a static loop; separate
storage would take far more memory than the kernel's arrays. A tensor without an address is live
from the first top-level statement that uses it to the last.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.base.memory import MemoryRegion
from nki_lang.ir.types import Access, Block, Instruction, Tensor, walk
from nki_lang.semantics import TRAITS

__all__ = ["Slots", "accesses_in", "accesses_of", "assign_slots", "reachable", "written_by"]


class LendableMemory(Protocol):
    """A memory whose tensors may use storage that the caller owns (``execute.Memory``)."""

    def lend(self, tensor: Tensor, data: Array) -> None:
        """Give a tensor these bytes (flat uint8) as its storage."""
        ...

    def bytes_of(self, tensor: Tensor) -> int:
        """Return the number of bytes of the tensor as it is stored there."""
        ...


@dataclass(frozen=True, slots=True)
class Slots:
    """The memory slot of each tensor, and the size of each slot in bytes."""

    of: tuple[tuple[Tensor, int], ...]
    sizes: tuple[int, ...]

    def lend(self, memory: LendableMemory) -> None:
        """Allocate the slots and use them as storage of the tensors."""
        slots = [np.zeros(size, np.uint8) for size in self.sizes]
        for tensor, slot in self.of:
            memory.lend(tensor, slots[slot][: memory.bytes_of(tensor)])


def accesses_of(instruction: Instruction) -> Iterator[Access]:
    """Yield every access of an instruction, including dynamic offsets."""
    for value in instruction.operands.values():
        yield from accesses_in(value)


def written_by(instruction: Instruction) -> Iterator[Access]:
    """Yield the accesses that an instruction writes through."""
    traits = TRAITS.get(instruction.op)
    for name in traits.writes if traits else ("dst",):
        yield from _tensors(instruction.operands.get(name))


def _tensors(value: Any) -> Iterator[Access]:
    if type(value) is Access:
        yield value
    elif type(value) is tuple or type(value) is list:
        for entry in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _tensors(entry)


def accesses_in(value: Any) -> Iterator[Access]:
    """Yield every access in an operand, including dynamic offsets."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is Access:
        yield value
        if value.is_dynamic:
            yield from accesses_in(value.scalar_offset)
            yield from accesses_in(value.vector_offset)
    elif kind is tuple or kind is list:
        for entry in value:
            yield from accesses_in(entry)


def assign_slots(body: Block, bound: Container[str] = ()) -> Slots:
    """Assign a slot to every tensor without an address that only this core uses.

    Args:
        body: statements of the core.
        bound: names of tensors whose memory the caller passes: arguments, constants, results.
    """
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    tensors: dict[str, Tensor] = {}
    # A loop is one point of time: an iteration may read what the previous one wrote.
    for time, statement in enumerate(body):
        for instruction in walk([statement]):
            for access in accesses_of(instruction):
                name = access.tensor.name
                first.setdefault(name, time)
                last[name] = time
                tensors[name] = access.tensor
    private = [t for t in tensors.values() if _is_private(t) and t.name not in bound]
    sizes: list[int] = []
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    placed: list[tuple[Tensor, int]] = []
    for tensor in sorted(private, key=lambda entry: first[entry.name]):
        start = first[tensor.name]
        # Strictly before: a tensor that dies in the statement where another one starts is an operand
        # of that statement, so the two must not share memory.
        ended = [entry for entry in busy if entry[0] < start]
        busy = [entry for entry in busy if entry[0] >= start]
        free.extend(slot for _, slot in ended)
        # At least four bytes per element: Memory may store smaller types as float32.
        slot = _take(free, sizes, tensor.elements * max(4, tensor.dtype.itemsize))
        busy.append((last[tensor.name], slot))
        placed.append((tensor, slot))
    return Slots(tuple(placed), tuple(sizes))


def _is_private(tensor: Tensor) -> bool:
    return tensor.address is None and tensor.buffer is not MemoryRegion.shared_hbm


def _take(free: list[int], sizes: list[int], size: int) -> int:
    """Return the smallest free slot that is large enough, else the largest one after growing it,
    else a new one.
    """
    fitting = [slot for slot in free if sizes[slot] >= size]
    if fitting:
        slot = min(fitting, key=lambda entry: (sizes[entry], entry))
    elif free:
        slot = max(free, key=lambda entry: (sizes[entry], entry))
        sizes[slot] = size
    else:
        sizes.append(size)
        return len(sizes) - 1
    free.remove(slot)
    return slot


def reachable(names: Iterable[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    """Return the names and all names that edges lead to from them, transitively."""
    reached: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            pending.extend(edges.get(name, ()))
    return reached
