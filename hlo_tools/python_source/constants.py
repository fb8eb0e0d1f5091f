"""Constants of a module as expressions; larger ones go to an archive beside the file."""

from __future__ import annotations

import numpy as np

from hlo_tools.python_source.names import Names
from hlo_tools.python_source.site import Site, tuple_text
from hlo_tools.types.element_types import Array
from hlo_tools.types.literal import Literal

__all__ = ["Constants"]

MAX_INLINE_ELEMENTS = 16
"""Larger constants are unreadable in a line of source."""
_PARAMETERS_OF_SAVEZ = frozenset({"file", "args", "allow_pickle"})
"""Names that ``numpy.savez`` takes for something else than an array."""


class Constants:
    """The arrays of a module that its file does not contain.

    Attributes:
        arrays: name -> array, in NumPy's own types; others as the unsigned integers of their bits.
    """

    __slots__ = ("_names", "arrays")

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._names = Names(_PARAMETERS_OF_SAVEZ)

    def expression(self, literal: Literal, site: Site) -> str:
        """The expression of a constant's value.

        Raises:
            HloFileError: its elements were left out of the file (HLO-ELIDED).
        """
        if literal.is_tuple:
            return tuple_text(self.expression(element, site) for element in literal.parts)
        if not literal.shape.is_array:
            return "None"
        value, dtype = literal.numpy(), site.dtype_of(literal.shape)
        if value.size <= MAX_INLINE_ELEMENTS and _is_plain(value):
            return _inline(value, dtype)
        return self.stored(value, site.row.name, dtype)

    def stored(self, value: Array, name: str, dtype: str) -> str:
        """The expression of an array that goes to the archive."""
        key = self._names.unique(name)
        self.arrays[key] = stored_array(value)
        view = "" if value.dtype.isbuiltin == 1 else f".view({dtype})"
        return f'CONSTANTS["{key}"]{view}'


def stored_array(value: Array) -> Array:
    """An array as ``numpy.savez`` keeps it: bits of types that NumPy has not."""
    plain = np.array(value, order="C")
    return plain if plain.dtype.isbuiltin == 1 else plain.view(f"u{plain.dtype.itemsize}")


def _is_plain(value: Array) -> bool:
    """Return True if ``repr`` of the elements has all of their bits: no NaN, no complex -0."""
    if value.dtype.kind == "c":
        return False
    if value.dtype.kind in "biu":
        return True
    return bool(np.isfinite(value.astype(np.float64)).all())


def _inline(value: Array, dtype: str) -> str:
    native = value.dtype.isbuiltin == 1
    numpy_dtype = f"np.{dtype.partition('.')[2]}" if native else dtype
    is_float = "float" in value.dtype.name
    items = [
        (str(item) if native else repr(float(item))) if is_float
        else repr(bool(item)) if value.dtype.kind == "b" else repr(int(item))
        for item in value.reshape(-1)
    ]  # fmt: skip
    if not value.ndim:
        return f"{numpy_dtype}({items[0]})"
    if value.ndim == 1:
        return f"np.array([{', '.join(items)}], {numpy_dtype})"
    return f"np.array([{', '.join(items)}], {numpy_dtype}).reshape({value.shape})"
