"""The bytes of one tensor, and the window of an access pattern in them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nki_lang.analysis.regions import dense_pattern
from nki_lang.base.dtypes import Array
from nki_lang.base.errors import NkiExecutionError
from nki_lang.ir.coverage import Coverage, Piece
from nki_lang.ir.fresh import FRESH_BYTE
from nki_lang.ir.types import Access, Tensor

__all__ = ["Layout", "Storage", "outside", "whole"]


class Layout(NamedTuple):
    """Location of the elements of an access: a strided window in bytes."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]

    @property
    def piece(self) -> Piece:
        """The same window for :class:`~nki_lang.ir.coverage.Coverage`."""
        return Piece(self.shape, self.offset, self.strides, self.dtype.itemsize)


class Storage:
    """Bytes that hold one tensor.

    Attributes:
        tensor: the tensor.
        data: all bytes, flat and writable (for a placed tensor those of the whole arena).
        coverage: which bytes of ``data`` were written, or None when it is not tracked.
        dtype: NumPy type of the elements as stored.
        row: bytes from one partition to the next, or 0 when the tensor is dense.
        start: byte of the first element.
        array: the array that was bound, or None.
        pending: unwritten bytes have arbitrary values until :meth:`settle`.
    """

    __slots__ = (
        "_whole_view", "array", "coverage", "data", "dense", "dtype", "pending", "row", "start", "tensor",
        "widened",
    )  # fmt: skip

    def __init__(
        self,
        tensor: Tensor,
        data: Array,
        dtype: np.dtype[Any],
        *,
        coverage: Coverage | None = None,
        row: int = 0,
        start: int = 0,
        array: Array | None = None,
    ) -> None:
        self.tensor = tensor
        self.data = data
        self.dtype = dtype
        self.coverage = coverage
        self.row = row
        self.start = start
        self.array = array
        self.pending = False
        self.dense = dense_pattern(tensor.shape)
        self._whole_view: Array | None = None
        self.widened = dtype.itemsize != tensor.dtype.itemsize

    def settle(self) -> None:
        """Fill the unwritten bytes with the content of fresh memory: NaN in every float type.

        Until they are read they have arbitrary values (``pending``), so memory that is written
        first is never filled.
        """
        if not self.pending:
            return
        self.pending = False
        if self.coverage is None or self.coverage.untouched:
            self.data.fill(FRESH_BYTE)
        elif not self.coverage.try_finish():
            self.data[self.coverage.holes()] = FRESH_BYTE

    def covers(self, access: Access) -> bool:
        """Return True if the access reads a whole tensor in order, from its own storage."""
        return (
            access.pattern == self.dense
            and access.offset == 0
            and access.dtype is None
            and self.row == 0
            and not access.is_dynamic
        )

    def window(self, access: Access) -> Array:
        """Return the elements of a static access; the view of the whole tensor is cached."""
        if access.pattern == self.dense and access.offset == 0 and access.dtype is None:
            if self._whole_view is None:
                self._whole_view = self.view(self.layout(access))
            return self._whole_view
        return self.view(self.layout(access))

    def layout(self, access: Access, extra: int = 0) -> Layout:
        """Return the window of ``access`` moved by ``extra`` elements, without indirection.

        Raises:
            NkiExecutionError: ``NKI-OUT-OF-BOUNDS``, an element outside the tensor.
        """
        dtype = self.dtype
        if access.dtype is not None:
            dtype = self._reinterpreted(access)
        size = dtype.itemsize
        offset = access.offset + extra
        pattern = access.pattern
        if self.row:
            return self._placed(access, dtype, extra)
        self._check(
            access, extra, self.tensor.nbytes // size if not self.widened else self.tensor.elements
        )
        return Layout(
            dtype,
            tuple([count for _, count in pattern]),
            self.start + offset * size,
            tuple([step * size for step, _ in pattern]),
        )

    def _reinterpreted(self, access: Access) -> np.dtype[Any]:
        assert access.dtype is not None
        if self.widened and access.dtype != self.tensor.dtype:
            raise NkiExecutionError(
                f"tensor {self.tensor.name!r} is read as {access.dtype}, but it is stored as "
                f"float32 because NKI_PRECISE_FP=0",
                code="NKI-PRECISE-FP",
                remedy="run with NKI_PRECISE_FP=1",
            )
        return self.dtype if self.widened else access.dtype.dtype

    def _check(self, access: Access, extra: int, limit: int) -> None:
        pattern, offset = access.pattern, access.offset + extra
        low = high = 0
        for step, count in pattern:
            if count == 0:
                return
            if step > 0:
                high += step * (count - 1)
            else:
                low += step * (count - 1)
        if offset + low < 0 or offset + high >= limit:
            raise outside(self.tensor, offset + (low if low < 0 else high), limit)
        # The executor's own accesses may walk a tile in any order; those with an index do not.
        if access.scalar_offset is not None and self.tensor.on_chip and self.tensor.shape:
            width = max(1, limit // self.tensor.shape[0])
            step, count = pattern[0] if pattern else (0, 1)
            _, column = _start(access, extra, width)
            first = column + low - min(0, step * (count - 1))
            last = column + high - max(0, step * (count - 1))
            if first < 0 or last >= width:
                wrong = first if first < 0 else last
                raise outside(self.tensor, wrong, width, "element of a partition")

    def _placed(self, access: Access, dtype: np.dtype[Any], extra: int) -> Layout:
        """Translate the access from the tensor's own shape (partition step, free steps) to the
        arena.
        """
        size = dtype.itemsize
        width = max(1, self.tensor.free_bytes // size)
        partition, column = _start(access, extra, width)
        strides: list[int] = []
        low = high = column
        last = partition
        for step, count in access.pattern:
            if not strides:
                strides.append(step // width * self.row)
                last += step // width * (count - 1) if count else 0
                continue
            strides.append(step * size)
            if step > 0:
                high += step * (count - 1)
            else:
                low += step * (count - 1)
        shape = access.shape
        if 0 not in shape:
            if low < 0 or high >= width:
                raise outside(
                    self.tensor, low if low < 0 else high, width, "element of a partition"
                )
            first, last = min(partition, last), max(partition, last)
            if first < 0 or last >= self.tensor.shape[0]:
                raise outside(
                    self.tensor, first if first < 0 else last, self.tensor.shape[0], "partition"
                )
        begin = self.start + partition * self.row + column * size
        return Layout(dtype, shape, begin, tuple(strides))

    def view(self, layout: Layout) -> Array:
        """Return the elements of a window."""
        return np.ndarray(layout.shape, layout.dtype, self.data, layout.offset, layout.strides)

    def index_bytes(self, access: Access) -> int:
        """Return the bytes that one step of the scalar or vector index of ``access`` advances."""
        size = self.dtype.itemsize if self.widened else access.element_type.itemsize
        step = access.index_step
        width = self.tensor.free_bytes // access.element_type.itemsize
        if self.row and access.indirect_dim == 0 and width and step % width == 0:
            return step // width * self.row
        return step * size


def _start(access: Access, extra: int, width: int) -> tuple[int, int]:
    """Return the partition and the column (``width`` per partition) where a moved access starts.

    An index of the free dimensions moves along the partition, so the column may be outside it.
    """
    if access.indirect_dim == 0 and access.index_step % width == 0:
        return divmod(access.offset + extra, width)
    partition, column = divmod(access.offset, width)
    return partition, column + extra


def whole(tensor: Tensor) -> Access:
    """Return the access that reads a whole tensor in order."""
    return Access(tensor, 0, dense_pattern(tensor.shape))


def outside(tensor: Tensor, index: int, limit: int, unit: str = "element") -> NkiExecutionError:
    """Return the error of an access that leaves its tensor.

    Args:
        tensor: the tensor.
        index: the requested index, counted in ``unit``.
        limit: number of existing units.
        unit: the unit of ``index`` and ``limit`` in the message.
    """
    position = str(index)
    if unit == "element" and index >= 0 and limit == tensor.elements:
        position = f"[{', '.join(map(str, _unravelled(index, tensor.shape)))}]"
        allowed = ""
    else:
        allowed = f"; allowed are 0 to {limit - 1}"
    return NkiExecutionError(
        f"{unit} {position} of tensor {tensor.name!r}, {tensor.dtype}{list(tensor.shape)} in "
        f"{tensor.buffer}, does not exist{allowed}",
        code="NKI-OUT-OF-BOUNDS",
        remedy="check the access pattern, the dynamic index and the loop bounds",
        details={
            "tensor": tensor.name, "shape": list(tensor.shape), "index": index, "limit": limit,
        },
    )  # fmt: skip


def _unravelled(index: int, shape: tuple[int, ...]) -> list[int]:
    """Return the index along each dimension; the first dimension takes the excess of an index
    beyond the end.
    """
    coordinates: list[int] = []
    for extent in reversed(shape[1:]):
        index, coordinate = divmod(index, max(1, extent))
        coordinates.append(coordinate)
    return [index, *reversed(coordinates)] if shape else []
