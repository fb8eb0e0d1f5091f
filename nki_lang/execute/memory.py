"""The memories of one core: the bytes that an access pattern selects.

A tensor without an address has its own storage. Tensors with an address on chip share one
SBUF arena (partitions x bytes of the target) and one PSUM arena, so that overlapping tensors see
each other's bytes. HBM tensors are arrays that were bound by name, or created at first use; the
memories of several cores may share ``shared_hbm`` tensors.
"""

from __future__ import annotations

import math
import os
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from nki_lang.base.dtypes import Array, DType
from nki_lang.base.errors import NkiExecutionError
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.targets import TARGETS, Target
from nki_lang.execute.storage import Layout, Storage, outside, whole
from nki_lang.ir.coverage import Coverage
from nki_lang.ir.fresh import FRESH_BYTE
from nki_lang.ir.types import Access, Register, Tensor
from nki_lang.semantics.state import EngineState

__all__ = ["Memory", "Rows", "precise_floats", "twin"]

_WIDENED_DTYPES = frozenset({"bfloat16", "float16", "float8_e4m3", "float8_e4m3fn", "float8_e5m2"})
"""Types stored as float32 under NKI_PRECISE_FP=0 (simulator guide, Precise Floating-Point Mode)."""


def precise_floats() -> bool:
    """False when NKI_PRECISE_FP=0 selects float32 storage of the small float types."""
    return os.environ.get("NKI_PRECISE_FP", "1") != "0"


def twin(tensor: Tensor) -> Tensor:
    """Return an equal tensor that does not keep this one alive."""
    return Tensor(
        tensor.name, tensor.dtype, tensor.shape, tensor.buffer, tensor.address, tensor.fixed
    )


@dataclass(frozen=True, slots=True)
class Rows:
    """The positions that a gather or scatter selects.

    Attributes:
        window: every position that the index can select, as a window.
        index: index arrays into the window.
        good: True for the indices that exist.
    """

    window: Layout
    index: tuple[Array, ...]
    good: Array

    @property
    def existing(self) -> tuple[Array, ...]:
        """The index arrays without the indices that do not exist."""
        return tuple(index[self.good] for index in self.index)


def _is_tensor_indirect(access: Access) -> bool:
    """Return True for tensor indirection: each group of partitions has its own list of columns."""
    return access.indirect_dim != 0 and access.tensor.on_chip


def _group_columns(index: Array, number: int, group: int) -> Array:
    """Return the column of each partition and position, of shape (partitions, number).

    Offset ``i`` of a group of partitions is ``index[i % group, i // group]`` of that group
    (language stub, NkiTensor.indirect).

    Raises:
        NkiExecutionError: ``NKI-INDIRECT``, a group has fewer offsets than requested columns.
    """
    available = min(group, len(index) % group or group) * index[0].size
    if number > available:
        raise NkiExecutionError(
            f"indirect() takes {number} columns, but the index tile has {available} offsets for "
            f"{'a group of ' + str(group) if len(index) % group == 0 else 'the last group of'} "
            "partitions",
            code="NKI-INDIRECT",
            remedy=f"pass num_elem={available} at most, or an index tile with more columns",
        )
    lists = [
        index[start : start + group].T.reshape(-1)[:number] for start in range(0, len(index), group)
    ]
    return np.repeat(np.stack(lists), group, axis=0)[: len(index)]


class Memory:
    """Memory of one core.

    Args:
        target: the family; sizes of the arenas come from it.
        shared: memory of another core with which this core shares its shared HBM.
        track: record which bytes were written.
        fresh: fill new memory with 0xFF (NaN in every float type); else it reads as zero.
        precise: store the small float types as they are; None reads the environment.
        state: registers and accumulators of the core.

    Attributes:
        index_spans: by the ``id`` of an access with an index, the access, how many values of its
            index are in bounds, and the bytes between their views.
    """

    def __init__(
        self,
        target: Target | None = None,
        *,
        shared: Memory | None = None,
        track: bool = False,
        fresh: bool = True,
        precise: bool | None = None,
        state: EngineState | None = None,
    ) -> None:
        self.target = target or TARGETS["trn3"]
        self.state = state or EngineState(self.target)
        self.track = track
        self.fresh = fresh
        self.precise = precise_floats() if precise is None else precise
        self._private: dict[str, Storage] = {}
        self._mortal: dict[str, weakref.ref[Tensor]] = {}
        self._pool: dict[int, list[Array]] = {}
        self._shared: dict[str, Storage] = {} if shared is None else shared._shared
        self._bound: dict[str, Array] = {} if shared is None else shared._bound
        self._origins: dict[str, Array] = {} if shared is None else shared._origins
        self._filled: set[str] = set() if shared is None else shared._filled
        self._arenas: dict[MemoryRegion, tuple[Array, Coverage | None]] = {}
        self._temporaries: dict[int, Array] = {}
        self.index_spans: dict[int, tuple[Access, int, int]] = {}

    # -- tensors ---------------------------------------------------------------------------

    def bind(
        self,
        name: str,
        array: Array,
        *,
        filled: bool = True,
        origin: Array | None = None,
    ) -> None:
        """Bind the HBM tensor ``name`` to ``array`` (C-contiguous; not copied).

        ``filled``: its content is defined (it is not in a fresh output);
        ``origin`` is what the caller passed, when ``array`` is a copy of it.

        Raises:
            ValueError: the array is not C-contiguous.
        """
        if not array.flags.c_contiguous:
            raise ValueError(f"the array bound to {name!r} is not C-contiguous")
        self._bound[name] = array
        self._origins[name] = array if origin is None else origin
        if filled:
            self._filled.add(name)
        else:
            self._filled.discard(name)
        self._shared.pop(name, None)
        self._private.pop(name, None)

    @property
    def bound_names(self) -> frozenset[str]:
        """Names of the HBM tensors that arrays were bound to."""
        return frozenset(self._bound)

    def aliases(self) -> dict[str, tuple[str, ...]]:
        """Return the other names of each array that was passed as several arguments."""
        names: dict[tuple[int, int], list[str]] = {}
        for name, array in self._origins.items():
            if array.nbytes:
                names.setdefault((array.ctypes.data, array.nbytes), []).append(name)
        return {
            name: tuple(alias for alias in group if alias != name)
            for group in names.values()
            if len(group) > 1
            for name in group
        }

    def clear(self) -> None:
        """Unbind all arrays and, when written bytes are tracked, discard every content.

        Registers, accumulators and generators are reset.
        """
        for name in [*self._bound]:
            self._private.pop(name, None)
        self._bound.clear()
        self._origins.clear()
        self._shared.clear()
        self._filled.clear()
        self.state.reset()
        if self.track:
            self._private.clear()
            self._arenas.clear()

    def array(self, tensor: Tensor) -> Array:
        """Return the whole tensor as a view of its memory."""
        storage = self.storage(tensor)
        return storage.view(storage.layout(whole(tensor)))

    def storage(self, tensor: Tensor) -> Storage:
        """Return the bytes of a tensor, created at first use."""
        shared = tensor.buffer is MemoryRegion.shared_hbm
        storage = (self._shared if shared else self._private).get(tensor.name)
        if storage is not None:
            return storage
        if tensor.name in self._bound and not tensor.on_chip:
            created = self._bound_storage(tensor, self._bound[tensor.name])
        elif tensor.on_chip and tensor.address is not None:
            created = self._in_arena(tensor, tensor.address)
        else:
            created = self._fresh(tensor)
        (self._shared if shared else self._private)[tensor.name] = created
        return created

    def temporary(self, shape: tuple[int, ...]) -> Array:
        """Return float32 memory for a value that lives within one instruction."""
        count = math.prod(shape)
        size = 1 << max(0, count - 1).bit_length()
        if size not in self._temporaries:
            self._temporaries[size] = np.empty(size, np.float32)
        return self._temporaries[size][:count].reshape(shape)

    def lend(self, tensor: Tensor, data: Array) -> None:
        """Give a tensor these bytes (flat uint8, at least ``tensor.nbytes``) as its storage."""
        dtype = self._stored(tensor.dtype)
        self._private[tensor.name] = Storage(tensor, data, dtype)

    def bytes_of(self, tensor: Tensor) -> int:
        """Return the number of bytes of the tensor as it is stored here."""
        return tensor.elements * self._stored(tensor.dtype).itemsize

    def _stored(self, dtype: DType) -> np.dtype[Any]:
        if not self.precise and dtype.name in _WIDENED_DTYPES:
            return np.dtype(np.float32)
        return dtype.dtype

    def _bound_storage(self, tensor: Tensor, array: Array) -> Storage:
        if array.size != tensor.elements:
            raise NkiExecutionError(
                f"tensor {tensor.name!r} has shape {tensor.shape}, but the array bound to it has "
                f"shape {array.shape}",
                code="NKI-SHAPE",
                remedy="pass an array of the shape that the kernel was traced for",
            )
        data = array.reshape(-1).view(np.uint8)
        coverage = Coverage(data.size, complete=tensor.name in self._filled) if self.track else None
        return Storage(tensor, data, array.dtype, coverage=coverage, array=array)

    def recycle(self, tensor: Tensor) -> None:
        """Allocate the tensor's memory at first use, and reuse it when the tensor dies.

        The storage must not keep the tensor alive, so it holds a copy of it.
        """
        name = tensor.name

        def release(_: object) -> None:
            self._mortal.pop(name, None)
            storage = self._private.pop(name, None)
            if storage is not None and storage.row == 0:
                self._pool.setdefault(storage.data.size, []).append(storage.data)

        self._mortal[name] = weakref.ref(tensor, release)

    def _recycled(self, tensor: Tensor) -> Storage:
        dtype = self._stored(tensor.dtype)
        count = tensor.elements * dtype.itemsize
        pool = self._pool.get(count)
        data = pool.pop() if pool else np.empty(count, np.uint8)
        coverage = Coverage(count) if self.track else None
        storage = Storage(twin(tensor), data, dtype, coverage=coverage)
        storage.pending = True
        return storage

    def _fresh(self, tensor: Tensor) -> Storage:
        if tensor.name in self._mortal:
            return self._recycled(tensor)
        dtype = self._stored(tensor.dtype)
        count = tensor.elements * dtype.itemsize
        if not self.fresh:
            return Storage(tensor, np.zeros(count, np.uint8), dtype)
        if not self.track:
            return Storage(tensor, np.full(count, FRESH_BYTE, np.uint8), dtype)
        storage = Storage(tensor, np.empty(count, np.uint8), dtype, coverage=Coverage(count))
        storage.pending = True
        return storage

    def _in_arena(self, tensor: Tensor, address: tuple[int, int]) -> Storage:
        row = self._row(tensor.buffer)
        if tensor.buffer not in self._arenas:
            count = self.target.partitions * row
            data = np.full(count, FRESH_BYTE, np.uint8) if self.fresh else np.zeros(count, np.uint8)
            self._arenas[tensor.buffer] = (data, Coverage(count) if self.track else None)
        data, coverage = self._arenas[tensor.buffer]
        partition, byte = address
        partitions = tensor.shape[0] if tensor.shape else 1
        if partition + partitions > self.target.partitions or byte + tensor.free_bytes > row:
            raise NkiExecutionError(
                f"tensor {tensor.name!r} at partition {partition}, byte {byte} takes "
                f"{partitions} partitions of {tensor.free_bytes} bytes, which does not fit into "
                f"{tensor.buffer} ({self.target.partitions} partitions of {row} bytes)",
                code="NKI-ADDRESS",
                remedy="choose a lower address or a smaller tensor",
            )
        dtype = tensor.dtype.dtype
        return Storage(
            twin(tensor), data, dtype, coverage=coverage, row=row, start=partition * row + byte
        )

    def _row(self, buffer: MemoryRegion) -> int:
        if buffer is MemoryRegion.psum:
            return self.target.psum_partition_bytes
        return self.target.sbuf_partition_bytes

    # -- accesses --------------------------------------------------------------------------

    def view(self, access: Access) -> Array:
        """Return a view of the elements of an access without ``vector_offset``.

        Raises:
            NkiExecutionError: ``NKI-OUT-OF-BOUNDS``.
        """
        storage = self.storage(access.tensor)
        if access.scalar_offset is None:
            return storage.window(access)
        return storage.view(self.layout(access))

    def layout(self, access: Access) -> Layout:
        """Return the window of an access without ``vector_offset``, with the current scalar
        offset.
        """
        storage = self.storage(access.tensor)
        if access.scalar_offset is None:
            return storage.layout(access)
        return self._moved(storage, access, self.scalar(access.scalar_offset))

    def read(self, access: Access, *, skip: bool = False, group: int = 16) -> Array:
        """Return the elements of any access; a copy when it gathers.

        Args:
            access: what to read.
            skip: indices out of bounds leave zeros instead of raising (``oob_mode.skip``).
            group: partitions that share a list of indices in tensor indirection.
        """
        if access.vector_offset is None:
            return self.view(access)
        return self.gathered(access, self.rows(access, skip=skip, group=group))

    def gathered(self, access: Access, rows: Rows) -> Array:
        """Return the elements of a gather with these rows; zeros where a row does not exist."""
        window = self.storage(access.tensor).view(rows.window)
        if rows.good.all():
            return window[rows.index]
        gathered = np.zeros(access.shape, window.dtype)
        gathered[rows.good] = window[rows.existing]
        return gathered

    def write(
        self,
        access: Access,
        value: Array,
        *,
        skip: bool = False,
        group: int = 16,
    ) -> None:
        """Write ``value`` to the access; scatter it when the access has a vector offset."""
        if access.vector_offset is None:
            self.view(access)[...] = value
            return
        rows = self.rows(access, skip=skip, group=group)
        self.storage(access.tensor).view(rows.window)[rows.existing] = value[rows.good]

    def rows(self, access: Access, *, skip: bool = False, group: int = 16) -> Rows:
        """Return the positions that a gather or scatter selects.

        Raises:
            NkiExecutionError: ``NKI-OUT-OF-BOUNDS``, an index does not exist (not with
                ``skip``).
        """
        assert access.vector_offset is not None
        storage = self.storage(access.tensor)
        indices = self.read(access.vector_offset).astype(np.int64)
        count = self._positions(access)
        step = storage.index_bytes(access)
        if _is_tensor_indirect(access):
            lanes, number = access.shape[:2]
            indices = _group_columns(indices, number, group)
            base = storage.layout(access._replace(pattern=(access.pattern[0], (0, 1))))
            window = Layout(base.dtype, (lanes, count), base.offset, (base.strides[0], step))
            index = tuple(np.broadcast_arrays(np.arange(lanes)[:, None], indices))
        else:
            base = storage.layout(access._replace(pattern=((0, 1), *access.pattern[1:])))
            indices = indices.T.reshape(-1)[: access.pattern[0][1]]
            window = Layout(
                base.dtype, (count, *base.shape[1:]), base.offset, (step, *base.strides[1:])
            )
            index = (indices,)
        good = (indices >= 0) & (indices < count)
        if not skip and not good.all():
            missing = np.unravel_index(int(np.argmin(good)), good.shape)
            position = ", ".join(str(int(coordinate)) for coordinate in missing)
            raise outside(
                access.tensor,
                int(indices[missing]),
                count,
                f"vector offset [{position}] addresses row",
            )
        return Rows(window, index, good)

    def _positions(self, access: Access) -> int:
        """Return the number of indices that stay inside the tensor, including the inner pattern."""
        step = max(1, access.index_step)
        total = access.tensor.nbytes // access.element_type.itemsize
        if _is_tensor_indirect(access):
            row = total // max(1, access.tensor.shape[0])
            return max(0, (row - 1 - access.offset % max(1, row)) // step + 1)
        reach = access.offset + sum(max(0, s * (c - 1)) for s, c in access.pattern[1:] if c)
        positions = max(0, (total - 1 - reach) // step + 1)
        if access.indirect_step is not None:
            return positions
        extent = access.tensor.shape[access.indirect_dim]
        return min(extent - access.offset // step % max(1, extent), positions)

    def scalar(self, offset: Register | Access | int) -> int:
        """Return the value of a register or of a one-element access, or the number."""
        if isinstance(offset, Register):
            return self.state.registers[offset.name]
        if isinstance(offset, Access):
            return int(self.read(offset).reshape(-1)[0])
        return int(offset)

    def in_bounds(self, access: Access) -> bool:
        """Return False when a scalar offset moves the access out of its tensor."""
        try:
            self.layout(access)
        except NkiExecutionError as error:
            if error.code == "NKI-OUT-OF-BOUNDS":
                return False
            raise
        return True

    def _moved(self, storage: Storage, access: Access, value: int) -> Layout:
        if value < 0:
            extent = access.tensor.shape[access.indirect_dim]
            raise outside(access.tensor, value, extent, "dynamic index")
        return storage.layout(access, value * access.index_step)
