"""Tiles of NKI beta 1: a tensor under an index tuple, with Python's operators.

A :class:`Tile` is a base view and, for each dimension of it, an affine form over the axes of the
tile. Bounds are checked when an instruction uses it, for a mask may exclude what is outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NoReturn

import numpy as np

from nki_lang.base.dtypes import DType, dtype_of
from nki_lang.base.errors import NkiTypeError, fail
from nki_lang.beta1.index import IndexExpression, Mask, refuse_index
from nki_lang.beta1.mask import Box, whole_box
from nki_lang.beta1.values import ElementLike, MaskLike, ShapeLike, Value
from nki_lang.frontend.indexing import storage_dimension
from nki_lang.frontend.slices import Index
from nki_lang.frontend.tensor import NkiTensor

__all__ = ["OPERATIONS", "Dynamic", "MaskedOperand", "Tile", "is_tile"]

_ERRORS = "nki/api/nki.errors.rst"


def _is_number(value: Value) -> bool:
    """Return True for a number of NumPy's, also as an array without dimensions."""
    return isinstance(value, np.generic) or (
        getattr(value, "shape", None) == () and hasattr(value, "item")
    )


OPERATIONS: dict[str, Callable[..., Value]] = {}
"""Functions behind Python's operators on tiles; :mod:`nki_lang.beta1.assignment` defines them."""


class Dynamic:
    """An index that adds one element of a tile, known at run time, to an expression.

    Attributes:
        scalar: the tile of one element.
        expression: an index expression or an integer.
    """

    __slots__ = ("expression", "scalar")

    def __init__(self, scalar: Tile, expression: Value) -> None:
        self.scalar = scalar
        self.expression = expression

    def __add__(self, operand: Value) -> Dynamic:
        return Dynamic(self.scalar, self.expression + operand)

    __radd__ = __add__


class MaskedOperand:
    """An operand of a product under a mask, ``tile[i_f < columns]``; no other function takes it.

    Attributes:
        tile: the operand.
        mask: over its axes.
    """

    __slots__ = ("mask", "tile")

    def __init__(self, tile: Tile, mask: MaskLike) -> None:
        self.tile = tile
        self.mask = mask

    def __repr__(self) -> str:
        return f"masked {self.tile!r}"

    def __getitem__(self, key: Value) -> MaskedOperand:
        if not isinstance(key, (Mask, bool, np.bool_)):
            refuse_index(f"{self!r} is indexed with {key!r}", "index the tile, then mask it")
        return MaskedOperand(self.tile, key & self.mask)


class Tile:
    """A tensor, or the part of it that an index selects.

    Attributes:
        base: the dense view that is indexed.
        shape: extents of the tile.
        forms: for each dimension of the base the index, as an expression over the tile's axes;
            None for the base itself.
        rows: the tile of row indices of an indirect access with the dimension of the base that they
            address, or None.
        scalar: the same for an offset known at run time.
    """

    __slots__ = ("base", "forms", "rows", "scalar", "shape")

    def __init__(
        self,
        base: NkiTensor,
        shape: tuple[int, ...] | None = None,
        forms: tuple[IndexExpression, ...] | None = None,
        rows: tuple[Tile, int] | None = None,
        scalar: tuple[Tile, int] | None = None,
    ) -> None:
        self.base = base
        self.shape = base.shape if shape is None else shape
        self.forms = forms
        self.rows = rows
        self.scalar = scalar

    def __repr__(self) -> str:
        return f"tile {self.base.name}: {self.dtype}{list(self.shape)} in {self.base.buffer}"

    __hash__ = object.__hash__

    # -- attributes -----------------------------------------------------------------------

    @property
    def dtype(self) -> DType:
        """Type of the elements."""
        return self.base.dtype

    @property
    def buffer(self) -> Value:
        """The memory."""
        return self.base.buffer

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.base.dtype.itemsize

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def on_chip(self) -> bool:
        """True for SBUF and PSUM."""
        return self.base.on_chip

    def __len__(self) -> int:
        return self.shape[0]

    def __bool__(self) -> NoReturn:
        fail(
            f"{self!r} is used as a truth value (err_ambiguous_tensor_truth_value)",
            "NKI-TENSOR-VALUE",
            "values are known only while the kernel runs; use a mask or nl.where",
            _ERRORS,
            NkiTypeError,
        )

    def __iter__(self) -> NoReturn:
        """Refuse a loop over the rows: Python would index without an end."""
        fail(
            f"{self!r} is iterated over",
            "NKI-TENSOR-VALUE",
            "index rows with nl.arange, or loop over nl.affine_range(...)",
            _ERRORS,
            NkiTypeError,
        )

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Value, **_: object) -> Value:
        """Compute an operator of a NumPy number and a tile; refuse NumPy's functions."""
        name = {"true_divide": "divide", "remainder": "mod"}.get(ufunc.__name__, ufunc.__name__)
        is_operator = name in {*_OPERATORS.values(), *_COMPARISONS.values()}
        if method != "__call__" or not is_operator or not any(map(_is_number, inputs)):
            self._refuse_numpy(ufunc.__name__)
        x, y = (value.item() if _is_number(value) else value for value in inputs)
        return OPERATIONS["binary"](name, x, y)

    def __array_function__(
        self, func: Callable[..., Value], types: object, args: object, kwargs: object
    ) -> NoReturn:
        self._refuse_numpy(func.__name__)

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        self._refuse_numpy("asarray")

    def _refuse_numpy(self, name: str) -> NoReturn:
        fail(
            f"np.{name} does not compute on tiles: {self!r}",
            "NKI-TENSOR-VALUE",
            "values are known only while the kernel runs; use the function of nki.language (nl), "
            f"such as nl.{name}, if there is one",
            _ERRORS,
            NkiTypeError,
        )

    def nki_operand(self) -> NoReturn:
        """A function of the current language got this tile."""
        fail(
            f"{self!r} of NKI beta 1 (neuronxcc.nki) is passed to a function of the current language",
            "NKI-BETA1-MIXED",
            "import nki, nki.language and nki.isa from one package: nki, or neuronxcc.nki",
        )

    # -- the access of instructions ---------------------------------------------------------

    def region(self, box: Box | None = None) -> NkiTensor:
        """Return the view of the elements in ``box`` (all of them by default).

        Raises:
            NkiValidationError: code ``NKI-BETA1-BOUNDS``; an element is outside of the tensor.
        """
        if self.forms is None:
            if box is None:
                return self.base
            forms = _identity(self.shape)
        else:
            forms = self.forms
        ranges = whole_box(self.shape) if box is None else box
        offset = self.base.offset
        steps = [0] * len(self.shape)
        for dim, (form, stride) in enumerate(zip(forms, self.base.strides, strict=True)):
            low, high = form.value_range(ranges)
            indirect = self.rows is not None and self.rows[1] == dim
            if (low < 0 or high >= self.base.shape[dim]) and not indirect:
                self._outside(dim, low, high)
            offset += stride * form.offset
            for axis, step in enumerate(form.steps):
                offset += stride * step * ranges[axis][0]
                steps[axis] += stride * step
        shape = tuple(stop - start for start, stop in ranges)
        if self.base.on_chip:
            self._settle_partitions(forms, shape, steps)
        view = self.base.derive(shape, tuple(steps), offset)
        if self.rows is not None:
            view.runtime_index = self._row_index(ranges)
        elif self.scalar is not None:
            view.runtime_index = self._scalar_index()
        return view

    def _outside(self, dim: int, low: int, high: int) -> NoReturn:
        fail(
            f"dimension {dim} of {self.base.name!r}, shape {self.base.shape}, is accessed at {low}"
            f" to {high} (err_tensor_access_out_of_bound)",
            "NKI-BETA1-BOUNDS",
            "pass mask= to the instruction, or shorten the index",
            _ERRORS,
        )

    def _settle_partitions(
        self, forms: Sequence[IndexExpression], shape: tuple[int, ...], steps: list[int]
    ) -> None:
        """Check that the first axis alone walks the partitions, one by one."""
        row = self.base.partition_stride
        for axis, extent in enumerate(shape):
            if extent > 1 and forms[0].steps[axis] and (axis or forms[0].steps[axis] != 1):
                fail(
                    f"axis {axis} of an access to {self.base.name!r} walks its partitions in steps"
                    f" of {forms[0].steps[axis]}",
                    "NKI-BETA1-INDEX",
                    "the first axis of a tile is its partitions, in steps of 1; move data across"
                    " partitions with nisa.nc_transpose or nisa.dma_copy",
                    "nki/programming_model.rst, tile indexing (beta 1)",
                )
        if shape[0] == 1:
            steps[0] = row
        elif not steps[0]:
            fail(
                f"one partition of {self.base.name!r} is read on {shape[0]} partitions",
                "NKI-BETA1-INDEX",
                "use broadcast_to to repeat a partition",
                "nki/programming_model.rst, tile indexing (beta 1)",
            )

    def _row_index(self, ranges: Box) -> Index:
        assert self.rows is not None
        indices, dim = self.rows
        box = (ranges[0], *((0, extent) for extent in indices.shape[1:]))
        view = indices.region(box)
        step = self.base.strides[dim]
        home = storage_dimension(self.base, step, dim, self.base.shape[dim])
        return Index(None, view.access, step, 0, home)

    def _scalar_index(self) -> Index:
        assert self.scalar is not None
        element, dim = self.scalar
        step = self.base.strides[dim]
        home = storage_dimension(self.base, step, dim, self.base.shape[dim])
        return Index(element.region().access, None, step, 0, home)

    # -- indexing and assignment --------------------------------------------------------------

    def __getitem__(self, key: Value) -> Value:
        if isinstance(key, (Mask, bool, np.bool_)):
            return MaskedOperand(self, key)
        return OPERATIONS["select"](self, key)

    def __setitem__(self, key: Value, value: Value) -> None:
        OPERATIONS["assign"](self[key], value)

    # -- derived tiles ------------------------------------------------------------------------

    def reshape(self, shape: ShapeLike, *more: int) -> Tile:
        """The same elements in another shape, without a copy."""
        extents = (shape, *more) if isinstance(shape, int) else tuple(shape)
        return Tile(self.region().reshape(extents))

    def view(self, dtype: ElementLike) -> Tile:
        """The same bytes read as another type."""
        return Tile(self.region().view(dtype_of(dtype)))

    def broadcast_to(self, shape: ShapeLike) -> Tile:
        """The elements repeated along dimensions of extent 1."""
        return OPERATIONS["broadcast"](self, tuple(shape))

    def expand_dims(self, axis: int) -> Tile:
        """A view with one more dimension of extent 1."""
        return Tile(self.region().expand_dim(axis))

    def astype(self, dtype: ElementLike) -> Tile:
        """A copy in another type."""
        return OPERATIONS["copy"](self, dtype)

    def assert_shape(self, shape: ShapeLike) -> Tile:
        """The tile itself, if it has this shape."""
        if tuple(shape) != self.shape:
            fail(
                f"{self!r} does not have the shape {tuple(shape)} (err_annotation_shape_mismatch)",
                "NKI-SHAPE",
                "correct the shape",
                _ERRORS,
            )
        return self


def _identity(shape: tuple[int, ...]) -> tuple[IndexExpression, ...]:
    rank = len(shape)
    return tuple(
        IndexExpression(shape, 0, tuple(int(k == axis) for k in range(rank)))
        for axis in range(rank)
    )


def is_tile(value: Value) -> bool:
    """Return True for a tile."""
    return isinstance(value, Tile)


def _binary(name: str, swapped: bool = False) -> Value:
    def method(self: Tile, operand: Value) -> Value:
        if operand is None or isinstance(operand, str):
            return NotImplemented
        if isinstance(operand, IndexExpression) or (name == "add" and isinstance(operand, Dynamic)):
            if name == "add" and self.size == 1:
                return Dynamic(self, operand)
            return NotImplemented
        x, y = (operand, self) if swapped else (self, operand)
        return OPERATIONS["binary"](name, x, y)

    return method


def _in_place(name: str) -> Value:
    def method(self: Tile, operand: Value) -> Tile:
        return OPERATIONS["update"](self, operand, name)

    return method


def _unary(name: str) -> Value:
    def method(self: Tile) -> Value:
        return OPERATIONS["unary"](name, self)

    return method


_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "mod": "mod",
    "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip
_COMPARISONS = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal",
    "ne": "not_equal",
}  # fmt: skip
_UNARY = {"neg": "negative", "abs": "abs", "invert": "invert"}

for _python, _name in _OPERATORS.items():
    setattr(Tile, f"__{_python}__", _binary(_name))
    setattr(Tile, f"__r{_python}__", _binary(_name, swapped=True))
    setattr(Tile, f"__i{_python}__", _in_place(_name))
for _python, _name in _COMPARISONS.items():
    setattr(Tile, f"__{_python}__", _binary(_name))
for _python, _name in _UNARY.items():
    setattr(Tile, f"__{_python}__", _unary(_name))
