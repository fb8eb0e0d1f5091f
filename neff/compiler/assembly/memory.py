"""Where tensors live: SBUF and PSUM of a core, and the scratch area in HBM.

On chip, a tensor takes a range of bytes from its first to its last use, in every partition as
long as that fits, else in its own quadrants (:mod:`neff.compiler.assembly.packing`). The bytes of a tensor
that died are not handed out again at once but only after a while, so that the next tile can be
loaded while the last one is still being worked on. Addresses that the user gave are kept; nothing
else is put there while that kernel runs.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from neff.compiler.assembly.budget import ALIGNMENT, Budget, DoesNotFitError
from neff.compiler.assembly.live_ranges import LiveRange, live_ranges
from neff.compiler.assembly.packing import QUADRANT, pack, quadrants_of
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.targets import Target
from nki_lang.ir import Block, KernelIR, Tensor

__all__ = ["Arena", "ChipMemory", "require_room"]

_RESTING_SHARE = 3
"""One part in this many of a memory may hold dead tensors that are not handed out yet."""


@dataclass(slots=True)
class Arena:
    """Free ranges of one memory.

    Attributes:
        size: bytes.
        page: an allocation of at most one page does not cross the edge of one (PSUM banks);
            0 for none.
        resting: bytes of dead tensors that may wait before they are handed out again.
    """

    size: int
    page: int = 0
    resting: int = 0
    _free: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    _rest: deque[tuple[int, int]] = field(default_factory=deque[tuple[int, int]])
    _rest_bytes: int = 0

    def __post_init__(self) -> None:
        self._free = [(0, self.size)]

    def take(self, count: int, whole_pages: bool = False) -> tuple[int, int] | None:
        """A range (begin, end) of at least ``count`` bytes, or None when there is none."""
        amount = _aligned(max(count, 1))
        if whole_pages and self.page:
            amount = -(-amount // self.page) * self.page
        extent = self._first_fit(amount)
        if extent is None and self._rest:
            self.settle()
            extent = self._first_fit(amount)
        return extent

    def give(self, extent: tuple[int, int]) -> None:
        """Give a range back; it rests first."""
        self._rest.append(extent)
        self._rest_bytes += extent[1] - extent[0]
        while self._rest_bytes > self.resting:
            self.release(*self._wake())

    def settle(self) -> None:
        """End the rest of everything that was given back."""
        while self._rest:
            self.release(*self._wake())

    def reserve(self, begin: int, end: int) -> None:
        """Take exactly this range out of what is free, as far as it is free."""
        free_ranges: list[tuple[int, int]] = []
        for low, high in self._free:
            if high <= begin or end <= low:
                free_ranges.append((low, high))
                continue
            if low < begin:
                free_ranges.append((low, begin))
            if end < high:
                free_ranges.append((end, high))
        self._free = free_ranges

    def _wake(self) -> tuple[int, int]:
        extent = self._rest.popleft()
        self._rest_bytes -= extent[1] - extent[0]
        return extent

    def _first_fit(self, count: int) -> tuple[int, int] | None:
        for position, (low, high) in enumerate(self._free):
            begin = self._start(low, count)
            if begin + count > high:
                continue
            pieces = [(low, begin), (begin + count, high)]
            self._free[position : position + 1] = [piece for piece in pieces if piece[0] < piece[1]]
            return begin, begin + count
        return None

    def _start(self, low: int, count: int) -> int:
        begin = _aligned(low)
        page = self.page
        if not page or count <= page - begin % page:
            return begin
        return -(-begin // page) * page

    def release(self, begin: int, end: int) -> None:
        """Give bytes back; they join the free runs beside them."""
        position = bisect_left(self._free, (begin, end))
        if position < len(self._free) and self._free[position][0] == end:
            end = self._free.pop(position)[1]
        if position and self._free[position - 1][1] == begin:
            begin = self._free.pop(position - 1)[0]
        insort(self._free, (begin, end))


def _aligned(value: int) -> int:
    return -(-value // ALIGNMENT) * ALIGNMENT


class ChipMemory:
    """SBUF and PSUM of one core, handed out kernel by kernel."""

    def __init__(self, target: Target) -> None:
        self._target = target
        budget = Budget(target)
        usable, psum = map(budget.capacity, (MemoryRegion.sbuf, MemoryRegion.psum))
        self._sizes = {MemoryRegion.sbuf: usable, MemoryRegion.psum: psum}
        self._arenas = {
            MemoryRegion.sbuf: Arena(usable, 0, usable // _RESTING_SHARE),
            MemoryRegion.psum: Arena(psum, target.psum_bank_bytes, psum // 2),
        }
        self.peak = {MemoryRegion.sbuf: 0, MemoryRegion.psum: 0}

    def plan(self, body: Block, prefix: str) -> dict[str, Tensor]:
        """Place every on-chip tensor of a kernel's body.

        Args:
            body: the statements.
            prefix: put in front of the tensors' names.

        Returns:
            The placed tensor by its name in the kernel.

        Raises:
            DoesNotFitError: ``NEFF-SBUF`` or ``NEFF-PSUM``; it does not fit. The message has
                the size requested, the size available, and the holders at that point.
        """
        ranges = live_ranges(body)
        placed = {
            name: replace(live.tensor, name=prefix + name)
            for name, live in ranges.items()
            if live.tensor.address is not None
        }
        for region in self._arenas:
            region_ranges = [live for live in ranges.values() if live.tensor.buffer is region]
            self._plan_region(region, body, region_ranges, prefix, placed)
        return placed

    def _plan_region(
        self,
        region: MemoryRegion,
        body: Block,
        ranges: list[LiveRange],
        prefix: str,
        placed: dict[str, Tensor],
    ) -> None:
        arena = self._arenas[region]
        fixed_tensors = [live.tensor for live in ranges if live.tensor.address is not None]
        fixed = _ranges(fixed_tensors)
        if fixed:
            arena.settle()
            for begin, end in fixed:
                arena.reserve(begin, end)
        moving = sorted(
            (live for live in ranges if live.tensor.address is None), key=lambda live: live.first
        )
        addresses = self._place_all(region, moving, True) if arena.page else None
        if addresses is None:
            addresses = self._place_all(region, moving, False)
        if addresses is None:
            addresses = self._packed(region, body, moving, fixed_tensors)
        for begin, end in fixed:
            arena.release(begin, min(end, self._sizes[region]))
        for live in moving:
            name = live.tensor.name
            placed[name] = replace(live.tensor, name=prefix + name, address=addresses[name])
            top = addresses[name][1] + _aligned(max(live.tensor.free_bytes, 1))
            self.peak[region] = max(self.peak[region], top)

    def _place_all(
        self, region: MemoryRegion, moving: list[LiveRange], whole_pages: bool
    ) -> dict[str, tuple[int, int]] | None:
        """Addresses in the order of first use, each tensor's bytes in all partitions; in PSUM
        each in a bank of its own if ``whole_pages``. None when that does not work out."""
        arena = self._arenas[region]
        live_extents: dict[str, tuple[int, int]] = {}
        addresses: dict[str, tuple[int, int]] = {}
        ends = sorted(moving, key=lambda live: live.last)
        dying = 0
        for live in moving:
            while ends[dying].last < live.first:
                arena.give(live_extents.pop(ends[dying].tensor.name))
                dying += 1
            extent = arena.take(live.tensor.free_bytes, whole_pages)
            if extent is None:
                break
            live_extents[live.tensor.name] = extent
            addresses[live.tensor.name] = 0, extent[0]
        for extent in live_extents.values():
            arena.give(extent)
        return addresses if len(addresses) == len(moving) else None

    def _packed(
        self, region: MemoryRegion, body: Block, moving: list[LiveRange], fixed: list[Tensor]
    ) -> dict[str, tuple[int, int]]:
        """Addresses with small tiles side by side in the quadrants.

        Raises:
            DoesNotFitError: it does not fit that way either.
        """
        arena, size = self._arenas[region], self._sizes[region]
        addresses, missing = pack(
            body, moving, fixed, size=size, page=arena.page, alignment=ALIGNMENT
        )
        arena.settle()
        if missing is not None:
            # Without bytes that rest the order of first use may succeed, as on an empty chip.
            in_order = self._place_all(region, moving, False)
            if in_order is None:
                raise _does_not_fit(region, missing, moving, fixed, size)
            return in_order
        return addresses


def require_room(kernel: KernelIR, target: Target) -> None:
    """Place a kernel on an empty chip.

    A kernel that passes can be placed behind any other kernel: placement falls back to that of an
    empty chip.

    Raises:
        DoesNotFitError: ``NEFF-SBUF`` or ``NEFF-PSUM``; its tiles exceed a memory.
    """
    for body in kernel.bodies:
        ChipMemory(target).plan(body, "")


def _ranges(tensors: list[Tensor]) -> list[tuple[int, int]]:
    """The bytes that tensors with a fixed address take, as ranges apart from each other."""
    merged: list[tuple[int, int]] = []
    for tensor in sorted(tensors, key=lambda tensor: (tensor.address or (0, 0))[1]):
        begin = (tensor.address or (0, 0))[1]
        end = begin + tensor.free_bytes
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def _does_not_fit(
    region: MemoryRegion,
    missing: LiveRange,
    moving: list[LiveRange],
    fixed: list[Tensor],
    size: int,
) -> DoesNotFitError:
    """The error at the first tensor that is too much, or at the one that found no gap."""
    live, total = _first_excess(moving, fixed, size) or (missing, 0)
    holders = [
        live_range
        for live_range in moving
        if live_range is not live and live_range.first <= live.first <= live_range.last
    ]  # fmt: skip
    total = total or sum(map(_area, [live.tensor, *fixed, *(holder.tensor for holder in holders)]))
    holders.sort(key=lambda holder: -_area(holder.tensor))
    lines = [f"{_share(holder.tensor)} {holder.where}".rstrip() for holder in holders[:8]]
    if len(holders) > 8:
        remaining_bytes = sum(_area(holder.tensor) for holder in holders[8:])
        lines.append(f"{_share_of(remaining_bytes)}: {len(holders) - 8} more tensors")
    lines += [f"{_share(tensor)}, at the address that the kernel set" for tensor in fixed[:8]]
    tensor = live.tensor
    free = max(0, _WIDTH * size - (total - _area(tensor))) // _WIDTH
    return DoesNotFitError(
        f"tensor {tensor.name} {list(tensor.shape)} {tensor.dtype} needs {tensor.free_bytes} bytes "
        f"in each of its partitions of {region}; of {size} bytes of all {QUADRANT * _WIDTH} "
        f"partitions {free} are free, in pieces that may be smaller. Held at this point:\n    "
        + "\n    ".join(lines or ["nothing"]),
        code=f"NEFF-{region.value.upper()}",
        place=live.where,
        remedy="use smaller tiles, or tensors with shorter lifetimes",
    )


_WIDTH = 4
"""Quadrants of a memory."""


def _first_excess(
    moving: list[LiveRange], fixed: list[Tensor], size: int
) -> tuple[LiveRange, int] | None:
    """The first tensor with which more is held than there is, and how much that is."""
    live_bytes = sum(map(_area, fixed))
    ends: list[tuple[int, int]] = []
    for live in moving:
        while ends and ends[0][0] < live.first:
            live_bytes -= heappop(ends)[1]
        live_bytes += _area(live.tensor)
        heappush(ends, (live.last, _area(live.tensor)))
        if live_bytes > _WIDTH * size:
            return live, live_bytes
    return None


def _area(tensor: Tensor) -> int:
    """Bytes of a quadrant's partition times quadrants."""
    return quadrants_of(tensor) * _aligned(tensor.free_bytes)


def _share_of(area: int) -> str:
    return f"{-(-area // _WIDTH)} bytes of all partitions"


def _share(tensor: Tensor) -> str:
    lanes = tensor.shape[0] if tensor.shape else 1
    return (
        f"{tensor.free_bytes} bytes of {lanes} partitions: {tensor.name} {list(tensor.shape)} "
        f"{tensor.dtype}"
    )
