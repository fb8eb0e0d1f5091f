"""Buffers (``b(f32[32])``): where they may occur, and that each has one writer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from hlo_tools.inference.types import of
from hlo_tools.verify.findings import Finding
from hlo_tools.verify.index import Body, Index
from hlo_tools.verify.structure import Message

__all__ = ["check_buffers"]

_BUFFER, _TUPLE = 34, 13
_PASSING = frozenset({"get-tuple-element", "tuple"})
_WRITING = frozenset(
    {"while", "conditional", "dynamic-update-slice", "custom-call", "fusion", "call",
     "async-start", "async-update", "async-done"}
)  # fmt: skip
"""Users that count as writers; what they call is not looked into."""
_ASYNC_ENDS = ("-start", "-update", "-done")
_STREAM = "_xla_stream_annotation"
Place = tuple[int, ...]


def check_buffers(index: Index) -> Iterator[Finding]:
    """Findings about buffers; a module without any costs one look at each shape."""
    for body in index.bodies.values():
        held = [list(_buffers(one.shape)) for one in body.instructions]
        if not any(held):
            continue
        yield from _Checker(index, body, held).findings()


def _buffers(shape: Message, at: Place = ()) -> Iterator[Place]:
    """Where a shape has buffers."""
    if shape.element_type == _BUFFER:
        yield at
    elif shape.element_type == _TUPLE:
        for number, part in enumerate(shape.tuple_shapes):
            yield from _buffers(part, (*at, number))


class _Checker:
    """The buffers of one computation."""

    def __init__(self, index: Index, body: Body, held: list[list[Place]]) -> None:
        self.index, self.body = index, body
        self.held = {one.id: places for one, places in zip(body.instructions, held, strict=True)}
        self.in_loop = any(one.opcode == "while" for one, _ in index.callers.get(body.row.id, ()))
        self.is_entry = index.proto.entry_computation_id == body.row.id

    def findings(self) -> Iterator[Finding]:
        if self.index.is_async(self.body):
            if self.body.root.opcode == "custom-call":
                yield from self._custom_call(self.body.root)
            return
        for one, opcode in zip(self.body.instructions, self.body.opcodes, strict=True):
            if opcode.endswith(_ASYNC_ENDS) or opcode in _PASSING:
                continue
            if opcode == "call" and _STREAM in one.frontend_attributes.map:
                continue
            yield from self._instruction(one, opcode)

    def _instruction(self, one: Message, opcode: str) -> Iterator[Finding]:
        if opcode == "custom-call":
            yield from self._custom_call(one)
        elif opcode == "while":
            yield from self._one_writer(one)
        elif opcode == "parameter":
            if self.is_entry:
                yield from self._none(one, [one])
            yield from self._one_writer(one)
        elif opcode == "dynamic-update-slice" and self.held[self.body.operands(one)[0].id]:
            yield from self._one_writer(one)
            yield from self._none(one, self.body.operands(one)[1:])
            if not self.held[one.id]:
                yield self._finding("an update of a buffer returns a buffer", one)
        else:
            yield from self._none(one, [one, *self.body.operands(one)])

    def _finding(self, message: str, one: Message) -> Finding:
        return self.body.finding("HLO-V038", message, one)

    def _none(self, one: Message, rows: Iterable[Message]) -> Iterator[Finding]:
        if any(self.held[row.id] for row in rows):
            yield self._finding(f"{one.opcode} has no buffers here", one)

    # -- writers ------------------------------------------------------------------------------

    def _one_writer(self, one: Message, places: Iterable[Place] | None = None) -> Iterator[Finding]:
        for place in self.held[one.id] if places is None else places:
            count = self._writers(one, place)
            if count > 1:
                yield self._finding(f"its buffer {_written(place)} has {count} writers", one)

    def _writers(self, one: Message, place: Place) -> int:
        """Uses that write the buffer at a place of a result; tuples are looked through."""
        count, pending = 0, [(one, place)]
        while pending:
            row, at = pending.pop()
            for user in self.body.users(row):
                opcode = user.opcode
                if opcode in _WRITING:
                    count += 1
                elif opcode == "get-tuple-element" and at and user.tuple_index == at[0]:
                    pending.append((user, at[1:]))
                elif opcode == "tuple" and user is self.body.root:
                    count += self.in_loop
                elif opcode == "tuple":
                    pending.append((user, (list(user.operand_ids).index(row.id), *at)))
        return count

    # -- custom calls -------------------------------------------------------------------------

    def _custom_call(self, one: Message) -> Iterator[Finding]:
        special = {"Pin": self._pin, "Unpin": self._unpin, "CreateBuffer": self._create}
        yield from special.get(one.custom_call_target, self._passed)(one)

    def _pin(self, one: Message) -> Iterator[Finding]:
        operands = self.body.operands(one)
        if len(operands) != 1 or _is_no_array(operands[0]):
            yield self._finding("Pin takes one array", one)
        elif self.held[one.id] != [()]:
            yield self._finding("Pin returns one buffer", one)
        elif of(operands[0].shape) != of(one.shape):
            yield self._finding("Pin returns a buffer of its operand's shape", one)
        elif len(one.output_operand_aliasing) != 1:
            yield self._finding("Pin has one alias of output and operand", one)
        else:
            yield from self._one_writer(one)

    def _unpin(self, one: Message) -> Iterator[Finding]:
        operands = self.body.operands(one)
        if len(operands) != 1 or self.held[operands[0].id] != [()]:
            yield self._finding("Unpin takes one buffer", one)
        elif _is_no_array(one):
            yield self._finding("Unpin returns one array", one)
        elif of(operands[0].shape) != of(one.shape):
            yield self._finding("Unpin returns an array of its buffer's shape", one)
        elif len(one.output_operand_aliasing) != 1:
            yield self._finding("Unpin has one alias of output and operand", one)

    def _create(self, one: Message) -> Iterator[Finding]:
        if one.operand_ids:
            yield self._finding("CreateBuffer takes no operands", one)
        elif self.held[one.id] != [()]:
            yield self._finding("CreateBuffer returns one buffer", one)
        else:
            yield from self._one_writer(one)

    def _passed(self, one: Message) -> Iterator[Finding]:
        """Each buffer goes in once and comes out once."""
        aliases = list(one.output_operand_aliasing)
        given = Counter((row.operand_index, tuple(row.operand_shape_index)) for row in aliases)
        returned = Counter(tuple(row.output_shape_index) for row in aliases)
        for number, operand in enumerate(self.body.operands(one)):
            for place in self.held[operand.id]:
                if given[number, place] != 1:
                    yield self._finding(
                        f"the buffer {_written(place)} of operand {number} is returned "
                        f"{given[number, place]} times", one,
                    )  # fmt: skip
        for place in self.held[one.id]:
            if returned[place] != 1:
                yield self._finding(
                    f"the buffer {_written(place)} comes from {returned[place]} operands", one
                )
        yield from self._one_writer(one)


def _is_no_array(one: Message) -> bool:
    return one.shape.element_type in (_BUFFER, _TUPLE)


def _written(place: Place) -> str:
    return f"{{{', '.join(map(str, place))}}}"
