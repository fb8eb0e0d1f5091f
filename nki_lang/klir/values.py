"""Values that the fields of many operators share: options, Booleans and data types."""

from __future__ import annotations

from nki_lang.dtypes import BY_NAME, DType
from nki_lang.klir import schema

__all__ = [
    "FALSE",
    "NONE",
    "SOME",
    "TRUE",
    "Unsayable",
    "dtype_bytes",
    "dtype_of_name",
    "dtype_to_name",
]

NONE = b"\xd9\xff\x00\x80"
SOME = b"\xd9\xff\x01\x81"
TRUE, FALSE = b"\xf5", b"\xf4"


class Unsayable(Exception):
    """KLIR has no way to say an operand."""


_DTYPE_TO_KLIR = {
    "bool": "uint8",
    "tfloat32": "float32r",
    "float8_e4m3": "float8e4",
    "float8_e5m2": "float8e5",
    "float8_e8m0fnu": "uint8",
}
"""As leanprover/KLR's frontend spells them (KLR/Trace/FromNKI.lean)."""

_INEXACT_DTYPES = frozenset({"bool", "float8_e8m0fnu"})
_KLIR_DTYPES = frozenset(schema.constructors("Dtype"))
_DTYPE_FROM_KLIR = {
    "float32r": "tfloat32",
    "float8e4": "float8_e4m3",
    "float8e5": "float8_e5m2",
}
_DTYPES = {
    name: (schema.head("Dtype", _DTYPE_TO_KLIR.get(name, name)), name not in _INEXACT_DTYPES)
    for name in BY_NAME
    if _DTYPE_TO_KLIR.get(name, name) in _KLIR_DTYPES
}


def dtype_bytes(dtype: DType) -> tuple[bytes, bool]:
    """A data type in KLIR, and whether reading it returns the same type."""
    try:
        return _DTYPES[dtype.name]
    except KeyError:
        raise Unsayable from None


def dtype_to_name(dtype: DType) -> str:
    """KLIR's name of a data type."""
    return _DTYPE_TO_KLIR.get(dtype.name, dtype.name)


def dtype_of_name(name: str) -> DType | None:
    """The data type that KLIR calls ``name``; None for one that the language does not have."""
    return BY_NAME.get(_DTYPE_FROM_KLIR.get(name, name))
