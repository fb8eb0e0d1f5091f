"""The client: the one object through which a framework finds devices."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_int, cast
from typing import TYPE_CHECKING, Any

from neff.device.errors import Status, StatusError
from neff.device.slots import slot
from neff.device.text import constant
from neff.device.topology import PLATFORM

if TYPE_CHECKING:
    from neff.device.plugin import Plugin

__all__ = ["Client", "ExecuteContext"]


class Client:
    """A framework's connection; all clients of a process share devices."""


class ExecuteContext:
    """What a framework may attach to an execution; nothing here uses one."""


@slot
def plugin_initialize(plugin: Plugin, arguments: Any) -> None:
    """Nothing is left to do."""


@slot
def plugin_attributes(plugin: Plugin, arguments: Any) -> None:
    arguments.attributes, arguments.num_attributes = None, 0


@slot
def client_create(plugin: Plugin, arguments: Any) -> None:
    arguments.client = plugin.handles.add(Client())
    for callback in plugin.when_connected:
        callback()


@slot
def client_destroy(plugin: Plugin, arguments: Any) -> None:
    plugin.handles.drop(arguments.client)


@slot
def client_platform_name(plugin: Plugin, arguments: Any) -> None:
    arguments.text, arguments.text_size = constant(PLATFORM)


@slot
def client_platform_version(plugin: Plugin, arguments: Any) -> None:
    arguments.text, arguments.text_size = constant(plugin.version)


@slot
def client_process_index(plugin: Plugin, arguments: Any) -> None:
    arguments.index = 0


@slot
def client_topology_description(plugin: Plugin, arguments: Any) -> None:
    arguments.topology = plugin.topology.handle


@slot(name="Client_Devices Client_AddressableDevices")
def client_devices(plugin: Plugin, arguments: Any) -> None:
    arguments.devices = ctypes.addressof(plugin.topology.device_list)
    arguments.num_devices = len(plugin.topology.devices)


@slot(name="Client_LookupDevice Client_LookupAddressableDevice")
def client_lookup_device(plugin: Plugin, arguments: Any) -> None:
    arguments.device = plugin.topology.device(arguments.id).handle


@slot
def client_addressable_memories(plugin: Plugin, arguments: Any) -> None:
    arguments.memories = ctypes.addressof(plugin.topology.memory_list)
    arguments.num_memories = len(plugin.topology.devices)


@slot
def client_default_device_assignment(plugin: Plugin, arguments: Any) -> None:
    """Replicas and partitions take the devices in their order (replica-major)."""
    wanted = arguments.num_replicas * arguments.num_partitions
    available = len(plugin.topology.devices)
    if wanted > available:
        raise StatusError(
            Status.INVALID_ARGUMENT,
            f"[NEFF-DEVICE-COUNT] {wanted} devices are needed, there are {available}\n"
            f"  help: set NEURON_RT_NUM_CORES={wanted}",
        )
    out = cast(arguments.out, POINTER(c_int))
    for index in range(wanted):
        out[index] = index


@slot
def client_update_global_process_info(plugin: Plugin, arguments: Any) -> None:
    """There is one process."""


@slot
def execute_context_create(plugin: Plugin, arguments: Any) -> None:
    arguments.context = plugin.handles.add(ExecuteContext())


@slot
def execute_context_destroy(plugin: Plugin, arguments: Any) -> None:
    plugin.handles.drop(arguments.context)
