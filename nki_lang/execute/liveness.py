"""Let tensors whose lifetimes do not meet share memory.

A traced kernel names a new tensor for every tile of every iteration of a static loop; kept apart they
would take far more memory than the kernel's arrays. Each tensor without an address lives from the
first top-level statement that names it to the last.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nki_lang.execute.memory import Memory
from nki_lang.ir.types import Access, Block, Instruction, Tensor, walk
from nki_lang.memory import MemoryRegion
from nki_lang.semantics import TRAITS

__all__ = ["Slots", "accesses_in", "accesses_of", "assign_slots", "written_by"]


@dataclass(frozen=True, slots=True)
class Slots:
    """Which slot each tensor lives in, and how many bytes each slot has."""

    of: tuple[tuple[Tensor, int], ...]
    sizes: tuple[int, ...]

    def lend(self, memory: Memory) -> None:
        """Give the memory fresh slots as storage of the tensors."""
        slots = [np.zeros(size, np.uint8) for size in self.sizes]
        for tensor, slot in self.of:
            memory.lend(tensor, slots[slot][: memory.bytes_of(tensor)])


def accesses_of(instruction: Instruction) -> Iterator[Access]:
    """Every access of an instruction, those of dynamic offsets included."""
    for value in instruction.operands.values():
        yield from accesses_in(value)


def written_by(instruction: Instruction) -> Iterator[Access]:
    """The accesses that an instruction writes through."""
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
    """Every access in an operand, those of dynamic offsets included."""
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
    """Place every unplaced tensor of a core that no other core sees.

    Args:
        body: statements of the core.
        bound: names of tensors whose memory the caller passes: arguments, constants, results.
    """
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    tensors: dict[str, Tensor] = {}
    # A loop is one point of time: what one iteration leaves in a tensor the next one may read.
    for time, statement in enumerate(body):
        for instruction in walk([statement]):
            for access in accesses_of(instruction):
                name = access.tensor.name
                first.setdefault(name, time)
                last[name] = time
                tensors[name] = access.tensor
    private = [t for t in tensors.values() if _own(t) and t.name not in bound]
    sizes: list[int] = []
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    placed: list[tuple[Tensor, int]] = []
    for tensor in sorted(private, key=lambda entry: first[entry.name]):
        start = first[tensor.name]
        # Strictly before: a tensor that ends in the statement where another begins is its operand.
        ended = [entry for entry in busy if entry[0] < start]
        busy = [entry for entry in busy if entry[0] >= start]
        free.extend(slot for _, slot in ended)
        # Four bytes an element at least: smaller types may be kept in float32, see Memory.
        slot = _take(free, sizes, tensor.elements * max(4, tensor.dtype.itemsize))
        busy.append((last[tensor.name], slot))
        placed.append((tensor, slot))
    return Slots(tuple(placed), tuple(sizes))


def _own(tensor: Tensor) -> bool:
    return tensor.address is None and tensor.buffer is not MemoryRegion.shared_hbm


def _take(free: list[int], sizes: list[int], wanted: int) -> int:
    """The smallest free slot that is large enough, or the largest one made larger, or a new one."""
    fitting = [slot for slot in free if sizes[slot] >= wanted]
    if fitting:
        slot = min(fitting, key=lambda entry: (sizes[entry], entry))
    elif free:
        slot = max(free, key=lambda entry: (sizes[entry], entry))
        sizes[slot] = wanted
    else:
        sizes.append(wanted)
        return len(sizes) - 1
    free.remove(slot)
    return slot
