"""Numbers of a large literal, all at once.

What is here takes plain texts only: braces that nest as the dimensions do, and numbers without
payloads, digits outside ASCII or values that do not fit. Anything else gives None: whoever reads
the tokens one by one takes it, or says what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hlo_tools.text.print_numbers import nested
from hlo_tools.types.element_types import BY_NAME, Array

__all__ = ["is_splat", "read_numbers"]

_BREAKS = b" \t\r\n,{}"
_DIGITS = b"0123456789+"
_CHARACTERS = {"pred": b"01truefals", "uint": _DIGITS, "int": _DIGITS + b"-", "float": _DIGITS + b"-.eEinfa"}  # fmt: skip
_TO_SPACES = bytes.maketrans(b",{}()", b"     ")
_TO_DOTS = bytes(
    byte if byte in b"{}" else ord(" ") if byte in _BREAKS else ord(".") for byte in range(256)
)
_TO_DOTS_AND_COMMAS = bytes(byte if byte in b"(),{}" else _TO_DOTS[byte] for byte in range(256))
_BOOLEANS = {"0": False, "1": True, "false": False, "true": True}


def is_splat(body: str, token: str, dimensions: tuple[int, ...], count: int) -> bool:
    """Return True if a text without comments repeats one token in XLA's layout."""
    if not token.strip(".") or count * len(token) > len(body):
        return False
    return body.strip() == nested(token, dimensions, comments=False)


def read_numbers(body: str, dimensions: tuple[int, ...], count: int, name: str) -> Array | None:
    """The numbers as f64, c128, s64, u64 or bool, one-dimensional; None if the text is not a plain one."""
    kind = BY_NAME[name].kind
    if kind == "complex":
        return _read_complex(body, dimensions, count)
    if kind not in _CHARACTERS or not body.isascii():
        return None
    data = body.encode()
    if data.translate(None, _BREAKS + _CHARACTERS[kind]):
        return None
    if count > len(data) or _marks(data, _TO_DOTS) != _braces(b".", dimensions):
        return None
    tokens = str(data.translate(_TO_SPACES), "ascii").split()
    if kind == "float":
        return _converted(map(float, tokens), np.float64, count)
    if kind == "pred":
        return _converted(map(_BOOLEANS.__getitem__, tokens), np.bool_, count)
    values = _converted(map(int, tokens), np.int64 if kind == "int" else np.uint64, count)
    bits = BY_NAME[name].bits - (kind == "int")
    if values is None or int(values.max()) >> bits > 0 or int(values.min()) >> bits < -1:
        return None
    return values


def _read_complex(body: str, dimensions: tuple[int, ...], count: int) -> Array | None:
    data = body.encode() if body.isascii() else b"?"
    if data.translate(None, _BREAKS + b"()" + _CHARACTERS["float"]) or count > len(data):
        return None
    marks = _marks(data, _TO_DOTS_AND_COMMAS).replace(b"(.,.)", b"#").replace(b",", b"")
    if marks != _braces(b"#", dimensions):
        return None
    tokens = str(data.translate(_TO_SPACES), "ascii").split()
    parts = _converted(map(float, tokens), np.float64, 2 * count)
    return None if parts is None else parts.view(np.complex128)


def _marks(data: bytes, table: bytes) -> bytes:
    """The braces of a text, with a dot for each number."""
    marks = np.frombuffer(data.translate(table), np.uint8)
    shown = marks != ord(" ")
    shown[1:] &= (marks[1:] != ord(".")) | (marks[:-1] != ord("."))
    return marks[shown].tobytes()


def _braces(mark: bytes, dimensions: tuple[int, ...]) -> bytes:
    """Return the nesting of braces and numbers of these dimensions; as in XLA, commas are optional."""
    for size in reversed(dimensions):
        mark = b"{" + mark * size + b"}"
    return mark


def _converted(numbers: Iterable[object], dtype: type[np.generic], count: int) -> Array | None:
    try:
        return np.fromiter(numbers, dtype, count)
    except (ValueError, OverflowError, KeyError):
        return None
