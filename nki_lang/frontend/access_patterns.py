"""Views by explicit access patterns over the storage: ``tensor.ap(...)``."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index as to_int
from typing import NoReturn

from nki_lang.base.dtypes import dtype_of
from nki_lang.frontend import strides as stride_rules
from nki_lang.frontend.indexing import (
    ACCESS_PATTERNS,
    ONE_INDEX,
    V,
    dynamic_start,
    scalar_index,
    storage_dimension,
    vector_index,
)
from nki_lang.frontend.slices import Index
from nki_lang.frontend.view import View, refuse

__all__ = ["pattern_view"]


def pattern_view(
    tensor: V,
    pattern: Sequence[Sequence[int]],
    offset: int | None,
    scalar_offset: object,
    vector_offset: View | None,
    indirect_dim: int,
    dtype: object,
) -> V:
    """Return ``tensor.ap(...)``: an explicit pattern over the storage."""
    element = tensor.dtype if dtype is None else dtype_of(dtype)
    base = tensor.offset
    if element.itemsize != tensor.dtype.itemsize:
        base = base * tensor.dtype.itemsize // element.itemsize
    shift = 0 if offset is None else to_int(offset)
    shape = tuple(to_int(count) for _, count in pattern)
    strides = tuple(to_int(step) for step, _ in pattern)
    if dtype is None and strides and shape[0] > 1 and 0 < strides[0] == _columns_of_block(tensor):
        row, column = divmod(shift, strides[0])
        shift = row * tensor.partition_stride + column
        strides = (tensor.partition_stride, *strides[1:])
    view = tensor.derive(shape, strides, base + shift, element)
    view.runtime_index = None
    if scalar_offset is not None and vector_offset is not None:
        refuse(
            tensor,
            "scalar_offset and vector_offset exclude each other",
            "NKI-AP",
            "add the scalar to the vector with nisa.tensor_scalar",
            ACCESS_PATTERNS,
        )
    dynamic = vector_offset is not None or dynamic_start(scalar_offset)
    if dynamic and tensor.runtime_index is not None:
        refuse(
            tensor,
            "the view has a runtime index already",
            "NKI-INDIRECT",
            ONE_INDEX,
            ACCESS_PATTERNS,
        )
    if scalar_offset is not None or vector_offset is not None:
        view.runtime_index = _pattern_index(
            tensor, view, scalar_offset, vector_offset, indirect_dim
        )
    _check_pattern(tensor, view, vector_offset is not None)
    return view


def _columns_of_block(tensor: View) -> int:
    """Return the elements in a row of a view that is a block of columns of a tile on chip, else 0.

    Kernels walk such a view as if it were a separate tile: "the element count of the entire free
    dimension of the tensor" is then that of the view (deep dive on access patterns, Restriction
    on SBUF/PSUM Tensors).
    """
    if not tensor.on_chip or tensor.strides[0] != tensor.partition_stride:
        return 0
    if tensor.strides[1:] != stride_rules.row_major(tensor.shape)[1:]:
        return 0
    columns = prod(tensor.shape[1:])
    return columns if columns < tensor.partition_stride else 0


def _pattern_index(
    tensor: View, view: View, scalar: object, vector: View | None, dim: int
) -> Index | None:
    """Return the runtime index of a pattern; an integer only moves the offset."""
    axis = to_int(dim)
    if not -len(tensor.shape) <= axis < len(tensor.shape):
        refuse(
            tensor,
            f"indirect_dim {dim} is not a dimension of the tensor",
            "NKI-AP",
            "it counts the dimensions of the tensor, not those of the pattern",
            ACCESS_PATTERNS,
        )
    axis %= len(tensor.shape)
    step = stride_rules.row_major(tensor.shape)[axis]
    step = step * tensor.dtype.itemsize // view.dtype.itemsize
    preferred = axis if tensor.shape == tensor.storage.shape else -1
    storage_dim = storage_dimension(view, step, preferred, tensor.shape[axis])
    if vector is None and isinstance(scalar, int):
        view.offset += scalar * step
        return None
    if vector is None:
        if tensor.on_chip and axis == 0:
            refuse(
                tensor,
                "the partition dimension cannot be indexed at run time",
                "NKI-PARTITION-DIM",
                "index a free dimension, or copy the rows with nisa.dma_copy from HBM",
            )
        return Index(scalar_index(scalar), None, step, 0, storage_dim)
    if axis != 0:
        refuse(
            tensor,
            "vector_offset works with indirect_dim=0 only",
            "NKI-AP",
            "view the tensor with the indexed dimension first",
            ACCESS_PATTERNS,
        )
    return Index(None, vector_index(tensor, vector), step, 0, storage_dim)


def _check_pattern(tensor: View, view: View, gather: bool) -> None:
    if not view.shape or any(count < 1 for count in view.shape):
        refuse(tensor, f"counts of a pattern are 1 or more, not {view.shape}", "NKI-AP",
                       source=ACCESS_PATTERNS, remedy="leave the instruction out when there is nothing to move")  # fmt: skip
    if tensor.on_chip and view.shape[0] > 1 and view.strides[0] != view.partition_stride:
        refuse(
            tensor,
            f"the first step of a pattern on chip is the number of elements in a partition,"
            f" {view.partition_stride}, not {view.strides[0]}",
            "NKI-AP",
            "walk partitions one by one; use nisa.nc_transpose or nisa.dma_copy to move across",
            f"{ACCESS_PATTERNS}, Restriction on SBUF/PSUM Tensors",
        )
    first = 1 if gather else 0
    low = high = view.offset
    for step, count in list(zip(view.strides, view.shape, strict=True))[first:]:
        reach = step * (count - 1)
        low, high = (low + reach, high) if reach < 0 else (low, high + reach)
    limit = tensor.storage.nbytes // view.dtype.itemsize
    if low < 0 or high >= limit:
        message = (
            f"the pattern {view.get_pattern()} at offset {view.offset} reaches elements {low} to"
            f" {high}, but the storage has {limit} of {view.dtype}"
        )
        # Kernels create patterns for tiles beyond the last one and use them under an if.
        view.runtime_index = _Outside(tensor, message)  # type: ignore[assignment]
    elif tensor.on_chip:
        _check_columns(tensor, view)


def _check_columns(tensor: View, view: View) -> None:
    """Check that the free dimensions stay in their partition, the only one that a lane reaches."""
    width = view.partition_stride
    low = high = view.offset % width
    for step, count in zip(view.strides[1:], view.shape[1:], strict=True):
        reach = step * (count - 1)
        low, high = (low + reach, high) if reach < 0 else (low, high + reach)
    if low < 0 or high >= width:
        message = (
            f"the pattern {view.get_pattern()} at offset {view.offset} reaches elements {low} to"
            f" {high} of a partition, which has {width} of {view.dtype}"
        )
        view.runtime_index = _Outside(tensor, message)  # type: ignore[assignment]


class _Outside:
    """Placeholder for the runtime index of a pattern that leaves its storage; any use raises."""

    __slots__ = ("message", "tensor")

    def __init__(self, tensor: View, message: str) -> None:
        self.tensor = tensor
        self.message = message

    def __getattr__(self, name: str) -> NoReturn:
        """Any use of the view reads the index, and raises."""
        if name.startswith("__"):
            raise AttributeError(name)
        refuse(
            self.tensor,
            self.message,
            "NKI-AP-BOUNDS",
            source=ACCESS_PATTERNS,
            remedy="count the last element: offset plus each step times its count less one",
        )
