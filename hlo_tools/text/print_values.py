"""Small values as text: strings, lists, numbers, literals."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from hlo_tools.types.element_types import BY_NUMBER
from hlo_tools.types.literal import Literal
from hlo_tools.types.shape_text import print_shape

__all__ = ["bracket", "enum_name", "escape", "number_text", "print_literal", "quote"]

Message = Any

_SMALL = 10
"""Constants of more elements are elided unless asked for (XLA's limit)."""
_DOUBLE = np.dtype(np.float64)
_DIGITS = {
    "f64": (15, 17), "f32": (6, 9), "bf16": (4, 4), "f16": (5, 5), "f8e5m2": (2, 2),
    "f8e5m2fnuz": (2, 2), "f4e2m1fn": (2, 2), "f8e8m0fnu": (2, 2),
}  # fmt: skip
"""Significant digits tried first, and digits that are always enough (XLA prints small types with
the latter only)."""
_ESCAPES = {byte: f"\\{byte:03o}" for byte in range(256) if not 0x20 <= byte < 0x7F} | {
    0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t", 0x22: '\\"', 0x27: "\\'", 0x5C: "\\\\",
}  # fmt: skip
_PLAIN = re.compile(rb"[ !#-&(-\[\]-~]*")


def escape(data: bytes) -> str:
    """C escapes: octal for what is not printable ASCII."""
    if _PLAIN.fullmatch(data):
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


def number_text(value: Any, name: str) -> str:
    """A number of element type ``name``, with as few digits as read back to the same value."""
    if name == "pred":
        return "true" if value else "false"
    if name[0] in "su":
        return str(int(value))
    if name[0] == "c":
        part = "f64" if name == "c128" else "f32"
        return f"({number_text(value.real, part)}, {number_text(value.imag, part)})"
    return _float_text(value, name)


def _float_text(value: Any, name: str) -> str:
    number = float(value)
    if number != number:
        return _nan_text(value, name)
    if number in (float("inf"), float("-inf")):
        return "inf" if number > 0 else "-inf"
    few, enough = _DIGITS.get(name, (3, 3))
    text = f"{number:.{few}g}"
    kind = getattr(value, "dtype", _DOUBLE).type
    return text if kind(float(text)) == value else f"{number:.{enough}g}"


def _nan_text(value: Any, name: str) -> str:
    """``nan``, with its payload when it is not the usual one."""
    dtype: np.dtype[Any] = np.asarray(value).dtype
    bits = int(np.array(value, dtype=dtype).view(f"u{dtype.itemsize}"))
    width = dtype.itemsize * 8
    sign = "-" if bits >> (width - 1) else ""
    mantissa = {"f64": 52, "f32": 23, "bf16": 7, "f16": 10}.get(name)
    if mantissa is None:
        return f"{sign}nan"
    payload = bits & ((1 << mantissa) - 1)
    return f"{sign}nan" if payload == 1 << mantissa - 1 else f"{sign}nan({payload:#x})"


def print_literal(proto: Message, *, large: bool) -> str:
    """The text between the parentheses of a constant."""
    literal = Literal(proto)
    shape = literal.shape
    if literal.is_tuple:
        parts = (print_literal(part.proto, large=large) for part in literal.parts)
        return "( " + ", ".join(parts) + " )" if literal.parts else "()"
    if not shape.is_array:
        return ""
    if literal.is_elided or (not large and shape.element_count > _SMALL):
        return "{...}"
    name = BY_NUMBER[proto.shape.element_type].name
    values = literal.numpy()
    if values.ndim == 0:
        return number_text(values[()], name)
    flat = values.reshape(-1)
    if name == "pred":
        texts = ["1" if value else "0" for value in flat]
    else:
        texts = [number_text(value, name) for value in flat]
    return _nested(texts, values.shape, 0, values.ndim, "")[0]


def print_typed_literal(proto: Message) -> str:
    """``s32[2]{0} {1, 2}``: the shape before the value; each part of a tuple has its own."""
    literal = Literal(proto)
    if literal.is_tuple:
        return f"( {', '.join(print_typed_literal(part.proto) for part in literal.parts)} )"
    return f"{print_shape(proto.shape)} {print_literal(proto, large=True)}".rstrip()


def _nested(
    texts: list[str], extents: tuple[int, ...], at: int, rank: int, comment: str
) -> tuple[str, int]:
    """Braces around the elements from ``at``, as XLA lays them out; gives the next position.

    From four dimensions on, a comment has the index of each block.
    """
    if len(extents) == 1:
        stop = at + extents[0]
        row = ", ".join(texts[at:stop])
        return (f"{{{row}}}" if rank == 1 or extents[0] <= 1 else f"{{ {row} }}"), stop
    rows: list[str] = []
    axis = rank - len(extents)
    for number in range(extents[0]):
        inner = f"/*i{axis}={number}*/ " if rank > 3 and len(extents) > 1 else ""
        row, at = _nested(texts, extents[1:], at, rank, inner)
        rows.append(row)
    return f"{{ {comment}" + ", ".join(rows) + " }", at
