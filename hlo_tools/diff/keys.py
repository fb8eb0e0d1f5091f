"""Keys of instructions as numbers: equal contents in two modules have the same number."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from hlo_tools.diff.contents import FIELDS, contents, without_layouts
from hlo_tools.errors import HloError
from hlo_tools.ir.computation import Computation
from hlo_tools.ir.module import Module
from hlo_tools.outline import CALLED, CALLED_ONE, Outline
from hlo_tools.types.comparison import effective_order
from hlo_tools.types.ids import LOCAL_BITS, LOCAL_MASK
from hlo_tools.types.opcodes import opcodes_with

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloInstructionProto, HloModuleProto

__all__ = ["IGNORABLE", "Body", "Numbers", "bodies_of", "check_ignored", "order_of"]

Message = Any
IGNORABLE = (*FIELDS, "layout", "operand-order")
"""Properties that a comparison can ignore."""
_SLOT_BITS = 32
_COMMUTATIVE_OPCODES = opcodes_with("commutative")
_ORDERS = (72 << 3 | 2, 102 << 3 | 2)
"""Tags of the fields that state a comparison's order."""
_CONTROL = tuple(37 << 3 | kind for kind in (2, 0))
"""Tags of the field of control predecessors."""


def order_of(body: Body, position: int) -> str:
    """The order of a comparison, whichever field of its message states it."""
    first = body.operands[position][:1]
    element_type = body.rows[first[0]].shape.element_type if first else 0
    return effective_order(body.rows[position], element_type)


def check_ignored(ignored: Collection[str]) -> None:
    """Raises HloError (HLO-ARGUMENT) for something that cannot be left out."""
    for name in ignored:
        if name not in IGNORABLE:
            raise HloError(
                f"{name!r} cannot be left out of a comparison",
                code="HLO-ARGUMENT",
                remedy=f"use {', '.join(IGNORABLE)}",
            )


_Table = dict[Hashable, int]


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers of all that occurs in modules that are compared.

    Attributes:
        keys: by the bytes of an instruction, without what it is connected to.
        up, down: by the numbers of an instruction, of what it calls, and of what is above or below.
        bodies: by the numbers of a computation's instructions.
    """

    keys: _Table = field(default_factory=_Table)
    up: _Table = field(default_factory=_Table)
    down: _Table = field(default_factory=_Table)
    bodies: _Table = field(default_factory=_Table)


@dataclass(slots=True)
class Body:
    """A computation made ready for matching; instructions are numbers in post-order.

    Attributes:
        names, opcodes, calls: of the instructions; calls are ids of computations.
        control: the control predecessors.
        commuting: whether the operands may stand in either order.
        users: (user, operand number) pairs; the number is 0 for both operands of a commutative
            operation, whose order makes no difference to ``up`` and ``down`` either.
        keys: what an instruction is, without what it is connected to.
        up: the same with everything it is computed from.
        down: the same with everything that is computed from it.
        fingerprint: equal for computations that are alike whatever their names and order.
    """

    computation: Computation
    rows: list[Message]
    names: list[str]
    opcodes: list[str]
    calls: list[tuple[int, ...]]
    operands: list[list[int]]
    control: list[set[int]]
    root: int
    commuting: list[bool] = field(default_factory=list[bool])
    users: list[list[tuple[int, int]]] = field(default_factory=list[list[tuple[int, int]]])
    keys: list[int] = field(default_factory=list[int])
    up: list[int] = field(default_factory=list[int])
    down: list[int] = field(default_factory=list[int])
    fingerprint: int = -1


def bodies_of(module: Module, ignored: Collection[str], numbers: Numbers) -> dict[int, Body]:
    """A module's computations by id, called ones first.

    Raises:
        HloFileError: the module refers to what it does not have, or in a circle.
    """
    message, outline = _in_order(module)
    bodies = _bodies(module, message, outline)
    if "layout" in ignored:
        outline = _outline(without_layouts(message))
    texts = list(contents(outline, ignored))
    if module.has_kept_constants and "literal" not in ignored:
        for location, (number, row) in enumerate(_rows(message)):
            stored = module.kept_constant(number, row.id & LOCAL_MASK)
            if stored is not None:
                texts[location] += blake2b(
                    memoryview(stored.buffer)[stored.begin : stored.end]
                ).digest()
    stated = set(outline.fields.of(*_ORDERS).row.tolist())
    positions = ((body, position) for body in bodies for position in range(len(body.rows)))
    for number, (body, location) in enumerate(positions):
        if body.opcodes[location] == "compare":
            texts[number] += order_of(body, location).encode()
        elif number in stated:  # it means nothing there, and is compared as it is
            row = body.rows[location]
            texts[number] += f"{row.comparison_type} {row.comparison_order}".encode()
    keys = iter([numbers.keys.setdefault(text, len(numbers.keys)) for text in texts])
    for body in bodies:
        body.keys = list(islice(keys, len(body.rows)))
    bodies_by_id = {body.computation.id: body for body in _called_first(module, bodies)}
    prints: dict[int, int] = {}
    for number, body in bodies_by_id.items():
        _look_up(body, prints, numbers.up)
        _look_down(body, numbers.down)
        every = (body.up[body.root], *sorted(body.up))
        body.fingerprint = prints[number] = numbers.bodies.setdefault(every, len(numbers.bodies))
    return bodies_by_id


def _outline(message: HloModuleProto) -> Outline:
    return Outline(message.SerializeToString(deterministic=True), also=(*_CONTROL, *_ORDERS))


def _rows(message: HloModuleProto) -> Iterator[tuple[int, HloInstructionProto]]:
    """The instructions of a module, each with the id of its computation."""
    return ((body.id, row) for body in message.computations for row in body.instructions)


def _in_order(module: Module) -> tuple[HloModuleProto, Outline]:
    """The module's message with instructions in post-order, and its outline."""
    message = module.proto
    outline = _outline(message)
    if _is_in_order(outline):
        return message, outline
    message = type(message)()
    message.CopyFrom(module.proto)
    for body in message.computations:
        computation = module.computation_by_id(body.id)
        assert computation.root  # or there is none, which it reports
        positions = {view.id: position for position, view in enumerate(computation.post_order())}
        body.instructions.sort(key=lambda row, location=positions: location[row.id])
    return message, _outline(message)


def _is_in_order(outline: Outline) -> bool:
    """Return True if operands precede users, no control edges exist, and ids are unique."""
    first, operands = outline.operands
    rows = np.arange(outline.instruction_count)
    owners = np.repeat(rows, np.diff(first))
    if not ((operands >= 0) & (operands < owners)).all() or outline.fields.of(*_CONTROL).row.size:
        return False
    names = outline.body_of.astype(np.int64) << LOCAL_BITS | outline.local_ids
    roots = [body.root_id & LOCAL_MASK for body in outline.bodies]
    has_root = np.isin(np.arange(len(roots)) << LOCAL_BITS | np.array(roots, np.int64), names)
    return np.unique(names).size == names.size and bool(has_root.all())


def _bodies(module: Module, message: HloModuleProto, outline: Outline) -> list[Body]:
    """The computations of a module in order, without numbers."""
    first, operands = outline.operands
    bounds, operands = first.tolist(), operands.tolist()
    starts, calls = (column.tolist() for column in outline.numbers(CALLED, CALLED_ONE))
    before, waits = (column.tolist() for column in outline.numbers(*_CONTROL))
    ids, kinds = outline.local_ids.tolist(), outline.kind_of.tolist()
    opcodes = [opcode for opcode, _ in outline.kinds]
    built: list[Body] = []
    for body_outline, row in zip(outline.bodies, message.computations, strict=True):
        rows, base = list(row.instructions), body_outline.first
        positions = range(body_outline.first, body_outline.last)
        number = {
            id: position for position, id in enumerate(ids[body_outline.first : body_outline.last])
        }
        body = Body(
            module.computation_by_id(row.id),
            rows,
            [row.name for row in rows],
            [opcodes[kind] for kind in kinds[body_outline.first : body_outline.last]],
            [tuple(calls[starts[n] : starts[n + 1]]) for n in positions],
            [
                [operand - base for operand in operands[bounds[n] : bounds[n + 1]]]
                for n in positions
            ],
            [
                {number[id & LOCAL_MASK] for id in waits[before[n] : before[n + 1]]}
                for n in positions
            ],
            number[body_outline.root_id & LOCAL_MASK],
        )
        _connect(body)
        built.append(body)
    return built


def _connect(body: Body) -> None:
    """Fill in who uses what."""
    for position, (opcode, operands) in enumerate(zip(body.opcodes, body.operands, strict=True)):
        commutes = len(operands) == 2 and opcode in _COMMUTATIVE_OPCODES
        body.commuting.append(commutes)
        body.users.append([])
        for slot, operand in enumerate(operands):
            body.users[operand].append((position, 0 if commutes else slot))


def _called_first(module: Module, bodies: list[Body]) -> list[Body]:
    visited: set[int] = set()
    for body in bodies:
        if not all(visited.issuperset(calls) for calls in body.calls if calls):
            break
        visited.add(body.computation.id)
    else:
        return bodies
    by_id = {body.computation.id: body for body in bodies}
    return [by_id[computation.id] for computation in module.computations_in_order()]


def _look_up(body: Body, called: Mapping[int, int], table: _Table) -> None:
    up = body.up
    for position, (key, operands) in enumerate(zip(body.keys, body.operands, strict=True)):
        above = [up[operand] for operand in operands]
        if body.commuting[position]:
            above.sort()
        calls = body.calls[position]
        inside = tuple([called.get(n, -1) for n in calls]) if calls else None
        up.append(table.setdefault((key, inside, *above), len(table)))


def _look_down(body: Body, table: _Table) -> None:
    body.down = [-1] * len(body.rows)
    down = body.down
    for position in range(len(body.rows) - 1, -1, -1):
        uses = [down[user] << _SLOT_BITS | slot for user, slot in body.users[position]]
        if len(uses) > 1:
            uses.sort()
        key = (body.keys[position], position == body.root, *uses)
        down[position] = table.setdefault(key, len(table))
