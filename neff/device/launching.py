"""Programs launched: arguments in, results out, failures where the framework looks for them."""

from __future__ import annotations

from ctypes import POINTER, Structure, c_void_p, cast

import numpy as np

from neff.device.activation import note_zeros
from neff.device.executables import Executable, LoadedExecutable, ProgramHost
from neff.device.executors.executor import LoadedProgram
from neff.device.pjrt import abi
from neff.device.pjrt.buffers import Buffer, integers_at
from neff.device.pjrt.errors import status_of
from neff.device.pjrt.events import Event
from neff.device.pjrt.slots import slot
from neff.device.pjrt.status import Status, StatusError
from neff.device.pjrt.topology import Device

__all__ = ["loaded_executable_execute"]


@slot
def loaded_executable_execute(host: ProgramHost, arguments: Structure) -> None:
    loaded = host.handles.get(arguments.executable, LoadedExecutable)
    if loaded.deleted:
        raise StatusError(
            Status.INVALID_ARGUMENT,
            "[NEFF-DEVICE-DELETED] the program was deleted\n  help: compile it again",
        )
    devices = _devices_of_launch(host, loaded, arguments)
    rows = _argument_rows(host, arguments)
    keep = _not_donatable(arguments.options)
    failure: tuple[int, str] | None = None
    try:
        results = _run(host, loaded, rows, keep, devices)
        for index in loaded.executable.program.donated - keep:
            for row in rows:
                row[index].delete()
    except Exception as error:
        if not (host.errors_belong_to_results and loaded.executable.results):
            raise
        failure = status_of(error)
        results = [_failed(loaded.executable, device, failure) for device in devices]
    outputs = cast(arguments.output_lists, POINTER(POINTER(c_void_p)))
    for position, row in enumerate(results):
        for number, buffer in enumerate(row):
            outputs[position][number] = host.handles.add(buffer)
    if arguments.device_complete_events:
        events = cast(arguments.device_complete_events, POINTER(c_void_p))
        for position in range(arguments.num_devices):
            events[position] = host.handles.add(Event(error=failure))


def _devices_of_launch(
    host: ProgramHost, loaded: LoadedExecutable, arguments: Structure
) -> list[Device]:
    if not arguments.execute_device:
        return loaded.devices
    return [host.handles.get(arguments.execute_device, Device)]


def _argument_rows(host: ProgramHost, arguments: Structure) -> list[list[Buffer]]:
    if not arguments.num_args:
        return [[] for _ in range(arguments.num_devices)]
    lists = cast(arguments.argument_lists, POINTER(POINTER(c_void_p)))
    get = host.handles.get
    return [
        [get(handle, Buffer) for handle in lists[position][: arguments.num_args]]
        for position in range(arguments.num_devices)
    ]


def _not_donatable(address: int | None) -> frozenset[int]:
    if not address:
        return frozenset()
    options = abi.ExecuteOptions.from_address(address)
    if not abi.has_field(options, "num_non_donatable_input_indices"):
        return frozenset()
    return frozenset(
        integers_at(options.non_donatable_input_indices, options.num_non_donatable_input_indices)
    )


def _run(
    host: ProgramHost,
    loaded: LoadedExecutable,
    rows: list[list[Buffer]],
    keep: frozenset[int],
    devices: list[Device],
) -> list[list[Buffer]]:
    """Run on these devices: all that the program is for, or one of them by itself."""
    for row in rows:
        for buffer in row:
            buffer.check()
    executable = loaded.executable
    runnable = executable.loaded
    if runnable is None or host.extract_only:
        note_zeros()
        return [_zeros(executable, device) for device in devices]
    if host.is_independent(executable.program, executable.options):
        pairs = zip(rows, devices, strict=True)
        return [runnable.run([row], keep, [device])[0] for row, device in pairs]
    if len(devices) == len(loaded.devices):
        return runnable.run(rows, keep, devices)
    if len(devices) != 1 or devices[0] not in loaded.devices:
        raise StatusError(
            Status.INVALID_ARGUMENT,
            f"[NEFF-DEVICE-LAUNCH] a program for {len(loaded.devices)} devices was launched on "
            f"{len(devices)} others",
        )
    return [_run_with_others(host, loaded, runnable, rows[0], keep, devices[0])]


def _failed(executable: Executable, device: Device, error: tuple[int, str]) -> list[Buffer]:
    return [Buffer(device, shape, dtype, error=error) for shape, dtype in executable.results]


def _zeros(executable: Executable, device: Device) -> list[Buffer]:
    return [
        Buffer(device, shape, dtype, host=np.zeros(shape, dtype))
        for shape, dtype in executable.results
    ]


def _run_with_others(
    host: ProgramHost,
    loaded: LoadedExecutable,
    runnable: LoadedProgram,
    row: list[Buffer],
    keep: frozenset[int],
    device: Device,
) -> list[Buffer]:
    """One device's part of a program in which devices communicate."""
    executable = loaded.executable
    digest = executable.program.digest

    def work(parts: list[tuple[str, list[Buffer]]]) -> list[list[Buffer]]:
        if {peer_digest for peer_digest, _ in parts} != {digest}:
            raise StatusError(
                Status.UNIMPLEMENTED,
                "[NEFF-DEVICE-REPLICAS] the replicas launched different programs that communicate; "
                "the simulated device runs one program on all of them\n"
                "  help: let what differs between replicas be data (tensor.to(device)), not "
                "constants of the program",
            )
        return runnable.run([row for _, row in parts], keep, loaded.devices)

    location, size = loaded.devices.index(device), len(loaded.devices)
    return host.rendezvous.meet(executable.options.device_ids, location, size, (digest, row), work)
