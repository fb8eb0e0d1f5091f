"""The warning of a traced function whose values may differ from NumPy's for want of 64 bits.

It comes where NumPy leaves 32 bits on the way: sums and products of integers that 32 bits may not
hold, 32-bit integers beside those of another sign or beside floats, and 64-bit types that are asked
for. Once a function, at the user's line.
"""

from __future__ import annotations

import warnings
from functools import lru_cache

import numpy as np
from numpy.typing import DTypeLike

from hlo_tools.trace.graph import DType, Graph
from hlo_tools.trace.location import calls_of_functions, user_line
from hlo_tools.trace.promotion import Kind, narrow, resolved_dtypes

__all__ = ["tell_of_cast", "tell_of_promotion", "tell_of_total", "tell_of_ufunc"]

_GROWING = frozenset((np.add, np.subtract, np.multiply, np.power, np.left_shift, np.matmul))
"""Ufuncs whose results may need more bits than their operands."""

_ARITHMETIC = _GROWING | {
    np.divide, np.floor_divide, np.remainder, np.fmod, np.divmod, np.maximum, np.minimum, np.fmax,
    np.fmin,
}  # fmt: skip


def tell_of_ufunc(
    graph: Graph, ufunc: np.ufunc, kinds: tuple[Kind, ...], signature: object, casting: object
) -> None:
    """Warn of the result of a ufunc that the user calls."""
    if graph.is_told or (signature is None and not any(map(_is_word, kinds))):
        return
    wide = _of_ufunc(ufunc, kinds, signature, casting)
    if wide is not None and calls_of_functions() <= (ufunc is np.matmul):
        _tell(graph, f"the result of numpy.{ufunc.__name__}", wide)


def tell_of_promotion(graph: Graph, kinds: tuple[Kind, ...]) -> None:
    """Warn of values of several dtypes in one array (where, concatenate)."""
    if graph.is_told or not any(map(_is_word, kinds)):
        return
    wide = _of_kinds(kinds)
    if wide is not None and calls_of_functions() <= 2:
        _tell(graph, "an array of several dtypes", wide)


def tell_of_cast(graph: Graph, source: DType, dtype: DTypeLike) -> None:
    """Warn of a cast to a 64-bit type, which booleans do not need."""
    wide = np.dtype(dtype)
    if narrow(wide) != wide and source.kind != "b" and not graph.is_told:
        _tell(graph, f"a cast of {source}", wide)


def tell_of_total(
    graph: Graph, name: str, source: DType, dtype: DTypeLike | None, count: int, *, product: bool
) -> None:
    """Warn of ``count`` elements added up or multiplied, where 32 bits may not hold the result."""
    if graph.is_told or (dtype is None and source.kind not in "biu"):
        return
    wide = np.dtype(dtype) if dtype is not None else _total_dtype(source)
    if narrow(wide) == wide:
        return
    if wide.kind not in "iu" or not _holds(source, narrow(wide), count, product):
        _tell(graph, f"numpy.{name} of {source}", wide)


def _total_dtype(source: DType) -> DType:
    """That in which NumPy adds up."""
    return np.dtype({"b": "i8", "i": "i8", "u": "u8"}.get(source.kind, source))


def _holds(source: DType, target: DType, count: int, product: bool) -> bool:
    """Return True if a type holds the sum or the product of ``count`` arbitrary elements."""
    if source.kind not in "biu":
        return False
    if count <= 1:
        return True
    if source.kind == "b":
        magnitude = 1
    else:
        magnitude = max(int(np.iinfo(source).max), -int(np.iinfo(source).min))
    if product:
        return magnitude <= 1 or count * magnitude.bit_length() < np.iinfo(target).bits
    return count * magnitude <= int(np.iinfo(target).max)


def _is_wide(kind: Kind) -> bool:
    return isinstance(kind, np.dtype) and narrow(kind) != kind


def _is_word(kind: Kind) -> bool:
    """An integer that float32 may not hold."""
    return isinstance(kind, np.dtype) and kind.kind in "iu" and kind.itemsize >= 4


@lru_cache(maxsize=4096)
def _of_ufunc(
    ufunc: np.ufunc, kinds: tuple[Kind, ...], signature: object, casting: object
) -> DType | None:
    """The 64-bit type of NumPy's result where ours may differ by more than its rounding."""
    wide = resolved_dtypes(ufunc, kinds, signature, casting)[ufunc.nin]
    if narrow(wide) == wide:
        return None
    if signature is not None:
        return wide
    if ufunc not in _ARITHMETIC:
        return None
    if wide.kind in "iu":
        if any(map(_is_wide, kinds)):  # a constant of the user's, like np.arange(n)
            return wide if ufunc in _GROWING and _may_grow(kinds) else None
        return wide if any(map(_is_word, kinds)) else None
    return wide if _mixes_words(kinds) else None


def _may_grow(kinds: tuple[Kind, ...]) -> bool:
    """Return True if a traced operand has more than eight bits."""
    arrays = [kind for kind in kinds if isinstance(kind, np.dtype)]
    return any(1 < kind.itemsize < 8 for kind in arrays)


def _mixes_words(kinds: tuple[Kind, ...]) -> bool:
    """Return True if a 32-bit integer becomes a float next to an array that is no float64 of the
    user's.
    """
    arrays = [kind for kind in kinds if isinstance(kind, np.dtype)]
    return len(arrays) > 1 and any(map(_is_word, arrays)) and not any(map(_is_wide, arrays))


@lru_cache(maxsize=4096)
def _of_kinds(kinds: tuple[Kind, ...]) -> DType | None:
    arrays = [kind for kind in kinds if isinstance(kind, np.dtype)]
    if len(arrays) < 2 or any(map(_is_wide, arrays)):
        return None
    wide = np.result_type(*arrays)
    return wide if narrow(wide) != wide and any(map(_is_word, arrays)) else None


def _tell(graph: Graph, what: str, wide: DType) -> None:
    graph.is_told = True
    message = (
        f"{what} has dtype {wide} in NumPy, which NeuronCores do not have; it is traced as "
        f"{narrow(wide)} (told once a function)"
    )
    location = user_line()
    if location is None:
        warnings.warn(message, stacklevel=3)
    else:
        warnings.warn_explicit(message, UserWarning, *location)
