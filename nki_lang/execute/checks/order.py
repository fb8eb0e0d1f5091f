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

from nki_lang.execute.checks.base import Step
from nki_lang.frontend.builder import active
from nki_lang.ir.types import NoReorder, Tensor
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
    for key, count in second.items():
        if first.get(key, 0) < count:
            break
    else:
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
        self._keys: dict[str, tuple[str, ...]] = {}
        self._touched: tuple[list[str], list[str]] = [], []
        self.regions: tuple[int, ...] | None = None

    def before(self, step: Step) -> Clock:
        """What has happened before an instruction starts."""
        known: Clock = {}
        sources, targets = self._touched = self._keys_of(step)
        written, read = self._written, self._read
        for clocks, keys in (written, sources), (written, targets), (read, targets):
            for key in keys:
                clock = clocks.get(key)
                if clock and clock is not known:
                    known = join(known, clock)
        return known

    def after(self, known: Clock) -> None:
        """Let what follows the instruction of the last :meth:`before` know what it knew and did."""
        sources, targets = self._touched
        for key in sources:
            before = self._read.get(key)
            self._read[key] = join(before, known) if before else known
        for key in targets:
            self._written[key] = known
            self._read.pop(key, None)

    def _keys_of(self, step: Step) -> tuple[list[str], list[str]]:
        """What the instruction reads, and what it writes."""
        sources: list[str] = []
        targets: list[str] = []
        instruction = step.instruction
        if step.registers:
            raw = TRAITS[instruction.op].raw
            for name, register in step.registers:
                keys = targets if raw and name == "dst" else sources
                keys.append(f"register {register.name}")
        for keys, accesses in (sources, step.reads), (targets, step.writes):
            for _, access in accesses:
                tensor = access.tensor
                if tensor.address is None:
                    keys.append(tensor.name)
                else:
                    keys += self._names(tensor)
        if instruction.op == "core_barrier":  # it waits for the data and makes it new
            targets += self._names(instruction.operands["data"].tensor)
        for region in self._open_regions():
            targets.append(f"no_reorder {region}")
        return sources, targets

    def _open_regions(self) -> Iterable[int]:
        if self.regions is not None:
            return self.regions
        builder = active()
        opened = builder.open if builder is not None else ()
        return [id(region) for region, _ in opened if type(region) is NoReorder]

    def _names(self, tensor: Tensor) -> tuple[str, ...]:
        if tensor.address is None:
            return (tensor.name,)
        found = self._keys.get(tensor.name)
        if found is None:
            begin = tensor.address[1]
            buckets = range(
                begin // _BUCKET, (begin + max(1, tensor.free_bytes) - 1) // _BUCKET + 1
            )
            buffer = tensor.buffer.value
            found = tuple(f"{buffer} {bucket}" for bucket in buckets)
            self._keys[tensor.name] = found
        return found
