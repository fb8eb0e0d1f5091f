"""Values that the fields of many operators share: options, Booleans and data types."""

from __future__ import annotations

from nki_lang.base.dtypes import BY_NAME, DType
from nki_lang.klir import schema

__all__ = [
    "FALSE_BYTE",
    "NONE_BYTES",
    "SOME_HEAD",
    "TRUE_BYTE",
    "NotExpressibleError",
    "dtype_bytes",
    "dtype_of_name",
    "dtype_to_name",
]

NONE_BYTES = b"\xd9\xff\x00\x80"
SOME_HEAD = b"\xd9\xff\x01\x81"
TRUE_BYTE, FALSE_BYTE = b"\xf5", b"\xf4"


class NotExpressibleError(Exception):
    """KLIR cannot express an operand."""


_DTYPE_TO_KLIR = {
    "bool": "uint8",
    "tfloat32": "float32r",
    "float8_e4m3": "float8e4",
    "float8_e5m2": "float8e5",
    "float8_e8m0fnu": "uint8",
}
"""Names of data types in leanprover/KLR's frontend (KLR/Trace/FromNKI.lean)."""

_INEXACT_DTYPES = frozenset({"bool", "float8_e8m0fnu"})
_KLIR_DTYPES = frozenset(schema.constructors("Dtype"))
_DTYPE_FROM_KLIR = {
    "float32r": "tfloat32",
    "float8e4": "float8_e4m3",
    "float8e5": "float8_e5m2",
}
_DTYPE_BYTES = {
    name: (schema.head("Dtype", _DTYPE_TO_KLIR.get(name, name)), name not in _INEXACT_DTYPES)
    for name in BY_NAME
    if _DTYPE_TO_KLIR.get(name, name) in _KLIR_DTYPES
}


def dtype_bytes(dtype: DType) -> tuple[bytes, bool]:
    """Return a data type in KLIR, and whether reading it returns the same type."""
    try:
        return _DTYPE_BYTES[dtype.name]
    except KeyError:
        raise NotExpressibleError from None


def dtype_to_name(dtype: DType) -> str:
    """Return KLIR's name of a data type."""
    return _DTYPE_TO_KLIR.get(dtype.name, dtype.name)


def dtype_of_name(name: str) -> DType | None:
    """Return the data type that KLIR calls ``name``; None for one that the language lacks."""
    return BY_NAME.get(_DTYPE_FROM_KLIR.get(name, name))
