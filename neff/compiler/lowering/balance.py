"""What a kernel has put on each engine so far, to choose between ways to do the same.

The numbers are those of the timing model for trn2 in float32; ``engines.py`` makes the choice between
engines for what has several, after the kernel is traced.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Balance"]

_FIXED = {"scalar": 280.0, "vector": 62.0}
_CLOCK = {"scalar": 1.2, "vector": 0.96}
"""Cycles that an instruction takes besides its elements, and GHz (neff.timing, trn2)."""

_TILES, _TILES_GPSIMD, _BOTH = 1.8, 1.75, 2.1
"""Nanoseconds for each element: of two tiles, by the vector engine and by GpSimd; of a step and a
tile in one instruction."""

_STORE = 600.0
"""What GpSimd takes to start a transfer."""


@dataclass(slots=True)
class Balance:
    """Nanoseconds of work.

    Attributes:
        is_shared: GpSimd works beside the vector engine; not on trn1, where both share a port.
    """

    is_shared: bool
    vector: float = 0.0
    scalar: float = 0.0
    gpsimd: float = 0.0

    def spend(self, engine: str, elements: int) -> None:
        """An instruction on one tile."""
        spent = (_FIXED[engine] + elements) / _CLOCK[engine]
        if engine == "scalar":
            self.scalar += spent
        else:
            self.vector += spent

    def spend_tiles(self, elements: int) -> None:
        """An operation on two tiles, by whichever engine is done first."""
        if self._gpsimd_is_first(elements):
            self.gpsimd += _TILES_GPSIMD * elements
        else:
            self.vector += _TILES * elements

    def spend_store(self) -> None:
        """A store's descriptors."""
        self.gpsimd += _STORE

    def is_free(self, elements: int) -> bool:
        """True when the scalar engine would be done before the vector engine."""
        mine = self.scalar + (_FIXED["scalar"] + elements) / _CLOCK["scalar"]
        return mine <= self.vector + (_FIXED["vector"] + elements) / _CLOCK["vector"]

    def spend_both(self, elements: int) -> None:
        """A step and an operation with a tile in one instruction."""
        self.vector += _BOTH * elements

    def _gpsimd_is_first(self, elements: int) -> bool:
        if not self.is_shared:
            return False
        return self.gpsimd + _TILES_GPSIMD * elements <= self.vector + _TILES * elements
