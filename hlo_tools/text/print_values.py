"""Small values as text: strings, lists, numbers, literals."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from hlo_tools.text.print_numbers import nested, number_text, number_texts
from hlo_tools.types.element_types import BY_NUMBER
from hlo_tools.types.literal import Literal
from hlo_tools.types.shape_text import print_shape

__all__ = ["bracket", "enum_name", "escape", "print_literal", "quote"]

Message = Any

_MAX_PRINTED_ELEMENTS = 10
"""Larger constants are elided unless requested (XLA's limit)."""
_ESCAPES = {byte: f"\\{byte:03o}" for byte in range(256) if not 0x20 <= byte < 0x7F} | {
    0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t", 0x22: '\\"', 0x27: "\\'", 0x5C: "\\\\",
}  # fmt: skip
_UNESCAPED = re.compile(rb"[ !#-&(-\[\]-~]*")


def escape(data: bytes) -> str:
    """C escapes: octal for what is not printable ASCII."""
    if _UNESCAPED.fullmatch(data):
        return str(data, "ascii")
    return str(data, "latin-1").translate(_ESCAPES)


def quote(text: str | bytes) -> str:
    """A quoted string."""
    return f'"{escape(text.encode() if isinstance(text, str) else text)}"'


def bracket(values: Iterable[int]) -> str:
    """``{1,2,3}``."""
    return "{" + ",".join(map(str, values)) + "}"


def enum_name(enum: Any, number: int) -> str:
    """The name of a value of an enum, or the number when the schema has no name for it."""
    return enum.Name(number) if number in enum.values() else str(number)


def print_literal(proto: Message, *, large: bool) -> str:
    """The text between the parentheses of a constant."""
    literal = Literal(proto)
    shape = literal.shape
    if literal.is_tuple:
        parts = (print_literal(element.proto, large=large) for element in literal.parts)
        return "( " + ", ".join(parts) + " )" if literal.parts else "()"
    if not shape.is_array:
        return ""
    if literal.is_elided or (not large and shape.element_count > _MAX_PRINTED_ELEMENTS):
        return "{...}"
    name = BY_NUMBER[proto.shape.element_type].name
    values = literal.numpy()
    if values.ndim == 0:
        return number_text(values[()], name)
    texts = number_texts(values.reshape(-1), name)
    if len(texts) == 1:
        return nested(texts[0], values.shape)
    if values.ndim == 1:
        return f"{{{', '.join(texts)}}}"
    return nested("%s", values.shape) % tuple(texts)


def print_typed_literal(proto: Message) -> str:
    """Print ``s32[2]{0} {1, 2}``: shape and value; each element of a tuple has a shape."""
    literal = Literal(proto)
    if literal.is_tuple:
        return f"( {', '.join(print_typed_literal(element.proto) for element in literal.parts)} )"
    return f"{print_shape(proto.shape)} {print_literal(proto, large=True)}".rstrip()
