"""The client: the one object through which a framework finds devices."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_int, cast

from neff.device.pjrt.c_strings import constant
from neff.device.pjrt.slots import slot
from neff.device.pjrt.status import Status, StatusError
from neff.device.pjrt.topology import PLATFORM, DeviceHost

__all__ = ["Client", "ExecuteContext"]


class Client:
    """A framework's connection; all clients of a process share devices."""


class ExecuteContext:
    """A framework's attachment to an execution; nothing here uses it."""


@slot
def plugin_initialize(host: DeviceHost, arguments: Structure) -> None:
    """Nothing is left to do."""


@slot
def plugin_attributes(host: DeviceHost, arguments: Structure) -> None:
    arguments.attributes, arguments.num_attributes = None, 0


@slot
def client_create(host: DeviceHost, arguments: Structure) -> None:
    arguments.client = host.handles.add(Client())
    for callback in host.when_connected:
        callback()


@slot
def client_destroy(host: DeviceHost, arguments: Structure) -> None:
    host.handles.drop(arguments.client)


@slot
def client_platform_name(host: DeviceHost, arguments: Structure) -> None:
    arguments.text, arguments.text_size = constant(PLATFORM)


@slot
def client_platform_version(host: DeviceHost, arguments: Structure) -> None:
    arguments.text, arguments.text_size = constant(host.version)


@slot
def client_process_index(host: DeviceHost, arguments: Structure) -> None:
    arguments.index = 0


@slot
def client_topology_description(host: DeviceHost, arguments: Structure) -> None:
    arguments.topology = host.topology.handle


@slot(name="Client_Devices Client_AddressableDevices")
def client_devices(host: DeviceHost, arguments: Structure) -> None:
    arguments.devices = ctypes.addressof(host.topology.device_list)
    arguments.num_devices = len(host.topology.devices)


@slot(name="Client_LookupDevice Client_LookupAddressableDevice")
def client_lookup_device(host: DeviceHost, arguments: Structure) -> None:
    arguments.device = host.topology.device(arguments.id).handle


@slot
def client_addressable_memories(host: DeviceHost, arguments: Structure) -> None:
    arguments.memories = ctypes.addressof(host.topology.memory_list)
    arguments.num_memories = len(host.topology.devices)


@slot
def client_default_device_assignment(host: DeviceHost, arguments: Structure) -> None:
    """Replicas and partitions take the devices in their order (replica-major)."""
    device_count = arguments.num_replicas * arguments.num_partitions
    available = len(host.topology.devices)
    if device_count > available:
        raise StatusError(
            Status.INVALID_ARGUMENT,
            f"[NEFF-DEVICE-COUNT] {device_count} devices are needed, there are {available}\n"
            f"  help: set NEURON_RT_NUM_CORES={device_count}",
        )
    out = cast(arguments.out, POINTER(c_int))
    for index in range(device_count):
        out[index] = index


@slot
def client_update_global_process_info(host: DeviceHost, arguments: Structure) -> None:
    """There is one process."""


@slot
def execute_context_create(host: DeviceHost, arguments: Structure) -> None:
    arguments.context = host.handles.add(ExecuteContext())


@slot
def execute_context_destroy(host: DeviceHost, arguments: Structure) -> None:
    host.handles.drop(arguments.context)
