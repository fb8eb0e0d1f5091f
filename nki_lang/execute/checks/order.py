"""What one core may count on having happened before each of its instructions.

The order that the language promises inside one core: two instructions that touch the same tensor,
one of them writing, keep their order (language guide, sequential programming model), as do
tensors on chip whose addresses overlap, instructions of one ``nl.no_reorder`` block, and those
that share a register. Everything else may be reordered, so knowledge travels along these edges
only and not from one line to the next.

A tensor is one thing here: two accesses to different parts of it count as ordered. That can hide
a race, it never invents one.
"""

from __future__ import annotations

from collections.abc import Iterable

from nki_lang.execute.checks.base import reads_of, writes_of
from nki_lang.frontend.builder import active
from nki_lang.ir.types import Access, Instruction, NoReorder, Register, Tensor
from nki_lang.semantics import TRAITS

__all__ = ["Clock", "Order", "join"]

Clock = dict[tuple[int, str], int]
"""How many touches of a tensor by a core have certainly happened; never changed once made."""

_BUCKET = 2048
"""Placed tensors that reach into the same stretch of so many bytes count as overlapping."""


def join(first: Clock, second: Clock) -> Clock:
    """What is known to one or the other."""
    if first is second or not second:
        return first
    if not first:
        return second
    if all(first.get(key, 0) >= count for key, count in second.items()):
        return first
    merged = dict(first)
    for key, count in second.items():
        if merged.get(key, 0) < count:
            merged[key] = count
    return merged


class Order:
    """The clocks of one core, by what its instructions touch.

    Attributes:
        regions: which ``no_reorder`` blocks the instruction is in; None reads the builder.
    """

    def __init__(self) -> None:
        self._written: dict[str, Clock] = {}
        self._read: dict[str, Clock] = {}
        self._keys: dict[Tensor, tuple[str, ...]] = {}
        self._touched: tuple[list[str], list[str]] = [], []
        self.regions: tuple[int, ...] | None = None

    def before(self, instruction: Instruction) -> Clock:
        """What has happened before an instruction starts."""
        known: Clock = {}
        sources, targets = list(self._sources(instruction)), list(self._targets(instruction))
        for key in (*sources, *targets):
            known = join(known, self._written.get(key, {}))
        for key in targets:
            known = join(known, self._read.get(key, {}))
        self._touched = sources, targets
        return known

    def after(self, known: Clock) -> None:
        """Let what follows the instruction of the last :meth:`before` know what it knew and did."""
        sources, targets = self._touched
        for key in sources:
            self._read[key] = join(self._read.get(key, {}), known)
        for key in targets:
            self._written[key] = known
            self._read.pop(key, None)

    def _sources(self, instruction: Instruction) -> Iterable[str]:
        for _, access in reads_of(instruction):
            yield from self._names(access)
        yield from _registers(instruction, written=False)

    def _targets(self, instruction: Instruction) -> Iterable[str]:
        for _, access in writes_of(instruction):
            yield from self._names(access)
        if instruction.op == "core_barrier":  # it waits for the data and makes it new
            yield from self._names(instruction.operands["data"])
        yield from _registers(instruction, written=True)
        yield from (f"no_reorder {region}" for region in self._open_regions())

    def _open_regions(self) -> Iterable[int]:
        if self.regions is not None:
            return self.regions
        builder = active()
        opened = builder.open if builder is not None else ()
        return [id(region) for region, _ in opened if type(region) is NoReorder]

    def _names(self, access: Access) -> tuple[str, ...]:
        tensor = access.tensor
        if tensor.address is None:
            return (tensor.name,)
        found = self._keys.get(tensor)
        if found is None:
            begin = tensor.address[1]
            buckets = range(
                begin // _BUCKET, (begin + max(1, tensor.free_bytes) - 1) // _BUCKET + 1
            )
            found = tuple(f"{tensor.buffer.value} {bucket}" for bucket in buckets)
            self._keys[tensor] = found
        return found


def _registers(instruction: Instruction, *, written: bool) -> Iterable[str]:
    raw = TRAITS[instruction.op].raw
    for name, value in instruction.operands.items():
        if type(value) is Register:
            if (raw and name == "dst") is written:
                yield f"register {value.name}"
        elif type(value) is Access and not written and type(value.scalar_offset) is Register:
            yield f"register {value.scalar_offset.name}"
