"""Tensors as kernels see them: a strided view over a region of memory.

A view is computed while the kernel is traced and costs nothing at run time; an instruction
takes its :attr:`NkiTensor.access`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index as to_int
from typing import Any, NoReturn

from nki_lang.dtypes import DType, dtype_of
from nki_lang.errors import fail
from nki_lang.frontend import indexing
from nki_lang.frontend import strides as stride_rules
from nki_lang.frontend.access_patterns import pattern_view
from nki_lang.frontend.builder import active, current
from nki_lang.frontend.objects import NKIObject
from nki_lang.frontend.slices import Index
from nki_lang.frontend.tile_arithmetic import TileArithmetic, missing_method
from nki_lang.ir import Access, Tensor
from nki_lang.memory import ON_CHIP, MemoryRegion

__all__ = ["NkiTensor", "refuse"]

_GUIDE = "nki/get-started/nki-language-guide.rst"
_STUB = "NkiTensor (nki/api/nki/language)"


_make_tuple = tuple.__new__
_SIGNATURES: dict[tuple[Any, ...], int] = {}


class NkiTensor(TileArithmetic, NKIObject):
    """A view over a tensor in SBUF, PSUM or HBM.

    Attributes:
        shape: extent of each dimension; on chip the first is the partition dimension.
        strides: elements of ``dtype`` between neighbours, per dimension.
        offset: first element.
        dtype: type that the elements are read and written as.
        buffer: the memory.
        name: name of the storage.
    """

    __slots__ = ("_access", "_index", "_row", "_signature", "_views", "buffer", "dtype", "offset",
                 "shape", "storage", "strides")  # fmt: skip

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: DType
    buffer: MemoryRegion
    storage: Tensor

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: Any,
        storage: Any,
        buffer: Any = MemoryRegion.sbuf,
        name: str = "",
    ) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype_of(dtype)
        self.buffer = MemoryRegion(buffer) if isinstance(buffer, str) else buffer
        if storage is None:
            storage = Tensor(name, self.dtype, self.shape, self.buffer)
        self.storage = storage
        self.strides = stride_rules.row_major(self.shape)
        self.offset = 0
        self._row = self.strides[0] if self.buffer in ON_CHIP else 0
        self._index: Index | None = None
        self._access: Access | None = None
        self._signature = 0
        self._views: dict[Any, NkiTensor] | None = None

    # -- attributes -----------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Name of the storage."""
        return self.storage.name

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def address(self) -> tuple[int, int] | None:
        """(partition, byte offset) that the user fixed, or None."""
        return self.storage.address

    def __repr__(self) -> str:
        text = f"NkiTensor({self.name}: {self.dtype}{list(self.shape)} in {self.buffer}"
        if self.offset:
            text += f" at {self.offset}"
        if not self.is_contiguous():
            text += f" strides {list(self.strides)}"
        if self._index is not None:
            text += " indirect"
        builder = active()
        if builder is not None and builder.eager:
            return f"{text})\n{builder.tensor_value(self.access)}"  # type: ignore[attr-defined]
        return text + ")"

    def __len__(self) -> int:
        return self.shape[0]

    def __getattr__(self, name: str) -> NoReturn:
        missing_method(self, name)

    @property
    def on_chip(self) -> bool:
        """True for SBUF and PSUM."""
        return self._row != 0

    def is_contiguous(self) -> bool:
        """True when the view is dense and row-major (on chip: in each partition)."""
        expected = 1
        first = 1 if self._row else 0
        for axis in range(len(self.shape) - 1, first - 1, -1):
            if self.shape[axis] != 1 and self.strides[axis] != expected:
                return False
            expected *= self.shape[axis]
        return True

    def get_pattern(self) -> list[list[int]]:
        """``[[stride, count], ...]`` in the order of the dimensions."""
        return [[step, extent] for step, extent in zip(self.strides, self.shape, strict=True)]

    @property
    def runtime_index(self) -> Index | None:
        """The part of the view that is only known while the kernel runs, or None."""
        return self._index

    def is_indirect(self) -> bool:
        """True when the elements are only known while the kernel runs."""
        return self._index is not None

    # -- what instructions take -----------------------------------------------------------

    @property
    def access(self) -> Access:
        """The access pattern of this view."""
        found = self._access
        if found is None:
            found = self._access = self._make_access()
        return found

    def _make_access(self) -> Access:
        pattern = tuple(zip(self.strides, self.shape, strict=True))
        dtype = None if self.dtype is self.storage.dtype else self.dtype
        index = self._index
        if index is None:
            fields = (self.storage, self.offset, pattern, None, None, 0, dtype, None)
            return _make_tuple(Access, fields)  # skips the slower NamedTuple constructor
        storage_dim = index.storage_dim
        known = storage_dim >= 0 and index.dim == 0
        return Access(
            self.storage,
            self.offset,
            pattern,
            index.scalar,
            index.vector,
            storage_dim if known else index.dim,
            dtype,
            None if known else index.step,
        )

    @property
    def signature(self) -> int:
        """A number that stands for all that the checks of instructions look at."""
        found = self._signature
        if found:
            return found
        row = self._row
        partition, place = divmod(self.offset, row) if row else (0, 0)
        index = self._index
        kind: Any = 0
        if index is not None:
            kind = 1 if index.scalar is not None else 2 + index.dim
            if index.dim == 1 and index.vector is not None:  # where the index tile lies
                kind = index.vector[:2]
        shape = self.shape
        # dtypes and memories are single objects, and their ids hash faster than they do
        key = (shape, id(self.dtype), id(self.buffer), partition, kind,
               self.strides[-1] if shape else 1,
               place if self.buffer is MemoryRegion.psum else 0,
               self.strides if len(shape) > 5 else None, self.storage.address)  # fmt: skip
        found = _SIGNATURES.get(key)
        if found is None:
            found = _SIGNATURES[key] = len(_SIGNATURES) + 1
        self._signature = found
        return found

    @property
    def partition_stride(self) -> int:
        """Elements of ``dtype`` from one partition to the next (on chip; 0 in HBM)."""
        return self._row

    @property
    def start_partition(self) -> int:
        """First partition, counted from the storage's own, plus a fixed address's (on chip)."""
        if not self._row:
            return 0
        address = self.storage.address
        first = self.offset // self._row
        return first if address is None else first + address[0]

    @property
    def free_byte_offset(self) -> int:
        """Byte offset in the partition, counted from the storage's own (on chip)."""
        return self.offset % (self._row or 1) * self.dtype.itemsize

    # -- making views ---------------------------------------------------------------------

    def _view(
        self,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int,
        dtype: DType | None = None,
        index: Index | None = None,
    ) -> NkiTensor:
        new = object.__new__(NkiTensor)
        new.shape = shape
        new.strides = strides
        new.offset = offset
        new.buffer = self.buffer
        new.storage = self.storage
        if dtype is None or dtype is self.dtype:
            new.dtype = self.dtype
            new._row = self._row
        else:
            new.dtype = dtype
            new._row = self._row * self.dtype.itemsize // dtype.itemsize
        new._index = index or self._index
        new._access = None
        new._signature = 0
        new._views = None
        return new

    def _refuse(self, message: str, code: str, remedy: str = "", source: str = _STUB) -> NoReturn:
        refuse(self, message, code, remedy, source)

    def _axis(self, dim: Any) -> int:
        axis = to_int(dim)
        if not -len(self.shape) <= axis < len(self.shape):
            self._refuse(
                f"there is no dimension {dim}",
                "NKI-DIM",
                f"dimensions count from 0 to {len(self.shape) - 1}",
            )
        return axis % len(self.shape)

    def _keep_partition(self, axis: int, what: str) -> None:
        if axis == 0 and self.on_chip:
            self._refuse(
                f"{what} cannot touch dimension 0, the partition dimension of a tensor in"
                f" {self.buffer}",
                "NKI-PARTITION-DIM",
                "move data between partitions with nisa.nc_transpose or nisa.dma_copy",
                f"{_GUIDE}, View primitives",
            )
        if axis == 0 and self._index is not None and self._index.vector is not None:
            self._refuse(
                f"{what} cannot touch dimension 0 after vector_select",
                "NKI-INDIRECT",
                "change the shape first and select the rows last",
            )

    def __getitem__(self, key: Any) -> NkiTensor:
        # Kernels take the same slices of a tile again and again, so two-dimensional ones are kept.
        if type(key) is tuple and len(key) == 2:
            rows, columns = key
            if type(rows) is slice and type(columns) is slice:
                place = (rows.start, rows.stop, rows.step,
                         columns.start, columns.stop, columns.step)  # fmt: skip
                views = self._views
                if views is None:
                    views = self._views = {}
                else:
                    found = views.get(place)
                    if found is not None:
                        return found
                view = views[place] = indexing.index_view(self, key)
                return view
        return indexing.index_view(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, NkiTensor):
            target = self[key]
            same = target.storage is value.storage and target.access == value.access
            if same:  # what Python makes of ``t[i] += x`` when the operation was in place
                return
        fail(
            f"tensor {self.name!r} cannot be assigned to",
            "NKI-ASSIGN",
            "write it with an instruction: nisa.dma_copy(dst=t[...], src=...),"
            " nisa.tensor_copy(dst=t[...], src=...) or nisa.memset",
            "KLR Trace/NKI.lean: no assignment to a tile",
        )

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> NkiTensor:
        """Elements ``start:end:step`` of one dimension."""
        return indexing.slice_view(self, self._axis(dim), start, end, step)

    def select(self, dim: int, index: Any) -> NkiTensor:
        """One element of a dimension, which goes away; ``index`` may be a register or a tile."""
        return indexing.select_view(self, self._axis(dim), index)

    def vector_select(self, dim: int, vector_offset: NkiTensor) -> NkiTensor:
        """Rows chosen at run time: row ``i`` of the result is row ``vector_offset[i]``."""
        return indexing.vector_select_view(self, dim, vector_offset)

    def indirect(self, index: NkiTensor, num_elem: int | None = None) -> NkiTensor:
        """Tensor indirection: columns chosen at run time by each group of partitions (trn3)."""
        return indexing.indirect_view(self, index, num_elem, current().generation)

    def ap(
        self,
        pattern: Sequence[Sequence[int]],
        offset: int | None = None,
        scalar_offset: Any = None,
        vector_offset: NkiTensor | None = None,
        indirect_dim: int = 0,
        dtype: Any = None,
    ) -> NkiTensor:
        """A view by an explicit ``[[step, count], ...]`` pattern over the storage.

        ``offset`` is added to this view's own offset, in elements of ``dtype``.
        """
        return pattern_view(
            self, pattern, offset, scalar_offset, vector_offset, indirect_dim, dtype
        )

    def permute(self, dims: Sequence[int]) -> NkiTensor:
        """The dimensions in another order."""
        order = tuple(to_int(dim) for dim in dims)
        if sorted(order) != list(range(len(self.shape))):
            self._refuse(
                f"{order} is not a permutation of the dimensions",
                "NKI-PERMUTE",
                f"name each of 0 to {len(self.shape) - 1} once",
            )
        if order[0] != 0:
            self._keep_partition(0, "permute")
        return self._view(
            tuple(self.shape[axis] for axis in order),
            tuple(self.strides[axis] for axis in order),
            self.offset,
        )

    def broadcast(self, dim: int, size: int) -> NkiTensor:
        """A dimension of extent 1 repeated ``size`` times."""
        axis = self._axis(dim)
        self._keep_partition(axis, "broadcast")
        if self.shape[axis] != 1:
            self._refuse(
                f"broadcast needs extent 1 in dimension {axis}",
                "NKI-BROADCAST",
                "add one with expand_dim, or select one element",
            )
        shape, strides = list(self.shape), list(self.strides)
        shape[axis], strides[axis] = to_int(size), 0
        return self._view(tuple(shape), tuple(strides), self.offset)

    def expand_dim(self, dim: int) -> NkiTensor:
        """A new dimension of extent 1 before dimension ``dim``."""
        axis = to_int(dim)
        if axis < 0:
            axis += len(self.shape) + 1
        if not 0 <= axis <= len(self.shape):
            self._refuse(
                f"{dim} is not a position for a dimension",
                "NKI-DIM",
                f"positions count from 0 to {len(self.shape)}",
            )
        self._keep_partition(axis, "expand_dim")
        inner = self.strides[axis] * self.shape[axis] if axis < len(self.shape) else 1
        return self._view(
            (*self.shape[:axis], 1, *self.shape[axis:]),
            (*self.strides[:axis], inner, *self.strides[axis:]),
            self.offset,
        )

    def squeeze_dim(self, dim: int) -> NkiTensor:
        """Without a dimension of extent 1."""
        axis = self._axis(dim)
        self._keep_partition(axis, "squeeze_dim")
        if self.shape[axis] != 1:
            self._refuse(
                f"squeeze_dim needs extent 1 in dimension {axis}",
                "NKI-SQUEEZE",
                "select one element with select(dim, index)",
            )
        return self._view(
            self.shape[:axis] + self.shape[axis + 1 :],
            self.strides[:axis] + self.strides[axis + 1 :],
            self.offset,
        )

    def reshape_dim(self, dim: int, shape: Sequence[int]) -> NkiTensor:
        """One dimension split into several; one extent may be -1."""
        axis = self._axis(dim)
        parts = stride_rules.infer([to_int(extent) for extent in shape], self.shape[axis])
        if parts is None:
            self._refuse(
                f"{tuple(shape)} does not divide dimension {axis}",
                "NKI-RESHAPE",
                f"the extents multiply to {self.shape[axis]}; one may be -1",
            )
        if len(parts) > 1:
            self._keep_partition(axis, "reshape_dim")
        inner = stride_rules.row_major(parts)
        return self._view(
            self.shape[:axis] + parts + self.shape[axis + 1 :],
            self.strides[:axis]
            + tuple(step * self.strides[axis] for step in inner)
            + self.strides[axis + 1 :],
            self.offset,
        )

    def flatten_dims(self, start_dim: int, end_dim: int) -> NkiTensor:
        """Dimensions ``start_dim`` to ``end_dim`` (included) merged into one."""
        first, last = self._axis(start_dim), self._axis(end_dim)
        if last < first:
            self._refuse(
                f"dimension {last} is before {first}",
                "NKI-DIM",
                "name the outer dimension first",
            )
        if last > first:
            self._keep_partition(first, "flatten_dims")
        merged = self.shape[first : last + 1]
        stride = stride_rules.merged_stride(merged, self.strides[first : last + 1])
        if stride is None:
            self._refuse(
                f"dimensions {first} to {last} are not contiguous (strides"
                f" {self.strides[first : last + 1]})",
                "NKI-LAYOUT",
                "copy to a dense tile first",
            )
        return self._view(
            (*self.shape[:first], prod(merged), *self.shape[last + 1 :]),
            (*self.strides[:first], stride, *self.strides[last + 1 :]),
            self.offset,
        )

    def reshape(self, shape: Sequence[int], *more: int) -> NkiTensor:
        """The same elements in another shape; one extent may be -1."""
        wanted = (shape, *more) if isinstance(shape, int) else tuple(shape)
        new = stride_rules.infer([to_int(extent) for extent in wanted], self.size)
        if new is None:
            self._refuse(
                f"{self.size} elements cannot be reshaped to {wanted}",
                "NKI-RESHAPE",
                f"the extents multiply to {self.size}; one may be -1",
            )
        pinned = self.on_chip or (self._index is not None and self._index.vector is not None)
        first = 1 if pinned else 0
        if pinned and new[:1] != self.shape[:1]:
            return self._reshape_one_partition(new)
        strides = stride_rules.reshaped(self.shape[first:], self.strides[first:], new[first:])
        if strides is None:
            self._refuse(
                f"a view with strides {self.strides} cannot be reshaped to {new} without a copy",
                "NKI-LAYOUT",
                "copy to a dense tile first",
            )
        return self._view(new, self.strides[:first] + strides, self.offset)

    def _reshape_one_partition(self, shape: tuple[int, ...]) -> NkiTensor:
        self._refuse(
            f"reshape to {shape} would change the partition dimension",
            "NKI-PARTITION-DIM",
            f"keep {self.shape[0]} as the first extent",
            f"{_STUB}, reshape",
        )

    def rearrange(
        self, src_pattern: Any, dst_pattern: Any, fixed_sizes: dict[str, int] | None = None
    ) -> NkiTensor:
        """Split, reorder and merge dimensions by name."""
        return indexing.rearrange_view(self, src_pattern, dst_pattern, fixed_sizes or {})

    def view(self, dtype: Any) -> NkiTensor:
        """The same bytes read as another type; the last dimension is rescaled."""
        return indexing.reinterpret_view(self, dtype_of(dtype))

    reinterpret_cast = view


def refuse(
    tensor: NkiTensor, message: str, code: str, remedy: str = "", source: str = _STUB
) -> NoReturn:
    """Raise an error at the user's line that names the tensor and its shape."""
    fail(f"{message} (tensor {tensor.name!r}, shape {tensor.shape})", code, remedy, source)
