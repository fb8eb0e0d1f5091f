"""Fields that the schema lacks: they are kept in a message, and nothing here knows what they mean.

A newer producer may say in such a field what an operation does, so a message with one is not
interpreted unless the caller allows it. Fields that XLA gave up (``reserved`` in ``proto/``) stand
in old files and mean nothing any more; they count as known, but for those of :data:`MEANINGFUL`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, cast

from hlo_tools.errors import HloUnsupportedError
from nki_lang.base.unknown_fields import ALLOW_VARIABLE, unknown_fields_are_allowed

if TYPE_CHECKING:
    from google._upb._message import Descriptor as UpbDescriptor
    from google._upb._message import FieldDescriptor as UpbFieldDescriptor
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.message import Message

    AnyDescriptor = Descriptor | UpbDescriptor

__all__ = [
    "ALLOW",
    "MEANINGFUL",
    "UnknownField",
    "are_allowed",
    "describe_field",
    "known_tags",
    "message_tags",
    "place_of",
    "refuse",
    "reserved_numbers",
    "unknown_fields",
]

ALLOW: Final = ALLOW_VARIABLE
"""Environment variable that ``--allow-unknown-fields`` sets: unknown fields are passed over."""
MEANINGFUL: Final = {"HloInstructionProto": frozenset({86})}
"""Message -> fields that XLA gave up and that change results: 86 is the sparsity of a dot."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class UnknownField:
    """A field that the schema lacks.

    Attributes:
        message: name of the message that it stands in.
        number: the field's number.
        path: names of the fields that lead to the message, from the outermost one on.
        owners: the messages on that way.
    """

    message: str
    number: int
    path: tuple[str, ...]
    owners: tuple[Message, ...]


@cache
def reserved_numbers(descriptor: AnyDescriptor) -> frozenset[int]:
    """Numbers of fields that XLA gave up, and that may be passed over."""
    from google.protobuf import descriptor_pb2

    proto = descriptor_pb2.DescriptorProto()
    descriptor.CopyToProto(proto)
    numbers = {n for span in proto.reserved_range for n in range(span.start, span.end)}
    return frozenset(numbers) - MEANINGFUL.get(descriptor.name, frozenset())


@cache
def known_tags(descriptor: AnyDescriptor) -> frozenset[int]:
    """The keys (``number << 3 | wire type``) that fields of a message may have on the wire."""
    tags = {number << 3 | kind for number in reserved_numbers(descriptor) for kind in range(8)}
    for field in descriptor.fields:
        kind = _wire_type(field)
        tags.add(field.number << 3 | kind)
        if field.is_repeated and kind != _BYTES:
            tags.add(field.number << 3 | _BYTES)
    return frozenset(tags)


@cache
def message_tags(descriptor: AnyDescriptor) -> dict[int, AnyDescriptor]:
    """The keys of fields that are messages, with what they are."""
    return {
        field.number << 3 | _BYTES: field.message_type
        for field in descriptor.fields
        if field.message_type is not None
    }


def _wire_type(field: FieldDescriptor | UpbFieldDescriptor) -> int:
    if field.type in (field.TYPE_DOUBLE, field.TYPE_FIXED64, field.TYPE_SFIXED64):
        return _FIXED64
    if field.type in (field.TYPE_FLOAT, field.TYPE_FIXED32, field.TYPE_SFIXED32):
        return _FIXED32
    if field.type in (field.TYPE_STRING, field.TYPE_BYTES, field.TYPE_MESSAGE):
        return _BYTES
    return _VARINT


def unknown_fields(
    message: Message, path: tuple[str, ...] = (), owners: tuple[Message, ...] = ()
) -> Iterator[UnknownField]:
    """Every unknown field of a message and of the messages in it, at any depth."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    if not owners and not _stores_unknown_fields(message):
        return
    owners = (*owners, message)
    stored = UnknownFieldSet(message)  # pyright: ignore[reportCallIssue]
    if len(stored):
        reserved = reserved_numbers(message.DESCRIPTOR)
        numbers = dict.fromkeys(stored[index].field_number for index in range(len(stored)))
        for number in numbers:
            if number not in reserved:
                yield UnknownField(message.DESCRIPTOR.name, number, path, owners)
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        inner = cast("Iterable[Message]", value)
        if field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type is None:
                continue
            inner = cast("Mapping[object, Message]", value).values()
        elif not field.is_repeated:
            inner = (cast("Message", value),)
        for inner_message in inner:
            yield from unknown_fields(inner_message, (*path, field.name), owners)


def _stores_unknown_fields(message: Message) -> bool:
    """Return True if a message stores any unknown field, reserved numbers included.

    Protobuf drops unknown fields and measures messages in C, 20 times faster than the search.
    """
    without_unknown = type(message)()
    without_unknown.CopyFrom(message)
    without_unknown.DiscardUnknownFields()
    return without_unknown.ByteSize() != message.ByteSize()


def are_allowed() -> bool:
    """Return True if the process passes over unknown fields."""
    return unknown_fields_are_allowed()


def refuse(message: Message, path: str = "") -> HloUnsupportedError:
    """The error of a message that has an unknown field.

    Args:
        message: a module, or the message around one.
        path: its file.
    """
    field = next(unknown_fields(message), None)
    what, names = "this version does not know a field of it", ("", "")
    if field is not None:
        what, names = describe_field(field), place_of(field)
    location = "/".join(f"%{name}" for name in names if name)
    return HloUnsupportedError(
        f"{what}; the module is from a newer producer, and what the field says would be ignored",
        code="HLO-UNKNOWN-FIELD",
        place=": ".join(text for text in (path, location) if text),
        remedy="install a newer nki-hlo, or pass over the field with --allow-unknown-fields "
        "(hlo_tools.load(..., allow_unknown_fields=True)): results may be wrong",
    )


def describe_field(field: UnknownField) -> str:
    """The number, the message and the instruction of an unknown field, in words."""
    text = f"this version does not know field {field.number} of {field.message}"
    depth, row = _owner(field, "HloInstructionProto")
    inner_path = ".".join(field.path[max(depth, 0) :])
    inside = f" ({inner_path})" if inner_path else ""
    return text + inside + (f" in the {_text(row, 'opcode')} %{_text(row, 'name')}" if row else "")


def place_of(field: UnknownField) -> tuple[str, str]:
    """Names of the computation and the instruction that an unknown field belongs to, or ""."""
    body, row = (_owner(field, f"Hlo{kind}Proto")[1] for kind in ("Computation", "Instruction"))
    return _text(body, "name"), _text(row, "name")


def _text(message: Message | None, field: str) -> str:
    return "" if message is None else str(getattr(message, field))


def _owner(field: UnknownField, name: str) -> tuple[int, Message | None]:
    """The message of a type that an unknown field belongs to, and its depth; (-1, None) if none."""
    for depth, message in enumerate(field.owners):
        if message.DESCRIPTOR.name == name:
            return depth, message
    return -1, None
