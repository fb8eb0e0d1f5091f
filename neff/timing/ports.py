"""Ports to memories that two engines share: while one engine's elements pass, the other waits.

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
"""Bytes of a bank in one partition; the same on each target."""


def memories_of(instruction: Instruction) -> tuple[str, ...]:
    """Return the memories and PSUM banks that an instruction reads and writes, sorted by name."""
    memories: set[str] = set()
    for value in instruction.operands.values():
        if type(value) is not Access:
            continue
        if value.tensor.buffer is MemoryRegion.sbuf:
            memories.add(SBUF)
        elif value.tensor.buffer is MemoryRegion.psum:
            memories |= {PSUM, *(f"{PSUM}.{bank}" for bank in _banks(value))}
    return tuple(sorted(memories))


def _banks(access: Access) -> Iterable[int]:
    """Return the PSUM banks between an access's first and last byte; none without an address."""
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
    """Return the ports that work keeps from another engine, each with its nanoseconds.

    Args:
        numbers: one for each parameter.
        work: with its engine and memories.
        moving: nanoseconds in which its elements pass.
    """
    ports: list[tuple[str, float]] = []
    for memory in work.memories:
        memory_name, _, bank = memory.partition(".")
        times = numbers[f"{memory_name}.{'bank' if bank else 'port'}_times"]
        if times and memory_name in _SHARING.get(work.engine, ()):
            ports.append((memory, times * moving))
    return tuple(ports)
