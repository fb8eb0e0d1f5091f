"""Memory on chip for tiles in a new order: which dead tiles' bytes each tile takes.

Bytes of a tile that died are handed out again as late as possible, as the compiler's memory planner does
(:mod:`neff.compiler.assembly.memory`). Addresses are not needed for a time, so fragments do not
count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from typing import NamedTuple

from neff.compiler.assembly.budget import ALIGNMENT, Budget
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.targets import Target
from nki_lang.ir import Tensor

__all__ = ["Life", "reused_bytes", "room_of"]

_REGIONS = (MemoryRegion.sbuf, MemoryRegion.psum)


class Life(NamedTuple):
    """A tile from its first to its last instruction, by their places in the order."""

    tensor: Tensor
    first: int
    last: int


def room_of(target: Target, resident: Iterable[Tensor]) -> dict[MemoryRegion, int]:
    """Return the bytes of a partition that are left beside tensors that always live."""
    budget = Budget(target)
    room = {region: budget.capacity(region) for region in _REGIONS}
    for tensor in resident:
        room[tensor.buffer] -= _aligned(tensor.free_bytes, ALIGNMENT)
    return room


def reused_bytes(
    lives: Iterable[Life], room: Mapping[MemoryRegion, int], target: Target
) -> list[tuple[Life, Life]] | None:
    """Return each tile with every dead tile whose bytes it takes; None if the tiles do not fit.

    In PSUM each tile has whole banks as long as there are enough.
    """
    by_region: dict[MemoryRegion, list[Life]] = {region: [] for region in _REGIONS}
    for life in lives:
        by_region[life.tensor.buffer].append(life)
    pairs: list[tuple[Life, Life]] = []
    for region, tiles in by_region.items():
        units = (target.psum_bank_bytes, ALIGNMENT) if region is MemoryRegion.psum else (ALIGNMENT,)
        for unit in units:
            reused = _reused(sorted(tiles, key=lambda life: life.first), room[region], unit)
            if reused is not None:
                break
        else:
            return None
        pairs += reused
    return pairs


def _reused(tiles: list[Life], free: int, unit: int) -> list[tuple[Life, Life]] | None:
    """Hand out bytes in the order of first use."""
    pairs: list[tuple[Life, Life]] = []
    living: list[tuple[int, int]] = []
    dead: deque[tuple[int, Life]] = deque()
    for number, life in enumerate(tiles):
        while living and living[0][0] < life.first:
            gone = tiles[heappop(living)[1]]
            dead.append((_aligned(gone.tensor.free_bytes, unit), gone))
        needed = _aligned(life.tensor.free_bytes, unit)
        fresh = min(free, needed)
        free, needed = free - fresh, needed - fresh
        while needed > 0:
            if not dead:
                return None
            nbytes, gone = dead.popleft()
            pairs.append((life, gone))
            if nbytes > needed:
                dead.appendleft((nbytes - needed, gone))
            needed -= nbytes
        heappush(living, (life.last, number))
    return pairs


def _aligned(nbytes: int, unit: int) -> int:
    return -(-max(nbytes, 1) // unit) * unit
