"""Removes copies through tiles that only pass data on (store-to-load forwarding).

* Load: a tile contains a copy of a region that does not change while the tile is read. Its readers
  then read the region.
* Store: a tile's last reader copies it to a region that no instruction uses in between. Its writers
  then write into the region.

The pass handles only tiles without an address that are used in one block. It proves every step from
the access patterns; where it cannot, the copy stays.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

from nki_lang.analysis.liveness import accesses_of
from nki_lang.analysis.regions import compose, may_overlap
from nki_lang.base.memory import MemoryRegion
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
from nki_lang.semantics import TRAITS

__all__ = ["forward", "forwarded"]

_COPY_OPS = frozenset({"dma_copy", "tensor_copy"})
_MAX_FORWARDED_USES = 4096
"""A tile with more uses is left alone, to keep loading linear."""


@dataclass(frozen=True, slots=True)
class _Use:
    """One use of a tensor: the position of the statement, its access (None: anywhere), and whether
    it writes.
    """

    position: int
    writes: bool
    access: Access | None


@dataclass(slots=True)
class _Uses:
    """Every use of every tensor in one block, in program order.

    Uses by removed statements stay listed; a removed statement is None.
    """

    statements: list[Statement | None]
    touches: dict[str, list[_Use]] = field(default_factory=lambda: defaultdict(list))
    writes: dict[str, list[_Use]] = field(default_factory=lambda: defaultdict(list))

    def add(self, tensor: str, touch: _Use) -> None:
        """Add one use."""
        _enter(self.touches[tensor], touch)
        if touch.writes:
            _enter(self.writes[tensor], touch)

    def between(
        self, touches: dict[str, list[_Use]], tensor: str, first: int, last: int
    ) -> list[_Use]:
        """Return the uses by existing statements from ``first`` to ``last - 1``."""
        listed = touches.get(tensor)
        if not listed:
            return []
        begin = bisect_left(listed, first, key=_position_of)
        end = bisect_left(listed, last, begin, key=_position_of)
        return [touch for touch in listed[begin:end] if self.exists(touch)]

    def exists(self, touch: _Use) -> bool:
        """Return True if the statement of a use was not removed."""
        return self.statements[touch.position] is not None

    def has_one_writer(self, tensor: str) -> bool:
        """Return True if exactly one existing use writes the tensor."""
        existing = (touch for touch in self.writes.get(tensor, ()) if self.exists(touch))
        return next(existing, None) is not None and next(existing, None) is None

    def last_user(self, tensor: str) -> int:
        """Return the last existing statement that uses the tensor; -1 for none."""
        return next(
            (
                touch.position
                for touch in reversed(self.touches.get(tensor, ()))
                if self.exists(touch)
            ),
            -1,
        )


def _enter(uses: list[_Use], use: _Use) -> None:
    """Insert a use in order of position; nearly all uses are appended."""
    if not uses or uses[-1].position <= use.position:
        uses.append(use)
    else:
        insort(uses, use, key=_position_of)


def _position_of(touch: _Use) -> int:
    return touch.position


def forwarded(kernel_ir: KernelIR) -> KernelIR:
    """Return the kernel without the copies that can be removed."""
    return replace(kernel_ir, bodies=tuple(forward(body, kernel_ir) for body in kernel_ir.bodies))


def forward(block: Block, kernel_ir: KernelIR) -> Block:
    """Return a block of the kernel without the copies that can be removed."""
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

    def _candidate(self, uses: _Uses, tensor: Tensor) -> list[_Use] | None:
        """Return the uses of a tile that may be removed; None when it must stay."""
        if tensor.name in self.named or tensor.address is not None:
            return None
        if tensor.buffer is MemoryRegion.shared_hbm:
            return None
        touches = uses.touches.get(tensor.name, [])
        # Fewer uses here than in the kernel mean that another block uses the tile too.
        if len(touches) != self.totals[tensor.name] or len(touches) > _MAX_FORWARDED_USES:
            return None
        if any(touch.access is None or touch.access.is_dynamic for touch in touches):
            return None
        return [touch for touch in touches if uses.statements[touch.position] is not None]

    def _load(self, uses: _Uses, position: int, copy: Instruction) -> None:
        """Redirect the readers of a copied tile to the source of the copy."""
        tile, source = copy.operands["dst"], copy.operands["src"]
        # The copy is the only write and comes first, so every reader sees the copied values.
        # Checking this first examines a tile's uses for one copy only, however many copies write it.
        if not _moves_whole_tile(tile, source) or not uses.has_one_writer(tile.tensor.name):
            return
        touches = self._candidate(uses, tile.tensor)
        if touches is None or touches[0].position != position:
            return
        # A write into the source before the last reader would become visible to that reader,
        # while the tile still had the old value; so only this range must be free of writes.
        last = touches[-1].position
        for touch in uses.between(uses.writes, source.tensor.name, position + 1, last + 1):
            if touch.access is None or may_overlap(touch.access, source):
                return
        self._substitute(uses, touches[1:], source, position)

    def _store(self, uses: _Uses, position: int, copy: Instruction) -> None:
        """Redirect the writers of a tile to the region it is copied to."""
        tile, target = copy.operands["src"], copy.operands["dst"]
        if not _moves_whole_tile(tile, target) or uses.last_user(tile.tensor.name) != position:
            return
        touches = self._candidate(uses, tile.tensor)
        if touches is None:
            return
        # Other readers may only be those that write the tile in the same instruction.
        written = {touch.position for touch in touches if touch.writes}
        readers = [touch.position for touch in touches if not touch.writes]
        if any(reader not in written for reader in readers[:-1]):
            return
        # The target receives its values earlier than before, which no instruction may observe: from
        # the first write to the copy, no statement may read or write the target's elements.
        first = touches[0].position
        for touch in uses.between(uses.touches, target.tensor.name, first, position):
            if touch.access is None or may_overlap(touch.access, target):
                return
        self._substitute(
            uses, [touch for touch in touches if touch.position != position], target, position
        )

    def _substitute(
        self, uses: _Uses, tile_uses: list[_Use], region: Access, copy_position: int
    ) -> None:
        """Replace the accesses of a tile by accesses of ``region`` and remove the copy."""
        changes: dict[Access, Access] = {}
        for use in tile_uses:
            assert use.access is not None
            composed = compose(use.access, region)
            if composed is None:
                return
            changes[use.access] = composed
        for position in {use.position for use in tile_uses}:
            statement = uses.statements[position]
            assert isinstance(statement, Instruction)
            operands = {
                name: _changed(value, changes) for name, value in statement.operands.items()
            }
            uses.statements[position] = with_operands(statement, operands)
        # The region now has the tile's uses: decisions about later copies must see them.
        uses.statements[copy_position] = None
        name = region.tensor.name
        for use in tile_uses:
            assert use.access is not None
            uses.add(name, _Use(use.position, use.writes, changes[use.access]))
        self.totals[name] += len(tile_uses)


def _collect(statements: list[Statement | None]) -> _Uses:
    uses = _Uses(statements)
    for position, statement in enumerate(statements):
        if isinstance(statement, Instruction):
            writes = TRAITS[statement.op].writes if statement.op in TRAITS else ()
            for name, value in statement.operands.items():
                for access in _accesses_of_value(value):
                    written = name in writes and (access is value or isinstance(value, tuple))
                    uses.add(access.tensor.name, _Use(position, written, access))
        elif statement is not None:
            for instruction in walk(statement.body):
                for access in accesses_of(instruction):
                    uses.add(access.tensor.name, _Use(position, True, None))
    return uses


def _accesses_of_value(value: object) -> list[Access]:
    return list(accesses_of(Instruction("", {"": value})))


def _is_copy(instruction: Instruction) -> bool:
    """Return True for a copy between equal types at static locations, which changes no bit."""
    if instruction.op not in _COPY_OPS:
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


def _moves_whole_tile(tile: Access, region: Access) -> bool:
    """Return True if the copy moves the whole tile, in order, to or from a region of the same
    shape.
    """
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
