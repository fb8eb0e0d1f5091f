"""Why a message does not parse: the first wrong byte and the field it belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from hlo_tools.errors import HloFileError
from hlo_tools.wire import fields as wire

if TYPE_CHECKING:
    from hlo_tools.wire.fields import Buffer

__all__ = ["explain"]

_DEPTH = 96
_STRING, _MESSAGE, _BYTES = 9, 11, 12
"""Field types of descriptors (google/protobuf/descriptor.proto, FieldDescriptorProto.Type)."""
_FIXED = {1: 8, 2: 4, 6: 8, 7: 4, 15: 4, 16: 8}
"""Bytes of one packed double, float, fixed64, fixed32, sfixed32, sfixed64."""


class _FieldType(Protocol):
    """The used attributes of protobuf's ``FieldDescriptor``; it has two classes of that name."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> int: ...
    @property
    def message_type(self) -> _MessageType | None: ...


class _MessageType(Protocol):
    """The used attributes of protobuf's ``Descriptor``."""

    @property
    def name(self) -> str: ...
    @property
    def fields_by_number(self) -> Mapping[int, _FieldType]: ...


def explain(data: Buffer, descriptor: _MessageType) -> HloFileError:
    """The error for ``data`` that protobuf refused as a ``descriptor`` message."""
    try:
        _walk(data, 0, len(data), descriptor, descriptor.name, 0)
    except HloFileError as error:
        return error
    return HloFileError(
        f"protobuf refuses it as {descriptor.name}, without giving a reason",
        code="HLO-DAMAGED",
        remedy="get the file again from its source",
    )


def _walk(
    data: Buffer, begin: int, end: int, descriptor: _MessageType, path: str, depth: int
) -> None:
    if depth > _DEPTH:
        raise wire.damage(begin, f"{path}: messages nested deeper than {_DEPTH}")
    descriptions = descriptor.fields_by_number
    counts: dict[int, int] = {}
    for field in _fields(data, begin, end, path):
        description = descriptions.get(field.number)
        if description is None or field.wire_type != wire.BYTES:
            continue
        index = counts[field.number] = counts.get(field.number, -1) + 1
        _check(data, field, description, f"{path}.{description.name}[{index}]", depth)


def _fields(data: Buffer, begin: int, end: int, path: str) -> Iterator[wire.Field]:
    """Fields of a message; an error among them says which message it is."""
    try:
        yield from wire.fields(data, begin, end)
    except HloFileError as error:
        raise HloFileError(
            f"{error.message}: in {path}", code=error.code, place=error.place, remedy=error.remedy
        ) from None


def _check(data: Buffer, field: wire.Field, description: _FieldType, path: str, depth: int) -> None:
    if description.type == _MESSAGE and description.message_type is not None:
        _walk(data, field.begin, field.end, description.message_type, path, depth + 1)
    elif description.type == _STRING:
        try:
            str(data[field.begin : field.end], "utf-8")
        except UnicodeDecodeError as error:
            raise wire.damage(field.begin + error.start, f"{path} is not UTF-8") from None
    elif description.type != _BYTES:
        _check_packed(data, field, description.type, path)


def _check_packed(data: Buffer, field: wire.Field, kind: int, path: str) -> None:
    """A packed run of numbers: whole fixed ones, or varints of which the last one ends."""
    size = field.end - field.begin
    width = _FIXED.get(kind)
    if width is not None and size % width:
        raise wire.damage(field.begin, f"{path} has {size} bytes, no multiple of {width}")
    if width is None and size and data[field.end - 1] >= 0x80:
        raise wire.damage(field.end - 1, f"the last number of {path} is cut")
