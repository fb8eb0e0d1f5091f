"""The element types of HLO arrays, as one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike

__all__ = ["BY_NAME", "BY_NUMBER", "MOST_DIMENSIONS", "Array", "DType", "ElementType", "element_of"]

DType = np.dtype[Any]
"""A dtype that is known at run time only; NumPy's types have no arithmetic for a generic one."""

Array = np.ndarray[tuple[int, ...], Any]
"""An array whose rank and dtype are known at run time only."""

MOST_DIMENSIONS: Final = 64
"""Dimensions that an array of NumPy 2 has at most."""


@dataclass(frozen=True, slots=True)
class ElementType:
    """One element type.

    Attributes:
        name: as text writes it (``"f32"``).
        number: value of the enum ``PrimitiveType``.
        bits: size of one element; types under 8 bits are packed by devices, not in literals.
        dtype: the NumPy dtype whose values it has, or None (tuple, token, opaque, buffer).
        field: the field of ``LiteralProto`` that holds such elements, or "".
        kind: ``"pred"``, ``"int"``, ``"uint"``, ``"float"``, ``"complex"`` or ``"none"``.
    """

    name: str
    number: int
    bits: int
    dtype: DType | None
    field: str
    kind: str

    def __str__(self) -> str:
        return self.name

    @property
    def itemsize(self) -> int:
        """Bytes of one element in NumPy and in a literal; 0 where there are no elements."""
        return self.dtype.itemsize if self.dtype is not None else 0


def _one_bit(name: str, substitute: type[np.generic]) -> type[np.generic]:
    """ml_dtypes has one-bit integers only in newer releases; a byte has all their values."""
    return getattr(ml_dtypes, name, substitute)


_TYPE_TABLE: tuple[tuple[str, int, int, type[np.generic] | None, str, str], ...] = (
    ("pred", 1, 8, np.bool_, "preds", "pred"),
    ("s8", 2, 8, np.int8, "s8s", "int"),
    ("s16", 3, 16, np.int16, "s16s", "int"),
    ("s32", 4, 32, np.int32, "s32s", "int"),
    ("s64", 5, 64, np.int64, "s64s", "int"),
    ("u8", 6, 8, np.uint8, "u8s", "uint"),
    ("u16", 7, 16, np.uint16, "u16s", "uint"),
    ("u32", 8, 32, np.uint32, "u32s", "uint"),
    ("u64", 9, 64, np.uint64, "u64s", "uint"),
    ("f16", 10, 16, np.float16, "f16s", "float"),
    ("f32", 11, 32, np.float32, "f32s", "float"),
    ("f64", 12, 64, np.float64, "f64s", "float"),
    ("tuple", 13, 0, None, "tuple_literals", "none"),
    ("opaque", 14, 0, None, "", "none"),
    ("c64", 15, 64, np.complex64, "c64s", "complex"),
    ("bf16", 16, 16, ml_dtypes.bfloat16, "bf16s", "float"),
    ("token", 17, 0, None, "", "none"),
    ("c128", 18, 128, np.complex128, "c128s", "complex"),
    ("f8e5m2", 19, 8, ml_dtypes.float8_e5m2, "f8e5m2s", "float"),
    ("f8e4m3fn", 20, 8, ml_dtypes.float8_e4m3fn, "f8e4m3fns", "float"),
    ("s4", 21, 4, ml_dtypes.int4, "s4s", "int"),
    ("u4", 22, 4, ml_dtypes.uint4, "u4s", "uint"),
    ("f8e4m3b11fnuz", 23, 8, ml_dtypes.float8_e4m3b11fnuz, "f8e4m3b11fnuzs", "float"),
    ("f8e5m2fnuz", 24, 8, ml_dtypes.float8_e5m2fnuz, "f8e5m2fnuzs", "float"),
    ("f8e4m3fnuz", 25, 8, ml_dtypes.float8_e4m3fnuz, "f8e4m3fnuzs", "float"),
    ("s2", 26, 2, ml_dtypes.int2, "s2s", "int"),
    ("u2", 27, 2, ml_dtypes.uint2, "u2s", "uint"),
    ("f8e4m3", 28, 8, ml_dtypes.float8_e4m3, "f8e4m3s", "float"),
    ("f8e3m4", 29, 8, ml_dtypes.float8_e3m4, "f8e3m4s", "float"),
    ("s1", 30, 1, _one_bit("int1", np.int8), "s1s", "int"),
    ("u1", 31, 1, _one_bit("uint1", np.uint8), "u1s", "uint"),
    ("f4e2m1fn", 32, 4, ml_dtypes.float4_e2m1fn, "f4e2m1fns", "float"),
    ("f8e8m0fnu", 33, 8, ml_dtypes.float8_e8m0fnu, "f8e8m0fnus", "float"),
    ("b", 34, 0, None, "", "none"),
    ("f6e3m2fn", 35, 6, ml_dtypes.float6_e3m2fn, "f6e3m2fns", "float"),
    ("f6e2m3fn", 36, 6, ml_dtypes.float6_e2m3fn, "f6e2m3fns", "float"),
)

_TABLE = tuple(
    ElementType(name, number, bits, None if scalar is None else np.dtype(scalar), field, kind)
    for name, number, bits, scalar, field, kind in _TYPE_TABLE
)

INVALID = ElementType("invalid", 0, 0, None, "", "none")
"""The value of an unset element type."""

BY_NAME: dict[str, ElementType] = {entry.name: entry for entry in _TABLE}
BY_NUMBER: dict[int, ElementType] = {0: INVALID} | {entry.number: entry for entry in _TABLE}

_BY_DTYPE: dict[DType, ElementType] = {}
for _entry in _TABLE:
    if _entry.dtype is not None:
        _BY_DTYPE.setdefault(_entry.dtype, _entry)


def element_of(dtype: DTypeLike) -> ElementType:
    """The element type that stores values of a NumPy dtype (or anything NumPy takes for one).

    Raises:
        TypeError: HLO has no such element type (strings, objects, dates, long double).
    """
    key = np.dtype(dtype)
    element_type = _BY_DTYPE.get(key) or _BY_DTYPE.get(key.newbyteorder("="))
    if element_type is None:
        raise TypeError(f"HLO has no element type for NumPy's {key}")
    return element_type
