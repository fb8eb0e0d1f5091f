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
        positions = [list(_buffers(inst.shape)) for inst in body.instructions]
        if not any(positions):
            continue
        yield from _Checker(index, body, positions).findings()


def _buffers(shape: Message, location: Place = ()) -> Iterator[Place]:
    """Yield the indices of buffers in a shape."""
    if shape.element_type == _BUFFER:
        yield location
    elif shape.element_type == _TUPLE:
        for number, element_shape in enumerate(shape.tuple_shapes):
            yield from _buffers(element_shape, (*location, number))


class _Checker:
    """The buffers of one computation."""

    def __init__(self, index: Index, body: Body, places_by_inst: list[list[Place]]) -> None:
        self.index, self.body = index, body
        self.buffers = {
            inst.id: positions
            for inst, positions in zip(body.instructions, places_by_inst, strict=True)
        }
        self.in_loop = any(inst.opcode == "while" for inst, _ in index.callers.get(body.row.id, ()))
        self.is_entry = index.proto.entry_computation_id == body.row.id

    def findings(self) -> Iterator[Finding]:
        if self.index.is_async(self.body):
            if self.body.root.opcode == "custom-call":
                yield from self._custom_call(self.body.root)
            return
        for inst, opcode in zip(self.body.instructions, self.body.opcodes, strict=True):
            if opcode.endswith(_ASYNC_ENDS) or opcode in _PASSING:
                continue
            if opcode == "call" and _STREAM in inst.frontend_attributes.map:
                continue
            yield from self._instruction(inst, opcode)

    def _instruction(self, inst: Message, opcode: str) -> Iterator[Finding]:
        if opcode == "custom-call":
            yield from self._custom_call(inst)
        elif opcode == "while":
            yield from self._one_writer(inst)
        elif opcode == "parameter":
            if self.is_entry:
                yield from self._none(inst, [inst])
            yield from self._one_writer(inst)
        elif opcode == "dynamic-update-slice" and self.buffers[self.body.operands(inst)[0].id]:
            yield from self._one_writer(inst)
            yield from self._none(inst, self.body.operands(inst)[1:])
            if not self.buffers[inst.id]:
                yield self._finding("an update of a buffer returns a buffer", inst)
        else:
            yield from self._none(inst, [inst, *self.body.operands(inst)])

    def _finding(self, message: str, inst: Message) -> Finding:
        return self.body.finding("HLO-V038", message, inst)

    def _none(self, inst: Message, rows: Iterable[Message]) -> Iterator[Finding]:
        if any(self.buffers[row.id] for row in rows):
            yield self._finding(f"{inst.opcode} has no buffers here", inst)

    # -- writers ------------------------------------------------------------------------------

    def _one_writer(
        self, inst: Message, locations: Iterable[Place] | None = None
    ) -> Iterator[Finding]:
        for position in self.buffers[inst.id] if locations is None else locations:
            count = self._writers(inst, position)
            if count > 1:
                yield self._finding(f"its buffer {_written(position)} has {count} writers", inst)

    def _writers(self, inst: Message, location: Place) -> int:
        """Uses that write the buffer at a place of a result; tuples are looked through."""
        count, pending = 0, [(inst, location)]
        while pending:
            row, index = pending.pop()
            for user in self.body.users(row):
                opcode = user.opcode
                if opcode in _WRITING:
                    count += 1
                elif opcode == "get-tuple-element" and index and user.tuple_index == index[0]:
                    pending.append((user, index[1:]))
                elif opcode == "tuple" and user is self.body.root:
                    count += self.in_loop
                elif opcode == "tuple":
                    pending.append((user, (list(user.operand_ids).index(row.id), *index)))
        return count

    # -- custom calls -------------------------------------------------------------------------

    def _custom_call(self, inst: Message) -> Iterator[Finding]:
        special = {"Pin": self._pin, "Unpin": self._unpin, "CreateBuffer": self._create}
        yield from special.get(inst.custom_call_target, self._passed)(inst)

    def _pin(self, inst: Message) -> Iterator[Finding]:
        operands = self.body.operands(inst)
        if len(operands) != 1 or _is_no_array(operands[0]):
            yield self._finding("Pin takes one array", inst)
        elif self.buffers[inst.id] != [()]:
            yield self._finding("Pin returns one buffer", inst)
        elif of(operands[0].shape) != of(inst.shape):
            yield self._finding("Pin returns a buffer of its operand's shape", inst)
        elif len(inst.output_operand_aliasing) != 1:
            yield self._finding("Pin has one alias of output and operand", inst)
        else:
            yield from self._one_writer(inst)

    def _unpin(self, inst: Message) -> Iterator[Finding]:
        operands = self.body.operands(inst)
        if len(operands) != 1 or self.buffers[operands[0].id] != [()]:
            yield self._finding("Unpin takes one buffer", inst)
        elif _is_no_array(inst):
            yield self._finding("Unpin returns one array", inst)
        elif of(operands[0].shape) != of(inst.shape):
            yield self._finding("Unpin returns an array of its buffer's shape", inst)
        elif len(inst.output_operand_aliasing) != 1:
            yield self._finding("Unpin has one alias of output and operand", inst)

    def _create(self, inst: Message) -> Iterator[Finding]:
        if inst.operand_ids:
            yield self._finding("CreateBuffer takes no operands", inst)
        elif self.buffers[inst.id] != [()]:
            yield self._finding("CreateBuffer returns one buffer", inst)
        else:
            yield from self._one_writer(inst)

    def _passed(self, inst: Message) -> Iterator[Finding]:
        """Check that each buffer is passed in once and returned once."""
        aliases = list(inst.output_operand_aliasing)
        uses = Counter((row.operand_index, tuple(row.operand_shape_index)) for row in aliases)
        returned = Counter(tuple(row.output_shape_index) for row in aliases)
        for number, operand in enumerate(self.body.operands(inst)):
            for location in self.buffers[operand.id]:
                if uses[number, location] != 1:
                    yield self._finding(
                        f"the buffer {_written(location)} of operand {number} is returned "
                        f"{uses[number, location]} times", inst,
                    )  # fmt: skip
        for location in self.buffers[inst.id]:
            if returned[location] != 1:
                yield self._finding(
                    f"the buffer {_written(location)} comes from {returned[location]} operands",
                    inst,
                )
        yield from self._one_writer(inst)


def _is_no_array(inst: Message) -> bool:
    return inst.shape.element_type in (_BUFFER, _TUPLE)


def _written(location: Place) -> str:
    return f"{{{', '.join(map(str, location))}}}"
