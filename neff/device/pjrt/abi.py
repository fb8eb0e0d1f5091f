"""The PJRT C interface as tables: slots in order, argument structures, constants.

Source of every layout: the header ``pjrt_c_api.h`` of openxla/xla (Apache-2.0), interface
version 0.103. Structures only ever grow at the end, so a caller that is older than this table
passes a shorter one: :func:`has_field` returns whether it has a field.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import (
    CFUNCTYPE,
    Structure,
    c_bool,
    c_int,
    c_int64,
    c_size_t,
    c_void_p,
    sizeof,
)
from typing import Any, Final

import ml_dtypes
import numpy as np

__all__ = [
    "ARGUMENTS",
    "BUFFER_TYPES",
    "SLOTS",
    "VERSION",
    "Api",
    "ErrorCallback",
    "MemoryLayout",
    "NamedValue",
    "Program",
    "Slot",
    "buffer_type_of",
    "fields_of",
    "has_field",
    "numpy_dtype_of",
]

VERSION: Final = (0, 72)
"""Interface version the plugin declares: what JAX 0.10 and torch_xla 2.9 both accept."""

Slot = CFUNCTYPE(c_void_p, c_void_p)
"""Every slot: takes a pointer to its argument structure, returns an error handle or NULL."""

ErrorCallback = CFUNCTYPE(None, c_void_p, c_void_p)
"""Arguments of ``Event_OnReady``: (error handle or NULL, user data)."""

_TYPES: Final[dict[str, Any]] = {
    "P": c_void_p,
    "Z": c_size_t,
    "I": c_int,
    "L": c_int64,
    "B": c_bool,
}


def _structure(name: str, fields: str, *, header: bool = True) -> type[Structure]:
    """A structure from ``"name:code ..."``; ``header`` adds the size and the extension pointer."""
    layout: list[tuple[str, Any]] = []
    if header:
        layout = [("struct_size", c_size_t), ("extension_start", c_void_p)]
    for field in fields.split():
        label, code = field.split(":")
        layout.append((label, _TYPES[code]))
    return type(name, (Structure,), {"_fields_": layout})


NamedValue = _structure("NamedValue", "name:P name_size:Z type:I value:L value_size:Z")
Program = _structure("Program", "code:P code_size:Z format:P format_size:Z")
_TYPES["TILED"] = _structure(
    "TiledLayout",
    "minor_to_major:P minor_to_major_size:Z tile_dims:P tile_dim_sizes:P num_tiles:Z",
)
MemoryLayout = _structure("MemoryLayout", "tiled:TILED type:I")
_TYPES["LAYOUT"] = MemoryLayout
ExecuteOptions = _structure(
    "ExecuteOptions",
    "send_callbacks:P recv_callbacks:P num_send_ops:Z num_recv_ops:Z launch_id:I "
    "non_donatable_input_indices:P num_non_donatable_input_indices:Z",
)
TiledLayout = _TYPES["TILED"]

_TEXT = "text:P text_size:Z"
_SERIALIZED = "bytes:P bytes_size:Z owner:P deleter:P"
_SHAPE = "dims:P num_dims:Z type:I layout:P"
_STATUS = "code:I message:P message_size:Z"

_LAYOUTS: Final[dict[str, str]] = {
    # errors, plugin, events
    "Error_Destroy": "error:P",
    "Error_Message": "error:P message:P message_size:Z",
    "Error_GetCode": "error:P code:I",
    "Plugin_Initialize": "",
    "Plugin_Attributes": "attributes:P num_attributes:Z",
    "Event_Destroy": "event:P",
    "Event_IsReady": "event:P is_ready:B",
    "Event_Error": "event:P",
    "Event_Await": "event:P",
    "Event_OnReady": "event:P callback:P user_arg:P",
    # client
    "Client_Create": "create_options:P num_options:Z kv_get:P kv_get_arg:P kv_put:P "
    "kv_put_arg:P client:P kv_try_get:P kv_try_get_arg:P",
    "Client_Destroy": "client:P",
    "Client_PlatformName": f"client:P {_TEXT}",
    "Client_ProcessIndex": "client:P index:I",
    "Client_PlatformVersion": f"client:P {_TEXT}",
    "Client_Devices": "client:P devices:P num_devices:Z",
    "Client_AddressableDevices": "client:P devices:P num_devices:Z",
    "Client_LookupDevice": "client:P id:I device:P",
    "Client_LookupAddressableDevice": "client:P id:I device:P",
    "Client_AddressableMemories": "client:P memories:P num_memories:Z",
    "Client_Compile": "client:P program:P options:P options_size:Z executable:P",
    "Client_DefaultDeviceAssignment": "client:P num_replicas:I num_partitions:I size:Z out:P",
    "Client_BufferFromHostBuffer": "client:P data:P type:I dims:P num_dims:Z byte_strides:P "
    "num_byte_strides:Z semantics:I device:P memory:P layout:P done:P buffer:P",
    # devices
    "DeviceDescription_Id": "description:P id:I",
    "DeviceDescription_ProcessIndex": "description:P index:I",
    "DeviceDescription_Attributes": "description:P num_attributes:Z attributes:P",
    "DeviceDescription_Kind": f"description:P {_TEXT}",
    "DeviceDescription_DebugString": f"description:P {_TEXT}",
    "DeviceDescription_ToString": f"description:P {_TEXT}",
    "Device_GetDescription": "device:P description:P",
    "Device_IsAddressable": "device:P is_addressable:B",
    "Device_LocalHardwareId": "device:P id:I",
    "Device_AddressableMemories": "device:P memories:P num_memories:Z",
    "Device_DefaultMemory": "device:P memory:P",
    "Device_MemoryStats": "device:P bytes_in_use:L peak_bytes_in_use:L peak_bytes_in_use_is_set:B "
    "num_allocs:L num_allocs_is_set:B largest_alloc_size:L largest_alloc_size_is_set:B "
    "bytes_limit:L bytes_limit_is_set:B bytes_reserved:L bytes_reserved_is_set:B "
    "peak_bytes_reserved:L peak_bytes_reserved_is_set:B bytes_reservable_limit:L "
    "bytes_reservable_limit_is_set:B largest_free_block_bytes:L largest_free_block_bytes_is_set:B "
    "pool_bytes:L pool_bytes_is_set:B peak_pool_bytes:L peak_pool_bytes_is_set:B",
    "Memory_Id": "memory:P id:I",
    "Memory_Kind": f"memory:P {_TEXT}",
    "Memory_DebugString": f"memory:P {_TEXT}",
    "Memory_ToString": f"memory:P {_TEXT}",
    "Memory_AddressableByDevices": "memory:P devices:P num_devices:Z",
    # executables
    "Executable_Destroy": "executable:P",
    "Executable_Name": f"executable:P {_TEXT}",
    "Executable_NumReplicas": "executable:P count:Z",
    "Executable_NumPartitions": "executable:P count:Z",
    "Executable_NumOutputs": "executable:P count:Z",
    "Executable_SizeOfGeneratedCodeInBytes": "executable:P size:L",
    "Executable_GetCostAnalysis": "executable:P num_properties:Z properties:P",
    "Executable_OutputMemoryKinds": "executable:P num_outputs:Z kinds:P kind_sizes:P",
    "Executable_OptimizedProgram": "executable:P program:P",
    "Executable_Serialize": f"executable:P {_SERIALIZED}",
    "LoadedExecutable_Destroy": "executable:P",
    "LoadedExecutable_GetExecutable": "loaded:P executable:P",
    "LoadedExecutable_AddressableDevices": "executable:P devices:P num_devices:Z",
    "LoadedExecutable_Delete": "executable:P",
    "LoadedExecutable_IsDeleted": "executable:P is_deleted:B",
    "LoadedExecutable_Execute": "executable:P options:P argument_lists:P num_devices:Z "
    "num_args:Z output_lists:P device_complete_events:P execute_device:P",
    "Executable_DeserializeAndLoad": "client:P bytes:P bytes_size:Z executable:P options:P "
    "options_size:Z",
    "LoadedExecutable_Fingerprint": f"executable:P {_TEXT}",
    # buffers
    "Buffer_Destroy": "buffer:P",
    "Buffer_ElementType": "buffer:P type:I",
    "Buffer_Dimensions": "buffer:P dims:P num_dims:Z",
    "Buffer_UnpaddedDimensions": "buffer:P dims:P num_dims:Z",
    "Buffer_DynamicDimensionIndices": "buffer:P dims:P num_dims:Z",
    "Buffer_GetMemoryLayout": "buffer:P layout:LAYOUT",
    "Buffer_OnDeviceSizeInBytes": "buffer:P size:Z",
    "Buffer_Device": "buffer:P device:P",
    "Buffer_Memory": "buffer:P memory:P",
    "Buffer_Delete": "buffer:P",
    "Buffer_IsDeleted": "buffer:P is_deleted:B",
    "Buffer_CopyToDevice": "buffer:P device:P copy:P",
    "Buffer_ToHostBuffer": "buffer:P layout:P destination:P size:Z event:P",
    "Buffer_IsOnCpu": "buffer:P is_on_cpu:B",
    "Buffer_ReadyEvent": "buffer:P event:P",
    "Buffer_UnsafePointer": "buffer:P pointer:P",
    "Buffer_IncreaseExternalReferenceCount": "buffer:P",
    "Buffer_DecreaseExternalReferenceCount": "buffer:P",
    "Buffer_OpaqueDeviceMemoryDataPointer": "buffer:P pointer:P",
    "CopyToDeviceStream_Destroy": "stream:P",
    "CopyToDeviceStream_AddChunk": "stream:P chunk:P event:P",
    "CopyToDeviceStream_TotalBytes": "stream:P size:L",
    "CopyToDeviceStream_GranuleSize": "stream:P size:L",
    "CopyToDeviceStream_CurrentBytes": "stream:P size:L",
    # topology and compilation ahead of time
    "TopologyDescription_Create": "name:P name_size:Z create_options:P num_options:Z topology:P",
    "TopologyDescription_Destroy": "topology:P",
    "TopologyDescription_PlatformName": f"topology:P {_TEXT}",
    "TopologyDescription_PlatformVersion": f"topology:P {_TEXT}",
    "TopologyDescription_GetDeviceDescriptions": "topology:P descriptions:P num_descriptions:Z",
    "TopologyDescription_Serialize": f"topology:P {_SERIALIZED}",
    "TopologyDescription_Attributes": "topology:P attributes:P num_attributes:Z",
    "Compile": "topology:P program:P options:P options_size:Z client:P executable:P",
    "Executable_OutputElementTypes": "executable:P types:P num_types:Z",
    "Executable_OutputDimensions": "executable:P num_outputs:Z dims:P ranks:P",
    "Buffer_CopyToMemory": "buffer:P memory:P copy:P",
    "Client_CreateViewOfDeviceBuffer": "client:P pointer:P dims:P num_dims:Z type:I layout:P "
    "device:P on_delete:P on_delete_arg:P stream:P buffer:P memory:P",
    "Executable_Fingerprint": f"executable:P {_TEXT}",
    "Client_TopologyDescription": "client:P topology:P",
    "Executable_GetCompiledMemoryStats": "executable:P generated_code:L arguments:L outputs:L "
    "aliased:L temporary:L host_generated_code:L host_arguments:L host_outputs:L host_aliased:L "
    "host_temporary:L peak:L total:L",
    "Memory_Kind_Id": "memory:P id:I",
    "ExecuteContext_Create": "context:P",
    "ExecuteContext_Destroy": "context:P",
    "Buffer_CopyRawToHost": "buffer:P destination:P offset:L size:L event:P",
    "AsyncHostToDeviceTransferManager_Destroy": "transfer:P",
    "AsyncHostToDeviceTransferManager_TransferData": "transfer:P index:I data:P offset:L size:L "
    "is_last:B event:P",
    "Client_CreateBuffersForAsyncHostToDevice": "client:P shapes:P num_shapes:Z layouts:P "
    "num_layouts:Z memory:P transfer:P",
    "AsyncHostToDeviceTransferManager_RetrieveBuffer": "transfer:P index:I buffer:P",
    "AsyncHostToDeviceTransferManager_Device": "transfer:P device:P",
    "AsyncHostToDeviceTransferManager_BufferCount": "transfer:P count:Z",
    "AsyncHostToDeviceTransferManager_BufferSize": "transfer:P index:I size:Z",
    "AsyncHostToDeviceTransferManager_SetBufferError": f"transfer:P index:I {_STATUS}",
    "AsyncHostToDeviceTransferManager_AddMetadata": "transfer:P metadata:P num_metadata:Z",
    "Client_DmaMap": "client:P data:P size:Z",
    "Client_DmaUnmap": "client:P data:P",
    "Client_CreateUninitializedBuffer": f"client:P {_SHAPE} device:P memory:P buffer:P",
    "Client_UpdateGlobalProcessInfo": "client:P infos:P num_infos:Z",
    "TopologyDescription_Deserialize": "bytes:P bytes_size:Z topology:P",
    "Client_CreateAliasBuffer": f"client:P memory:P {_SHAPE} buffer:P fulfill:P",
    "Client_FulfillAliasBuffer": f"client:P buffer:P {_STATUS} fulfill:P",
    "LoadedExecutable_GetDeviceAssignment": f"executable:P {_SERIALIZED}",
    "Client_CreateErrorBuffer": f"client:P {_STATUS} {_SHAPE} memory:P buffer:P",
    "AsyncHostToDeviceTransferManager_TransferLiteral": f"transfer:P index:I data:P {_SHAPE} "
    "event:P",
    "Buffer_CopyRawToHostFuture": "buffer:P offset:L size:L event:P data:P callback:P",
    "Device_PoisonExecution": f"device:P launch_id:I {_STATUS} poisoned:B",
    "Device_CreateAsyncTrackingEvent": "device:P description:P description_size:Z event:P",
    "AsyncTrackingEvent_Destroy": "event:P",
    "Executable_GetCompileOptions": f"executable:P {_SERIALIZED}",
    "Buffer_DonateWithControlDependency": "buffer:P data:P callback:P copy:P",
    "Event_Create": "event:P",
    "Event_Set": f"event:P {_STATUS}",
    "Device_GetAttributes": "device:P attributes:P num_attributes:Z owner:P deleter:P",
}

SLOTS: Final = tuple(_LAYOUTS)
"""Names of the slots in the order of the function table."""

ARGUMENTS: Final = {name: _structure(f"{name}_Args", text) for name, text in _LAYOUTS.items()}
"""The argument structure of each slot."""


class Api(Structure):
    """The function table itself."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("version_size", c_size_t),
        ("version_extension", c_void_p),
        ("major", c_int),
        ("minor", c_int),
        *((name, c_void_p) for name in SLOTS),
    )


def fields_of(arguments: Structure) -> list[str]:
    """Names of a structure's fields in their order."""
    rows: Sequence[tuple[Any, ...]] = type(arguments)._fields_
    return [row[0] for row in rows]


def has_field(arguments: Structure, field: str) -> bool:
    """Return whether the caller's version of a structure is new enough to have ``field``."""
    location: Any = getattr(type(arguments), field)
    size: int = arguments.struct_size  # type: ignore[attr-defined]
    return size >= location.offset + location.size


# PJRT_Buffer_Type: the position in the header's enumeration is the value.
_BUFFER_TYPE_ORDER: Final = (
    None, np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32,
    np.uint64, np.float16, np.float32, np.float64, ml_dtypes.bfloat16, np.complex64,
    np.complex128, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3b11fnuz,
    ml_dtypes.float8_e5m2fnuz, ml_dtypes.float8_e4m3fnuz, ml_dtypes.int4, ml_dtypes.uint4, None,
    ml_dtypes.int2, ml_dtypes.uint2, ml_dtypes.float8_e4m3, ml_dtypes.float8_e3m4,
    ml_dtypes.float8_e8m0fnu, ml_dtypes.float4_e2m1fn,
)  # fmt: skip

BUFFER_TYPES: Final = {
    code: np.dtype(scalar) for code, scalar in enumerate(_BUFFER_TYPE_ORDER) if scalar is not None
}
"""PJRT element type -> NumPy dtype (tokens and one-bit integers have none)."""

_CODES: Final = {dtype: code for code, dtype in BUFFER_TYPES.items()}


def numpy_dtype_of(code: int) -> np.dtype[Any]:
    """The NumPy dtype of a PJRT element type.

    Raises:
        KeyError: the type has no NumPy counterpart.
    """
    return BUFFER_TYPES[code]


def buffer_type_of(dtype: np.dtype[Any]) -> int:
    """The PJRT element type of a NumPy dtype.

    Raises:
        KeyError: PJRT has no such type.
    """
    return _CODES[np.dtype(dtype)]


def api_of(pointers: dict[str, int]) -> Api:
    """A function table with these addresses, one for each slot."""
    api = Api()
    api.struct_size = sizeof(Api)
    api.version_size = Api.minor.offset + ctypes.sizeof(c_int) - Api.version_size.offset
    api.major, api.minor = VERSION
    for name in SLOTS:
        setattr(api, name, pointers[name])
    return api
