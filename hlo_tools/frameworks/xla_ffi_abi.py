"""XLA's typed-FFI C interface as ctypes structures, with views of its buffers.

Source of the layout: ``xla/ffi/api/c_api.h``, which every jaxlib ships (``jax.ffi.include_dir()``).
Only the fields that a handler of an ordinary call reads are declared; structures that XLA makes
longer in a later version keep these offsets (their header: "minor changes: adding a new field").
"""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_size_t, c_void_p
from typing import Any, Final

import numpy as np

from hlo_tools.types.element_types import BY_NUMBER, INVALID

__all__ = [
    "EXECUTE",
    "METADATA_EXTENSION",
    "STRING_ATTRIBUTE",
    "Api",
    "CallFrame",
    "Handler",
    "LegacyHandler",
    "argument_arrays",
    "create_error",
    "metadata_of",
    "place_of",
    "result_arrays",
    "string_attribute",
]

EXECUTE: Final = 3
"""``XLA_FFI_ExecutionStage_EXECUTE``: the only stage in which there is something to do."""
METADATA_EXTENSION: Final = 1
STRING_ATTRIBUTE: Final = 4


class Extension(Structure):
    """``XLA_FFI_Extension_Base``: a linked list of optional requests."""


Extension._fields_ = [
    ("struct_size", c_size_t),
    ("type", c_int),
    ("next", POINTER(Extension)),
]


class ApiVersion(Structure):
    """``XLA_FFI_Api_Version``."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("extension", c_void_p),
        ("major", c_int),
        ("minor", c_int),
    ]


class Metadata(Structure):
    """``XLA_FFI_Metadata``; ``state_type_id`` exists from version 0.2 on."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("api_version", ApiVersion),
        ("traits", ctypes.c_uint32),
        ("state_type_id", c_int64),
    ]


class MetadataExtension(Structure):
    """``XLA_FFI_Metadata_Extension``: the interface that a handler was written for."""

    _fields_ = [("base", Extension), ("metadata", POINTER(Metadata))]


class Buffer(Structure):
    """``XLA_FFI_Buffer``: a dense row-major array."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("extension", c_void_p),
        ("dtype", c_int),
        ("data", c_void_p),
        ("rank", c_int64),
        ("dims", POINTER(c_int64)),
    ]


class Buffers(Structure):
    """``XLA_FFI_Args`` and ``XLA_FFI_Rets``, which have one layout."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("extension", c_void_p),
        ("size", c_int64),
        ("types", POINTER(c_int)),
        ("values", POINTER(c_void_p)),
    ]


class ByteSpan(Structure):
    """``XLA_FFI_ByteSpan``: bytes that need not end in a zero."""

    _fields_ = [("data", c_void_p), ("size", c_size_t)]


class Attributes(Structure):
    """``XLA_FFI_Attrs``."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("extension", c_void_p),
        ("size", c_int64),
        ("types", POINTER(c_int)),
        ("names", POINTER(POINTER(ByteSpan))),
        ("values", POINTER(c_void_p)),
    ]


class ErrorCreate(Structure):
    """``XLA_FFI_Error_Create_Args``."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("extension", c_void_p),
        ("message", c_char_p),
        ("code", c_int),
    ]


class PlaceGet(Structure):
    """``XLA_FFI_RunId_Get_Args`` and ``XLA_FFI_DeviceOrdinal_Get_Args``, whose answer is shorter."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("extension", c_void_p),
        ("context", c_void_p),
        ("answer", c_int64),
    ]


PlaceFunction = CFUNCTYPE(c_void_p, POINTER(PlaceGet))


class Api(Structure):
    """The start of ``XLA_FFI_Api``.

    ``run_id`` and ``device_ordinal`` exist when ``struct_size`` reaches behind them.
    """

    _fields_ = [
        ("struct_size", c_size_t),
        ("extension", c_void_p),
        ("api_version", ApiVersion),
        ("internal_api", c_void_p),
        ("error_create", CFUNCTYPE(c_void_p, POINTER(ErrorCreate))),
        ("others", c_void_p * 15),
        ("run_id", PlaceFunction),
        ("device_ordinal", PlaceFunction),
    ]


class CallFrame(Structure):
    """``XLA_FFI_CallFrame``: everything about one call."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("extension", POINTER(Extension)),
        ("api", POINTER(Api)),
        ("context", c_void_p),
        ("stage", c_int),
        ("args", Buffers),
        ("rets", Buffers),
        ("attributes", Attributes),
    ]


Handler = CFUNCTYPE(c_void_p, POINTER(CallFrame))
LegacyHandler = CFUNCTYPE(None, c_void_p, POINTER(c_void_p), c_void_p)
"""A custom call of API version 2 on XLA:CPU: results, operands, status; no configuration."""


def _array(buffer: Buffer, *, writeable: bool) -> np.ndarray[Any, Any]:
    """A view, without a copy, of a buffer that XLA owns."""
    element = BY_NUMBER.get(buffer.dtype, INVALID)  # XLA_FFI_DataType repeats PrimitiveType
    dtype = element.dtype
    if dtype is None or element.bits < 8:
        raise TypeError(f"a kernel cannot take XLA's element type {element} ({buffer.dtype})")
    shape = tuple(buffer.dims[axis] for axis in range(buffer.rank))
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if size == 0:
        return np.zeros(shape, dtype)
    memory: Any = (ctypes.c_uint8 * size).from_address(buffer.data)
    array = np.frombuffer(memory, dtype=np.uint8).view(dtype).reshape(shape)
    array.flags.writeable = writeable
    return array


def _arrays(buffers: Buffers, *, writeable: bool) -> list[np.ndarray[Any, Any]]:
    return [
        _array(Buffer.from_address(buffers.values[index]), writeable=writeable)
        for index in range(buffers.size)
    ]


def argument_arrays(frame: CallFrame) -> list[np.ndarray[Any, Any]]:
    """The operands as read-only views that live as long as the call."""
    return _arrays(frame.args, writeable=False)


def result_arrays(frame: CallFrame) -> list[np.ndarray[Any, Any]]:
    """The results as writeable views that live as long as the call."""
    return _arrays(frame.rets, writeable=True)


def string_attribute(frame: CallFrame, attribute_name: str) -> str | None:
    """The string attribute called ``wanted``, or None when the call has none."""
    attributes = frame.attributes
    for index in range(attributes.size):
        name = attributes.names[index].contents
        if ctypes.string_at(name.data, name.size).decode() != attribute_name:
            continue
        if attributes.types[index] != STRING_ATTRIBUTE:
            return None
        value = ByteSpan.from_address(attributes.values[index])
        return ctypes.string_at(value.data, value.size).decode() if value.size else ""
    return None


def metadata_of(frame: CallFrame) -> Metadata | None:
    """The record to fill in when XLA queries a handler's metadata, else None."""
    extension = frame.extension
    while extension:
        if extension.contents.type == METADATA_EXTENSION:
            address = ctypes.addressof(extension.contents)
            return MetadataExtension.from_address(address).metadata.contents
        extension = extension.contents.next
    return None


def place_of(frame: CallFrame) -> tuple[int, int] | None:
    """(number of the run, number of the device) of a call; None where XLA has none."""
    api = frame.api.contents
    if api.struct_size < ctypes.sizeof(Api):
        return None
    answers: list[int] = []
    for function, size in ((api.run_id, 8), (api.device_ordinal, 4)):
        request = PlaceGet(PlaceGet.answer.offset + size, None, frame.context, 0)
        if function(ctypes.byref(request)):
            return None
        answers.append(int(request.answer))
    return answers[0], answers[1]


def create_error(frame: CallFrame, code: int, message: str) -> int | None:
    """A new ``XLA_FFI_Error`` (XLA takes ownership when the handler returns it)."""
    request = ErrorCreate(ctypes.sizeof(ErrorCreate), None, message.encode(), code)
    return frame.api.contents.error_create(ctypes.byref(request))
