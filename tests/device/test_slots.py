"""The function table, called as a framework calls it; no framework is needed."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np
import pytest

from neff.device.pjrt import abi
from neff.device.pjrt.buffers import Buffer
from neff.device.pjrt.slots import IMPLEMENTED
from tests.device.framework import Framework, SlotFailed


@pytest.fixture(scope="module")
def framework() -> Framework:
    return Framework()


@pytest.fixture(autouse=True)
def nothing_leaks(framework: Framework):
    framework.plugin.forget_released()
    before = len(framework.plugin.handles)
    yield
    for buffer in framework.plugin.handles.all(Buffer):
        framework.call("Buffer_Destroy", buffer=handle_of(framework, buffer))
    framework.plugin.forget_released()
    assert len(framework.plugin.handles) == before


def handle_of(framework: Framework, value: object) -> int:
    return next(k for k, v in framework.plugin.handles._objects.items() if v is value)


def test_the_table_has_every_slot_in_the_headers_order() -> None:
    # pjrt_c_api.h: a few positions as that file has them.
    assert abi.SLOTS[0] == "Error_Destroy"
    assert abi.SLOTS.index("Client_Create") == 10
    assert abi.SLOTS.index("LoadedExecutable_Execute") == 55
    assert abi.SLOTS[-1] == "Device_GetAttributes"
    assert ctypes.sizeof(abi.Api) == 40 + 8 * len(abi.SLOTS)


def test_structures_have_the_layout_of_the_header() -> None:
    layout = abi.ARGUMENTS["Client_BufferFromHostBuffer"]
    assert (layout.type.offset, layout.dims.offset, layout.semantics.offset) == (32, 40, 72)
    assert ctypes.sizeof(layout) == 120
    assert ctypes.sizeof(abi.MemoryLayout) == 80
    assert abi.ARGUMENTS["Error_GetCode"].code.offset == 24


def test_missing_slots_answer_unimplemented(framework: Framework) -> None:
    missing = {name for name in abi.SLOTS if name not in IMPLEMENTED}
    for name in missing:
        if name.endswith("_Destroy"):  # releases whatever it is given
            continue
        with pytest.raises(SlotFailed, match=rf"NEFF-DEVICE-UNIMPLEMENTED.*{name}") as failure:
            framework.call(name)
        assert failure.value.code == 12


@pytest.mark.parametrize(
    "dtype",
    [np.bool_, np.int8, np.uint64, np.float16, np.float64, np.complex64, ml_dtypes.bfloat16,
     ml_dtypes.float8_e4m3, ml_dtypes.int4],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (2, 3, 4)])
def test_arrays_come_back_as_they_went(framework: Framework, dtype, shape) -> None:
    array = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 7).astype(dtype)
    back = framework.get(framework.put(array))
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert np.array_equal(back, array)


@pytest.mark.parametrize(
    "view",
    [lambda a: a[::-1, ::2], lambda a: a.T, lambda a: np.broadcast_to(a[:1], (4, 6)),
     lambda a: a[:, ::-1].T],
)  # fmt: skip
def test_strided_host_memory_is_read_as_its_strides_say(framework: Framework, view) -> None:
    array = view(np.arange(24, dtype=np.int32).reshape(4, 6))
    assert np.array_equal(framework.get(framework.put(array, strides=True)), array)


def test_host_memory_may_be_changed_after_the_call(framework: Framework) -> None:
    array = np.ones(1000, np.float32)
    buffer = framework.put(array)
    array[:] = 7
    assert np.all(framework.get(buffer) == 1)


def test_a_host_layout_other_than_row_major(framework: Framework) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    buffer = framework.put(array)
    order = (ctypes.c_int64 * 2)(0, 1)  # column-major
    layout = abi.MemoryLayout()
    layout.tiled.minor_to_major, layout.tiled.minor_to_major_size = ctypes.addressof(order), 2
    out = np.empty((3, 2), np.float32)
    copied = framework.call(
        "Buffer_ToHostBuffer", buffer=buffer, layout=ctypes.addressof(layout),
        destination=out.ctypes.data, size=out.nbytes,
    )  # fmt: skip
    framework.call("Event_Destroy", event=copied.event)
    assert np.array_equal(out.T, array)


def test_a_tiled_host_layout(framework: Framework) -> None:
    buffer = framework.put(np.zeros((4, 4), np.float32))
    layout = abi.MemoryLayout()
    layout.tiled.num_tiles = 1
    out = np.empty((4, 4), np.float32)
    with pytest.raises(SlotFailed, match="NEFF-DEVICE-LAYOUT"):
        framework.call(
            "Buffer_ToHostBuffer", buffer=buffer, layout=ctypes.addressof(layout),
            destination=out.ctypes.data, size=out.nbytes,
        )  # fmt: skip


def test_references_that_nobody_took(framework: Framework) -> None:
    buffer = framework.put(np.ones(3))
    framework.call("Buffer_IncreaseExternalReferenceCount", buffer=buffer)
    framework.call("Buffer_DecreaseExternalReferenceCount", buffer=buffer)
    with pytest.raises(SlotFailed, match="NEFF-DEVICE-REFERENCES"):
        framework.call("Buffer_DecreaseExternalReferenceCount", buffer=buffer)


def test_bytes_that_are_no_executable(framework: Framework) -> None:
    data = ctypes.create_string_buffer(b"neither")
    with pytest.raises(SlotFailed, match="NEFF-DEVICE-SERIALIZED"):
        framework.call("Executable_DeserializeAndLoad", bytes=ctypes.addressof(data), bytes_size=7)


def test_the_size_needed_and_too_small_a_destination(framework: Framework) -> None:
    buffer = framework.put(np.zeros(10, np.float32))
    assert framework.call("Buffer_ToHostBuffer", buffer=buffer).size == 40
    with pytest.raises(SlotFailed, match=r"NEFF-DEVICE-SIZE.*40 bytes do not fit in 39"):
        framework.call("Buffer_ToHostBuffer", buffer=buffer, destination=1, size=39)


def test_a_raw_copy_of_a_part(framework: Framework) -> None:
    buffer = framework.put(np.arange(8, dtype=np.uint8))
    out = (ctypes.c_uint8 * 3)()
    copied = framework.call(
        "Buffer_CopyRawToHost", buffer=buffer, destination=ctypes.addressof(out), offset=2, size=3
    )
    framework.call("Event_Destroy", event=copied.event)
    assert list(out) == [2, 3, 4]
    with pytest.raises(SlotFailed, match="NEFF-DEVICE-SIZE"):
        framework.call("Buffer_CopyRawToHost", buffer=buffer, offset=6, size=3)


def test_placement_and_copies_between_devices(framework: Framework) -> None:
    devices = framework.plugin.topology.devices
    buffer = framework.put(np.arange(3.0), device=1)
    assert framework.call("Buffer_Device", buffer=buffer).device == devices[1].handle
    assert framework.call("Buffer_Memory", buffer=buffer).memory == devices[1].memory.handle
    copy = framework.call("Buffer_CopyToDevice", buffer=buffer, device=devices[0].handle).copy
    assert framework.call("Buffer_Device", buffer=copy).device == devices[0].handle
    moved = framework.call("Buffer_CopyToMemory", buffer=copy, memory=devices[1].memory.handle).copy
    assert framework.call("Buffer_Device", buffer=moved).device == devices[1].handle
    assert np.array_equal(framework.get(moved), np.arange(3.0))


def test_a_deleted_buffer_says_so(framework: Framework) -> None:
    buffer = framework.put(np.ones(3))
    framework.call("Buffer_Delete", buffer=buffer)
    assert framework.call("Buffer_IsDeleted", buffer=buffer).is_deleted
    with pytest.raises(SlotFailed, match="NEFF-DEVICE-DELETED"):
        framework.get(buffer)


def test_an_error_buffer_reports_its_error(framework: Framework) -> None:
    text = ctypes.create_string_buffer(b"lost")
    buffer = framework.call(
        "Client_CreateErrorBuffer", code=9, message=ctypes.addressof(text), message_size=4,
        type=11, memory=framework.plugin.topology.devices[0].memory.handle,
    ).buffer  # fmt: skip
    with pytest.raises(SlotFailed, match="lost") as failure:
        framework.get(buffer)
    assert failure.value.code == 9
    ready = framework.call("Buffer_ReadyEvent", buffer=buffer).event
    with pytest.raises(SlotFailed, match="lost"):
        framework.call("Event_Await", event=ready)
    framework.call("Event_Destroy", event=ready)


@pytest.mark.parametrize("handle", [0, 7, 1 << 60])
def test_stale_handles_are_errors(framework: Framework, handle: int) -> None:
    with pytest.raises(SlotFailed, match="expected a Buffer") as failure:
        framework.call("Buffer_ElementType", buffer=handle)
    assert failure.value.code == 3


def test_a_handle_of_another_kind_is_an_error(framework: Framework) -> None:
    device = framework.plugin.topology.devices[0].handle
    with pytest.raises(SlotFailed, match=r"NEFF-DEVICE-HANDLE.*is a Device, expected a Buffer"):
        framework.call("Buffer_ElementType", buffer=device)


def test_null_may_be_destroyed(framework: Framework) -> None:
    for slot, field in (("Buffer", "buffer"), ("Event", "event"), ("Executable", "executable")):
        framework.call(f"{slot}_Destroy", **{field: None})


def test_element_types_without_numpy_counterpart(framework: Framework) -> None:
    with pytest.raises(SlotFailed, match="NEFF-DEVICE-DTYPE"):
        framework.call("Client_BufferFromHostBuffer", type=23)  # a token


def test_an_event_completes_when_it_is_set(framework: Framework) -> None:
    event = framework.call("Event_Create").event
    assert not framework.call("Event_IsReady", event=event).is_ready
    statuses: list[int | None] = []
    callback = abi.ErrorCallback(lambda error, user: statuses.append(error))
    framework.call(
        "Event_OnReady", event=event, callback=ctypes.cast(callback, ctypes.c_void_p).value
    )
    assert statuses == []
    text = ctypes.create_string_buffer(b"gone")
    framework.call("Event_Set", event=event, code=5, message=ctypes.addressof(text), message_size=4)
    assert framework.call("Event_IsReady", event=event).is_ready
    failure = framework.take_error(statuses[0] or 0)
    assert (failure.code, str(failure)) == (5, "gone")
    framework.call("Event_Destroy", event=event)


def test_devices_describe_themselves(framework: Framework) -> None:
    client = framework.call("Client_Create").client
    devices = framework.call("Client_Devices", client=client)
    assert devices.num_devices == len(framework.plugin.topology.devices) >= 2
    handles = ctypes.cast(devices.devices, ctypes.POINTER(ctypes.c_void_p))[: devices.num_devices]
    description = framework.call("Device_GetDescription", device=handles[1]).description
    text = framework.call("DeviceDescription_ToString", description=description)
    assert ctypes.string_at(text.text, text.text_size) == b"NeuronDevice(id=1)"
    stats = framework.call("Device_MemoryStats", device=handles[0], num_allocs_is_set=True)
    assert stats.bytes_limit_is_set
    assert not stats.num_allocs_is_set
    with pytest.raises(SlotFailed, match=r"NEFF-DEVICE\].*NEURON_RT_NUM_CORES|no device 99"):
        framework.call("Client_LookupDevice", client=client, id=99)
    framework.call("Client_Destroy", client=client)


def test_old_callers_structures_are_not_overrun(framework: Framework) -> None:
    arguments = abi.ARGUMENTS["Device_MemoryStats"]()
    arguments.struct_size = abi.ARGUMENTS["Device_MemoryStats"].pool_bytes.offset
    arguments.pool_bytes_is_set = True
    arguments.device = framework.plugin.topology.devices[0].handle
    abi.Slot(framework.api.Device_MemoryStats)(ctypes.addressof(arguments))
    assert arguments.pool_bytes_is_set  # beyond the caller's structure: untouched


def test_deleters_do_nothing_harmful(framework: Framework) -> None:
    serialized = framework.call("TopologyDescription_Serialize")
    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(serialized.deleter)
    assert ctypes.string_at(serialized.bytes, serialized.bytes_size).startswith(b"neuron ")
    deleter(serialized.owner)


def test_a_program_format_that_is_none(framework: Framework) -> None:
    with pytest.raises(SlotFailed, match=r"NEFF-DEVICE-FORMAT.*'tosa'"):
        framework.compile(b"", "tosa")


def test_a_program_that_is_no_mlir(framework: Framework) -> None:
    pytest.importorskip("jaxlib")
    with pytest.raises(SlotFailed, match="NEFF-DEVICE-CONVERT"):
        framework.compile(b"module {", "mlir")
