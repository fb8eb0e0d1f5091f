"""What makes two instructions alike, as bytes and as numbers that are compared quickly."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from google.protobuf.message import Message as AnyMessage

from hlo_tools.errors import HloError
from hlo_tools.ir.computation import Computation
from hlo_tools.types.ids import LOCAL_MASK
from hlo_tools.types.opcodes import COMMUTATIVE

__all__ = ["IGNORABLE", "Body", "body_of", "check_ignored", "content", "is_void"]

Message = Any

_WHO = (
    "id", "name", "operand_ids", "called_computation_ids", "control_predecessor_ids",
    "statistics_viz",
)  # fmt: skip
_FIELDS: dict[str, tuple[str, ...]] = {
    "metadata": ("metadata", "original_value"),
    "literal": ("literal",),
    "sharding": ("sharding",),
    "frontend_attributes": ("frontend_attributes",),
    "backend_config": ("backend_config", "backend_config_payload"),
    "shape": ("shape",),
}
_MEANT = frozenset({"sharding", "domain_entry_sharding", "domain_exit_sharding"})
"""Fields whose empty message means something: replicated."""
IGNORABLE = (*_FIELDS, "layout", "operand-order")
"""What a comparison may leave out."""


def check_ignored(ignored: Collection[str]) -> None:
    """Raises HloError (HLO-ARGUMENT) for something that cannot be left out."""
    for name in ignored:
        if name not in IGNORABLE:
            raise HloError(
                f"{name!r} cannot be left out of a comparison",
                code="HLO-ARGUMENT",
                remedy=f"use {', '.join(IGNORABLE)}",
            )


@dataclass(slots=True)
class Body:
    """A computation made ready for matching; instructions are numbers in post-order.

    Attributes:
        keys: what an instruction is, without what it is connected to.
        up: the same with everything it is computed from.
        down: the same with everything that is computed from it.
        users: (user, operand number) pairs; the number is 0 for both operands of a commutative
            operation, whose order makes no difference to ``up`` and ``down`` either.
        control: the control predecessors.
        commuting: whether the operands may stand in either order.
    """

    computation: Computation
    rows: list[Message] = field(default_factory=list[Message])
    operands: list[list[int]] = field(default_factory=list[list[int]])
    users: list[list[tuple[int, int]]] = field(default_factory=list[list[tuple[int, int]]])
    control: list[set[int]] = field(default_factory=list[set[int]])
    commuting: list[bool] = field(default_factory=list[bool])
    keys: list[bytes] = field(default_factory=list[bytes])
    up: list[bytes] = field(default_factory=list[bytes])
    down: list[bytes] = field(default_factory=list[bytes])
    root: int = -1

    def commutes(self, place: int) -> bool:
        """Whether the operands of an instruction may stand in either order."""
        return self.commuting[place]

    @property
    def fingerprint(self) -> bytes:
        """Equal for computations that are alike whatever their names and order."""
        return _digest(self.up[self.root], *sorted(self.up))


def body_of(
    computation: Computation, ignored: Collection[str], called: Mapping[int, bytes]
) -> Body:
    """Keys of a computation.

    Args:
        called: fingerprints of the computations that it calls, by id.
    """
    body = Body(computation)
    views = computation.post_order()
    number = {view.local_id: place for place, view in enumerate(views)}
    body.rows = [view.proto for view in views]
    body.operands = [[number[i & LOCAL_MASK] for i in row.operand_ids] for row in body.rows]
    body.control = [
        {number[i & LOCAL_MASK] for i in row.control_predecessor_ids} for row in body.rows
    ]
    body.commuting = [
        len(operands) == 2 and row.opcode in COMMUTATIVE
        for row, operands in zip(body.rows, body.operands, strict=True)
    ]
    body.users = [[] for _ in body.rows]
    for place, operands in enumerate(body.operands):
        commutes = body.commuting[place]
        for slot, operand in enumerate(operands):
            body.users[operand].append((place, 0 if commutes else slot))
    body.root = number[computation.root.local_id]
    body.keys = [content(row, computation, ignored) for row in body.rows]
    _look_up(body, called)
    _look_down(body)
    return body


def _look_up(body: Body, called: Mapping[int, bytes]) -> None:
    up = body.up
    for place, row in enumerate(body.rows):
        above = [up[operand] for operand in body.operands[place]]
        if body.commuting[place]:
            above.sort()
        inside = [called.get(n, b"") for n in row.called_computation_ids]
        up.append(_digest(body.keys[place], *inside, *above))


def _look_down(body: Body) -> None:
    body.down = [b""] * len(body.rows)
    down = body.down
    for place in range(len(body.rows) - 1, -1, -1):
        uses = [down[user] + slot.to_bytes(4, "little") for user, slot in body.users[place]]
        if len(uses) > 1:
            uses.sort()
        mark = b"root" if place == body.root else b""
        down[place] = _digest(body.keys[place], mark, *uses)


def content(row: Message, computation: Computation, ignored: Collection[str]) -> bytes:
    """Everything of an instruction but who it is and what it refers to."""
    copy = type(row)()
    copy.CopyFrom(row)
    for name in _cleared(frozenset(ignored)):
        copy.ClearField(name)
    for one, value in copy.ListFields():
        if is_void(one.name, value):
            copy.ClearField(one.name)
    if "layout" in ignored:
        _drop_layouts(copy.shape)
        _drop_layouts(copy.literal.shape) if copy.HasField("literal") else None
    data = copy.SerializeToString(deterministic=True)
    kept = None
    if row.opcode == "constant" and "literal" not in ignored:
        kept = computation.module.kept_constant(computation.id, row.id & LOCAL_MASK)
    return data if kept is None else data + bytes(kept.buffer[kept.begin : kept.end])


@lru_cache(maxsize=64)
def _cleared(ignored: frozenset[str]) -> tuple[str, ...]:
    """The fields that make no difference."""
    return (*_WHO, *(field for name in ignored for field in _FIELDS.get(name, ())))


def is_void(name: str, value: Any) -> bool:
    """Whether a field holds a message that says no more than none; some readers write such."""
    return isinstance(value, AnyMessage) and name not in _MEANT and not value.ByteSize()


def _drop_layouts(shape: Message) -> None:
    shape.ClearField("layout")
    for part in shape.tuple_shapes:
        _drop_layouts(part)


def _digest(*parts: bytes) -> bytes:
    lengths = _lengths(tuple([len(part) for part in parts]))
    return blake2b(lengths + b"".join(parts), digest_size=16).digest()


@lru_cache(maxsize=4096)
def _lengths(lengths: tuple[int, ...]) -> bytes:
    """The lengths of a digest's parts, which tell where each ends."""
    return struct.pack(f"<{len(lengths) + 1}Q", len(lengths), *lengths)
