"""Estimates the work of each engine in a kernel so far, to choose between equivalent instructions.

The numbers are from the timing model for trn2 in float32; ``engines.py`` chooses between engines for
instructions that several engines have, after the kernel is traced.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Balance"]

_FIXED_CYCLES = {"scalar": 280.0, "vector": 62.0}
_CLOCK_GHZ = {"scalar": 1.2, "vector": 0.96}
"""Cycles that an instruction takes besides its elements, and GHz (neff.timing, trn2)."""

_TILES_NS, _TILES_GPSIMD_NS, _STEP_AND_TILE_NS = 1.8, 1.75, 2.1
"""Nanoseconds for each element: for two tiles on the vector engine and on GpSimd, and for a step
and a tile in one instruction.
"""

_STORE_NS = 600.0
"""Nanoseconds that GpSimd needs to start a transfer."""


@dataclass(slots=True)
class Balance:
    """Nanoseconds of work of each engine.

    Attributes:
        is_shared: GpSimd works at the same time as the vector engine; not on trn1, where both share a
            port.
    """

    is_shared: bool
    vector: float = 0.0
    scalar: float = 0.0
    gpsimd: float = 0.0

    def spend(self, engine: str, elements: int) -> None:
        """Record an instruction on one tile."""
        time = (_FIXED_CYCLES[engine] + elements) / _CLOCK_GHZ[engine]
        if engine == "scalar":
            self.scalar += time
        else:
            self.vector += time

    def spend_tiles(self, elements: int) -> None:
        """Record an operation on two tiles, on the engine that finishes first."""
        if self._gpsimd_is_first(elements):
            self.gpsimd += _TILES_GPSIMD_NS * elements
        else:
            self.vector += _TILES_NS * elements

    def spend_store(self) -> None:
        """Record the descriptors of a store."""
        self.gpsimd += _STORE_NS

    def is_free(self, elements: int) -> bool:
        """Return True if the scalar engine would finish before the vector engine."""
        scalar_end = self.scalar + (_FIXED_CYCLES["scalar"] + elements) / _CLOCK_GHZ["scalar"]
        return (
            scalar_end <= self.vector + (_FIXED_CYCLES["vector"] + elements) / _CLOCK_GHZ["vector"]
        )

    def spend_both(self, elements: int) -> None:
        """Record a step and an operation with a tile in one instruction."""
        self.vector += _STEP_AND_TILE_NS * elements

    def _gpsimd_is_first(self, elements: int) -> bool:
        if not self.is_shared:
            return False
        return self.gpsimd + _TILES_GPSIMD_NS * elements <= self.vector + _TILES_NS * elements
