"""Buffers: arrays on a device, and their way from and to host memory.

A buffer holds a NumPy array, or the array that the program which made it left in the private
client, or both; either is made from the other without a copy where alignment allows it.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from ctypes import POINTER, Structure, c_int64, cast
from typing import Any

import numpy as np

from neff.device.pjrt import abi
from neff.device.pjrt.c_strings import text_at
from neff.device.pjrt.events import Event
from neff.device.pjrt.slots import slot
from neff.device.pjrt.status import Status, StatusError
from neff.device.pjrt.topology import Device, DeviceHost, Memory
from nki_lang.base.dtypes import Array

__all__ = ["Buffer", "aligned_empty"]


_ALIGNMENT = 64  # what XLA:CPU needs to use host memory in place


def aligned_empty(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Fresh memory that XLA can use without copying it."""
    nbytes = math.prod(shape) * dtype.itemsize
    raw = np.empty(nbytes + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + nbytes].view(dtype).reshape(shape)


class Buffer:
    """One array on one device.

    Args:
        device: where it is.
        shape, dtype: what it is.
        host: its values as a NumPy array, if there is one.
        resident: its values as an array of the private client, if there is one.
        error: (code, message) that every use of the buffer reports instead.
    """

    __slots__ = (
        "_dims", "_host", "_minor_to_major", "deleted", "device", "dtype", "error", "references",
        "resident", "shape",
    )  # fmt: skip

    def __init__(
        self,
        device: Device,
        shape: Sequence[int],
        dtype: np.dtype[Any],
        *,
        host: Array | None = None,
        resident: Any = None,
        error: tuple[int, str] | None = None,
    ) -> None:
        self.device = device
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self.error = error
        self.deleted = False
        self.references = 0
        self.resident = resident
        self._host = host
        self._dims: Any = None
        self._minor_to_major: Any = None

    @property
    def nbytes(self) -> int:
        """Size in bytes, row-major without gaps."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def dims(self) -> ctypes.Array[c_int64]:
        """The extents as the framework wants them; lives as long as the buffer."""
        if self._dims is None:
            self._dims = (c_int64 * max(1, len(self.shape)))(*self.shape)
        return self._dims

    @property
    def minor_to_major(self) -> ctypes.Array[c_int64]:
        """The row-major layout, most minor dimension first."""
        if self._minor_to_major is None:
            rank = len(self.shape)
            self._minor_to_major = (c_int64 * max(1, rank))(*reversed(range(rank)))
        return self._minor_to_major

    def check(self) -> None:
        """Raise the buffer's error, or say that it was deleted."""
        if self.error is not None:
            raise StatusError(*self.error)
        if self.deleted:
            raise StatusError(
                Status.INVALID_ARGUMENT,
                "[NEFF-DEVICE-DELETED] the buffer was deleted or donated\n"
                "  help: keep a copy of what is passed to a donated argument",
            )

    def array(self) -> Array:
        """The values as a NumPy array (a view where possible; not to be written).

        Raises:
            StatusError: the buffer was deleted or carries an error.
        """
        self.check()
        if self._host is not None:
            return self._host
        return np.asarray(self.resident)

    def delete(self) -> None:
        """Give the memory back; the buffer itself stays."""
        self.deleted = True
        self._host = self.resident = None

    def copy_to(self, device: Device) -> Buffer:
        """The same values on another device."""
        values = self.array()
        copy = aligned_empty(self.shape, self.dtype)
        copy[...] = values
        return Buffer(device, self.shape, self.dtype, host=copy)


def dtype_of(code: int) -> np.dtype[Any]:
    """The NumPy dtype of a PJRT type code.

    Raises:
        StatusError: UNIMPLEMENTED; there is none.
    """
    try:
        return abi.numpy_dtype_of(code)
    except KeyError:
        raise StatusError(
            Status.UNIMPLEMENTED,
            f"[NEFF-DEVICE-DTYPE] the device holds no PJRT element type {code}\n"
            "  help: cast to a type that NumPy or ml_dtypes has",
        ) from None


def integers_at(address: int | None, count: int) -> tuple[int, ...]:
    """``count`` 64-bit integers at an address."""
    if not address or not count:
        return ()
    return tuple(cast(address, POINTER(c_int64))[:count])


def _host_view(
    address: int, shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...]
) -> Array:
    """Host memory as an array; strides may be negative."""
    if not strides:
        raw = (ctypes.c_uint8 * (math.prod(shape) * dtype.itemsize)).from_address(address)
        return np.frombuffer(memoryview(raw), np.uint8).view(dtype).reshape(shape)
    reach = [stride * (extent - 1) for stride, extent in zip(strides, shape, strict=True)]
    low = sum(distance for distance in reach if distance < 0)
    high = sum(distance for distance in reach if distance > 0) + dtype.itemsize
    raw = (ctypes.c_uint8 * (high - low)).from_address(address + low)
    return np.ndarray(shape, dtype, np.frombuffer(memoryview(raw), np.uint8), -low, strides)


def _place(host: DeviceHost, device: int | None, memory: int | None) -> Device:
    if memory:
        return host.topology.device(host.handles.get(memory, Memory).index)
    if device:
        return host.handles.get(device, Device)
    return host.topology.devices[0]


@slot
def client_buffer_from_host_buffer(host: DeviceHost, arguments: Structure) -> None:
    dtype = dtype_of(arguments.type)
    shape = integers_at(arguments.dims, arguments.num_dims)
    strides = integers_at(arguments.byte_strides, arguments.num_byte_strides)
    values = aligned_empty(shape, dtype)
    if values.size:
        values[...] = _host_view(arguments.data, shape, dtype, strides)
    device = _place(host, arguments.device, arguments.memory)
    arguments.buffer = host.handles.add(Buffer(device, shape, dtype, host=values))
    arguments.done = host.handles.add(Event())


@slot
def client_create_uninitialized_buffer(host: DeviceHost, arguments: Structure) -> None:
    dtype = dtype_of(arguments.type)
    shape = integers_at(arguments.dims, arguments.num_dims)
    values = aligned_empty(shape, dtype)
    values.view(np.uint8)[...] = 0
    device = _place(host, arguments.device, arguments.memory)
    arguments.buffer = host.handles.add(Buffer(device, shape, dtype, host=values))


@slot
def client_create_error_buffer(host: DeviceHost, arguments: Structure) -> None:
    error = (arguments.code, text_at(arguments.message, arguments.message_size))
    shape = integers_at(arguments.dims, arguments.num_dims)
    device = _place(host, None, arguments.memory)
    buffer = Buffer(device, shape, dtype_of(arguments.type), error=error)
    arguments.buffer = host.handles.add(buffer)


@slot
def buffer_destroy(host: DeviceHost, arguments: Structure) -> None:
    host.handles.drop(arguments.buffer)


@slot
def buffer_element_type(host: DeviceHost, arguments: Structure) -> None:
    arguments.type = abi.buffer_type_of(host.handles.get(arguments.buffer, Buffer).dtype)


@slot(name="Buffer_Dimensions Buffer_UnpaddedDimensions")
def buffer_dimensions(host: DeviceHost, arguments: Structure) -> None:
    buffer = host.handles.get(arguments.buffer, Buffer)
    arguments.dims, arguments.num_dims = ctypes.addressof(buffer.dims), len(buffer.shape)


@slot
def buffer_dynamic_dimension_indices(host: DeviceHost, arguments: Structure) -> None:
    arguments.dims, arguments.num_dims = None, 0


@slot
def buffer_get_memory_layout(host: DeviceHost, arguments: Structure) -> None:
    buffer = host.handles.get(arguments.buffer, Buffer)
    layout = arguments.layout
    layout.struct_size, layout.type = ctypes.sizeof(abi.MemoryLayout), 0
    layout.tiled.struct_size = ctypes.sizeof(abi.TiledLayout)
    layout.tiled.minor_to_major = ctypes.addressof(buffer.minor_to_major)
    layout.tiled.minor_to_major_size = len(buffer.shape)
    layout.tiled.tile_dims = layout.tiled.tile_dim_sizes = None
    layout.tiled.num_tiles = 0


@slot
def buffer_on_device_size_in_bytes(host: DeviceHost, arguments: Structure) -> None:
    arguments.size = host.handles.get(arguments.buffer, Buffer).nbytes


@slot
def buffer_device(host: DeviceHost, arguments: Structure) -> None:
    arguments.device = host.handles.get(arguments.buffer, Buffer).device.handle


@slot
def buffer_memory(host: DeviceHost, arguments: Structure) -> None:
    arguments.memory = host.handles.get(arguments.buffer, Buffer).device.memory.handle


@slot
def buffer_delete(host: DeviceHost, arguments: Structure) -> None:
    host.handles.get(arguments.buffer, Buffer).delete()


@slot
def buffer_is_deleted(host: DeviceHost, arguments: Structure) -> None:
    arguments.is_deleted = host.handles.get(arguments.buffer, Buffer).deleted


@slot
def buffer_copy_to_device(host: DeviceHost, arguments: Structure) -> None:
    buffer = host.handles.get(arguments.buffer, Buffer)
    arguments.copy = host.handles.add(buffer.copy_to(_place(host, arguments.device, None)))


@slot
def buffer_copy_to_memory(host: DeviceHost, arguments: Structure) -> None:
    buffer = host.handles.get(arguments.buffer, Buffer)
    arguments.copy = host.handles.add(buffer.copy_to(_place(host, None, arguments.memory)))


def _in_layout(values: Array, layout_address: int | None) -> Array:
    """The values, contiguous in the order of the caller's layout."""
    if layout_address and values.ndim > 1:
        layout = abi.MemoryLayout.from_address(layout_address)
        if layout.type != 0 or layout.tiled.num_tiles:
            raise StatusError(
                Status.UNIMPLEMENTED, "[NEFF-DEVICE-LAYOUT] only untiled host layouts are written"
            )
        order = integers_at(layout.tiled.minor_to_major, layout.tiled.minor_to_major_size)
        values = values.transpose(tuple(reversed(order)))
    return np.ascontiguousarray(values)


@slot
def buffer_to_host_buffer(host: DeviceHost, arguments: Structure) -> None:
    buffer = host.handles.get(arguments.buffer, Buffer)
    if not arguments.destination:
        arguments.size = buffer.nbytes
        return
    if arguments.size < buffer.nbytes:
        raise StatusError(
            Status.INVALID_ARGUMENT,
            f"[NEFF-DEVICE-SIZE] {buffer.nbytes} bytes do not fit in {arguments.size}",
        )
    for callback in host.when_read:
        callback()
    values = _in_layout(buffer.array(), arguments.layout)
    if values.nbytes:
        ctypes.memmove(arguments.destination, values.ctypes.data, values.nbytes)
    arguments.event = host.handles.add(Event())


@slot
def buffer_copy_raw_to_host(host: DeviceHost, arguments: Structure) -> None:
    buffer = host.handles.get(arguments.buffer, Buffer)
    start, size = arguments.offset, arguments.size
    if start < 0 or size < 0 or start + size > buffer.nbytes:
        raise StatusError(
            Status.OUT_OF_RANGE,
            f"[NEFF-DEVICE-SIZE] bytes {start} to {start + size} of {buffer.nbytes}",
        )
    values = np.ascontiguousarray(buffer.array())
    if size:
        ctypes.memmove(arguments.destination, values.ctypes.data + start, size)
    arguments.event = host.handles.add(Event())


@slot
def buffer_is_on_cpu(host: DeviceHost, arguments: Structure) -> None:
    arguments.is_on_cpu = False


@slot
def buffer_ready_event(host: DeviceHost, arguments: Structure) -> None:
    buffer = host.handles.get(arguments.buffer, Buffer)
    arguments.event = host.handles.add(Event(error=buffer.error))


@slot(name="Buffer_UnsafePointer Buffer_OpaqueDeviceMemoryDataPointer")
def buffer_pointer(host: DeviceHost, arguments: Structure) -> None:
    buffer = host.handles.get(arguments.buffer, Buffer)
    values = buffer.array()
    arguments.pointer = values.ctypes.data


@slot
def buffer_increase_external_reference_count(host: DeviceHost, arguments: Structure) -> None:
    host.handles.get(arguments.buffer, Buffer).references += 1


@slot
def buffer_decrease_external_reference_count(host: DeviceHost, arguments: Structure) -> None:
    buffer = host.handles.get(arguments.buffer, Buffer)
    if buffer.references == 0:
        raise StatusError(
            Status.FAILED_PRECONDITION,
            "[NEFF-DEVICE-REFERENCES] the buffer has no external references",
        )
    buffer.references -= 1
