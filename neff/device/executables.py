"""Compiled programs: making them and describing them."""

from __future__ import annotations

import ctypes
import math
from ctypes import Structure, c_int, c_int64, c_size_t, c_void_p
from typing import Protocol

from hlo_tools.errors import HloError
from neff.device.executors.executor import LoadedProgram
from neff.device.executors.rendezvous import Rendezvous
from neff.device.pjrt import abi
from neff.device.pjrt.c_strings import constant, data_at, text_at
from neff.device.pjrt.slots import slot
from neff.device.pjrt.status import Status, StatusError
from neff.device.pjrt.topology import MEMORY_KIND, Device, DeviceHost
from neff.device.programs import capture, message_bytes
from neff.device.programs.passes import transformed
from neff.device.programs.program import (
    CompileOptions,
    Program,
    TensorSpec,
    as_hlo,
    with_assignment,
)

__all__ = ["Executable", "LoadedExecutable", "ProgramHost"]


class Executable:
    """A compiled program; its descriptions live as long as it does."""

    def __init__(
        self, program: Program, options: CompileOptions, loaded: LoadedProgram | None
    ) -> None:
        self.program = program
        self.options = options
        self.loaded = loaded
        self.results: list[TensorSpec] = loaded.results if loaded else program.results
        self.name = _text(program.name)
        self.fingerprint = _text(program.digest)
        count = max(1, len(self.results))
        extents = [extent for shape, _ in self.results for extent in shape]
        self.types = (c_int * count)(*(abi.buffer_type_of(dtype) for _, dtype in self.results))
        self.extents = (c_int64 * max(1, len(extents)))(*extents)
        self.ranks = (c_size_t * count)(*(len(shape) for shape, _ in self.results))
        address, size = constant(MEMORY_KIND)
        self.kinds = (c_void_p * count)(*[address] * count)
        self.kind_sizes = (c_size_t * count)(*[size] * count)
        self._printed: bytes | None = None

    @property
    def printed(self) -> bytes:
        """The module as frameworks print it: the vendor's form with its configuration."""
        if self._printed is None:
            shardings = self.loaded.shardings if self.loaded else b""
            self._printed = self.program.with_config(self.options, shardings)
        return self._printed


class LoadedExecutable:
    """A program that can run, and the devices that it runs on."""

    def __init__(self, executable: Executable, devices: list[Device]) -> None:
        self.executable = executable
        self.devices = devices
        self.deleted = False
        handles = [device.handle for device in devices]
        self.device_list = (c_void_p * len(handles))(*handles)


class Serialized:
    """Bytes that the framework reads until it calls the deleter."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self.buffer = ctypes.create_string_buffer(data, max(1, len(data)))


class ProgramHost(DeviceHost, Protocol):
    """The plugin's interface for slots that make and launch programs.

    Attributes:
        extract_only: programs are captured and not run.
        errors_belong_to_results: a program that fails leaves its error in its results, where
            whoever uses them finds it; otherwise the launch itself fails.
        rendezvous: where devices meet that run one program together.
        drop_function: address of a deleter that forgets the handle that it is given.
    """

    extract_only: bool
    errors_belong_to_results: bool
    rendezvous: Rendezvous
    drop_function: int

    def is_independent(self, program: Program, options: CompileOptions) -> bool:
        """Return whether every device runs the program without the others."""
        ...

    def load(self, program: Program, options: CompileOptions) -> LoadedProgram | None:
        """The program ready to run, or None when nothing is to be run."""
        ...


def _text(value: str) -> tuple[ctypes.Array[ctypes.c_char], int]:
    encoded = value.encode()
    return ctypes.create_string_buffer(encoded), len(encoded)


# ------------------------------------------------------------------------------ compiling


def _compile(host: ProgramHost, code: bytes, text_format: str, serialized: bytes) -> Executable:
    program = Program(transformed(as_hlo(text_format, code)))
    options = CompileOptions.parse(serialized)
    for device in options.device_ids:
        host.topology.device(device)
    if capture.wanted():
        capture.notify(
            capture.Captured(
                program.name,
                _of_one_device(program, options),
                options.num_replicas,
                options.num_partitions,
                host.topology.target.name,
            )
        )
    return Executable(program, options, host.load(program, options))


def _of_one_device(program: Program, options: CompileOptions) -> bytes:
    """The module that each device runs; one for several states how many."""
    if len(options.device_ids) == 1:
        return program.module
    from neff.device.executors.partitioning import the_partitioner

    module = the_partitioner().divide(program, options).module
    return with_assignment(module, options.numbered().assignment)


def _from_program(host: ProgramHost, arguments: Structure) -> Executable:
    program = abi.Program.from_address(arguments.program)
    return _compile(
        host,
        data_at(program.code, program.code_size),
        text_at(program.format, program.format_size),
        data_at(arguments.options, arguments.options_size),
    )


def _loaded(host: ProgramHost, executable: Executable) -> LoadedExecutable:
    devices = [host.topology.device(ident) for ident in executable.options.device_ids]
    return LoadedExecutable(executable, devices)


@slot
def client_compile(host: ProgramHost, arguments: Structure) -> None:
    executable = _from_program(host, arguments)
    arguments.executable = host.handles.add(_loaded(host, executable))


@slot(name="Compile")
def compile_ahead(host: ProgramHost, arguments: Structure) -> None:
    arguments.executable = host.handles.add(_from_program(host, arguments))


# A serialized executable: the module and the options it was compiled with.
_SERIAL_MODULE, _SERIAL_OPTIONS = 1, 2


def _hand_out(host: ProgramHost, arguments: Structure, data: bytes) -> None:
    serialized = Serialized(data)
    arguments.bytes, arguments.bytes_size = ctypes.addressof(serialized.buffer), serialized.size
    arguments.owner, arguments.deleter = host.handles.add(serialized), host.drop_function


@slot
def executable_serialize(host: ProgramHost, arguments: Structure) -> None:
    executable = host.handles.get(arguments.executable, Executable)
    module = message_bytes.bytes_field(_SERIAL_MODULE, executable.program.module)
    options = message_bytes.bytes_field(_SERIAL_OPTIONS, executable.options.serialized)
    _hand_out(host, arguments, module + options)


@slot
def executable_get_compile_options(host: ProgramHost, arguments: Structure) -> None:
    executable = host.handles.get(arguments.executable, Executable)
    _hand_out(host, arguments, executable.options.serialized)


@slot
def executable_deserialize_and_load(host: ProgramHost, arguments: Structure) -> None:
    parts: dict[int, bytes] = {}
    try:
        for field in message_bytes.fields(data_at(arguments.bytes, arguments.bytes_size)):
            if isinstance(field.value, bytes):
                parts[field.number] = field.value
        module, options = parts[_SERIAL_MODULE], parts[_SERIAL_OPTIONS]
    except (HloError, LookupError) as error:
        raise StatusError(
            Status.DATA_LOSS, f"[NEFF-DEVICE-SERIALIZED] not a serialized executable: {error}"
        ) from error
    if abi.has_field(arguments, "options_size") and arguments.options:
        options = data_at(arguments.options, arguments.options_size)
    executable = _compile(host, module, "hlo", options)
    arguments.executable = host.handles.add(_loaded(host, executable))


# ----------------------------------------------------------------------------- describing


@slot(name="Executable_Destroy LoadedExecutable_Destroy")
def executable_destroy(host: ProgramHost, arguments: Structure) -> None:
    host.handles.drop(arguments.executable)


@slot
def loaded_executable_get_executable(host: ProgramHost, arguments: Structure) -> None:
    loaded = host.handles.get(arguments.loaded, LoadedExecutable)
    arguments.executable = host.handles.add(loaded.executable)


@slot
def executable_name(host: ProgramHost, arguments: Structure) -> None:
    buffer, size = host.handles.get(arguments.executable, Executable).name
    arguments.text, arguments.text_size = ctypes.addressof(buffer), size


@slot
def executable_fingerprint(host: ProgramHost, arguments: Structure) -> None:
    buffer, size = host.handles.get(arguments.executable, Executable).fingerprint
    arguments.text, arguments.text_size = ctypes.addressof(buffer), size


@slot
def loaded_executable_fingerprint(host: ProgramHost, arguments: Structure) -> None:
    loaded = host.handles.get(arguments.executable, LoadedExecutable)
    buffer, size = loaded.executable.fingerprint
    arguments.text, arguments.text_size = ctypes.addressof(buffer), size


@slot
def executable_num_replicas(host: ProgramHost, arguments: Structure) -> None:
    executable = host.handles.get(arguments.executable, Executable)
    arguments.count = executable.options.num_replicas


@slot
def executable_num_partitions(host: ProgramHost, arguments: Structure) -> None:
    executable = host.handles.get(arguments.executable, Executable)
    arguments.count = executable.options.num_partitions


@slot
def executable_num_outputs(host: ProgramHost, arguments: Structure) -> None:
    arguments.count = len(host.handles.get(arguments.executable, Executable).results)


@slot
def executable_size_of_generated_code_in_bytes(host: ProgramHost, arguments: Structure) -> None:
    arguments.size = len(host.handles.get(arguments.executable, Executable).program.module)


@slot
def executable_get_cost_analysis(host: ProgramHost, arguments: Structure) -> None:
    arguments.properties, arguments.num_properties = None, 0


@slot
def executable_output_memory_kinds(host: ProgramHost, arguments: Structure) -> None:
    executable = host.handles.get(arguments.executable, Executable)
    arguments.num_outputs = len(executable.results)
    arguments.kinds = ctypes.addressof(executable.kinds)
    arguments.kind_sizes = ctypes.addressof(executable.kind_sizes)


@slot
def executable_output_element_types(host: ProgramHost, arguments: Structure) -> None:
    executable = host.handles.get(arguments.executable, Executable)
    arguments.types = ctypes.addressof(executable.types)
    arguments.num_types = len(executable.results)


@slot
def executable_output_dimensions(host: ProgramHost, arguments: Structure) -> None:
    executable = host.handles.get(arguments.executable, Executable)
    arguments.num_outputs = len(executable.results)
    arguments.dims = ctypes.addressof(executable.extents)
    arguments.ranks = ctypes.addressof(executable.ranks)


@slot
def executable_get_compiled_memory_stats(host: ProgramHost, arguments: Structure) -> None:
    executable = host.handles.get(arguments.executable, Executable)
    inputs, outputs = _nbytes(executable.program.parameters), _nbytes(executable.results)
    stats = {"generated_code": len(executable.program.module), "arguments": inputs}
    stats |= {"outputs": outputs, "peak": inputs + outputs, "total": inputs + outputs}
    for name in abi.fields_of(arguments)[3:]:
        if abi.has_field(arguments, name):
            setattr(arguments, name, stats.get(name, 0))


def _nbytes(specs: list[TensorSpec]) -> int:
    return sum(math.prod(shape) * dtype.itemsize for shape, dtype in specs)


@slot
def executable_optimized_program(host: ProgramHost, arguments: Structure) -> None:
    printed = host.handles.get(arguments.executable, Executable).printed
    program = abi.Program.from_address(arguments.program)
    if not program.code:
        program.code_size = len(printed)
    elif program.code_size < len(printed):
        raise StatusError(
            Status.INVALID_ARGUMENT,
            f"[NEFF-DEVICE-SIZE] {len(printed)} bytes do not fit in {program.code_size}",
        )
    else:
        ctypes.memmove(program.code, printed, len(printed))
    program.format, program.format_size = constant("hlo_with_config")


@slot
def loaded_executable_addressable_devices(host: ProgramHost, arguments: Structure) -> None:
    loaded = host.handles.get(arguments.executable, LoadedExecutable)
    arguments.devices = ctypes.addressof(loaded.device_list)
    arguments.num_devices = len(loaded.devices)


@slot
def loaded_executable_get_device_assignment(host: ProgramHost, arguments: Structure) -> None:
    loaded = host.handles.get(arguments.executable, LoadedExecutable)
    _hand_out(host, arguments, loaded.executable.options.assignment)


@slot
def loaded_executable_delete(host: ProgramHost, arguments: Structure) -> None:
    host.handles.get(arguments.executable, LoadedExecutable).deleted = True


@slot
def loaded_executable_is_deleted(host: ProgramHost, arguments: Structure) -> None:
    loaded = host.handles.get(arguments.executable, LoadedExecutable)
    arguments.is_deleted = loaded.deleted
