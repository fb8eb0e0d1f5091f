"""Do without copies: a tile that only hands data on is looked through.

* A tile that holds a copy of a region which does not change while the tile is read: its readers
  read the region.
* A tile whose only reader copies it to a region that nobody touches in between: its writers write
  into the region.

Only tiles without an address, used in one block, are looked through; every step is proved from
the access patterns.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

from nki_lang.execute.liveness import accesses_of
from nki_lang.execute.regions import compose, may_overlap
from nki_lang.ir.types import (
    Access,
    Block,
    Engine,
    Instruction,
    KernelIR,
    Statement,
    Tensor,
    walk,
    with_operands,
)
from nki_lang.memory import MemoryRegion
from nki_lang.semantics import TRAITS

__all__ = ["forward", "forwarded"]

_COPIES = frozenset({"dma_copy", "tensor_copy"})
_LOOKED_THROUGH_LIMIT = 4096
"""A tile with more uses than this is left alone, to keep loading linear."""


@dataclass(frozen=True, slots=True)
class _Touch:
    """One use of a tensor: at which statement, writing or reading, where (None: anywhere)."""

    at: int
    writes: bool
    access: Access | None


@dataclass(slots=True)
class _Uses:
    """Every use of every tensor in one block, in program order.

    Uses by statements that were dropped stay listed; a dropped statement is None.
    """

    statements: list[Statement | None]
    touches: dict[str, list[_Touch]] = field(default_factory=lambda: defaultdict(list))
    writes: dict[str, list[_Touch]] = field(default_factory=lambda: defaultdict(list))

    def add(self, tensor: str, touch: _Touch) -> None:
        """Enter one use."""
        _enter(self.touches[tensor], touch)
        if touch.writes:
            _enter(self.writes[tensor], touch)

    def between(
        self, touches: dict[str, list[_Touch]], tensor: str, first: int, last: int
    ) -> list[_Touch]:
        """Uses by statements ``first`` to ``last - 1`` that still exist."""
        listed = touches.get(tensor)
        if not listed:
            return []
        begin = bisect_left(listed, first, key=_position)
        end = bisect_left(listed, last, begin, key=_position)
        return [touch for touch in listed[begin:end] if self.exists(touch)]

    def exists(self, touch: _Touch) -> bool:
        """Whether the statement of a use was not dropped."""
        return self.statements[touch.at] is not None

    def has_one_writer(self, tensor: str) -> bool:
        """Whether one use that still exists writes a tensor."""
        existing = (touch for touch in self.writes.get(tensor, ()) if self.exists(touch))
        return next(existing, None) is not None and next(existing, None) is None

    def last_user(self, tensor: str) -> int:
        """The last statement that still exists and uses a tensor; -1 for none."""
        return next(
            (touch.at for touch in reversed(self.touches.get(tensor, ())) if self.exists(touch)),
            -1,
        )


def _enter(known: list[_Touch], touch: _Touch) -> None:
    """Keep the order of positions; nearly all uses come behind those that are known."""
    if not known or known[-1].at <= touch.at:
        known.append(touch)
    else:
        insort(known, touch, key=_position)


def _position(touch: _Touch) -> int:
    return touch.at


def forwarded(kernel_ir: KernelIR) -> KernelIR:
    """The kernel without the copies that can be done without."""
    return replace(kernel_ir, bodies=tuple(forward(body, kernel_ir) for body in kernel_ir.bodies))


def forward(block: Block, kernel_ir: KernelIR) -> Block:
    """A block of the kernel without the copies that can be done without."""
    named = {tensor.name for tensor in (*kernel_ir.inputs, *kernel_ir.outputs)}
    totals = Counter(
        access.tensor.name
        for instruction in kernel_ir.instructions()
        for access in accesses_of(instruction)
    )
    return _Forwarder(named, totals).block(block)


class _Forwarder:
    def __init__(self, named: set[str], totals: Counter[str]) -> None:
        self.named = named
        self.totals = totals

    def block(self, block: Block) -> Block:
        inner: list[Statement | None] = [
            statement
            if isinstance(statement, Instruction)
            else replace(statement, body=self.block(statement.body))
            for statement in block
        ]
        uses = _collect(inner)
        for position, statement in enumerate(inner):
            if isinstance(statement, Instruction) and _is_copy(statement):
                self._load(uses, position, statement)
        for position, statement in enumerate(inner):
            if isinstance(statement, Instruction) and _is_copy(statement):
                self._store(uses, position, statement)
        return [statement for statement in inner if statement is not None]

    def _candidate(self, uses: _Uses, tensor: Tensor) -> list[_Touch] | None:
        """Uses of a tile that may be looked through; None when it may not."""
        if tensor.name in self.named or tensor.address is not None:
            return None
        if tensor.buffer is MemoryRegion.shared_hbm:
            return None
        touches = uses.touches.get(tensor.name, [])
        # Fewer uses here than in the kernel: another block uses it, which is not looked at now.
        if len(touches) != self.totals[tensor.name] or len(touches) > _LOOKED_THROUGH_LIMIT:
            return None
        if any(touch.access is None or touch.access.is_dynamic for touch in touches):
            return None
        return [touch for touch in touches if uses.statements[touch.at] is not None]

    def _load(self, uses: _Uses, position: int, copy: Instruction) -> None:
        """Let the readers of a copied tile read where it was copied from."""
        tile, source = copy.operands["dst"], copy.operands["src"]
        # One write, the copy itself, and first: no reader sees anything but what was copied. So
        # the uses of a tile are looked at for one copy, however many copies write it.
        if not _fills(tile, source) or not uses.has_one_writer(tile.tensor.name):
            return
        touches = self._candidate(uses, tile.tensor)
        if touches is None or touches[0].at != position:
            return
        # The last reader would see what is written into the source before it, which the tile
        # did not; only that range has to be free of writes.
        last = touches[-1].at
        for touch in uses.between(uses.writes, source.tensor.name, position + 1, last + 1):
            if touch.access is None or may_overlap(touch.access, source):
                return
        self._substitute(uses, touches[1:], source, position)

    def _store(self, uses: _Uses, position: int, copy: Instruction) -> None:
        """Let the writers of a tile write where it is copied to."""
        tile, target = copy.operands["src"], copy.operands["dst"]
        if not _fills(tile, target) or uses.last_user(tile.tensor.name) != position:
            return
        touches = self._candidate(uses, tile.tensor)
        if touches is None:
            return
        # Other readers may only be those that write the tile in the same instruction.
        written = {touch.at for touch in touches if touch.writes}
        readers = [touch.at for touch in touches if not touch.writes]
        if any(reader not in written for reader in readers[:-1]):
            return
        # Writing early must be unseen: from the first write to the copy, nobody reads or writes
        # the target's elements.
        first = touches[0].at
        for touch in uses.between(uses.touches, target.tensor.name, first, position):
            if touch.access is None or may_overlap(touch.access, target):
                return
        self._substitute(
            uses, [touch for touch in touches if touch.at != position], target, position
        )

    def _substitute(
        self, uses: _Uses, touches: list[_Touch], region: Access, position: int
    ) -> None:
        """Replace the accesses of a tile by accesses of ``region`` and drop the copy."""
        changes: dict[Access, Access] = {}
        for touch in touches:
            assert touch.access is not None
            composed = compose(touch.access, region)
            if composed is None:
                return
            changes[touch.access] = composed
        for at in {touch.at for touch in touches}:
            statement = uses.statements[at]
            assert isinstance(statement, Instruction)
            operands = {
                name: _changed(value, changes) for name, value in statement.operands.items()
            }
            uses.statements[at] = with_operands(statement, operands)
        # The region now has the tile's uses: copies that are looked at later must see them.
        uses.statements[position] = None
        name = region.tensor.name
        for touch in touches:
            assert touch.access is not None
            uses.add(name, _Touch(touch.at, touch.writes, changes[touch.access]))
        self.totals[name] += len(touches)


def _collect(statements: list[Statement | None]) -> _Uses:
    uses = _Uses(statements)
    for position, statement in enumerate(statements):
        if isinstance(statement, Instruction):
            writes = TRAITS[statement.op].writes if statement.op in TRAITS else ()
            for name, value in statement.operands.items():
                for access in _inside(value):
                    written = name in writes and (access is value or isinstance(value, tuple))
                    uses.add(access.tensor.name, _Touch(position, written, access))
        elif statement is not None:
            for instruction in walk(statement.body):
                for access in accesses_of(instruction):
                    uses.add(access.tensor.name, _Touch(position, True, None))
    return uses


def _inside(value: Any) -> list[Access]:
    return list(accesses_of(Instruction("", {"": value})))


def _is_copy(instruction: Instruction) -> bool:
    """A copy between equal types at fixed places, which changes no bit."""
    if instruction.op not in _COPIES:
        return False
    dst, src = instruction.operands["dst"], instruction.operands["src"]
    if dst.is_dynamic or src.is_dynamic or dst.tensor.name == src.tensor.name:
        return False
    if dst.element_type.name == "tfloat32":  # a write rounds what lies there as float32
        return False
    wide = src.element_type.is_integer and src.element_type.itemsize >= 4
    if wide and instruction.engine is Engine.scalar:  # it rounds them to float32
        return False
    return dst.element_type is src.element_type or dst.element_type == src.element_type


def _fills(tile: Access, region: Access) -> bool:
    """The copy moves the whole tile, in order, to or from a region of the same shape."""
    if tile.dtype is not None or tile.offset or tile.shape != tile.tensor.shape:
        return False
    if tile.shape != region.shape or any(step == 0 for step, count in region.pattern if count > 1):
        return False
    # Engines treat 32-bit integers differently when they lie in PSUM.
    in_psum = MemoryRegion.psum in (region.tensor.buffer, tile.tensor.buffer)
    if in_psum and region.element_type.is_integer:
        return False
    if region.tensor.on_chip and region.tensor.address is not None:
        return False
    step = 1
    for unit, extent in reversed(tile.pattern):
        if unit != step and extent > 1:
            return False
        step *= extent
    return True


def _changed(value: Any, changes: dict[Access, Access]) -> Any:
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is Access:
        if value.is_dynamic:
            value = value._replace(
                scalar_offset=_changed(value.scalar_offset, changes),
                vector_offset=_changed(value.vector_offset, changes),
            )
        return changes.get(value, value)
    if kind is tuple or kind is list:
        return tuple(_changed(entry, changes) for entry in value)
    return value
