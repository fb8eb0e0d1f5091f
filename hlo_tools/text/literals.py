"""Literals in text: the value of a ``constant(...)``.

Numbers stand in logical (row-major) order; the proto stores them in the order of the shape's
layout. An elided literal (``{...}``) becomes a literal with a shape and no values, which every
reader of ours reports as elided, where XLA's own parser invents numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from hlo_tools._messages import counted
from hlo_tools.schema import LiteralProto, ShapeProto
from hlo_tools.text.cursor import Cursor
from hlo_tools.text.read_numbers import is_splat, read_numbers
from hlo_tools.text.shapes import TYPE_NAMES
from hlo_tools.types.element_types import BY_NAME, Array, DType
from hlo_tools.types.literal import store

__all__ = ["read_literal", "read_typed_literal"]

Message = Any

_PARENTHESES = re.compile(r"[()]")
_PAIRS = re.compile(r"[^()]*+(?:\([^()]*+\)[^()]*+)*+")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(r"\((?:[^()]|\(0x[0-9a-fA-F]+\))*\)|[^\s,{}()]+(?:\(0x[0-9a-fA-F]+\))?")
_VALUE = re.compile(r"\((?:[^()]|\(0x[0-9a-fA-F]+\))*\)|[^\s,{}()]+(?:\(0x[0-9a-fA-F]+\))?|")
_BRACES = re.compile(r"[{}]")
_NAN = re.compile(r"([-+]?)nan(?:\((0x[0-9a-fA-F]+)\))?$")
_NAN_PAYLOAD = re.compile(r"nan\((0x[0-9a-fA-F]+)\)")
_MAX_ELEMENTS = 1 << 31
_MAX_SCALAR_NUMBERS = 64
"""Up to this many numbers are read in a scalar loop: NumPy's calls cost more."""


def read_literal(cursor: Cursor, shape: Message) -> Message:
    """A literal of ``shape`` that starts at the cursor and ends before the closing parenthesis."""
    cursor.skip()
    start = cursor.pos
    end = _extent(cursor)
    literal = _read(cursor, _uncommented(cursor.text[start:end]), shape, start)
    cursor.pos = end
    return literal


def read_typed_literal(cursor: Cursor, read_shape: Callable[[], Message]) -> Message:
    """``s32[2]{0} {1, 2}``, or a tuple of those in parentheses; ``s32[2]({1, 2})`` as of old."""
    start = cursor.pos
    if cursor.accept("(") and not cursor.peek(")"):
        cursor.deeper()
        first = _part(cursor, read_shape)
        if first is not None:
            literal = LiteralProto(shape=ShapeProto(element_type=BY_NAME["tuple"].number))
            literal.tuple_literals.append(first)
            while cursor.accept(","):
                literal.tuple_literals.append(read_typed_literal(cursor, read_shape))
            cursor.expect(")", "to end the tuple literal")
            cursor.depth -= 1
            literal.shape.tuple_shapes.extend(element.shape for element in literal.tuple_literals)
            return literal
        cursor.depth -= 1
    cursor.pos = start
    shape = read_shape()
    if cursor.accept("("):
        literal = read_literal(cursor, shape)
        cursor.expect(")", "to end the literal")
        return literal
    return _bare(cursor, shape)


def _part(cursor: Cursor, read_shape: Callable[[], Message]) -> Message | None:
    """The first part of a tuple literal; None where a tuple's shape starts instead."""
    if cursor.peek("("):
        return read_typed_literal(cursor, read_shape)
    shape = read_shape()
    return None if cursor.peek(",") or cursor.peek(")") else _bare(cursor, shape)


def _bare(cursor: Cursor, shape: Message) -> Message:
    """Read a value without parentheses: its braces delimit it."""
    cursor.skip()
    start = cursor.pos
    if cursor.peek("{"):
        depth, end = 0, start
        for brace in _BRACES.finditer(cursor.text, start):
            depth += 1 if brace.group() == "{" else -1
            end = brace.end()
            if depth == 0:
                break
        if depth:
            raise cursor.error("the braces of this literal are never closed", pos=start)
    else:
        match = _VALUE.match(cursor.text, start)
        end = match.end() if match is not None else start
    literal = _read(cursor, _uncommented(cursor.text[start:end]), shape, start)
    cursor.pos = end
    return literal


def _uncommented(body: str) -> str:
    return _COMMENT.sub("", body) if "/*" in body else body


def _extent(cursor: Cursor) -> int:
    """Return the position of the closing parenthesis; the opening one was read."""
    end = cursor.text.find(")", cursor.pos)
    if end >= 0 and "(" not in cursor.text[cursor.pos : end]:
        return end
    end = cursor.text.find("})", cursor.pos) + 1 if cursor.text.startswith("{", cursor.pos) else 0
    if end and _PAIRS.fullmatch(cursor.text, cursor.pos, end):
        return end
    depth = 1
    for parenthesis in _PARENTHESES.finditer(cursor.text, cursor.pos):
        depth += 1 if parenthesis.group() == "(" else -1
        if depth == 0:
            return parenthesis.start()
    raise cursor.error("the parenthesis of this constant is never closed")


def _read(cursor: Cursor, body: str, shape: Message, pos: int) -> Message:
    literal = LiteralProto(shape=shape)
    _unpack(literal.shape)
    name = TYPE_NAMES[shape.element_type]
    if name == "tuple":
        _read_tuple(cursor, body, shape, literal, pos)
    elif name == "token":
        if body.strip() not in ("", "token"):
            raise cursor.error("a token has no value", pos=pos)
    elif body.strip() in ("{...}", "..."):
        pass
    else:
        _read_dense(cursor, body, shape, name, literal, pos)
    return literal


def _unpack(shape: Message) -> None:
    """Elements of a literal are never packed, so its shape does not say how wide they are."""
    for element_shape in shape.tuple_shapes:
        _unpack(element_shape)
    if shape.layout.element_size_in_bits:
        shape.layout.element_size_in_bits = 0


def _read_tuple(cursor: Cursor, body: str, shape: Message, literal: Message, pos: int) -> None:
    body = body.strip()
    if body in ("{...}", "..."):
        return
    if not (body.startswith("(") and body.endswith(")")):
        raise cursor.error("expected '(' to start the tuple literal", pos=pos)
    parts = _split(body[1:-1])
    if len(parts) != len(shape.tuple_shapes):
        raise cursor.error(
            f"the tuple has {counted(len(shape.tuple_shapes), 'element')}, the literal {len(parts)}",
            pos=pos,
        )
    for element_text, element_shape in zip(parts, shape.tuple_shapes, strict=True):
        literal.tuple_literals.append(_read(cursor, element_text, element_shape, pos))


def _split(body: str) -> list[str]:
    """Split at the commas outside all brackets."""
    parts: list[str] = []
    depth, last = 0, 0
    for index, char in enumerate(body):
        if char in "({":
            depth += 1
        elif char in ")}":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(body[last:index])
            last = index + 1
    tail = body[last:]
    return [*parts, tail] if tail.strip() or parts else []


def _read_dense(
    cursor: Cursor, body: str, shape: Message, name: str, literal: Message, pos: int
) -> None:
    if BY_NAME[name].dtype is None:
        raise cursor.error(f"a constant of type {name} has no value", pos=pos)
    dimensions = tuple(shape.dimensions)
    count = 1
    for size in dimensions:
        count *= size
    if count > _MAX_ELEMENTS:
        raise cursor.error(
            f"a literal of {counted(count, 'element')} is too large for text", pos=pos
        )
    values = (
        _at_once(body, dimensions, count, name)
        if count > _MAX_SCALAR_NUMBERS and "{" in body
        else None
    )
    if values is None:
        values = _read_scalars(cursor, body, dimensions, count, name, pos)
    store(literal, values.reshape(dimensions))


def _at_once(body: str, dimensions: tuple[int, ...], count: int, name: str) -> Array | None:
    """The values of a plain text; None where they are to be read one by one."""
    first = _TOKEN.search(body)
    try:
        if first is not None and is_splat(body, first.group(), dimensions, count):
            return np.repeat(_values([first.group()], name), count)
        numbers = read_numbers(body, dimensions, count, name)
        if numbers is None:
            return None
        dtype = BY_NAME[name].dtype
        assert dtype is not None
        return _narrowed(numbers, dtype) if numbers.dtype.kind in "fc" else numbers.astype(dtype)
    except (ValueError, OverflowError):
        return None


def _read_scalars(
    cursor: Cursor, body: str, dimensions: tuple[int, ...], count: int, name: str, pos: int
) -> Array:
    """The values; errors say which number is wrong."""
    tokens = [match.group() for match in _TOKEN.finditer(body)]
    padded = len(tokens) == 1 and "{" not in body and count > 1
    if not padded and len(tokens) != count:
        raise cursor.error(
            f"the shape has {counted(count, 'element')}, the literal {len(tokens)}", pos=pos
        )
    if "{" in body or not count:
        _check_braces(cursor, body, dimensions, pos)
    try:
        values = _values(tokens, name)
    except (ValueError, OverflowError) as error:
        raise cursor.error(
            f"a number of this literal is not a valid {name}: {error}", pos=pos
        ) from None
    if padded:  # XLA reads zeros after the one number
        values = np.concatenate([values, np.zeros(count - 1, values.dtype)])
    return values


def _check_braces(cursor: Cursor, body: str, dimensions: tuple[int, ...], pos: int) -> None:
    """The braces must nest as the dimensions do; commas may be left out, as XLA has it."""
    nesting = re.sub(r"[^{}.]", "", _TOKEN.sub(".", body.replace(".", "")))
    expected = "."
    for size in reversed(dimensions):
        if len(expected) * size > _MAX_ELEMENTS:
            return
        expected = "{" + expected * size + "}"
    if nesting != expected:
        raise cursor.error("the braces of this literal do not nest as its shape does", pos=pos)


def _values(tokens: list[str], name: str) -> Array:
    dtype = BY_NAME[name].dtype
    assert dtype is not None
    if name == "pred":
        return np.array([_boolean(token) for token in tokens], dtype=np.bool_)
    if name[0] == "c":
        numbers = np.array([_complex(token) for token in tokens], dtype=np.complex128)
        return _narrowed(numbers, dtype)
    if name[0] in "su":
        return _integers(tokens, name, dtype)
    return _floats(tokens, name, dtype)


def _boolean(token: str) -> bool:
    if token in ("true", "false"):
        return token == "true"
    return bool(int(token))


def _complex(token: str) -> complex:
    if token.startswith("("):
        real, _, imaginary = token[1:-1].partition(",")
        return complex(_float(real.strip()), _float(imaginary.strip() or "0"))
    return complex(_float(token), 0.0)


def _float(token: str) -> float:
    match = _NAN.match(token)
    if match is not None:
        return -float("nan") if match.group(1) == "-" else float("nan")
    if "_" in token:
        raise ValueError(f"{token!r} is not a number")
    return float(token)


def _integers(tokens: list[str], name: str, dtype: DType) -> Array:
    numbers = [int(token) if "_" not in token else int("") for token in tokens]
    if name == "u64":  # XLA reads the bits of a negative number
        numbers = [number + (1 << 64) if -(1 << 63) <= number < 0 else number for number in numbers]
    bits = BY_NAME[name].bits
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if name[0] == "s" else (0, (1 << bits) - 1)
    for number in numbers:
        if not low <= number <= high:
            raise ValueError(f"{number} is outside {low}..{high}")
    return np.array(numbers, dtype=np.int64 if name[0] == "s" else np.uint64).astype(dtype)


def _floats(tokens: list[str], name: str, dtype: DType) -> Array:
    numbers = np.array([_float(token) for token in tokens], dtype=np.float64)
    values = _narrowed(numbers, dtype)
    for index, token in enumerate(tokens):
        payload = _NAN_PAYLOAD.search(token)
        if payload is not None:
            _set_payload(values, index, int(payload.group(1), 16), token.startswith("-"))
    return values


def _narrowed(numbers: Array, dtype: DType) -> Array:
    """Convert f64 or c128 to another type.

    Raises:
        ValueError: a finite number becomes an infinite one or NaN.
    """
    if numbers.dtype == np.complex128:
        component_dtype = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
        return _narrowed(numbers.view(np.float64), component_dtype).view(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        values = numbers.astype(dtype)
    lost = np.isfinite(numbers) & ~np.isfinite(values.astype(np.float64))
    if lost.any():
        raise ValueError(f"{numbers[lost][0]} is out of range")
    return values


def _set_payload(values: Array, index: int, payload: int, negative: bool) -> None:
    """Put the payload of a ``nan(0x...)`` into the bits of element ``index``."""
    import ml_dtypes

    info = cast(Any, ml_dtypes).finfo(values.dtype)
    bits = values.view(f"u{values.dtype.itemsize}")
    exponent = ((1 << info.bits - info.nmant - 1) - 1) << info.nmant
    sign = int(negative) << info.bits - 1
    bits[index] = sign | exponent | (payload & ((1 << info.nmant) - 1))
