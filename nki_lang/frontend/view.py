"""The state of a tensor's view, and the views that reorder, split or merge its dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index as to_int
from typing import Any, NoReturn, Self

from nki_lang.base.dtypes import DType
from nki_lang.base.errors import fail
from nki_lang.base.memory import MemoryRegion
from nki_lang.frontend import strides as stride_rules
from nki_lang.frontend.objects import NKIObject
from nki_lang.frontend.slices import Index
from nki_lang.frontend.tile_arithmetic import TileArithmetic, missing_method
from nki_lang.ir import Access, Tensor

__all__ = ["View", "refuse"]

_GUIDE = "nki/get-started/nki-language-guide.rst"
_STUB = "NkiTensor (nki/api/nki/language)"


_make_tuple: Any = tuple.__new__  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
_SIGNATURES: dict[tuple[Any, ...], int] = {}


class View(TileArithmetic, NKIObject):
    """A strided view over a region of memory, without subscripts.

    Attributes:
        runtime_index: the part of the view that is only known while the kernel runs, or None.
        partition_stride: elements of ``dtype`` from one partition to the next (0 in HBM).
    """

    __slots__ = ("_access", "_signature", "_views", "buffer", "dtype", "offset",
                 "partition_stride", "runtime_index", "shape", "storage", "strides")  # fmt: skip

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: DType
    buffer: MemoryRegion
    storage: Tensor
    runtime_index: Index | None
    partition_stride: int
    _access: Access | None
    _signature: int
    _views: dict[tuple[Any, ...], Self] | None

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

    def __len__(self) -> int:
        return self.shape[0]

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_") or name in View.__slots__:
            raise AttributeError(name)
        missing_method(self, name)

    @property
    def on_chip(self) -> bool:
        """True for SBUF and PSUM."""
        return self.partition_stride != 0

    def is_contiguous(self) -> bool:
        """Return True when the view is dense and row-major (on chip: in each partition)."""
        expected = 1
        first = 1 if self.partition_stride else 0
        for axis in range(len(self.shape) - 1, first - 1, -1):
            if self.shape[axis] != 1 and self.strides[axis] != expected:
                return False
            expected *= self.shape[axis]
        return True

    def get_pattern(self) -> list[list[int]]:
        """Return ``[[stride, count], ...]`` in the order of the dimensions."""
        return [[step, extent] for step, extent in zip(self.strides, self.shape, strict=True)]

    @property
    def pattern(self) -> list[list[int]]:
        """The access pattern, ``[[stride, count], ...]`` in elements, as ``get_pattern`` returns it."""
        return self.get_pattern()

    def is_indirect(self) -> bool:
        """Return True when the elements are known only while the kernel runs."""
        return self.runtime_index is not None

    # -- access of instructions -----------------------------------------------------------

    @property
    def access(self) -> Access:
        """The access pattern of this view."""
        access = self._access
        if access is None:
            access = self._access = self._make_access()
        return access

    def _make_access(self) -> Access:
        pattern = tuple(zip(self.strides, self.shape, strict=True))
        dtype = None if self.dtype is self.storage.dtype else self.dtype
        index = self.runtime_index
        if index is None:
            fields = (self.storage, self.offset, pattern, None, None, 0, dtype, None)
            return _make_tuple(Access, fields)  # skips the slower NamedTuple constructor
        storage_dim = index.storage_dim
        matches_storage = storage_dim >= 0 and index.dim == 0
        return Access(
            self.storage,
            self.offset,
            pattern,
            index.scalar,
            index.vector,
            storage_dim if matches_storage else index.dim,
            dtype,
            None if matches_storage else index.step,
        )

    @property
    def signature(self) -> int:
        """A number for everything that the checks of instructions read."""
        signature = self._signature
        if signature:
            return signature
        row = self.partition_stride
        partition, byte_column = divmod(self.offset, row) if row else (0, 0)
        index = self.runtime_index
        kind: Any = 0
        if index is not None:
            kind = 1 if index.scalar is not None else 2 + index.dim
            if index.dim == 1 and index.vector is not None:  # where the index tile lies
                kind = index.vector[:2]
        shape = self.shape
        # dtypes and memories are single objects, and their ids hash faster than they do
        key = (shape, id(self.dtype), id(self.buffer), partition, kind,
               self.strides[-1] if shape else 1,
               byte_column if self.buffer is MemoryRegion.psum else 0,
               self.strides if len(shape) > 5 else None, self.storage.address)  # fmt: skip
        signature = _SIGNATURES.get(key)
        if signature is None:
            signature = _SIGNATURES[key] = len(_SIGNATURES) + 1
        self._signature = signature
        return signature

    @property
    def start_partition(self) -> int:
        """First partition, counted from the storage's own, plus a fixed address's (on chip)."""
        if not self.partition_stride:
            return 0
        address = self.storage.address
        first = self.offset // self.partition_stride
        return first if address is None else first + address[0]

    @property
    def free_byte_offset(self) -> int:
        """Byte offset in the partition, counted from the storage's own (on chip)."""
        return self.offset % (self.partition_stride or 1) * self.dtype.itemsize

    # -- derived views --------------------------------------------------------------------

    def derive(
        self,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int,
        dtype: DType | None = None,
        index: Index | None = None,
    ) -> Self:
        """Another view of the same storage."""
        new = object.__new__(type(self))
        new.shape = shape
        new.strides = strides
        new.offset = offset
        new.buffer = self.buffer
        new.storage = self.storage
        if dtype is None or dtype is self.dtype:
            new.dtype = self.dtype
            new.partition_stride = self.partition_stride
        else:
            new.dtype = dtype
            new.partition_stride = self.partition_stride * self.dtype.itemsize // dtype.itemsize
        new.runtime_index = index or self.runtime_index
        new._access = None
        new._signature = 0
        new._views = None
        return new

    def _axis(self, dim: Any) -> int:
        axis = to_int(dim)
        if not -len(self.shape) <= axis < len(self.shape):
            refuse(
                self,
                f"there is no dimension {dim}",
                "NKI-DIM",
                f"dimensions count from 0 to {len(self.shape) - 1}",
            )
        return axis % len(self.shape)

    def _keep_partition(self, axis: int, method: str) -> None:
        if axis == 0 and self.on_chip:
            refuse(
                self,
                f"{method} cannot touch dimension 0, the partition dimension of a tensor in"
                f" {self.buffer}",
                "NKI-PARTITION-DIM",
                "move data between partitions with nisa.nc_transpose or nisa.dma_copy",
                f"{_GUIDE}, View primitives",
            )
        if axis == 0 and self.runtime_index is not None and self.runtime_index.vector is not None:
            refuse(
                self,
                f"{method} cannot touch dimension 0 after vector_select",
                "NKI-INDIRECT",
                "change the shape first and select the rows last",
            )

    def permute(self, dims: Sequence[int]) -> Self:
        """The dimensions in another order."""
        order = tuple(to_int(dim) for dim in dims)
        if sorted(order) != list(range(len(self.shape))):
            refuse(
                self,
                f"{order} is not a permutation of the dimensions",
                "NKI-PERMUTE",
                f"name each of 0 to {len(self.shape) - 1} once",
            )
        if order[0] != 0:
            self._keep_partition(0, "permute")
        return self.derive(
            tuple(self.shape[axis] for axis in order),
            tuple(self.strides[axis] for axis in order),
            self.offset,
        )

    def broadcast(self, dim: int, size: int) -> Self:
        """A dimension of extent 1 repeated ``size`` times."""
        axis = self._axis(dim)
        self._keep_partition(axis, "broadcast")
        if self.shape[axis] != 1:
            refuse(
                self,
                f"broadcast needs extent 1 in dimension {axis}",
                "NKI-BROADCAST",
                "add one with expand_dim, or select one element",
            )
        shape, strides = list(self.shape), list(self.strides)
        shape[axis], strides[axis] = to_int(size), 0
        return self.derive(tuple(shape), tuple(strides), self.offset)

    def expand_dim(self, dim: int) -> Self:
        """A new dimension of extent 1 before dimension ``dim``."""
        axis = to_int(dim)
        if axis < 0:
            axis += len(self.shape) + 1
        if not 0 <= axis <= len(self.shape):
            refuse(
                self,
                f"{dim} is not a position for a dimension",
                "NKI-DIM",
                f"positions count from 0 to {len(self.shape)}",
            )
        self._keep_partition(axis, "expand_dim")
        inner = self.strides[axis] * self.shape[axis] if axis < len(self.shape) else 1
        return self.derive(
            (*self.shape[:axis], 1, *self.shape[axis:]),
            (*self.strides[:axis], inner, *self.strides[axis:]),
            self.offset,
        )

    def squeeze_dim(self, dim: int) -> Self:
        """Without a dimension of extent 1."""
        axis = self._axis(dim)
        self._keep_partition(axis, "squeeze_dim")
        if self.shape[axis] != 1:
            refuse(
                self,
                f"squeeze_dim needs extent 1 in dimension {axis}",
                "NKI-SQUEEZE",
                "select one element with select(dim, index)",
            )
        return self.derive(
            self.shape[:axis] + self.shape[axis + 1 :],
            self.strides[:axis] + self.strides[axis + 1 :],
            self.offset,
        )

    def reshape_dim(self, dim: int, shape: Sequence[int]) -> Self:
        """One dimension split into several; one extent may be -1."""
        axis = self._axis(dim)
        parts = stride_rules.infer([to_int(extent) for extent in shape], self.shape[axis])
        if parts is None:
            refuse(
                self,
                f"{tuple(shape)} does not divide dimension {axis}",
                "NKI-RESHAPE",
                f"the extents multiply to {self.shape[axis]}; one may be -1",
            )
        if len(parts) > 1:
            self._keep_partition(axis, "reshape_dim")
        inner = stride_rules.row_major(parts)
        return self.derive(
            self.shape[:axis] + parts + self.shape[axis + 1 :],
            self.strides[:axis]
            + tuple(step * self.strides[axis] for step in inner)
            + self.strides[axis + 1 :],
            self.offset,
        )

    def flatten_dims(self, start_dim: int, end_dim: int) -> Self:
        """Dimensions ``start_dim`` to ``end_dim`` (included) merged into one."""
        first, last = self._axis(start_dim), self._axis(end_dim)
        if last < first:
            refuse(
                self,
                f"dimension {last} is before {first}",
                "NKI-DIM",
                "name the outer dimension first",
            )
        if last > first:
            self._keep_partition(first, "flatten_dims")
        merged = self.shape[first : last + 1]
        stride = stride_rules.merged_stride(merged, self.strides[first : last + 1])
        if stride is None:
            refuse(
                self,
                f"dimensions {first} to {last} are not contiguous (strides"
                f" {self.strides[first : last + 1]})",
                "NKI-LAYOUT",
                "copy to a dense tile first",
            )
        return self.derive(
            (*self.shape[:first], prod(merged), *self.shape[last + 1 :]),
            (*self.strides[:first], stride, *self.strides[last + 1 :]),
            self.offset,
        )

    def reshape(self, shape: Sequence[int], *more: int) -> Self:
        """The same elements in another shape; one extent may be -1."""
        requested = (shape, *more) if isinstance(shape, int) else tuple(shape)
        new = stride_rules.infer([to_int(extent) for extent in requested], self.size)
        if new is None:
            refuse(
                self,
                f"{self.size} elements cannot be reshaped to {requested}",
                "NKI-RESHAPE",
                f"the extents multiply to {self.size}; one may be -1",
            )
        pinned = self.on_chip or (
            self.runtime_index is not None and self.runtime_index.vector is not None
        )
        first = 1 if pinned else 0
        if pinned and new[:1] != self.shape[:1]:
            return self._reshape_one_partition(new)
        strides = stride_rules.reshaped(self.shape[first:], self.strides[first:], new[first:])
        if strides is None:
            refuse(
                self,
                f"a view with strides {self.strides} cannot be reshaped to {new} without a copy",
                "NKI-LAYOUT",
                "copy to a dense tile first",
            )
        return self.derive(new, self.strides[:first] + strides, self.offset)

    def _reshape_one_partition(self, shape: tuple[int, ...]) -> Self:
        refuse(
            self,
            f"reshape to {shape} would change the partition dimension",
            "NKI-PARTITION-DIM",
            f"keep {self.shape[0]} as the first extent",
            f"{_STUB}, reshape",
        )


def refuse(
    tensor: View, message: str, code: str, remedy: str = "", source: str = _STUB
) -> NoReturn:
    """Raise an error at the user's line that names the tensor and its shape."""
    fail(f"{message} (tensor {tensor.name!r}, shape {tensor.shape})", code, remedy, source)
