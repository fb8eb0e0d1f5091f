"""Placement side by side: tiles of 32 and 64 partitions share the bytes of a quadrant each.

Plain placement (:mod:`neff.compiler.assembly.memory`) allocates a tensor's bytes in all partitions. Where
that does not fit, a tensor takes a rectangle instead: quadrants of 32 partitions times bytes.
More than 64 partitions start at partition 0, more than 32 at 0 or 64, others at any quadrant
(arch guide, start partitions), so that every view that was legal in the kernel stays legal. Tiles
that one instruction combines start at the same partition where that can be had (nki-library,
``rope.py``: "required for tensor_tensor base partition alignment"), and if need be a result takes
the bytes of the operand that dies as it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from neff.compiler.assembly.live_ranges import LiveRange
from neff.in_place import in_place
from nki_lang.base.memory import MemoryRegion
from nki_lang.ir import Access, Block, Instruction, Tensor, walk

__all__ = ["QUADRANT", "pack", "quadrants_of"]

QUADRANT = 32
"""Partitions."""

_COMBINED = {
    "scalar_tensor_tensor": ("data", "operand1"),
    "tensor_tensor": ("data1", "data2"),
    "tensor_tensor_scan": ("data0", "data1"),
}
"""Operands that are read from SBUF at the same partitions."""


class _Box(NamedTuple):
    """A placed tensor: its time, quadrants and bytes; ends of quadrants and bytes excluded."""

    first: int
    last: int
    low: int
    high: int
    begin: int
    end: int


_FIRST_USE, _LAST, _LOW, _HIGH, _BEGIN, _ = range(len(_Box._fields))


class _Groups:
    """Names joined into groups; the group of a name is called by one of its names."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}

    def of(self, name: str) -> str:
        while name in self._of:
            name = self._of[name]
        return name

    def join(self, name: str, joined: str) -> None:
        if self.of(name) != self.of(joined):
            self._of[self.of(joined)] = self.of(name)


def quadrants_of(tensor: Tensor) -> int:
    """How many quadrants a tensor takes."""
    return max(1, -(-(tensor.shape[0] if tensor.shape else 1) // QUADRANT))


def _starts(tensor: Tensor) -> frozenset[int]:
    """Quadrants in which a tensor may start."""
    if tensor.address is not None:
        return frozenset({tensor.address[0] // QUADRANT})
    count = quadrants_of(tensor)
    return frozenset((0, 1, 2, 3) if count == 1 else (0, 2) if count == 2 else (0,))


def pack(
    body: Block,
    ranges: list[LiveRange],
    fixed: Iterable[Tensor],
    *,
    size: int,
    page: int,
    alignment: int,
) -> tuple[dict[str, tuple[int, int]], LiveRange | None]:
    """Addresses for tensors that live between two statements each.

    Args:
        body: the statements.
        ranges: the tensors without an address.
        fixed: tensors with one; their bytes are taken all the time.
        size: bytes of a partition.
        page: a tensor of at most this many bytes does not cross an edge of one; 0 for none.
        alignment: addresses are multiples of it.

    Returns:
        (start partition, byte) by name, and None; or the first tensor that found no place when
        the largest are placed first.
    """
    fixed = list(fixed)
    walls = [_fixed_box(tensor) for tensor in fixed]
    failed: LiveRange | None = None
    for candidates, names, aligned in _attempts(body, ranges):
        tensors = [*(live.tensor for live in ranges), *fixed]
        columns = _columns(body if aligned else [], tensors, names)
        for order in _ORDERS:
            # Rectangles cannot be packed well in one order that always holds; a kernel has few
            # enough tiles to try several, and the first that fits keeps results the same.
            packer = _Packer(walls, size, page, alignment, columns)
            missing = packer.place(sorted(candidates, key=order))
            if missing is None:
                return {
                    live.tensor.name: packer.placed[names.of(live.tensor.name)] for live in ranges
                }, None
            failed = failed or missing  # of the strictest attempt: what a user would expect to see
    return {}, failed


def _attempts(
    body: Block, ranges: list[LiveRange]
) -> Iterator[tuple[list[LiveRange], _Groups, bool]]:
    """Yield live ranges to place, names that share an address, and True if operands are aligned."""
    # Each attempt gives up something: that every result has bytes of its own, then the alignment,
    # then both. The alignment goes last, because nki-library requests it.
    yield ranges, _Groups(), True
    merged, names = _merged(body, ranges)
    yield merged, names, True
    yield ranges, _Groups(), False
    yield merged, names, False


_ORDERS: tuple[Callable[[LiveRange], tuple[int, ...]], ...] = (
    lambda live: (-quadrants_of(live.tensor) * live.tensor.free_bytes, live.first),
    lambda live: (-quadrants_of(live.tensor), -live.tensor.free_bytes, live.first),
    lambda live: (live.first - live.last, -live.tensor.free_bytes, live.first),
    lambda live: (live.first, -quadrants_of(live.tensor)),
)
"""Orders of placement: the largest, the widest, the longest-lived or the earliest used first."""


class _Columns(NamedTuple):
    """Tensors that start at the same partition, and where each group may."""

    groups: _Groups
    starts: dict[str, frozenset[int]]


def _columns(body: Block, tensors: list[Tensor], names: _Groups) -> _Columns:
    starts = {names.of(tensor.name): _starts(tensor) for tensor in tensors}
    groups = _Groups()
    for instruction in walk(body):
        pair = [instruction.operands.get(name) for name in _COMBINED.get(instruction.op, ())]
        sides = [operand for operand in pair if type(operand) is Access]
        if len(sides) < 2 or any(side.tensor.buffer is not MemoryRegion.sbuf for side in sides):
            continue
        root, joined_root = (groups.of(names.of(side.tensor.name)) for side in sides)
        if not {root, joined_root} <= starts.keys():  # tiles of the other memory
            continue
        # Alignment is wished for, not needed: a pair that cannot have it is left as it is.
        common = starts[root] & starts[joined_root]
        if common and len({_lane(side) for side in sides}) == 1:
            groups.join(root, joined_root)
            starts[root] = common
    return _Columns(groups, starts)


def _lane(access: Access) -> int:
    """The partition of its tensor at which an access begins."""
    return access.offset * access.element_type.itemsize // max(access.tensor.free_bytes, 1)


def _merged(body: Block, ranges: list[LiveRange]) -> tuple[list[LiveRange], _Groups]:
    """The tensors with those made one that can be worked on in place."""
    by_name = {live.tensor.name: live for live in ranges}
    names = _Groups()
    number = 0
    for statement in body:
        if not isinstance(statement, Instruction):
            number += _length(statement.body)
            continue
        for old, new in _successions(statement, by_name, number):
            before, after = by_name[names.of(old)], by_name[new]
            names.join(before.tensor.name, new)
            by_name[before.tensor.name] = replace(before, last=after.last)
        number += 1
    return [by_name[name] for name in by_name if names.of(name) == name], names


def _successions(
    instruction: Instruction, by_name: dict[str, LiveRange], number: int
) -> list[tuple[str, str]]:
    """(operand, result) when the result may take the place of the operand; one at most."""
    result = instruction.operands.get("dst")
    new = by_name.get(result.tensor.name) if type(result) is Access else None
    if new is None or new.first != number:
        return []
    for operand in instruction.operands.values():
        old = by_name.get(operand.tensor.name) if type(operand) is Access else None
        if old is None or old is new or old.last != number:
            continue
        if in_place(instruction, old.tensor, new.tensor):
            return [(old.tensor.name, new.tensor.name)]
    return []


def _length(body: Block) -> int:
    return sum(
        1 if isinstance(statement, Instruction) else _length(statement.body) for statement in body
    )


def _fixed_box(tensor: Tensor) -> _Box:
    partition, byte = tensor.address or (0, 0)
    lanes = tensor.shape[0] if tensor.shape else 1
    low, high = partition // QUADRANT, -(-(partition + lanes) // QUADRANT)
    return _Box(-1, 1 << 62, low, high, byte, byte + tensor.free_bytes)


class _Packer:
    """Places rectangles one by one, each as low as it can lie."""

    def __init__(
        self, walls: list[_Box], size: int, page: int, alignment: int, columns: _Columns
    ) -> None:
        self._walls, self._size, self._page, self._alignment = walls, size, page, alignment
        self._groups = columns.groups
        self._starts = dict(columns.starts)
        self.placed: dict[str, tuple[int, int]] = {}

    def place(self, ranges: list[LiveRange]) -> LiveRange | None:
        """The first that finds no place, or None."""
        count = len(self._walls)
        boxes = np.empty((count + len(ranges), len(_Box._fields)), np.int64)
        boxes[:count] = np.array(self._walls, np.int64).reshape(-1, len(_Box._fields))
        for number, live in enumerate(ranges, count):
            beside = boxes[:number]
            beside = beside[(beside[:, _FIRST_USE] <= live.last) & (live.first <= beside[:, _LAST])]
            lowest = self._lowest(live, beside)
            if lowest is None:
                return live
            boxes[number] = lowest
        return None

    def _lowest(self, live: LiveRange, beside: np.ndarray) -> _Box | None:
        name, count = live.tensor.name, quadrants_of(live.tensor)
        amount = -(-max(live.tensor.free_bytes, 1) // self._alignment) * self._alignment
        group = self._groups.of(name)
        best: tuple[int, int] | None = None
        for low in sorted(self._starts[group]):
            walls = beside[(beside[:, _LOW] < low + count) & (low < beside[:, _HIGH]), _BEGIN:]
            begin = self._between(sorted(map(tuple, walls.tolist())), amount)
            if begin + amount <= self._size and (best is None or begin < best[0]):
                best = begin, low
        if best is None:
            return None
        begin, low = best
        # The first of a group to be placed decides for all of them.
        self._starts[group] = frozenset({low})
        self.placed[name] = low * QUADRANT, begin
        return _Box(live.first, live.last, low, low + count, begin, begin + amount)

    def _between(self, walls: list[tuple[int, int]], amount: int) -> int:
        """The lowest byte at which ``amount`` bytes lie between the walls (begin, end)."""
        start = self._start(0, amount)
        for begin, end in walls:
            if start + amount <= begin:
                break
            start = max(start, self._start(end, amount))
        return start

    def _start(self, low: int, count: int) -> int:
        begin = -(-low // self._alignment) * self._alignment
        page = self._page
        if not page or count <= page - begin % page:
            return begin
        return -(-begin // page) * page
