"""Which bytes an instruction reads and writes.

A region is a box in one memory space: a range of partitions and a range of bytes, and for
strided accesses the row pitch and the range of columns, so that two tiles side by side in one
matrix are known to be apart. Regions are never smaller than the truth.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from nki_lang.ir import Access, Instruction, Register, Tensor
from nki_lang.isa.table import TABLE

__all__ = ["FENCES", "Region", "operands_touched", "region_of"]

_WRITES: dict[str, frozenset[str]] = {
    op: frozenset(spec.writes)
    | {operand.name for operand in spec.operands if operand.role == "register"} & {"dst"}
    for op, spec in TABLE.items()
}
_NONE: frozenset[str] = frozenset()

FENCES = frozenset({"core_barrier"})
"""Instructions at which cores meet: all before them comes before, all behind them after."""


class Region(NamedTuple):
    """A box of bytes.

    Attributes:
        first, last: partitions, ``last`` excluded (0 and 1 off chip).
        low, high: bytes in the partition (or in the space off chip), ``high`` excluded.
        pitch: distance of the rows in bytes, or 0 when the region is one run of bytes.
        left, right: columns of each row in bytes, when there is a pitch.
    """

    first: int
    last: int
    low: int
    high: int
    pitch: int = 0
    left: int = 0
    right: int = 0

    def apart(self, second: Region) -> bool:
        """True when no byte is in both."""
        if self.last <= second.first or second.last <= self.first:
            return True
        if self.high <= second.low or second.high <= self.low:
            return True
        if not self.pitch or self.pitch != second.pitch:
            return False
        return self.right <= second.left or second.right <= self.left


def operands_touched(instruction: Instruction) -> Iterator[tuple[Access | Register, bool]]:
    """Every access and register that the instruction touches, and whether it writes it."""
    writes = _WRITES.get(instruction.op, _NONE)
    for name, operand in instruction.operands.items():
        if type(operand) is Access:
            yield operand, name in writes
            if operand.scalar_offset is not None or operand.vector_offset is not None:
                yield from _indices(operand)
        elif type(operand) is Register:
            yield operand, name in writes
        elif type(operand) in (tuple, list):
            yield from _nested(operand, name in writes)


def _nested(operand: Any, written: bool) -> Iterator[tuple[Access | Register, bool]]:
    for item in operand:
        if type(item) is Access:
            yield item, written
            yield from _indices(item)
        elif type(item) is Register:
            yield item, written
        elif type(item) in (tuple, list):
            yield from _nested(item, written)


def _indices(access: Access) -> Iterator[tuple[Access | Register, bool]]:
    for index in (access.scalar_offset, access.vector_offset):
        if index is not None:
            yield index, False


def region_of(access: Access, address: tuple[int, int]) -> Region:
    """The box of an access to a tensor at ``address``.

    Args:
        access: what is touched.
        address: (start partition, byte) on chip; (0, byte offset in its space) off chip.
    """
    tensor = access.tensor
    if tensor.on_chip:
        return _on_chip(access, tensor, address)
    return _in_hbm(access, tensor, address[1])


def _on_chip(access: Access, tensor: Tensor, address: tuple[int, int]) -> Region:
    start, base = address
    row = max(tensor.free_bytes, 1)
    partitions = tensor.shape[0] if tensor.shape else 1
    if access.is_dynamic:
        return Region(start, start + partitions, base, base + row)
    size = access.element_type.itemsize
    first, low = divmod(access.offset * size, row)
    pattern = access.pattern
    step, count = pattern[0] if pattern else (0, 1)
    last = first + (step * size // row) * (count - 1) + 1 if step >= 0 else first + 1
    if step < 0:
        first += (step * size // row) * (count - 1)
    below, above = _span(pattern[1:])
    return Region(
        start + first, start + last, base + low + below * size, base + low + (above + 1) * size
    )


def _in_hbm(access: Access, tensor: Tensor, base: int) -> Region:
    if access.is_dynamic:
        return Region(0, 1, base, base + tensor.nbytes)
    size = access.element_type.itemsize
    below, above = _span(access.pattern)
    low = base + (access.offset + below) * size
    high = base + (access.offset + above + 1) * size
    moving = sorted((abs(step), count) for step, count in access.pattern if count > 1 and step)
    while len(moving) > 2 and moving[-1][0] == moving[-2][0] * moving[-2][1]:  # one run of rows
        (step, inner), (_, outer) = moving[-2:]
        moving[-2:] = [(step, inner * outer)]
    if len(moving) < 2:
        return Region(0, 1, low, high)
    pitch, rows = moving[-1]
    span = (above - below) - pitch * (rows - 1) + 1
    left = low % (pitch * size)
    right = left + span * size
    if span >= pitch or right > pitch * size:
        return Region(0, 1, low, high)
    return Region(0, 1, low, high, pitch * size, left, right)


def _span(pattern: Any) -> tuple[int, int]:
    """Least and greatest element that the pattern reaches, relative to its start."""
    below = above = 0
    for step, count in pattern:
        if step < 0:
            below += step * (count - 1)
        else:
            above += step * (count - 1)
    return below, above
