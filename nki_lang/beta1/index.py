"""Index expressions of NKI beta 1: affine forms over the axes of a tile.

``nl.arange`` and ``nl.mgrid`` make them, arithmetic combines them, a comparison makes a mask. The
axes of an expression are positions in its broadcast shape, as in NumPy: ``nl.arange(128)[:, None]``
varies along axis 0 of two. Loop indices and program indices are plain integers, because loops are
unrolled while they are traced.

Source: nki/api/nki/language (arange, mgrid, ds) and nki/programming_model.rst, SDK 2.26.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index as to_int
from typing import NoReturn

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.base.errors import NkiTypeError, fail
from nki_lang.beta1.signature import checked_call
from nki_lang.beta1.values import Value
from nki_lang.frontend.objects import is_sequence

__all__ = [
    "Grid",
    "IndexExpression",
    "arange",
    "broadcast_shapes",
    "is_integer",
    "keys_of",
    "mgrid",
    "refuse_index",
    "refuse_mask",
]

_MODEL = "nki/programming_model.rst, tile indexing (beta 1)"


def refuse_index(message: str, remedy: str, code: str = "NKI-BETA1-INDEX") -> NoReturn:
    """Raise an error about an index at the user's line."""
    fail(message, code, remedy, _MODEL)


def broadcast_shapes(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the common shape of index expressions, aligned at the last axis as in NumPy."""
    rank = max((len(shape) for shape in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for axis, extent in enumerate(shape, rank - len(shape)):
            if extent != 1 and result[axis] not in (1, extent):
                refuse_index(
                    f"index expressions of shapes {', '.join(map(str, shapes))} do not broadcast",
                    "extents of one axis are equal, or 1",
                )
            result[axis] = max(result[axis], extent)
    return tuple(result)


_MASKS = "nki/api/nki.api.shared.rst, nki-mask (beta 1)"
_RELATIONS = {
    "<": (-1, -1), "<=": (-1, 0), ">": (1, -1), ">=": (1, 0),
}  # fmt: skip
"""Relation -> (sign, shift): ``left R right`` is ``sign * (left - right) + shift >= 0``."""


def refuse_mask(message: str, remedy: str) -> NoReturn:
    fail(f"{message} (err_unsupported_expression_in_mask)", "NKI-BETA1-MASK", remedy, _MASKS)


class IndexExpression:
    """``offset + sum(steps[k] * i_k)`` over the axes of ``shape``.

    Attributes:
        shape: extent of each axis.
        offset: value at the origin.
        steps: what the value grows by along each axis.
    """

    __slots__ = ("offset", "shape", "steps")

    def __init__(self, shape: tuple[int, ...], offset: int, steps: tuple[int, ...]) -> None:
        self.shape = shape
        self.offset = offset
        self.steps = steps

    def __repr__(self) -> str:
        terms = "".join(f" + {step}*i{axis}" for axis, step in enumerate(self.steps) if step)
        return f"index {self.offset}{terms} of shape {self.shape}"

    __hash__ = object.__hash__

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __getitem__(self, key: Value) -> IndexExpression:
        """Insert axes: ``nl.arange(4)[:, None]``."""
        shape: list[int] = []
        steps: list[int] = []
        axis = 0
        for entry in keys_of(key):
            if entry is None:
                shape.append(1)
                steps.append(0)
            elif entry == slice(None) and axis < len(self.shape):
                shape.append(self.shape[axis])
                steps.append(self.steps[axis])
                axis += 1
            else:
                refuse_index(
                    f"{self!r} is subscripted with {entry!r}", "use [:, None] or [None, :]"
                )
        return IndexExpression(
            (*shape, *self.shape[axis:]), self.offset, (*steps, *self.steps[axis:])
        )

    def __setitem__(self, key: Value, value: Value) -> NoReturn:
        refuse_index(
            "an index expression cannot be assigned to (err_cannot_assign_to_index)",
            "nisa.iota(index, dtype) makes a tile of its values",
        )

    def __bool__(self) -> NoReturn:
        fail(
            "control flow depends on nl.arange or nl.mgrid"
            " (err_control_flow_condition_depending_on_arange)",
            "NKI-BETA1-MASK",
            "pass the condition as mask= to the instruction",
            _MODEL,
            NkiTypeError,
        )

    def expanded(self, rank: int) -> IndexExpression:
        """The same values with leading axes of extent 1 up to ``rank`` axes."""
        missing = rank - len(self.shape)
        if missing <= 0:
            return self
        return IndexExpression(
            (1,) * missing + self.shape, self.offset, (0,) * missing + self.steps
        )

    def value_range(self, box: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Return the smallest and the largest value for axis ranges (start, stop)."""
        low = high = self.offset
        for step, (start, stop) in zip(self.steps, box, strict=True):
            ends = (step * start, step * (stop - 1))
            low += min(ends)
            high += max(ends)
        return low, high

    def values(self) -> Array:
        """Return every value, in an array of the expression's shape."""
        total = np.full(self.shape, self.offset, np.int64)
        for axis, (extent, step) in enumerate(zip(self.shape, self.steps, strict=True)):
            along = [1] * len(self.shape)
            along[axis] = extent
            total = total + step * np.arange(extent).reshape(along)
        return total

    def _plus(self, operand: Value, sign: int, scale: int) -> Value:
        """Return ``scale * self + sign * operand``."""
        if isinstance(operand, IndexExpression):
            shape = broadcast_shapes((self.shape, operand.shape))
            left, right = self.expanded(len(shape)), operand.expanded(len(shape))
            steps = zip(left.steps, right.steps, strict=True)
            return IndexExpression(
                shape,
                scale * self.offset + sign * operand.offset,
                tuple(scale * a + sign * b for a, b in steps),
            )
        number = _integer(operand)
        if number is None:
            return NotImplemented
        steps = tuple(scale * step for step in self.steps)
        return IndexExpression(self.shape, scale * self.offset + sign * number, steps)

    def __add__(self, operand: Value) -> Value:
        return self._plus(operand, 1, 1)

    __radd__ = __add__

    def __sub__(self, operand: Value) -> Value:
        return self._plus(operand, -1, 1)

    def __rsub__(self, operand: Value) -> Value:
        return self._plus(operand, 1, -1)

    def __neg__(self) -> IndexExpression:
        return self._plus(0, 1, -1)

    def __mul__(self, operand: Value) -> Value:
        number = _integer(operand)
        if number is None and isinstance(operand, IndexExpression):
            self._refuse_operator("*", operand)
        return NotImplemented if number is None else self._plus(0, 1, number)

    __rmul__ = __mul__

    def _refuse_operator(self, symbol: str, operand: Value) -> NoReturn:
        refuse_index(
            f"({self!r}) {symbol} ({operand!r}) is no affine expression",
            "write a sum of axes times integers; use one more axis of nl.mgrid instead of // and %",
        )

    def __floordiv__(self, operand: Value) -> Value:
        self._refuse_operator("//", operand)

    def __mod__(self, operand: Value) -> Value:
        self._refuse_operator("%", operand)

    def __truediv__(self, operand: Value) -> Value:
        self._refuse_operator("/", operand)

    def _compare(self, operand: Value, relation: str) -> Mask:
        return comparison(self, operand, relation)

    def __lt__(self, operand: Value) -> Mask:
        return self._compare(operand, "<")

    def __le__(self, operand: Value) -> Mask:
        return self._compare(operand, "<=")

    def __gt__(self, operand: Value) -> Mask:
        return self._compare(operand, ">")

    def __ge__(self, operand: Value) -> Mask:
        return self._compare(operand, ">=")

    def __eq__(self, operand: Value) -> Value:
        return self._compare(operand, "==")

    def __ne__(self, operand: Value) -> Value:
        return self._compare(operand, "!=")


class Mask:
    """Conditions that all hold.

    Attributes:
        conditions: pairs of an expression and ``">="`` (not negative), ``"=="`` or ``"!="`` (zero).
        relation: the comparison as written, for ``nisa.affine_select``: (difference of both sides,
            relation); None for joined conditions.
    """

    __slots__ = ("conditions", "relation")

    def __init__(
        self,
        conditions: tuple[tuple[IndexExpression, str], ...],
        relation: tuple[IndexExpression, str] | None = None,
    ) -> None:
        self.conditions = conditions
        self.relation = relation

    def __and__(self, operand: Value) -> Mask | bool:
        if isinstance(operand, Mask):
            return Mask(self.conditions + operand.conditions)
        if isinstance(operand, (bool, np.bool_)):
            return self if operand else False
        if operand is None:
            return self
        refuse_mask(
            f"a mask is joined with {operand!r}", "join comparisons of index expressions with &"
        )

    __rand__ = __and__

    def __or__(self, operand: Value) -> Mask | bool:
        if isinstance(operand, (bool, np.bool_)):
            return True if operand else self
        refuse_mask("masks are joined with |", "issue the instruction once for each mask")

    __ror__ = __or__

    def __invert__(self) -> Mask:
        if len(self.conditions) != 1:
            refuse_mask("~ of joined conditions", "negate each comparison")
        expression, relation = self.conditions[0]
        if relation == ">=":
            return Mask(((-expression - 1, ">="),))
        return Mask(((expression, "!=" if relation == "==" else "=="),))

    def __bool__(self) -> NoReturn:
        fail(
            "a mask is used as a truth value (err_control_flow_condition_depending_on_arange)",
            "NKI-BETA1-MASK",
            "join conditions with & instead of `and`; pass the mask to the instruction instead of"
            " writing `if`",
            _MASKS,
            NkiTypeError,
        )


def comparison(left: IndexExpression, right: Value, relation: str) -> Mask:
    """Return the mask ``left <relation> right``; right is an expression or an integer."""
    difference = left - right
    if not isinstance(difference, IndexExpression):
        refuse_mask(f"an index is compared with {right!r}", "compare with integers and indices")
    if relation in ("==", "!="):
        return Mask(((difference, relation),), (difference, relation))
    sign, shift = _RELATIONS[relation]
    return Mask(((difference * sign + shift, ">="),), (difference, relation))


def keys_of(key: Value) -> list[Value]:
    """Return the entries of a subscript."""
    return list(key) if is_sequence(key) else [key]


def is_integer(value: Value) -> bool:
    """Return True for an integer of Python or NumPy."""
    return isinstance(value, (int, np.integer))


def _integer(value: Value) -> int | None:
    """Return an integer, or None for what is none (bool counts as 0 or 1)."""
    return int(value) if is_integer(value) else None


def _axis_of(start: Value, stop: Value, step: Value) -> tuple[int, int, int]:
    """Return (extent, first value, step) of a range of integers.

    The step of a single value is 0: it stays the same on an axis that other expressions make longer.
    """
    try:
        values = range(to_int(start), to_int(stop), to_int(step))
    except (TypeError, ValueError):
        refuse_index(
            f"a range of {start!r} to {stop!r} in steps of {step!r}", "limits are integers"
        )
    if not values:
        refuse_index(f"the range {values} is empty", "give a stop beyond the start")
    return len(values), values.start, values.step if len(values) > 1 else 0


@checked_call
def arange(*args: Value) -> IndexExpression:
    """``nl.arange([start,] stop[, step])``: one axis, to be placed with ``[:, None]``."""
    if not 1 <= len(args) <= 3:
        refuse_index(f"nl.arange takes 1 to 3 numbers, not {len(args)}", "nl.arange(start, stop)")
    start, stop = (0, args[0]) if len(args) == 1 else args[:2]
    extent, first, step = _axis_of(start, stop, args[2] if len(args) == 3 else 1)
    return IndexExpression((extent,), first, (step,))


class Grid(tuple[IndexExpression, ...]):
    """The axes of ``nl.mgrid[...]``, also by the names p, x, y, z, w."""

    __slots__ = ()

    def _named(self, position: int) -> IndexExpression:
        if position >= len(self):
            refuse_index(
                f"a grid of {len(self)} axes has no axis {'pxyzw'[position]}", "add a slice"
            )
        return self[position]

    @property
    def p(self) -> IndexExpression:
        """Axis 0, the partitions."""
        return self._named(0)

    @property
    def x(self) -> IndexExpression:
        """Axis 1."""
        return self._named(1)

    @property
    def y(self) -> IndexExpression:
        """Axis 2."""
        return self._named(2)

    @property
    def z(self) -> IndexExpression:
        """Axis 3."""
        return self._named(3)

    @property
    def w(self) -> IndexExpression:
        """Axis 4."""
        return self._named(4)


class _MeshGrid:
    """``nl.mgrid[a:b, c:d]``: one index expression for each slice."""

    def __getitem__(self, key: Value) -> Grid:
        axes: list[tuple[int, int, int]] = []
        for entry in keys_of(key):
            if type(entry) is not slice or entry.stop is None:
                refuse_index(
                    f"nl.mgrid[{entry!r}]", "nl.mgrid takes slices: nl.mgrid[0:128, 0:512]"
                )
            start = 0 if entry.start is None else entry.start
            axes.append(_axis_of(start, entry.stop, 1 if entry.step is None else entry.step))
        rank = len(axes)
        return Grid(
            IndexExpression(
                tuple(extent if k == axis else 1 for k in range(rank)),
                first,
                tuple(step if k == axis else 0 for k in range(rank)),
            )
            for axis, (extent, first, step) in enumerate(axes)
        )


mgrid = _MeshGrid()
