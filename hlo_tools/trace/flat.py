"""``a.flat``: the elements of a traced array in C order, to iterate over, read and write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from hlo_tools.trace.array import TracedArray, TracedScalar, as_node
from hlo_tools.trace.errors import refuse
from hlo_tools.trace.functions.arguments import xp
from hlo_tools.trace.graph import Operand

__all__ = ["Flat"]


class Flat:
    """A ``flatiter`` of NumPy for a traced array."""

    __slots__ = ("base",)
    __hash__ = None  # pyright: ignore

    def __init__(self, base: TracedArray) -> None:
        self.base = base

    def __array__(self, *args: object, **kwargs: object) -> Operand:
        return self.copy().__array__()

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object
    ) -> Operand:
        return getattr(ufunc, method)(*_arrays(inputs), **kwargs)

    def __array_function__(
        self, func: Operand, types: object, args: Operand, kwargs: Operand
    ) -> Operand:
        return func(*_arrays(args), **kwargs)

    def __len__(self) -> int:
        return self.base.size

    def __iter__(self) -> Iterator[TracedArray]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, key: Operand) -> TracedArray:
        """A copy of elements, or one of them as a number."""
        return self.copy()[key]

    def __setitem__(self, key: Operand, value: Operand) -> None:
        """Too few values are repeated, those beyond the last element are ignored.

        A number has a copy's elements: writing to them changes nothing, as in NumPy.
        """
        if isinstance(value, TracedArray) and self._overlaps(value):
            raise refuse(
                "an array is written through flat from memory of its own, element by element",
                code="HLO-TRACE-ARGUMENT",
                remedy="write a copy: a.flat = b.copy()",
            )
        elements = self.copy()
        target = elements[key]
        if target.ndim and (isinstance(value, (list, tuple)) or xp.ndim(value)):
            value = self._repeated(value, target)
        elements[key] = value
        if not isinstance(self.base, TracedScalar):
            self.base[...] = elements.reshape(self.base.shape)

    def __eq__(self, operand: object) -> Operand:
        return self.copy() == operand

    def __ne__(self, operand: object) -> Operand:
        return self.copy() != operand

    def __lt__(self, operand: Operand) -> Operand:
        return self.copy() < operand

    def __le__(self, operand: Operand) -> Operand:
        return self.copy() <= operand

    def __gt__(self, operand: Operand) -> Operand:
        return self.copy() > operand

    def __ge__(self, operand: Operand) -> Operand:
        return self.copy() >= operand

    def copy(self) -> TracedArray:
        """The elements as an array of one dimension."""
        return xp.copy(xp.ravel(self.base))

    def _repeated(self, value: Operand, target: TracedArray) -> TracedArray:
        """A value's elements, as often as the target takes them; the target's own for none."""
        elements = xp.ravel(TracedArray(as_node(value, self.base.graph, self.base.dtype)))
        if not elements.size:
            return target
        return xp.tile(elements, -(-target.size // elements.size))[: target.size]

    def _overlaps(self, value: TracedArray) -> bool:
        return value.dtype == self.base.dtype and _owner(value) is _owner(self.base)


def _owner(array: TracedArray) -> TracedArray:
    while array.parent is not None:
        array = array.parent
    return array


def _arrays(values: Iterable[object]) -> list[Operand]:
    return [value.copy() if isinstance(value, Flat) else value for value in values]
