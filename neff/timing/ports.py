"""Ports to memories that two engines share: while one's elements pass, the other one waits.

VectorE shares a port to SBUF with GpSimd on trn1 (A1:596-597), and one to PSUM with ScalarE: all of
it on trn1, on later generations only where both use the same bank (A2:266-273).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from neff.timing.work import Compute
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.targets import TARGETS
from nki_lang.ir import Access, Instruction

__all__ = ["PSUM", "SBUF", "held_ports", "memories_of"]

SBUF, PSUM = "sbuf", "psum"
"""Names of the memories; a bank of PSUM is ``psum.<number>``."""

_SHARING = {"vector": (SBUF, PSUM), "scalar": (PSUM,), "gpsimd": (SBUF,)}
_BANK_BYTES = TARGETS["trn2"].psum_bank_bytes
"""Of one partition; the same on each target."""


def memories_of(instruction: Instruction) -> tuple[str, ...]:
    """The memories, and banks of PSUM, that an instruction reads and writes, in order of names."""
    found: set[str] = set()
    for value in instruction.operands.values():
        if type(value) is not Access:
            continue
        if value.tensor.buffer is MemoryRegion.sbuf:
            found.add(SBUF)
        elif value.tensor.buffer is MemoryRegion.psum:
            found |= {PSUM, *(f"{PSUM}.{bank}" for bank in _banks(value))}
    return tuple(sorted(found))


def _banks(access: Access) -> Iterable[int]:
    """Banks of PSUM between an access's first and last byte; none when it has no place yet."""
    tensor, size = access.tensor, access.element_type.itemsize
    if tensor.address is None:
        return ()
    row = prod(tensor.shape[1:]) * tensor.dtype.itemsize
    low, high = 0, row
    if not access.is_dynamic:
        reaches = [(count - 1) * step * size for step, count in access.pattern[1:]]
        first = access.offset * size % row
        low = first + sum(reach for reach in reaches if reach < 0)
        high = first + sum(reach for reach in reaches if reach > 0) + size
    start = tensor.address[1]
    return range((start + low) // _BANK_BYTES, (start + high - 1) // _BANK_BYTES + 1)


def held_ports(
    numbers: Mapping[str, float], work: Compute, moving: float
) -> tuple[tuple[str, float], ...]:
    """The ports that work keeps from another engine, each with its nanoseconds.

    Args:
        numbers: one for each parameter.
        work: with its engine and memories.
        moving: nanoseconds in which its elements pass.
    """
    found: list[tuple[str, float]] = []
    for memory in work.memories:
        whole, _, bank = memory.partition(".")
        times = numbers[f"{whole}.{'bank' if bank else 'port'}_times"]
        if times and whole in _SHARING.get(work.engine, ()):
            found.append((memory, times * moving))
    return tuple(found)
