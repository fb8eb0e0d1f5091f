"""``origin={...}``: where the parts of a value came from before it was transformed."""

from __future__ import annotations

from typing import Any

from hlo_tools import schema
from hlo_tools.text.cursor import Cursor

__all__ = ["read_original_value"]

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
        at = 0
        while not cursor.accept(")"):
            _read_element(cursor, value, [*index, at])
            cursor.accept(",")
            at += 1
        cursor.depth -= 1
        return
    cursor.expect("{", "to start the origin of an array")
    element = value.elements.add(shape_index=index)
    if cursor.peek('"'):
        element.original_array.instruction_name = cursor.text_string()
        if cursor.peek("{"):
            element.original_array.shape_index.extend(cursor.integers())
    cursor.expect("}", "to end the origin of an array")
