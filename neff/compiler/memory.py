"""Where tensors live: SBUF and PSUM of a core, and the scratch area in HBM.

On chip, a tensor takes a range of bytes in every partition from its first to its last use. The
bytes of a tensor that died are not handed out again at once but only after a while, so that the
next tile can be loaded while the last one is still being worked on. Addresses that the user gave
are kept; nothing else is put there while that kernel runs.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass, field, replace

from neff.compiler.regions import accesses_of
from neff.errors import NeffCompileError
from nki_lang.ir import Access, Block, ForLoop, Instruction, Tensor, WhileLoop
from nki_lang.memory import MemoryRegion
from nki_lang.targets import Target

__all__ = ["Arena", "ChipMemory", "Life", "lives_of"]

ALIGNMENT = 64
"""Bytes. Addresses on chip and in scratch are multiples of it (our choice: a cache line of the
machine that simulates; the documented minimum is lower)."""

_RESTING_SHARE = 3
"""One part in this many of a memory may hold dead tensors that are not handed out yet."""


@dataclass(slots=True)
class Life:
    """A tensor and the statements, numbered in program order, between which it is needed."""

    tensor: Tensor
    first: int
    last: int
    where: str = ""


def lives_of(body: Block) -> dict[str, Life]:
    """Every on-chip tensor of a body by name, in the order of first use.

    A tensor that a loop of the device touches is needed for the whole loop.
    """
    lives: dict[str, Life] = {}
    _collect(body, 0, lives, None)
    return lives


def _collect(body: Block, number: int, lives: dict[str, Life], loop: tuple[int, int] | None) -> int:
    for statement in body:
        if isinstance(statement, Instruction):
            for access, _ in accesses_of(statement):
                if type(access) is Access and access.tensor.on_chip:
                    _extend(lives, access.tensor, loop or (number, number), statement)
            number += 1
        elif isinstance(statement, ForLoop | WhileLoop) and loop is None:
            end = number + _length(statement.body)
            number = _collect(statement.body, number, lives, (number, end))
        else:
            number = _collect(statement.body, number, lives, loop)
    return number


def _length(body: Block) -> int:
    return sum(
        1 if isinstance(statement, Instruction) else _length(statement.body) for statement in body
    )


def _extend(lives: dict[str, Life], tensor: Tensor, span: tuple[int, int], at: Instruction) -> None:
    life = lives.get(tensor.name)
    if life is None:
        lives[tensor.name] = Life(tensor, span[0], span[1], str(at.location or ""))
        return
    life.first = min(life.first, span[0])
    life.last = max(life.last, span[1])


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
    _free: list[tuple[int, int]] = field(default_factory=list)
    _rest: deque[tuple[int, int]] = field(default_factory=deque)
    _rest_bytes: int = 0

    def __post_init__(self) -> None:
        self._free = [(0, self.size)]

    def take(self, count: int, whole_pages: bool = False) -> tuple[int, int] | None:
        """A range (begin, end) of at least ``count`` bytes, or None when there is none."""
        amount = _aligned(max(count, 1))
        if whole_pages and self.page:
            amount = -(-amount // self.page) * self.page
        found = self._first_fit(amount)
        if found is None and self._rest:
            self.settle()
            found = self._first_fit(amount)
        return found

    def give(self, taken: tuple[int, int]) -> None:
        """Give a range back; it rests first."""
        self._rest.append(taken)
        self._rest_bytes += taken[1] - taken[0]
        while self._rest_bytes > self.resting:
            self.release(*self._wake())

    def settle(self) -> None:
        """End the rest of everything that was given back."""
        while self._rest:
            self.release(*self._wake())

    def reserve(self, begin: int, end: int) -> None:
        """Take exactly this range out of what is free, as far as it is free."""
        kept: list[tuple[int, int]] = []
        for low, high in self._free:
            if high <= begin or end <= low:
                kept.append((low, high))
                continue
            if low < begin:
                kept.append((low, begin))
            if end < high:
                kept.append((end, high))
        self._free = kept

    def free_bytes(self) -> int:
        """Bytes that could still be handed out."""
        return sum(high - low for low, high in self._free) + self._rest_bytes

    def _wake(self) -> tuple[int, int]:
        taken = self._rest.popleft()
        self._rest_bytes -= taken[1] - taken[0]
        return taken

    def _first_fit(self, count: int) -> tuple[int, int] | None:
        for position, (low, high) in enumerate(self._free):
            begin = self._start(low, count)
            if begin + count > high:
                continue
            rest = [(low, begin), (begin + count, high)]
            self._free[position : position + 1] = [part for part in rest if part[0] < part[1]]
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
        usable = target.sbuf_usable_bytes // ALIGNMENT * ALIGNMENT
        psum = target.psum_partition_bytes
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
            NeffCompileError: ``NEFF-SBUF`` or ``NEFF-PSUM``; it does not fit. The message says
                what was asked for, what there is, and who holds it at that point.
        """
        lives = lives_of(body)
        placed = {
            name: replace(life.tensor, name=prefix + name)
            for name, life in lives.items()
            if life.tensor.address is not None
        }
        for region in self._arenas:
            own = [life for life in lives.values() if life.tensor.buffer is region]
            self._plan_region(region, own, prefix, placed)
        return placed

    def _plan_region(
        self, region: MemoryRegion, lives: list[Life], prefix: str, placed: dict[str, Tensor]
    ) -> None:
        arena = self._arenas[region]
        fixed = _ranges([life.tensor for life in lives if life.tensor.address is not None])
        if fixed:
            arena.settle()
            for begin, end in fixed:
                arena.reserve(begin, end)
        moving = sorted(
            (life for life in lives if life.tensor.address is None), key=lambda life: life.first
        )
        if not self._place_all(region, moving, prefix, placed, bool(arena.page)):
            self._place_all(region, moving, prefix, placed, False)
        for begin, end in fixed:
            arena.release(begin, min(end, self._sizes[region]))

    def _place_all(
        self,
        region: MemoryRegion,
        moving: list[Life],
        prefix: str,
        placed: dict[str, Tensor],
        whole_pages: bool,
    ) -> bool:
        """Place tensors in the order of their first use; in PSUM each in a bank of its own if
        ``whole_pages``. False when that does not work out and they have to share banks."""
        arena = self._arenas[region]
        held: dict[str, tuple[tuple[int, int], Life]] = {}
        ends = sorted(moving, key=lambda life: life.last)
        dying = 0
        for life in moving:
            while ends[dying].last < life.first:
                arena.give(held.pop(ends[dying].tensor.name)[0])
                dying += 1
            name = life.tensor.name
            taken = arena.take(life.tensor.free_bytes, whole_pages)
            if taken is None and not whole_pages:
                raise _does_not_fit(region, life, held, self._sizes[region], arena.free_bytes())
            if taken is None:
                break
            held[name] = (taken, life)
            placed[name] = replace(life.tensor, name=prefix + name, address=(0, taken[0]))
            self.peak[region] = max(self.peak[region], taken[1])
        complete = dying + len(held) == len(moving)
        for taken, _ in held.values():
            arena.give(taken)
        return complete


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
    life: Life,
    held: dict[str, tuple[tuple[int, int], Life]],
    size: int,
    free: int,
) -> NeffCompileError:
    holders = sorted(
        (other for _, other in held.values()), key=lambda other: -other.tensor.free_bytes
    )
    lines = [
        f"{other.tensor.free_bytes} bytes: {other.tensor.name} {list(other.tensor.shape)} "
        f"{other.tensor.dtype} {other.where}".rstrip()
        for other in holders[:8]
    ]
    if len(holders) > 8:
        rest = sum(other.tensor.free_bytes for other in holders[8:])
        lines.append(f"{rest} bytes: {len(holders) - 8} more tensors")
    tensor = life.tensor
    return NeffCompileError(
        f"tensor {tensor.name} {list(tensor.shape)} {tensor.dtype} needs {tensor.free_bytes} bytes "
        f"in each partition of {region}; of its {size} bytes {free} are free, in pieces that may "
        f"be smaller. Held at this point:\n    " + "\n    ".join(lines or ["nothing"]),
        code=f"NEFF-{region.value.upper()}",
        place=life.where,
        remedy="use smaller tiles, or tensors that live shorter",
    )
