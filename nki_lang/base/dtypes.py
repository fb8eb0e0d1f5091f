"""The data types of the kernel language, as one table.

``float32`` and friends are :class:`DType` values: hashable, equal to their own name, to the
NumPy dtype and to the NumPy scalar type, accepted by NumPy wherever a dtype is (``np.zeros(4,
dtype=float32)``), and printed as their name.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

__all__ = [
    "BY_NAME",
    "Array",
    "DType",
    "DTypeLike",
    "dtype_of",
    "finfo",
    "is_float_type",
    "sizeinbytes",
    "static_cast",
]

Array = np.ndarray[Any, Any]
"""An array of any shape and type."""

_METADATA_KEY = "nki"


class DType:
    """One data type.

    Attributes:
        name: the language's name (``"bfloat16"``).
        itemsize: bytes of one element in memory.
        dtype: the NumPy dtype that stores it. NumPy reads this attribute.
        kind: ``"float"``, ``"int"``, ``"uint"``, ``"bool"`` or ``"packed"`` (x4 types).
        lanes: number of values that one element packs (4 for the ``_x4`` types, else 1).
        lane: for packed types, the DType of one lane.

    Args:
        storage: NumPy's type that stores it; the other arguments are attributes.
    """

    __slots__ = ("_hash", "dtype", "itemsize", "kind", "lane", "lanes", "name")

    def __init__(
        self, name: str, storage: Any, kind: str, lanes: int = 1, lane: DType | None = None
    ) -> None:
        self.name = name
        # NumPy has no packed types: the name of the packed type is metadata of the integer type.
        arguments: Any = {"metadata": {_METADATA_KEY: name}} if lane else {}
        self.dtype = np.dtype(storage, **arguments)
        self.itemsize = self.dtype.itemsize
        self.kind = kind
        self.lanes = lanes
        self.lane = lane
        self._hash = hash(name)

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, DType):
            return self.name == other.name
        if isinstance(other, str):
            return other == self.name or _ALIASES.get(other) == self.name
        try:
            plain = self.kind != "packed" and self.name != "tfloat32"
            return plain and np.dtype(other) == self.dtype  # pyright: ignore
        except TypeError:
            return False

    def __reduce__(self) -> tuple[Any, ...]:
        return (_by_name, (self.name,))

    @property
    def is_float(self) -> bool:
        """True for floating point types, packed ones included."""
        return self.kind in ("float", "packed")

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers (not bool)."""
        return self.kind in ("int", "uint")


_E4M3FN = DType("float8_e4m3fn", ml_dtypes.float8_e4m3fn, "float")
_E5M2 = DType("float8_e5m2", ml_dtypes.float8_e5m2, "float")
_E2M1 = DType("float4_e2m1fn", ml_dtypes.float4_e2m1fn, "float")

_TABLE = (
    DType("bool", np.bool_, "bool"),
    DType("int8", np.int8, "int"),
    DType("int16", np.int16, "int"),
    DType("int32", np.int32, "int"),
    DType("int64", np.int64, "int"),
    DType("uint8", np.uint8, "uint"),
    DType("uint16", np.uint16, "uint"),
    DType("uint32", np.uint32, "uint"),
    DType("uint64", np.uint64, "uint"),
    DType("float16", np.float16, "float"),
    DType("float32", np.float32, "float"),
    DType("bfloat16", ml_dtypes.bfloat16, "float"),
    DType("tfloat32", np.float32, "float"),
    DType("float8_e4m3", ml_dtypes.float8_e4m3, "float"),
    _E4M3FN,
    _E5M2,
    DType("float8_e8m0fnu", ml_dtypes.float8_e8m0fnu, "float"),
    DType("float8_e5m2_x4", np.uint32, "packed", 4, _E5M2),
    DType("float8_e4m3fn_x4", np.uint32, "packed", 4, _E4M3FN),
    DType("float4_e2m1fn_x4", np.uint16, "packed", 4, _E2M1),
)

BY_NAME: dict[str, DType] = {entry.name: entry for entry in _TABLE}

_ALIASES = {
    "bool_": "bool",
    "float8e4": "float8_e4m3",
    "float8e5": "float8_e5m2",
    "float32r": "tfloat32",
}

_BY_NUMPY: dict[np.dtype[Any], DType] = {}
for _entry in _TABLE:
    if _entry.kind != "packed":
        _BY_NUMPY.setdefault(_entry.dtype, _entry)


def _by_name(name: str) -> DType:
    return BY_NAME[name]


DTypeLike = DType | str | type[Any] | np.dtype[Any]
"""A dtype, its name, or NumPy's type or dtype for it."""


def dtype_of(value: Any) -> DType:
    """The :class:`DType` for a DType, its name, a NumPy dtype or a NumPy scalar type.

    Raises:
        TypeError: there is no such type in the kernel language (float64, complex64, ...).
    """
    if type(value) is DType:
        return value
    if isinstance(value, str):
        dtype = BY_NAME.get(_ALIASES.get(value, value))
        if dtype is not None:
            return dtype
    try:
        plain = np.dtype(value)
        packed = (plain.metadata or {}).get(_METADATA_KEY)
        return BY_NAME[packed] if packed else _BY_NUMPY[plain]
    except (TypeError, KeyError):
        raise TypeError(
            f"{value!r} is not a data type of the kernel language; it has {', '.join(BY_NAME)}"
        ) from None


def static_cast(array: object, dtype: object) -> Array:
    """The values of an array in another dtype, rounded to nearest even.

    A packed dtype (``float8_e4m3fn_x4``, ...) takes four neighbours of the last dimension into
    one element, the first in the lowest bits; an array that was made for one, or comes from a
    kernel, is taken apart again.

    Raises:
        TypeError: there is no such dtype.
        ValueError: the last dimension does not divide by four.
    """
    values = np.asarray(array)
    target_kind, source_kind = _kind(dtype), _kind(values.dtype)
    if isinstance(source_kind, DType) and source_kind.lane is not None:
        if source_kind == target_kind:
            return values
        values = _unpack(values, source_kind, source_kind.lane)
    if isinstance(target_kind, np.dtype):
        return values.astype(target_kind)
    if target_kind.lane is None:
        return values.astype(target_kind.dtype)
    return _pack(values, target_kind, target_kind.lane)


def _pack(values: Array, packed: DType, lane: DType) -> Array:
    if values.dtype == packed.dtype:
        return values.view(packed.dtype)
    if values.ndim == 0 or values.shape[-1] % packed.lanes:
        raise ValueError(
            f"{packed} packs {packed.lanes} neighbours of the last dimension, "
            f"which has {values.shape[-1:] or 'no'} elements"
        )
    small = np.ascontiguousarray(values.astype(lane.dtype)).view(np.uint8)
    bits = 8 * packed.itemsize // packed.lanes
    groups = small.reshape(*values.shape[:-1], -1, packed.lanes).astype(packed.dtype)
    shifts = np.arange(packed.lanes, dtype=packed.dtype) * packed.dtype.type(bits)
    return np.bitwise_or.reduce(groups << shifts, axis=-1).view(packed.dtype)


def _unpack(values: Array, packed: DType, lane: DType) -> Array:
    bits = 8 * packed.itemsize // packed.lanes
    plain = np.dtype(f"u{packed.itemsize}")
    shifts = np.arange(packed.lanes, dtype=plain) * plain.type(bits)
    lanes = values.view(plain)[..., None] >> shifts & plain.type((1 << bits) - 1)
    return lanes.astype(np.uint8).reshape(*values.shape[:-1], -1).view(lane.dtype)


def sizeinbytes(dtype: object) -> int:
    """Bytes of one element (of all four values for a packed dtype)."""
    return _kind(dtype).itemsize


def is_float_type(dtype: object) -> bool:
    """True for floating point dtypes, packed ones included."""
    kind = _kind(dtype)
    return kind.is_float if isinstance(kind, DType) else kind.kind == "f"


_finfo: Any = ml_dtypes.finfo
"""Untyped in ml_dtypes."""


def finfo(dtype: object) -> Any:
    """Limits of a floating point dtype (of one value for a packed dtype), as NumPy's finfo."""
    kind = _kind(dtype)
    if isinstance(kind, DType):
        kind = (kind.lane or kind).dtype
    return _finfo(kind)


def _kind(dtype: Any) -> DType | np.dtype[Any]:
    """A dtype of the language, or one that only NumPy has (float64)."""
    try:
        return dtype_of(dtype)
    except TypeError:
        return np.dtype(dtype)
