"""What makes two instructions alike, as bytes and as numbers that are compared quickly."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

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
    """

    computation: Computation
    rows: list[Message] = field(default_factory=list[Message])
    operands: list[list[int]] = field(default_factory=list[list[int]])
    users: list[list[tuple[int, int]]] = field(default_factory=list[list[tuple[int, int]]])
    control: list[set[int]] = field(default_factory=list[set[int]])
    keys: list[bytes] = field(default_factory=list[bytes])
    up: list[bytes] = field(default_factory=list[bytes])
    down: list[bytes] = field(default_factory=list[bytes])
    root: int = -1

    def commutes(self, place: int) -> bool:
        """Whether the operands of an instruction may stand in either order."""
        return self.rows[place].opcode in COMMUTATIVE and len(self.operands[place]) == 2

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
    body.users = [[] for _ in body.rows]
    for place, operands in enumerate(body.operands):
        for slot, operand in enumerate(operands):
            body.users[operand].append((place, 0 if body.commutes(place) else slot))
    body.root = number[computation.root.local_id]
    body.keys = [content(row, computation, ignored) for row in body.rows]
    for place, row in enumerate(body.rows):
        inside = [called.get(n, b"") for n in row.called_computation_ids]
        above = [body.up[operand] for operand in body.operands[place]]
        if body.commutes(place):
            above.sort()
        body.up.append(_digest(body.keys[place], *inside, *above))
    _look_down(body)
    return body


def _look_down(body: Body) -> None:
    body.down = [b""] * len(body.rows)
    for place in range(len(body.rows) - 1, -1, -1):
        uses = sorted(
            body.down[user] + slot.to_bytes(4, "little") for user, slot in body.users[place]
        )
        mark = b"root" if place == body.root else b""
        body.down[place] = _digest(body.keys[place], mark, *uses)


def content(row: Message, computation: Computation, ignored: Collection[str]) -> bytes:
    """Everything of an instruction but who it is and what it refers to."""
    copy = type(row)()
    copy.CopyFrom(row)
    for name in _WHO:
        copy.ClearField(name)
    for name in ignored:
        for cleared in _FIELDS.get(name, ()):
            copy.ClearField(cleared)
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


def is_void(name: str, value: Any) -> bool:
    """Whether a field holds a message that says no more than none; some readers write such."""
    return name not in _MEANT and hasattr(value, "ByteSize") and not value.ByteSize()


def _drop_layouts(shape: Message) -> None:
    shape.ClearField("layout")
    for part in shape.tuple_shapes:
        _drop_layouts(part)


def _digest(*parts: bytes) -> bytes:
    made = blake2b(digest_size=16)
    for part in parts:
        made.update(len(part).to_bytes(4, "little"))
        made.update(part)
    return made.digest()
