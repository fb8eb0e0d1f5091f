"""Tensors as kernels see them: a strided view over a region of memory.

A view is computed while the kernel is traced and costs nothing at run time; an instruction
takes its :attr:`NkiTensor.access`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nki_lang.base.dtypes import dtype_of
from nki_lang.base.memory import ON_CHIP, MemoryRegion
from nki_lang.frontend import indexing
from nki_lang.frontend import strides as stride_rules
from nki_lang.frontend.access_patterns import pattern_view
from nki_lang.frontend.builder import active, current
from nki_lang.frontend.view import View
from nki_lang.ir import Tensor

__all__ = ["NkiTensor", "define_assignment"]

_ASSIGNMENT: list[Callable[[NkiTensor, object, object], None]] = []
"""The function of the language, a higher layer, that computes ``tensor[key] = value``."""


class NkiTensor(View):
    """A view over a tensor in SBUF, PSUM or HBM.

    Attributes:
        shape: extent of each dimension; on chip the first is the partition dimension.
        strides: elements of ``dtype`` between neighbours, per dimension.
        offset: first element.
        dtype: type that the elements are read and written as.
        buffer: the memory.
        name: name of the storage.
        address: (partition, byte in the partition) that the user fixed, or None.
    """

    __slots__ = ()

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: Any,
        storage: Any,
        buffer: Any = MemoryRegion.sbuf,
        name: str = "",
        address: tuple[int, int] | None = None,
    ) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype_of(dtype)
        self.buffer = MemoryRegion(buffer) if isinstance(buffer, str) else buffer
        if storage is None:
            storage = Tensor(
                name, self.dtype, self.shape, self.buffer, address, address is not None
            )
        self.storage = storage
        self.strides = stride_rules.row_major(self.shape)
        self.offset = 0
        self.partition_stride = self.strides[0] if self.buffer in ON_CHIP else 0
        self.runtime_index = None
        self._access = None
        self._signature = 0
        self._views = None

    @property
    def data(self) -> NkiTensor:
        """The tensor itself: loops over grids take ``.data`` of tiles and of tensors alike."""
        return self

    def __repr__(self) -> str:
        text = f"NkiTensor({self.name}: {self.dtype}{list(self.shape)} in {self.buffer}"
        if self.offset:
            text += f" at {self.offset}"
        if not self.is_contiguous():
            text += f" strides {list(self.strides)}"
        if self.runtime_index is not None:
            text += " indirect"
        builder = active()
        if builder is not None and builder.eager:
            return f"{text})\n{builder.tensor_value(self.access)}"
        return text + ")"

    def __getitem__(self, key: Any) -> NkiTensor:
        # Kernels slice a tile repeatedly in the same way, so two-dimensional slices are cached.
        if key.__class__ is tuple and len(key) == 2:
            rows, columns = key
            if type(rows) is slice and type(columns) is slice:
                bounds = (rows.start, rows.stop, rows.step,
                         columns.start, columns.stop, columns.step)  # fmt: skip
                views = self._views
                if views is None:
                    views = self._views = {}
                else:
                    cached = views.get(bounds)
                    if cached is not None:
                        return cached
                view = views[bounds] = indexing.index_view(self, key)
                return view
        return indexing.index_view(self, key)

    def __setitem__(self, key: object, value: object) -> None:
        """Copy ``value`` into the view ``self[key]``, broadcast as NumPy does."""
        _ASSIGNMENT[0](self, key, value)

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> NkiTensor:
        """Elements ``start:end:step`` of one dimension."""
        return indexing.slice_view(self, self._axis(dim), start, end, step)

    def select(self, dim: int, index: object) -> NkiTensor:
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
        scalar_offset: object = None,
        vector_offset: NkiTensor | None = None,
        indirect_dim: int = 0,
        dtype: object = None,
    ) -> NkiTensor:
        """A view by an explicit ``[[step, count], ...]`` pattern over the storage.

        ``offset`` is added to this view's own offset, in elements of ``dtype``.
        """
        return pattern_view(
            self, pattern, offset, scalar_offset, vector_offset, indirect_dim, dtype
        )

    def rearrange(
        self, src_pattern: object, dst_pattern: object, fixed_sizes: dict[str, int] | None = None
    ) -> NkiTensor:
        """Split, reorder and merge dimensions by name."""
        return indexing.rearrange_view(self, src_pattern, dst_pattern, fixed_sizes or {})

    def view(self, dtype: object) -> NkiTensor:
        """The same bytes read as another type; the last dimension is rescaled."""
        return indexing.reinterpret_view(self, dtype_of(dtype))

    reinterpret_cast = view


def define_assignment(assign: Callable[[NkiTensor, object, object], None]) -> None:
    """Set the function that :meth:`NkiTensor.__setitem__` calls with tensor, key and value."""
    _ASSIGNMENT[:] = [assign]
