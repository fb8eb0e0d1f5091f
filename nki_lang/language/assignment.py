"""``tile[...] = value``: Python's assignment to a view, as the instructions that copy or fill it.

The vendor's simulator assigns as NumPy does; its compiler has no such construct
(``KLR/Trace/NKI.lean``, no assignment to a tile). A value is broadcast by NumPy's rules. A
conversion that NumPy and the engines round differently is refused, so that a result never depends
on who runs the kernel.
"""

from __future__ import annotations

from typing import NoReturn, cast

import numpy as np

from nki_lang.base.dtypes import Array, DType, dtype_of
from nki_lang.base.memory import MemoryRegion
from nki_lang.frontend.registers import VirtualRegister
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.frontend.view import refuse
from nki_lang.isa.dma import dma_copy
from nki_lang.isa.movement import memset, tensor_copy
from nki_lang.isa.registers import register_store
from nki_lang.language.composed import broadcast_to
from nki_lang.language.creation import ndarray, shared_constant

__all__ = ["assign"]

_SOURCE = "nki.simulate assigns as NumPy does; KLR Trace/NKI.lean: no assignment to a tile"
_EXACT_FLOAT32 = 1 << 24
"""Integers of this magnitude and below are float32 numbers."""


def assign(tensor: NkiTensor, key: object, value: object) -> None:
    """Write ``value`` into ``tensor[key]``.

    Args:
        tensor: a tensor in SBUF, PSUM or HBM.
        key: what selects the view; see ``NkiTensor.__getitem__``.
        value: a tensor or an array whose shape NumPy broadcasts to that of the view, a number, or
            a register (for a view of one element).

    Raises:
        NkiValidationError: code ``NKI-ASSIGN``: the shape does not broadcast, the conversion would
            lose values, or the value is none of these; or the code of the instruction that writes.
    """
    view = tensor[key]
    if isinstance(value, NkiTensor):
        if value.storage is not view.storage or value.access != view.access:
            _copy(view, value, _numpy_shape(tensor, key, view))
    elif isinstance(value, VirtualRegister):
        register_store(view, value)
    elif isinstance(value, np.ndarray):
        array = cast("Array", value)
        if array.ndim == 0:
            _fill(view, array.item())
        else:
            _copy(view, _array(view, array), _numpy_shape(tensor, key, view))
    elif isinstance(value, np.generic):
        _fill(view, cast("object", value.item()))
    elif isinstance(value, (bool, int, float)):
        _fill(view, value)
    else:
        _refuse(view, f"{value!r} ({type(value).__name__}) is assigned",
                "assign a tile, an array, a number or a register")  # fmt: skip


def _refuse(view: NkiTensor, message: str, remedy: str) -> NoReturn:
    refuse(view, message, "NKI-ASSIGN", remedy, _SOURCE)


def _array(view: NkiTensor, array: Array) -> NkiTensor:
    """Return a host array as a constant of the kernel, in the dtype of the view."""
    try:
        constant = dtype_of(array.dtype)
    except TypeError:
        constant = None
    if constant == view.dtype:
        return shared_constant(array)
    if view.dtype.kind == "packed" or array.dtype.kind not in "biufV":
        _refuse(view, f"an array of {array.dtype} is assigned to {view.dtype}",
                "convert it with NumPy first")  # fmt: skip
    with np.errstate(invalid="ignore", over="ignore"):
        converted = array.astype(view.dtype.dtype)
    if view.dtype.kind != "float" and not bool(np.all(converted == array)):
        _refuse(view, f"an array of {array.dtype} with values that {view.dtype} does not hold",
                "round or clip it with NumPy first")  # fmt: skip
    return shared_constant(converted)


def _numpy_shape(tensor: NkiTensor, key: object, view: NkiTensor) -> tuple[int, ...]:
    """Return the view's shape without the dimensions that integers select.

    Views on chip keep the partition dimension, and two dimensions at least; NumPy drops them.
    """
    keys = cast("tuple[object, ...]", key) if isinstance(key, tuple) else (key,)
    if Ellipsis in keys or None in keys:
        return view.shape
    rank = len(tensor.shape) - sum(1 for item in keys if isinstance(item, (int, np.integer)))
    extra = len(view.shape) - rank
    leading = 1 if extra and view.on_chip and isinstance(keys[0], (int, np.integer)) else 0
    return view.shape[leading : len(view.shape) - (extra - leading)]


def _fits(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False


def _spread(source: NkiTensor, shape: tuple[int, ...]) -> NkiTensor:
    """Return a view of ``source`` in which dimensions of extent 1 are repeated."""
    wide = source
    while len(wide.shape) > len(shape):
        wide = wide.squeeze_dim(0)
    while len(wide.shape) < len(shape):
        wide = wide.expand_dim(0)
    if wide.on_chip and wide.shape[0] != shape[0]:
        wide = broadcast_to(wide, (shape[0], *wide.shape[1:]))
    for axis, extent in enumerate(shape):
        if wide.shape[axis] != extent:
            wide = wide.broadcast(axis, extent)
    return wide


def _source_view(view: NkiTensor, source: NkiTensor, bare_shape: tuple[int, ...]) -> NkiTensor:
    """Return the assigned tensor as a view with the shape of ``view``."""
    if source.shape == view.shape:
        return source
    ones = len(source.shape) - len(view.shape)
    squeezed = source.shape[max(ones, 0) :]
    if set(source.shape[: max(ones, 0)]) <= {1} and _fits(squeezed, view.shape):
        return _spread(source, view.shape)
    if not source.on_chip and bare_shape and _fits(source.shape, bare_shape):
        wide = _spread(source, bare_shape)
        leading = 1 if view.shape[: len(bare_shape)] != bare_shape else 0
        if leading:
            wide = wide.expand_dim(0)
        while len(wide.shape) < len(view.shape):
            wide = wide.expand_dim(len(wide.shape))
        return wide
    _refuse(view, f"a tensor of shape {source.shape} is assigned to a view of {view.shape}",
            "shapes are equal, or NumPy broadcasts the value to the view")  # fmt: skip


def _converts(source: DType, target: DType) -> bool:
    """Return True if the engines convert each value as NumPy does."""
    if source == target or (target.kind == "float" and source.kind != "packed"):
        return True
    numeric = ("int", "uint", "bool")
    return {source.kind, target.kind} <= set(numeric) and bool(
        np.can_cast(source.dtype, target.dtype, "safe")
    )


def _copy(view: NkiTensor, source: NkiTensor, bare_shape: tuple[int, ...]) -> None:
    """Copy through the memories that lie between the two."""
    value = _source_view(view, source, bare_shape)
    if value.dtype != view.dtype:
        widths = value.dtype.itemsize, view.dtype.itemsize
        if value.dtype.is_integer and view.dtype.is_integer and widths[0] == widths[1]:
            value = value.view(view.dtype)  # the bits stay, as in NumPy
        elif not _converts(value.dtype, view.dtype):
            _refuse(view, f"{value.dtype} values are assigned to {view.dtype}",
                    "convert with nl.copy(tile, dtype=...), which rounds as the engines do")  # fmt: skip
    if value.storage is view.storage:
        value = _moved(value)
    if view.on_chip and value.on_chip:
        tensor_copy(view, value)
        return
    if MemoryRegion.psum in (view.buffer, value.buffer):
        value = _in_sbuf(value)
    if view.buffer is MemoryRegion.psum:
        tensor_copy(view, value)
    else:
        dma_copy(view, value)


def _moved(value: NkiTensor) -> NkiTensor:
    """Return a copy of a view, since what is written may overlap it."""
    if value.on_chip:
        return _in_sbuf(value)
    copy = ndarray(value.shape, value.dtype, MemoryRegion.private_hbm)
    dma_copy(copy, value)
    return copy


def _in_sbuf(value: NkiTensor) -> NkiTensor:
    tile = ndarray(value.shape, value.dtype)
    if value.on_chip:
        tensor_copy(tile, value)
    else:
        dma_copy(tile, value)
    return tile


def _fill(view: NkiTensor, number: object) -> None:
    """Write one number into every element."""
    if not isinstance(number, (bool, int, float)):
        _refuse(view, f"{number!r} ({type(number).__name__}) is assigned", "assign a real number")
    if view.dtype.kind == "bool":
        number = int(bool(number))
    elif view.dtype.kind == "packed" and number != 0:
        _refuse(view, f"{number!r} is assigned to packed elements of {view.dtype}",
                "assign 0, or a packed tile")  # fmt: skip
    elif view.dtype.is_integer:
        limits = np.iinfo(view.dtype.dtype)
        if number != number or number % 1 or not limits.min <= number <= limits.max:
            _refuse(view, f"{number!r} is assigned to elements of {view.dtype}",
                    "assign an integer that the dtype holds")  # fmt: skip
        number = int(number)
    if view.on_chip and (not view.dtype.is_integer or abs(number) <= _EXACT_FLOAT32):
        memset(view, number)
        return
    value = np.full((1,) * len(view.shape), number, view.dtype.dtype)
    constant = shared_constant(value)
    _copy(view, constant, view.shape)
