"""Devices and their memories: as many simulated cores as the environment asks for."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hlo_tools.frameworks.visible_cores import core_count
from neff.device.abi import knows
from neff.device.errors import Status, StatusError
from neff.device.slots import slot
from neff.device.text import constant
from nki_lang.targets import Target

if TYPE_CHECKING:
    from neff.device.plugin import Plugin

__all__ = [
    "PLATFORM",
    "Device",
    "DeviceDescription",
    "Memory",
    "Topology",
    "device_count",
]

PLATFORM: Final = "neuron"
MEMORY_KIND: Final = "device"


def device_count(environment: Mapping[str, str] = os.environ) -> int:
    """How many devices there are: as many as cores, see :mod:`hlo_tools.frameworks.visible_cores`.

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
    """What a device is, apart from being usable."""

    index: int
    kind: str
    handle: int = 0

    @property
    def name(self) -> str:
        """What frameworks print for it."""
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
    devices: list[Device] = field(default_factory=list)
    handle: int = 0
    device_list: Any = None
    memory_list: Any = None
    description_list: Any = None

    @classmethod
    def make(cls, plugin: Plugin, target: Target, count: int) -> Topology:
        """``count`` devices of a target, registered with the plugin's handle table."""
        add = plugin.handles.add
        topology = cls(target)
        for index in range(count):
            description = DeviceDescription(index, f"{target.name} (simulated)")
            device = Device(index, description, Memory(index))
            for each in (device, description, device.memory):
                each.handle = add(each)
            device.memory_list = _pointers([device.memory.handle])
            device.memory.device_list = _pointers([device.handle])
            topology.devices.append(device)
        topology.handle = add(topology)
        topology.device_list = _pointers([each.handle for each in topology.devices])
        topology.memory_list = _pointers([each.memory.handle for each in topology.devices])
        topology.description_list = _pointers(
            [each.description.handle for each in topology.devices]
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


# ------------------------------------------------------------------------------- devices


@slot
def device_description_id(plugin: Plugin, arguments: Any) -> None:
    arguments.id = plugin.handles.get(arguments.description, DeviceDescription).index


@slot
def device_description_process_index(plugin: Plugin, arguments: Any) -> None:
    arguments.index = 0


@slot
def device_description_attributes(plugin: Plugin, arguments: Any) -> None:
    arguments.attributes, arguments.num_attributes = None, 0


@slot
def device_description_kind(plugin: Plugin, arguments: Any) -> None:
    description = plugin.handles.get(arguments.description, DeviceDescription)
    arguments.text, arguments.text_size = constant(description.kind)


@slot(name="DeviceDescription_DebugString DeviceDescription_ToString")
def device_description_name(plugin: Plugin, arguments: Any) -> None:
    description = plugin.handles.get(arguments.description, DeviceDescription)
    arguments.text, arguments.text_size = constant(description.name)


@slot
def device_get_description(plugin: Plugin, arguments: Any) -> None:
    arguments.description = plugin.handles.get(arguments.device, Device).description.handle


@slot
def device_is_addressable(plugin: Plugin, arguments: Any) -> None:
    arguments.is_addressable = True


@slot
def device_local_hardware_id(plugin: Plugin, arguments: Any) -> None:
    arguments.id = plugin.handles.get(arguments.device, Device).index


@slot
def device_addressable_memories(plugin: Plugin, arguments: Any) -> None:
    device = plugin.handles.get(arguments.device, Device)
    arguments.memories, arguments.num_memories = ctypes.addressof(device.memory_list), 1


@slot
def device_default_memory(plugin: Plugin, arguments: Any) -> None:
    arguments.memory = plugin.handles.get(arguments.device, Device).memory.handle


@slot
def device_memory_stats(plugin: Plugin, arguments: Any) -> None:
    device = plugin.handles.get(arguments.device, Device)
    for name, _ in type(arguments)._fields_:
        if name.endswith("_is_set") and knows(arguments, name):
            setattr(arguments, name, False)  # the caller does not clear its structure
    arguments.bytes_in_use = plugin.bytes_in_use(device)
    arguments.bytes_limit, arguments.bytes_limit_is_set = plugin.topology.target.hbm_bytes, True


@slot
def device_get_attributes(plugin: Plugin, arguments: Any) -> None:
    arguments.attributes, arguments.num_attributes = None, 0
    # A deleter is called with its owner: an address that may be read.
    arguments.owner, arguments.deleter = constant(PLATFORM)[0], plugin.no_operation


# ------------------------------------------------------------------------------ memories


@slot
def memory_id(plugin: Plugin, arguments: Any) -> None:
    arguments.id = plugin.handles.get(arguments.memory, Memory).index


@slot
def memory_kind(plugin: Plugin, arguments: Any) -> None:
    arguments.text, arguments.text_size = constant(MEMORY_KIND)


@slot
def memory_kind_id(plugin: Plugin, arguments: Any) -> None:
    arguments.id = 0


@slot(name="Memory_DebugString Memory_ToString")
def memory_name(plugin: Plugin, arguments: Any) -> None:
    memory = plugin.handles.get(arguments.memory, Memory)
    arguments.text, arguments.text_size = constant(f"NeuronMemory(id={memory.index})")


@slot
def memory_addressable_by_devices(plugin: Plugin, arguments: Any) -> None:
    memory = plugin.handles.get(arguments.memory, Memory)
    arguments.devices, arguments.num_devices = ctypes.addressof(memory.device_list), 1


# ------------------------------------------------------------------------------ topology


@slot
def topology_description_create(plugin: Plugin, arguments: Any) -> None:
    arguments.topology = plugin.topology.handle


@slot
def topology_description_deserialize(plugin: Plugin, arguments: Any) -> None:
    arguments.topology = plugin.topology.handle


@slot
def topology_description_destroy(plugin: Plugin, arguments: Any) -> None:
    """The process has one topology; it lives as long as the process."""


@slot
def topology_description_platform_name(plugin: Plugin, arguments: Any) -> None:
    arguments.text, arguments.text_size = constant(PLATFORM)


@slot
def topology_description_platform_version(plugin: Plugin, arguments: Any) -> None:
    arguments.text, arguments.text_size = constant(plugin.version)


@slot
def topology_description_get_device_descriptions(plugin: Plugin, arguments: Any) -> None:
    arguments.descriptions = ctypes.addressof(plugin.topology.description_list)
    arguments.num_descriptions = len(plugin.topology.devices)


@slot
def topology_description_attributes(plugin: Plugin, arguments: Any) -> None:
    arguments.attributes, arguments.num_attributes = None, 0


@slot
def topology_description_serialize(plugin: Plugin, arguments: Any) -> None:
    text = f"{PLATFORM} {plugin.topology.target.name} {len(plugin.topology.devices)}"
    arguments.bytes, arguments.bytes_size = constant(text)
    arguments.owner, arguments.deleter = constant(PLATFORM)[0], plugin.no_operation
