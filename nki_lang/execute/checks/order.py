"""Happens-before clocks: what one core knows to have completed before each instruction.

The language promises this order inside one core: two instructions that touch the same tensor,
one of them writing, keep their order (language guide, sequential programming model). So do
tensors on chip whose addresses overlap, instructions of one ``nl.no_reorder`` block, and
instructions that share a register. The compiler may reorder everything else, so knowledge travels
along these edges only and not from one line to the next.

The clocks treat a tensor as one unit: two accesses to different elements of it count as ordered.
That can hide a race; it never reports a false one.
"""

from __future__ import annotations

from collections.abc import Iterable

from nki_lang.execute.checks.base import Step
from nki_lang.frontend.builder import active
from nki_lang.ir.types import NoReorder, Tensor
from nki_lang.semantics import TRAITS

__all__ = ["Clock", "Order", "join"]

Clock = dict[tuple[int, str], int]
"""Number of touches by (core, tensor) that have certainly happened; a clock is never modified."""

_BUCKET_BYTES = 2048
"""Tensors with addresses in the same bucket count as overlapping; smaller buckets cost more
keys.
"""


def join(first: Clock, second: Clock) -> Clock:
    """Return the maximum of both clocks, entry by entry."""
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
    """Clocks of one core, keyed by the tensors and registers that its instructions use.

    Attributes:
        regions: the ``no_reorder`` blocks around the instruction; None asks the builder.
    """

    def __init__(self) -> None:
        self._written: dict[str, Clock] = {}
        self._read: dict[str, Clock] = {}
        self._keys: dict[str, tuple[str, ...]] = {}
        self._touched: tuple[list[str], list[str]] = [], []
        self.regions: tuple[int, ...] | None = None

    def before(self, step: Step) -> Clock:
        """Return the clock of everything that happened before the instruction starts."""
        clock: Clock = {}
        sources, targets = self._touched = self._keys_of(step)
        written, read = self._written, self._read
        for clocks, keys in (written, sources), (written, targets), (read, targets):
            for key in keys:
                source_clock = clocks.get(key)
                if source_clock and source_clock is not clock:
                    clock = join(clock, source_clock)
        return clock

    def after(self, clock: Clock) -> None:
        """Pass the clock of the instruction of the last :meth:`before` to the instructions that
        depend on it.
        """
        sources, targets = self._touched
        for key in sources:
            before = self._read.get(key)
            self._read[key] = join(before, clock) if before else clock
        for key in targets:
            self._written[key] = clock
            self._read.pop(key, None)

    def _keys_of(self, step: Step) -> tuple[list[str], list[str]]:
        """Return the keys that the instruction reads and the keys that it writes."""
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
        keys = self._keys.get(tensor.name)
        if keys is None:
            begin = tensor.address[1]
            buckets = range(
                begin // _BUCKET_BYTES, (begin + max(1, tensor.free_bytes) - 1) // _BUCKET_BYTES + 1
            )
            buffer = tensor.buffer.value
            keys = tuple(f"{buffer} {bucket}" for bucket in buckets)
            self._keys[tensor.name] = keys
        return keys
