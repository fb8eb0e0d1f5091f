"""Numbers as text: one, and the elements of a literal all at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlo_tools.types.element_types import BY_NAME, Array

__all__ = ["nested", "number_text", "number_texts"]

_DOUBLE = np.dtype(np.float64)
_DIGITS = {
    "f64": (15, 17), "f32": (6, 9), "bf16": (4, 4), "f16": (5, 5), "f8e5m2": (2, 2),
    "f8e5m2fnuz": (2, 2), "f4e2m1fn": (2, 2), "f8e8m0fnu": (2, 2),
}  # fmt: skip
"""Significant digits tried first, and digits that are always enough (XLA prints small types with
the latter only)."""
_MAX_SCALAR_NUMBERS = 64
"""Up to this many numbers are printed in a scalar loop: NumPy's calls cost more."""
_SAMPLE = 1024


def number_text(value: Any, name: str) -> str:
    """Print a number of element type ``name`` with the fewest digits that read back equal."""
    if name == "pred":
        return "true" if value else "false"
    if name[0] in "su":
        return str(int(value))
    if name[0] == "c":
        component = "f64" if name == "c128" else "f32"
        return f"({number_text(value.real, component)}, {number_text(value.imag, component)})"
    return _float_text(value, name)


def _float_text(value: Any, name: str) -> str:
    number = float(value)
    if number != number:
        return _nan_text(value, name)
    if number in (float("inf"), float("-inf")):
        return "inf" if number > 0 else "-inf"
    short_digits, full_digits = _DIGITS.get(name, (3, 3))
    text = f"{number:.{short_digits}g}"
    kind = getattr(value, "dtype", _DOUBLE).type
    return text if kind(float(text)) == value else f"{number:.{full_digits}g}"


def _nan_text(value: object, name: str) -> str:
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


def number_texts(values: Array, name: str) -> list[str]:
    """Texts of a one-dimensional array's elements; one text if all of many are the same."""
    if name == "pred":
        values, name = values.astype(np.uint8), "u8"
    values = np.ascontiguousarray(values)
    if len(values) <= _MAX_SCALAR_NUMBERS:
        return [number_text(value, name) for value in values]
    if (values.view(np.uint8).reshape(len(values), -1) == values[:1].view(np.uint8)).all():
        return [number_text(values[0], name)]
    kind = BY_NAME[name].kind
    if kind == "complex":
        component = "f64" if name == "c128" else "f32"
        halves = (
            _all_texts(np.ascontiguousarray(half), component) for half in (values.real, values.imag)
        )
        return [f"({real}, {imaginary})" for real, imaginary in zip(*halves, strict=True)]
    if kind in ("int", "uint"):
        numbers = values.astype(np.int64 if kind == "int" else np.uint64).tolist()
        return str(numbers)[1:-1].split(", ")
    return _all_texts(values, name)


def _all_texts(values: Array, name: str) -> list[str]:
    """Texts of floating-point numbers; those that stand often are made once."""
    bits = values.view(f"u{values.dtype.itemsize}")
    step = -(-len(bits) // _SAMPLE)
    if len(np.unique(bits[::step])) > _SAMPLE // 4:
        return _float_texts(values, name)
    different, positions = np.unique(bits, return_inverse=True)
    texts = _float_texts(different.view(values.dtype), name)
    return np.array(texts, object)[positions].tolist()


@np.errstate(over="ignore", invalid="ignore")
def _float_texts(values: Array, name: str) -> list[str]:
    numbers = values.astype(np.float64)
    short_digits, full_digits = _DIGITS.get(name, (3, 3))
    if name == "f32" and not (short := _may_be_short(values, short_digits)).all():
        texts = _formatted(numbers, full_digits)
        _replace(texts, np.flatnonzero(short), _float_texts(values[short], name))
        return texts
    texts = _formatted(numbers, short_digits)
    if short_digits != full_digits:
        back = np.fromiter(map(float, texts), np.float64, len(texts)).astype(values.dtype)
        longer = np.flatnonzero(back != values)
        _replace(texts, longer, _formatted(numbers[longer], full_digits))
    special = np.flatnonzero(np.isnan(numbers))
    _replace(texts, special, [_nan_text(value, name) for value in values[special]])
    return texts


@np.errstate(all="ignore")
def _may_be_short(values: Array, digits: int) -> Array:
    """Return a mask of f32 numbers that this number of digits may represent exactly."""
    numbers = np.abs(values.astype(np.float64))
    # A number of that many digits is whole when scaled by this power of ten, or by a larger one.
    scale = 10.0 ** (digits - 1 - np.floor(np.log10(numbers) - 1e-9))
    scaled = numbers * scale
    reach = np.spacing(np.abs(values)).astype(np.float64) * scale * 0.51 + 1e-6
    return ~(np.abs(scaled - np.rint(scaled)) > reach)


def _formatted(numbers: Array, digits: int) -> list[str]:
    return (f"%.{digits}g " * len(numbers) % tuple(numbers.tolist())).split()


def _replace(texts: list[str], positions: Array, new: list[str]) -> None:
    if len(positions) == len(texts):
        texts[:] = new
        return
    for position, text in zip(positions.tolist(), new, strict=True):
        texts[position] = text


def nested(element: str, extents: tuple[int, ...], *, comments: bool = True) -> str:
    """Braces around one text in all places, as XLA lays them out.

    From four dimensions on, a comment has the index of each block; without comments, only the
    blank behind it is there.
    """
    rank, size = len(extents), extents[-1]
    row = ", ".join([element] * size)
    if rank == 1:
        return f"{{{row}}}"
    body = ", ".join([f"{{ {row} }}" if size > 1 else f"{{{row}}}"] * extents[-2])
    for axis in range(rank - 3, -1, -1):
        size = extents[axis]
        if rank > 3 and comments:
            rows = [f"{{ /*i{axis}={number}*/ {body} }}" for number in range(size)]
        else:
            rows = [f"{{  {body} }}" if rank > 3 else f"{{ {body} }}"] * size
        body = ", ".join(rows)
    return f"{{ {body} }}"
