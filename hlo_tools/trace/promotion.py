"""Result dtypes: NumPy's own answer, without the 64-bit types that the hardware does not have.

NeuronCores have no float64, int64 and uint64; nkipy narrows them to 32 bits on the way in, and so
do we, for inputs (with a warning) and for what NumPy's promotion makes of 32-bit types.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

import numpy as np

from hlo_tools.trace.errors import refuse
from hlo_tools.trace.graph import Array, DType
from hlo_tools.types.element_types import element_of

__all__ = [
    "Kind", "constant_of", "narrow", "narrow_input", "promote", "promoted", "require_plain",
    "resolved_dtypes", "ufunc_dtypes",
]  # fmt: skip

_NARROWER = {
    np.dtype(np.float64): np.dtype(np.float32),
    np.dtype(np.int64): np.dtype(np.int32),
    np.dtype(np.uint64): np.dtype(np.uint32),
    np.dtype(np.complex128): np.dtype(np.complex64),
}


@lru_cache(maxsize=256)
def narrow(dtype: Any) -> DType:
    """The dtype that stands for ``dtype`` in HLO.

    Raises:
        TraceError: HLO has no such type (HLO-TRACE-DTYPE).
    """
    key = np.dtype(dtype)
    if not key.isnative:
        raise refuse(
            f"{key.name} in the byte order {key.byteorder!r} is not the machine's own",
            code="HLO-TRACE-DTYPE",
            remedy='convert the array before tracing: a.astype(a.dtype.newbyteorder("="))',
        )
    try:
        element_of(key)
    except TypeError as error:
        raise refuse(str(error), code="HLO-TRACE-DTYPE", remedy="use numbers or booleans") from None
    return _NARROWER.get(key, key)


def constant_of(array: Array) -> Array:
    """A constant in the dtype that stands for its own.

    A float of 64 bits is rounded; elements of arrays, but no single number, are rounded to zero too.

    Raises:
        TraceError: a value that 64 bits hold and 32 do not (HLO-TRACE-DTYPE).
    """
    target = narrow(array.dtype)
    if target == array.dtype:
        return array
    with np.errstate(all="ignore"):
        narrowed = array.astype(target)
        beyond = array[_are_lost(array, narrowed)]
    if beyond.size:
        raise refuse(
            f"a constant of {array.dtype} holds {beyond[0]}, and it is traced as {target}",
            code="HLO-TRACE-DTYPE",
            remedy=f"use a value that {target} holds, or give an array of another type of 32 bits",
        )
    return narrowed


def _are_lost(wide: Array, narrowed: Array) -> Array:
    """Where a value is another number in 32 bits, beyond a rounding."""
    if wide.dtype.kind == "c":
        return _are_lost(wide.real, narrowed.real) | _are_lost(wide.imag, narrowed.imag)
    if wide.dtype.kind != "f":
        return np.asarray(wide != narrowed)
    lost = np.isfinite(wide) & ~np.isfinite(narrowed)
    return lost if wide.ndim else lost | ((wide != 0) & (narrowed == 0))


_OPERATORS = ("__array_ufunc__", "__array_function__", "__add__", "__mul__", "__matmul__", "__eq__")


def require_plain(array: Array) -> None:
    """Refuse subclasses whose operators are not those of arrays: masked arrays, matrices, units.

    Raises:
        TraceError: it is one (HLO-TRACE-ARGUMENT).
    """
    kind = type(array)
    if kind is np.ndarray:
        return
    if any(getattr(kind, name) is not getattr(np.ndarray, name) for name in _OPERATORS):
        raise refuse(
            f"a {kind.__name__} has operators of its own, which a traced function does not follow",
            code="HLO-TRACE-ARGUMENT",
            remedy="give numpy.asarray of it, if its elements alone are meant",
        )


def narrow_input(array: Array, name: str = "") -> Array:
    """An argument of a traced function, narrowed with a warning where it must be.

    Raises:
        TraceError: HLO has no such type (HLO-TRACE-DTYPE), or it is no plain array
            (HLO-TRACE-ARGUMENT).
    """
    require_plain(array)
    target = narrow(array.dtype)
    if target == array.dtype:
        return array
    label = f" '{name}'" if name else ""
    warnings.warn(
        f"input{label} has dtype {array.dtype}, which NeuronCores do not have; "
        f"it is traced as {target}",
        stacklevel=3,
    )
    return array.astype(target)


Kind = DType | type
"""A dtype, or ``int``, ``float``, ``complex`` for a Python number of that kind."""


@lru_cache(maxsize=4096)
def resolved_dtypes(
    ufunc: np.ufunc,
    kinds: tuple[Kind, ...],
    signature: object = None,
    casting: object = "same_kind",
) -> tuple[DType, ...]:
    """The dtypes in which NumPy computes a ufunc, inputs first.

    Raises:
        TypeError: NumPy's own, when the ufunc does not take such inputs.
    """
    resolve: Any = ufunc.resolve_dtypes
    operand_kinds = (*kinds, *[None] * ufunc.nout)
    options = {} if signature is None else {"signature": signature}
    return resolve(operand_kinds, casting=casting, **options)


@lru_cache(maxsize=4096)
def ufunc_dtypes(
    ufunc: np.ufunc,
    kinds: tuple[Kind, ...],
    signature: object = None,
    casting: object = "same_kind",
) -> tuple[DType, ...]:
    """The dtypes in which a ufunc computes, inputs first, narrowed.

    Raises:
        TypeError: NumPy's own, when the ufunc does not take such inputs.
    """
    return tuple(narrow(dtype) for dtype in resolved_dtypes(ufunc, kinds, signature, casting))


def promote(kinds: tuple[Kind, ...]) -> DType:
    """The dtype that stands for NumPy's dtype of values of all kinds (concatenate, where, stack)."""
    return narrow(promoted(kinds))


@lru_cache(maxsize=4096)
def promoted(kinds: tuple[Kind, ...]) -> DType:
    """NumPy's dtype of values of all kinds, of 64 bits too."""
    strong = [kind for kind in kinds if isinstance(kind, np.dtype)]
    weak = [_WEAK_VALUES[kind] for kind in kinds if not isinstance(kind, np.dtype)]
    return np.result_type(*strong, *weak)


_WEAK_VALUES: dict[Any, Any] = {int: 0, float: 0.0, complex: 0j}
