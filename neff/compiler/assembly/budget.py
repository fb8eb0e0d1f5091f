"""The budget of SBUF and PSUM: planner and allocator ask the same object how much a kernel may hold."""

from __future__ import annotations

from dataclasses import dataclass

from neff.errors import NeffCompileError
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.targets import Target

__all__ = ["ALIGNMENT", "Budget", "DoesNotFitError"]

ALIGNMENT = 64
"""Bytes. Addresses on chip and in scratch are multiples of it (our choice: a cache line of the
machine that simulates; the documented minimum is lower)."""


class DoesNotFitError(NeffCompileError):
    """The tiles of a kernel exceed SBUF or PSUM: a smaller form of the kernel may fit."""

    default_code = "NEFF-SBUF"


@dataclass(frozen=True, slots=True)
class Budget:
    """The memories on chip of a target.

    Attributes:
        target: family.
    """

    target: Target

    def capacity(self, region: MemoryRegion) -> int:
        """Return the bytes of each partition that kernels may use."""
        if region is MemoryRegion.psum:
            return self.target.psum_partition_bytes
        return self.target.sbuf_usable_bytes // ALIGNMENT * ALIGNMENT

    def working_bytes(self, resident: int = 0) -> int:
        """Return the bytes of each partition of SBUF that tiles in flight may take.

        A third of what is free stays empty: loads run ahead of the computation, and gaps between
        tiles are lost.

        Args:
            resident: bytes of each partition that stay in use.
        """
        return (self.target.sbuf_usable_bytes - resident) * 2 // 3
