"""A framework in miniature: calls the plugin's function table through C, as a real one does."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_int64, c_void_p
from typing import Any

import numpy as np

from neff.device.pjrt import abi
from neff.device.plugin import Plugin, the_plugin


class SlotFailed(Exception):
    def __init__(self, code: int, message: str) -> None:
        self.code = code
        super().__init__(message)


class Framework:
    """Calls slots by name; an error handle becomes :class:`SlotFailed`."""

    def __init__(self) -> None:
        self.plugin: Plugin = the_plugin()
        self.api = self.plugin.api

    def raw(self, slot: str, **fields: Any) -> tuple[int | None, Any]:
        arguments = abi.ARGUMENTS[slot]()
        arguments.struct_size = ctypes.sizeof(arguments)
        for name, value in fields.items():
            setattr(arguments, name, value)
        function = abi.Slot(getattr(self.api, slot))
        return function(ctypes.addressof(arguments)), arguments

    def call(self, slot: str, **fields: Any) -> Any:
        error, arguments = self.raw(slot, **fields)
        if error:
            raise self.take_error(error)
        return arguments

    def take_error(self, error: int) -> SlotFailed:
        code = self.call("Error_GetCode", error=error).code
        text = self.call("Error_Message", error=error)
        message = ctypes.string_at(text.message, text.message_size).decode()
        self.call("Error_Destroy", error=error)
        return SlotFailed(code, message)

    def put(self, array: np.ndarray, *, device: int = 0, strides: bool = False) -> int:
        dims = (c_int64 * max(1, array.ndim))(*array.shape)
        steps = (c_int64 * max(1, array.ndim))(*array.strides)
        transfer = self.call(
            "Client_BufferFromHostBuffer",
            data=array.__array_interface__["data"][0],
            type=abi.buffer_type_of(array.dtype),
            dims=ctypes.addressof(dims),
            num_dims=array.ndim,
            byte_strides=ctypes.addressof(steps) if strides else None,
            num_byte_strides=array.ndim if strides else 0,
            device=self.plugin.topology.devices[device].handle,
        )
        self.call("Event_Destroy", event=transfer.done)
        return transfer.buffer

    def get(self, buffer: int) -> np.ndarray:
        dims = self.call("Buffer_Dimensions", buffer=buffer)
        shape = ctypes.cast(dims.dims, POINTER(c_int64))[: dims.num_dims]
        dtype = abi.numpy_dtype_of(self.call("Buffer_ElementType", buffer=buffer).type)
        out = np.empty(shape, dtype)
        copied = self.call(
            "Buffer_ToHostBuffer", buffer=buffer, destination=out.ctypes.data, size=out.nbytes
        )
        self.call("Event_Await", event=copied.event)
        self.call("Event_Destroy", event=copied.event)
        return out

    def compile(self, module: bytes, text_format: str = "hlo", options: bytes = b"") -> int:
        code = ctypes.create_string_buffer(module, max(1, len(module)))
        form = ctypes.create_string_buffer(text_format.encode())
        opts = ctypes.create_string_buffer(options, max(1, len(options)))
        program = abi.Program()
        program.struct_size = ctypes.sizeof(program)
        program.code, program.code_size = ctypes.addressof(code), len(module)
        program.format, program.format_size = ctypes.addressof(form), len(text_format)
        return self.call(
            "Client_Compile",
            program=ctypes.addressof(program),
            options=ctypes.addressof(opts),
            options_size=len(options),
        ).executable

    def execute(self, executable: int, rows: list[list[int]], outputs: int) -> list[list[int]]:
        inputs = [(c_void_p * max(1, len(row)))(*row) for row in rows]
        results = [(c_void_p * max(1, outputs))() for _ in rows]
        in_lists = (c_void_p * len(rows))(*(ctypes.addressof(tensor) for tensor in inputs))
        out_lists = (c_void_p * len(rows))(*(ctypes.addressof(result) for result in results))
        events = (c_void_p * len(rows))()
        self.call(
            "LoadedExecutable_Execute",
            executable=executable,
            argument_lists=ctypes.addressof(in_lists),
            num_devices=len(rows),
            num_args=len(rows[0]),
            output_lists=ctypes.addressof(out_lists),
            device_complete_events=ctypes.addressof(events),
        )
        for event in events:
            self.call("Event_Destroy", event=event)
        return [list(row)[:outputs] for row in results]
