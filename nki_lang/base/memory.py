"""The memories that can contain a tensor."""

from __future__ import annotations

from enum import Enum

__all__ = ["HBM", "ON_CHIP", "MemoryRegion"]


class MemoryRegion(Enum):
    """Memory regions of a NeuronCore (nki.language stub: ``MemoryRegion``)."""

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"

    def __str__(self) -> str:
        return self.value


ON_CHIP = frozenset({MemoryRegion.sbuf, MemoryRegion.psum})
HBM = frozenset({MemoryRegion.private_hbm, MemoryRegion.shared_hbm})
