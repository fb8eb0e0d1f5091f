"""``origin={...}``: where the parts of a value came from before it was transformed."""

from __future__ import annotations

from typing import Any

from hlo_tools import schema
from hlo_tools.text.cursor import Cursor
from hlo_tools.text.print_values import quote

__all__ = ["original_value", "print_array", "read_array", "read_original_value"]

Message = Any


def read_original_value(cursor: Cursor) -> Message:
    """``{{"name" {0}}}``, a tuple of those in parentheses, or ``{[synthetic_call]}``."""
    value = schema.OriginalValueProto()
    cursor.expect("{", "to start the origin")
    if cursor.accept("["):
        if cursor.identifier("synthetic_call") != "synthetic_call":
            raise cursor.error("expected [synthetic_call]")
        cursor.expect("]", "after synthetic_call")
        value.is_synthetic_call = True
    else:
        _read_element(cursor, value, [])
    cursor.expect("}", "to end the origin")
    return value


def _read_element(cursor: Cursor, value: Message, index: list[int]) -> None:
    if cursor.accept("("):
        cursor.deeper()
        position = 0
        while not cursor.accept(")"):
            _read_element(cursor, value, [*index, position])
            cursor.accept(",")
            position += 1
        cursor.depth -= 1
        return
    read_array(cursor, value.elements.add(shape_index=index).original_array)


def read_array(cursor: Cursor, array: Message) -> None:
    """``{"instruction" {0,1}}``, or ``{}`` for none, into an ``OriginalArrayProto``."""
    cursor.expect("{", "to start the origin of an array")
    array.SetInParent()
    if cursor.peek('"'):
        array.instruction_name = cursor.text_string()
        if cursor.peek("{"):
            array.shape_index.extend(cursor.integers())
    cursor.expect("}", "to end the origin of an array")


def print_array(array: Message) -> str:
    """The text of an ``OriginalArrayProto``."""
    index = f" {{{','.join(map(str, array.shape_index))}}}" if array.shape_index else ""
    return f"{{{quote(array.instruction_name)}{index}}}"


def original_value(data: bytes) -> Message | None:
    """The value, or None for one of the forms before 2025-08, which had other numbers."""
    try:
        value = schema.OriginalValueProto.FromString(data)
    except Exception:  # protobuf's DecodeError
        return None
    size = value.ByteSize()
    value.DiscardUnknownFields()
    return value if value.ByteSize() == size else None
