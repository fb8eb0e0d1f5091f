"""Modules whose large constants stay in the file.

:func:`cut` walks the wire format of a module and leaves the values of large constants out; what is
left is small and is parsed as any module. Each constant left out is known by its place in the
file, and its elements are read from there when somebody asks for them. So a module of any size
(protobuf itself ends at 2 GiB) is loaded at the cost of its instructions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeAlias

from hlo_tools import schema
from hlo_tools.wire import fields as wire
from hlo_tools.wire.fields import Buffer

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hlo_tools.schema.messages import (
        HloComputationProto,
        HloModuleProto,
        HloProto,
        HloSnapshot,
        HloUnoptimizedSnapshot,
    )


__all__ = [
    "LiteralRange",
    "Skeleton",
    "canonical",
    "cut",
    "cut_instruction",
    "encode_field",
    "encode_varint",
    "module_range",
    "splice",
    "wrapped",
]

Envelope: TypeAlias = "HloProto | HloSnapshot | HloUnoptimizedSnapshot"
"""A message around a module."""

_COMPUTATIONS, _INSTRUCTIONS, _LITERAL = 3, 2, 8
"""Field numbers of the module, the computation and the instruction."""
_MODULE_OF = {"module": (), "hlo": (1,), "snapshot": (1, 1), "unoptimized": (1,)}
"""The fields that lead from a file's message to its module."""


@dataclass(frozen=True, slots=True)
class LiteralRange:
    """A constant's ``LiteralProto`` in the file: ``buffer[begin:end]``."""

    buffer: Buffer = field(repr=False)
    begin: int
    end: int


class Skeleton(NamedTuple):
    """A module without its large constants.

    ``kept`` has the constants by (computation number, instruction number), both counted in the
    file's order.
    """

    data: bytes
    literals: dict[tuple[int, int], LiteralRange]


def cut(buffer: Buffer, kind: str, threshold: int) -> Skeleton:
    """The module in ``buffer`` without constants whose literal is larger than ``threshold`` bytes.

    Args:
        buffer: bytes, a memory map or a view of one.
        kind: what the file is, as :func:`hlo_tools.files.detection.detect` says.

    Raises:
        HloFileError: the bytes are no message.
    """
    begin, end = module_range(buffer, kind)
    literals: dict[tuple[int, int], LiteralRange] = {}
    pieces: list[bytes | memoryview] = []
    computation = 0
    for entry in wire.fields(buffer, begin, end):
        if entry.number != _COMPUTATIONS:
            pieces.append(buffer[entry.offset : entry.end])
            continue
        data = _cut_computation(buffer, entry, computation, threshold, literals)
        pieces += (_prefix(_COMPUTATIONS, len(data)), data)
        computation += 1
    return Skeleton(b"".join(pieces), literals)


def module_range(buffer: Buffer, kind: str) -> tuple[int, int]:
    """Where the HloModuleProto of a file begins and ends."""
    begin, end = 0, len(buffer)
    for number in _MODULE_OF[kind]:
        begin, end = _payload(buffer, begin, end, number)
    return begin, end


def wrapped(buffer: Buffer, kind: str, module: bytes) -> bytes:
    """The message of a file around another module: all its other fields as they are."""
    return _wrapped(buffer, 0, len(buffer), _MODULE_OF[kind], module)


def _wrapped(buffer: Buffer, begin: int, end: int, path: tuple[int, ...], module: bytes) -> bytes:
    if not path:
        return module
    parts: list[bytes | memoryview] = []
    for entry in wire.fields(buffer, begin, end):
        if entry.number == path[0]:
            inner = _wrapped(buffer, entry.begin, entry.end, path[1:], module)
            parts.append(encode_field(entry.number, inner))
        else:
            parts.append(buffer[entry.offset : entry.end])
    return b"".join(parts)


def _payload(buffer: Buffer, begin: int, end: int, number: int) -> tuple[int, int]:
    for entry in wire.fields(buffer, begin, end):
        if entry.number == number:
            return entry.begin, entry.end
    raise wire.damage(begin, f"field {number}, which holds the module, is missing")


def _cut_computation(
    buffer: Buffer,
    outer: wire.Field,
    number: int,
    threshold: int,
    literals: dict[tuple[int, int], LiteralRange],
) -> bytes:
    """A computation's bytes; runs of small instructions are copied in one piece."""
    pieces: list[bytes | memoryview] = []
    start = outer.begin
    index = 0
    for inner in wire.fields(buffer, outer.begin, outer.end):
        if inner.number != _INSTRUCTIONS:
            continue
        if inner.end - inner.begin > threshold:
            replaced, literal = cut_instruction(buffer, inner.begin, inner.end, threshold)
            if literal is not None:
                pieces += (buffer[start : inner.offset], _prefix(_INSTRUCTIONS, len(replaced)))
                pieces.append(replaced)
                start = inner.end
                literals[number, index] = literal
        index += 1
    pieces.append(buffer[start : outer.end])
    return b"".join(pieces)


def cut_instruction(
    buffer: Buffer, begin: int, end: int, threshold: int
) -> tuple[bytes, LiteralRange | None]:
    """An instruction whose literal has only a shape, and where the whole literal is."""
    pieces: list[bytes | memoryview] = []
    literal: LiteralRange | None = None
    for inner in wire.fields(buffer, begin, end):
        if inner.number == _LITERAL and inner.end - inner.begin > threshold:
            literal = LiteralRange(buffer, inner.begin, inner.end)
            shape = _shape_of(buffer, inner)
            pieces += (_prefix(_LITERAL, len(shape)), shape)
        else:
            pieces.append(buffer[inner.offset : inner.end])
    return b"".join(pieces), literal


def _shape_of(buffer: Buffer, literal: wire.Field) -> bytes:
    shapes = [
        bytes(buffer[entry.offset : entry.end])
        for entry in wire.fields(buffer, literal.begin, literal.end)
        if entry.number == 1
    ]
    return b"".join(shapes)


def _prefix(number: int, size: int) -> bytes:
    """The tag and length in front of a message field."""
    return encode_varint(number << 3 | wire.BYTES) + encode_varint(size)


def encode_field(number: int, data: bytes) -> bytes:
    """A message field with its tag and length."""
    return _prefix(number, len(data)) + data


def encode_varint(value: int) -> bytes:
    """An unsigned number as the wire format has it."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# Writing


def splice(
    proto: HloModuleProto,
    literals: dict[tuple[int, int], LiteralRange],
    stream: BinaryIO,
    envelope: Envelope | None = None,
) -> None:
    """Write a whole HloModuleProto: the skeleton, with every kept constant back in its place.

    Args:
        literals: constants by (computation id, local id of the instruction).
        envelope: the message that the module is a part of, written around it.
    """
    pieces = list(_module_pieces(proto, literals))
    before, after = _around(envelope, sum(len(piece) for piece in pieces))
    for piece in (before, *pieces, after):
        stream.write(piece)


def _around(envelope: Envelope | None, size: int) -> tuple[bytes, bytes]:
    """Return the bytes of a message before and after its module of ``size`` bytes."""
    if envelope is None:
        return b"", b""
    if not isinstance(envelope, schema.HloSnapshot):
        return _around_field(envelope, "hlo_module", size)
    before, after = _around_field(envelope.hlo, "hlo_module", size)
    outer, outer_after = _around_field(envelope, "hlo", len(before) + size + len(after))
    return outer + before, after + outer_after


def canonical(message: Message) -> bytes:
    """Return the bytes of a message that depend on nothing but its fields."""
    return message.SerializeToString(deterministic=True)


def _around_field(message: Message, name: str, size: int) -> tuple[bytes, bytes]:
    enclosing = type(message)()
    enclosing.CopyFrom(message)
    enclosing.ClearField(name)
    tag = _prefix(message.DESCRIPTOR.fields_by_name[name].number, size)
    return tag, canonical(enclosing)


def _module_pieces(
    proto: HloModuleProto, literals: dict[tuple[int, int], LiteralRange]
) -> Iterator[bytes | memoryview]:
    head = schema.HloModuleProto()
    head.CopyFrom(proto)
    del head.computations[:]
    yield canonical(head)
    for computation in proto.computations:
        pieces = list(_computation_pieces(computation, literals))
        yield _prefix(_COMPUTATIONS, sum(len(piece) for piece in pieces))
        yield from pieces


def _computation_pieces(
    computation: HloComputationProto, literals: dict[tuple[int, int], LiteralRange]
) -> Iterator[bytes | memoryview]:
    head = schema.HloComputationProto()
    head.CopyFrom(computation)
    del head.instructions[:]
    yield canonical(head)
    for instruction in computation.instructions:
        literal = literals.get((computation.id, instruction.id & 0xFFFFFFFF))
        if literal is None:
            data = canonical(instruction)
            yield _prefix(_INSTRUCTIONS, len(data))
            yield data
            continue
        bare = schema.HloInstructionProto()
        bare.CopyFrom(instruction)
        bare.ClearField("literal")
        data = canonical(bare)
        size = literal.end - literal.begin
        inner = _prefix(_LITERAL, size)
        yield _prefix(_INSTRUCTIONS, len(data) + len(inner) + size)
        yield data
        yield inner
        yield memoryview(literal.buffer)[literal.begin : literal.end]
