"""Devices and their memories: as many simulated cores as the environment requests."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from ctypes import Structure
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from neff.device.pjrt.abi import fields_of, has_field
from neff.device.pjrt.c_strings import constant
from neff.device.pjrt.handles import HandleTable, Host
from neff.device.pjrt.slots import slot
from neff.device.pjrt.status import Status, StatusError
from nki_lang.base.targets import Target
from nki_lang.base.visible_cores import core_count

__all__ = [
    "PLATFORM",
    "Device",
    "DeviceDescription",
    "DeviceHost",
    "Memory",
    "Topology",
    "device_count",
]

PLATFORM: Final = "neuron"
MEMORY_KIND: Final = "device"


def device_count(environment: Mapping[str, str] = os.environ) -> int:
    """How many devices there are: as many as cores, see :mod:`nki_lang.base.visible_cores`.

    Raises:
        StatusError: INVALID_ARGUMENT; a variable is not what it should be.
    """
    try:
        return core_count(environment)
    except ValueError as error:
        raise StatusError(Status.INVALID_ARGUMENT, f"[NEFF-DEVICE-COUNT] {error}") from error


@dataclass(slots=True, eq=False)
class Memory:
    """The memory of one device."""

    index: int
    handle: int = 0
    device_list: Any = None


@dataclass(slots=True, eq=False)
class DeviceDescription:
    """The description of a device, which may be unusable."""

    index: int
    kind: str
    handle: int = 0

    @property
    def name(self) -> str:
        """Return the text that frameworks print for it."""
        return f"NeuronDevice(id={self.index})"


@dataclass(slots=True, eq=False)
class Device:
    """One simulated core."""

    index: int
    description: DeviceDescription
    memory: Memory
    handle: int = 0
    memory_list: Any = None


@dataclass(slots=True, eq=False)
class Topology:
    """All devices of the process, with the handle arrays that the framework is given."""

    target: Target
    devices: list[Device] = field(default_factory=list[Device])
    handle: int = 0
    device_list: Any = None
    memory_list: Any = None
    description_list: Any = None

    @classmethod
    def make(cls, handles: HandleTable, target: Target, count: int) -> Topology:
        """``count`` devices of a target, registered with a handle table."""
        add = handles.add
        topology = cls(target)
        for index in range(count):
            description = DeviceDescription(index, f"{target.name} (simulated)")
            device = Device(index, description, Memory(index))
            for handle_owner in (device, description, device.memory):
                handle_owner.handle = add(handle_owner)
            device.memory_list = _pointers([device.memory.handle])
            device.memory.device_list = _pointers([device.handle])
            topology.devices.append(device)
        topology.handle = add(topology)
        topology.device_list = _pointers([handle_owner.handle for handle_owner in topology.devices])
        topology.memory_list = _pointers(
            [handle_owner.memory.handle for handle_owner in topology.devices]
        )
        topology.description_list = _pointers(
            [handle_owner.description.handle for handle_owner in topology.devices]
        )
        return topology

    def device(self, index: int) -> Device:
        """The device with an id.

        Raises:
            StatusError: INVALID_ARGUMENT; there is none.
        """
        if 0 <= index < len(self.devices):
            return self.devices[index]
        raise StatusError(
            Status.INVALID_ARGUMENT,
            f"[NEFF-DEVICE] there is no device {index}, only 0 to {len(self.devices) - 1}\n"
            "  help: NEURON_RT_NUM_CORES sets how many there are",
        )


def _pointers(handles: list[int]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(handles))(*handles)


class DeviceHost(Host, Protocol):
    """The plugin's interface for slots of clients, devices and buffers.

    Attributes:
        topology: devices and memories.
        version: text for people.
        when_connected: called each time a framework makes a client.
        when_read: called each time a value goes to the host.
        no_operation: address of a C function that does nothing, for deleters.
    """

    topology: Topology
    version: str
    when_connected: list[Callable[[], None]]
    when_read: list[Callable[[], None]]
    no_operation: int

    def bytes_in_use(self, device: Device) -> int:
        """Bytes of the live buffers of a device."""
        ...


# ------------------------------------------------------------------------------- devices


@slot
def device_description_id(host: DeviceHost, arguments: Structure) -> None:
    arguments.id = host.handles.get(arguments.description, DeviceDescription).index


@slot
def device_description_process_index(host: DeviceHost, arguments: Structure) -> None:
    arguments.index = 0


@slot
def device_description_attributes(host: DeviceHost, arguments: Structure) -> None:
    arguments.attributes, arguments.num_attributes = None, 0


@slot
def device_description_kind(host: DeviceHost, arguments: Structure) -> None:
    description = host.handles.get(arguments.description, DeviceDescription)
    arguments.text, arguments.text_size = constant(description.kind)


@slot(name="DeviceDescription_DebugString DeviceDescription_ToString")
def device_description_name(host: DeviceHost, arguments: Structure) -> None:
    description = host.handles.get(arguments.description, DeviceDescription)
    arguments.text, arguments.text_size = constant(description.name)


@slot
def device_get_description(host: DeviceHost, arguments: Structure) -> None:
    arguments.description = host.handles.get(arguments.device, Device).description.handle


@slot
def device_is_addressable(host: DeviceHost, arguments: Structure) -> None:
    arguments.is_addressable = True


@slot
def device_local_hardware_id(host: DeviceHost, arguments: Structure) -> None:
    arguments.id = host.handles.get(arguments.device, Device).index


@slot
def device_addressable_memories(host: DeviceHost, arguments: Structure) -> None:
    device = host.handles.get(arguments.device, Device)
    arguments.memories, arguments.num_memories = ctypes.addressof(device.memory_list), 1


@slot
def device_default_memory(host: DeviceHost, arguments: Structure) -> None:
    arguments.memory = host.handles.get(arguments.device, Device).memory.handle


@slot
def device_memory_stats(host: DeviceHost, arguments: Structure) -> None:
    device = host.handles.get(arguments.device, Device)
    for name in fields_of(arguments):
        if name.endswith("_is_set") and has_field(arguments, name):
            setattr(arguments, name, False)  # the caller does not clear its structure
    arguments.bytes_in_use = host.bytes_in_use(device)
    arguments.bytes_limit, arguments.bytes_limit_is_set = host.topology.target.hbm_bytes, True


@slot
def device_get_attributes(host: DeviceHost, arguments: Structure) -> None:
    arguments.attributes, arguments.num_attributes = None, 0
    # A deleter is called with its owner: an address that may be read.
    arguments.owner, arguments.deleter = constant(PLATFORM)[0], host.no_operation


# ------------------------------------------------------------------------------ memories


@slot
def memory_id(host: DeviceHost, arguments: Structure) -> None:
    arguments.id = host.handles.get(arguments.memory, Memory).index


@slot
def memory_kind(host: DeviceHost, arguments: Structure) -> None:
    arguments.text, arguments.text_size = constant(MEMORY_KIND)


@slot
def memory_kind_id(host: DeviceHost, arguments: Structure) -> None:
    arguments.id = 0


@slot(name="Memory_DebugString Memory_ToString")
def memory_name(host: DeviceHost, arguments: Structure) -> None:
    memory = host.handles.get(arguments.memory, Memory)
    arguments.text, arguments.text_size = constant(f"NeuronMemory(id={memory.index})")


@slot
def memory_addressable_by_devices(host: DeviceHost, arguments: Structure) -> None:
    memory = host.handles.get(arguments.memory, Memory)
    arguments.devices, arguments.num_devices = ctypes.addressof(memory.device_list), 1


# ------------------------------------------------------------------------------ topology


@slot
def topology_description_create(host: DeviceHost, arguments: Structure) -> None:
    arguments.topology = host.topology.handle


@slot
def topology_description_deserialize(host: DeviceHost, arguments: Structure) -> None:
    arguments.topology = host.topology.handle


@slot
def topology_description_destroy(host: DeviceHost, arguments: Structure) -> None:
    """The process has one topology; it lives as long as the process."""


@slot
def topology_description_platform_name(host: DeviceHost, arguments: Structure) -> None:
    arguments.text, arguments.text_size = constant(PLATFORM)


@slot
def topology_description_platform_version(host: DeviceHost, arguments: Structure) -> None:
    arguments.text, arguments.text_size = constant(host.version)


@slot
def topology_description_get_device_descriptions(host: DeviceHost, arguments: Structure) -> None:
    arguments.descriptions = ctypes.addressof(host.topology.description_list)
    arguments.num_descriptions = len(host.topology.devices)


@slot
def topology_description_attributes(host: DeviceHost, arguments: Structure) -> None:
    arguments.attributes, arguments.num_attributes = None, 0


@slot
def topology_description_serialize(host: DeviceHost, arguments: Structure) -> None:
    text = f"{PLATFORM} {host.topology.target.name} {len(host.topology.devices)}"
    arguments.bytes, arguments.bytes_size = constant(text)
    arguments.owner, arguments.deleter = constant(PLATFORM)[0], host.no_operation
