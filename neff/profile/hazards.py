"""Which earlier instructions of a run an instruction must follow, found in a few microseconds.

Accesses are boxes of bytes (:class:`~neff.compiler.assembly.regions.Region`). A program touches the same few
boxes again and again, so boxes are numbered and each knows the boxes that it meets; an access then
looks at these only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from neff.compiler.assembly.regions import Region, region_of
from nki_lang.ir import Access, Register

__all__ = ["Touched", "hazards_of"]

Touched = list[tuple[Access | Register, bool]]
"""Operands of an instruction, and whether it writes them."""

_REGISTER = Region(0, 1, 0, 1)
_MAX_BUCKETS = 64
"""Boxes over more buckets are kept in a list apart."""


@dataclass(slots=True)
class _Space:
    """The boxes of one memory, or of one tensor, by number.

    Attributes:
        numbers: of each box.
        boxes: by number.
        meets: numbers of the boxes that share a byte with it, itself included.
        covers: those of them that lie within it.
        writer: the last instruction that wrote it, -1 for none.
        readers: the instructions that read it since.
        bucket_bytes: size of a bucket; boxes are found by the buckets that they touch.
        buckets, wide: numbers of boxes by bucket, and of those over many buckets.
    """

    bucket_bytes: int
    numbers: dict[Region, int] = field(default_factory=dict[Region, int])
    boxes: list[Region] = field(default_factory=list[Region])
    meets: list[list[int]] = field(default_factory=list[list[int]])
    covers: list[list[int]] = field(default_factory=list[list[int]])
    writer: list[int] = field(default_factory=list[int])
    readers: list[list[int]] = field(default_factory=list[list[int]])
    buckets: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    wide: list[int] = field(default_factory=list[int])

    def number_of(self, box: Region) -> int:
        number = self.numbers.get(box)
        return self._new(box) if number is None else number

    def _new(self, box: Region) -> int:
        number = self.numbers[box] = len(self.boxes)
        span = range(
            box.low // self.bucket_bytes, max(box.high - 1, box.low) // self.bucket_bytes + 1
        )
        near = set(self.wide)
        if len(span) > _MAX_BUCKETS:
            near.update(range(number))
            self.wide.append(number)
        else:
            for bucket in span:
                members = self.buckets.setdefault(bucket, [])
                near.update(members)
                members.append(number)
        meeting = [neighbor for neighbor in sorted(near) if not self.boxes[neighbor].apart(box)]
        for neighbor in meeting:
            self.meets[neighbor].append(number)
            if _is_inside(box, self.boxes[neighbor]):
                self.covers[neighbor].append(number)
        self.boxes.append(box)
        self.meets.append([*meeting, number])
        self.covers.append(
            [neighbor for neighbor in meeting if _is_inside(self.boxes[neighbor], box)]
        )
        self.writer.append(-1)
        self.readers.append([])
        return number

    def read(self, index: int, box: Region, before: set[int]) -> None:
        number, writer = self.number_of(box), self.writer
        for neighbor in self.meets[number]:
            if writer[neighbor] >= 0:
                before.add(writer[neighbor])
        self.readers[number].append(index)

    def write(self, index: int, box: Region, before: set[int]) -> None:
        number, writer, readers = self.number_of(box), self.writer, self.readers
        for neighbor in self.meets[number]:
            if writer[neighbor] >= 0:
                before.add(writer[neighbor])
            if readers[neighbor]:
                before.update(readers[neighbor])
        for neighbor in self.covers[number]:  # whoever follows them follows this instruction
            writer[neighbor] = -1
            readers[neighbor] = []
        writer[number] = index
        readers[number] = []


def _is_inside(inner: Region, outer: Region) -> bool:
    """Return True if all bytes of a box are in another one."""
    if not (outer.first <= inner.first and inner.last <= outer.last):
        return False
    if not (outer.low <= inner.low and inner.high <= outer.high):
        return False
    if not outer.pitch:
        return True
    return outer.pitch == inner.pitch and outer.left <= inner.left and inner.right <= outer.right


def hazards_of(touched_by: list[Touched], *, is_placed: bool = False) -> list[set[int]]:
    """Return for each instruction of a run the earlier ones that it must follow.

    Others must be followed too, but only through these. Tensors of different names never overlap,
    whatever their addresses are, unless ``is_placed``.

    Args:
        touched_by: operands of each instruction (``operands_touched``).
        is_placed: addresses count.
    """
    written = {
        operand.tensor.name
        for touched in touched_by
        for operand, is_written in touched
        if is_written and type(operand) is Access
    }
    boxes: dict[object, Region] = {}
    spaces: dict[str, _Space] = {}
    hazards: list[set[int]] = []
    for index, touched in enumerate(touched_by):
        before = set[int]()
        writes: list[tuple[_Space, Region]] = []
        for operand, is_written in touched:
            space_and_box = _space_of(operand, written, is_placed, boxes)
            if space_and_box is None:
                continue
            name, box = space_and_box
            space = spaces.get(name)
            if space is None:
                space = spaces[name] = _Space(max(1, (box.high - box.low) // 4))
            if is_written:
                writes.append((space, box))
            else:
                space.read(index, box, before)
        for space, box in writes:
            space.write(index, box, before)
        before.discard(index)
        hazards.append(before)
    return hazards


def _space_of(
    operand: Access | Register, written: set[str], is_placed: bool, boxes: dict[object, Region]
) -> tuple[str, Region] | None:
    """Return the space and the box of an operand, None for what nothing writes."""
    if type(operand) is Register:
        return f"register:{operand.name}", _REGISTER
    access = cast("Access", operand)
    tensor = access.tensor
    address = tensor.address if is_placed else None
    if address is None and tensor.name not in written:
        return None
    dtype = tensor.dtype
    is_dynamic = access.scalar_offset is not None or access.vector_offset is not None
    key = (
        tensor.shape, access.offset, access.pattern, is_dynamic, id(access.dtype or dtype), id(dtype),
        tensor.on_chip, address,
    )  # fmt: skip
    box = boxes.get(key)
    if box is None:
        box = boxes[key] = region_of(access, address or (0, 0))
    return (tensor.name if address is None else tensor.buffer.name), box
