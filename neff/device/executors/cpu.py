"""Programs executed by a private XLA:CPU client, kernels by our own executor.

The client has one CPU device for each simulated core, so that programs over several devices and
their collectives run too. It is never shown to the framework.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from hlo_tools._gc import no_collection
from hlo_tools.frameworks.jax_versions import check_version
from hlo_tools.types.opcodes import OPCODES
from neff.device.pjrt.buffers import Buffer
from neff.device.pjrt.status import Status, StatusError
from neff.device.pjrt.topology import Device
from neff.device.programs import jaxlib_api, message_bytes
from neff.device.programs.high_products import without_mulhi
from neff.device.programs.program import (
    CompileOptions,
    Program,
    TensorSpec,
    opcode_counts,
    signature,
)
from neff.device.programs.python_functions import functions_of
from neff.device.programs.rewrite import to_typed_calls
from nki_lang.base.dtypes import Array

__all__ = ["CpuExecutor", "compiled", "division", "make_client", "refusal"]

_OUTPUT_SHARDING, _PARAMETER_SHARDINGS = 12, 14  # of HloModuleProto


@dataclass(frozen=True, slots=True)
class _Aval:
    """Shape and dtype as jaxlib reads them; unlike JAX's own it keeps 64-bit types."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    weak_type: bool = False


class CpuExecutor:
    """Compiles programs for the private client; finds those that the framework still holds."""

    def __init__(self, device_count: int) -> None:
        self._device_count = device_count
        self._lock = threading.Lock()
        self._client: Any = None
        self._loaded: WeakValueDictionary[Any, CpuProgram] = WeakValueDictionary()

    @property
    def client(self) -> Any:
        """The private client, made when it is first needed."""
        with self._lock:
            if self._client is None:
                self._client = make_client(self._device_count)
            return self._client

    def load(self, program: Program, options: CompileOptions) -> CpuProgram:
        """The program, ready to run; the same program with the same options is compiled once.

        A program for one device runs on the client's first device whichever core it is for: the
        cores are alike, and so it is compiled once for all of them.
        """
        if len(options.device_ids) == 1:
            options = options.alone()
        several = len(options.device_ids) > 1
        key = (program.digest, options.device_ids, options.serialized if several else b"")
        client = self.client
        # One compilation at a time, without a garbage collection: a collection calls XLA, and
        # processes crashed when that happened while two threads compiled.
        with self._lock, no_collection():
            loaded = self._loaded.get(key)
            if loaded is None:
                loaded = self._loaded[key] = CpuProgram(client, program, options)
            return loaded


def _assignment(options: CompileOptions) -> Any:
    ids = np.array(options.device_ids, np.int32)
    return jaxlib_api.private("_jax").DeviceAssignment.create(
        ids.reshape(options.num_replicas, options.num_partitions)
    )


def make_client(device_count: int) -> Any:
    """A client of XLA:CPU with so many devices."""
    import_module("jax")  # sets the log level that jaxlib reads when it starts
    check_version()
    # Synchronous: an error belongs to the call that caused it.
    return jaxlib_api.private("xla_client").make_cpu_client(
        asynchronous=False, num_devices=device_count
    )


def compiled(
    client: Any,
    program: Program,
    options: CompileOptions,
    folder: Path | None = None,
    passed: str = "",
) -> Any:
    """The program, compiled for XLA:CPU.

    Args:
        client: what compiles it, with as many devices as it needs.
        program: kernel calls in the vendor's form.
        options: what the framework asked for.
        folder: where the module is left as it is behind a pass, if anywhere.
        passed: the pass.

    Raises:
        StatusError: the module has no form in StableHLO; other errors are XLA's own.
    """
    xla_client = jaxlib_api.private("xla_client")
    build = xla_client.CompileOptions.ParseFromString(options.serialized)
    build.compile_portable_executable = False
    build.num_replicas, build.num_partitions = options.num_replicas, options.num_partitions
    build.device_assignment = _assignment(options)
    if folder is not None:
        debug = build.executable_build_options.debug_options
        debug.xla_dump_to, debug.xla_dump_hlo_pass_re = str(folder), passed
        debug.xla_dump_hlo_as_proto = True
        debug.xla_backend_optimization_level = 0
    devices = client.devices()
    executed = _executable_form(program)
    try:
        converted = jaxlib_api.private("_jax").mlir.hlo_to_stablehlo(executed)
        chosen = xla_client.DeviceList(tuple(devices[ident] for ident in options.device_ids))
        if functions := functions_of(executed):
            if options.num_partitions == 1:  # nothing to partition by the calls' shardings
                build.executable_build_options.use_shardy_partitioner = False
            mlir = import_module("jax._src.interpreters.mlir")
            with mlir.make_ir_context():
                parsed = mlir.ir.Module.parse(converted)
                return client.compile_and_load(parsed, chosen, build, functions)
        return client.compile_and_load(converted, chosen, build)
    except Exception as error:
        raise refusal(program.name, opcode_counts(program.module), error) from error


def division(executable: Any) -> tuple[list[TensorSpec], bytes]:
    """The results on one device, and the fields that say how they are divided."""
    module = executable.hlo_modules()[0].as_serialized_hlo_module_proto()
    _, _, results = signature(module)
    shardings = b"".join(
        module[field.start : field.end]
        for field in message_bytes.fields(module)
        if field.number in (_OUTPUT_SHARDING, _PARAMETER_SHARDINGS)
    )
    return results, shardings


class CpuProgram:
    """One program loaded in the private client.

    Attributes:
        results: shape and dtype of each result on one device.
        shardings: fields that describe to the framework how partitioning divided the results.
    """

    def __init__(self, client: Any, program: Program, options: CompileOptions) -> None:
        devices = client.devices()
        self._devices = [devices[ident] for ident in options.device_ids]
        self._program = program
        self._executable = compiled(client, program, options)
        self.results: list[TensorSpec] = program.results
        self.shardings = b""
        if options.num_partitions > 1:
            self.results, self.shardings = division(self._executable)
        self._multiple = _multiple_sharding(self._devices) if len(self._devices) > 1 else None

    def run(
        self, arguments: Sequence[Sequence[Buffer]], keep: frozenset[int], devices: Sequence[Device]
    ) -> list[list[Buffer]]:
        """Run on all devices together.

        Args:
            arguments: the buffers of each device.
            keep: arguments that must not be donated.
            devices: where the results belong.

        Returns:
            The results of each device.
        """
        protected = keep & self._program.donated
        rows = [
            [
                self._resident(buffer, location, index in protected)
                for index, buffer in enumerate(row)
            ]
            for row, location in zip(arguments, self._devices, strict=True)
        ]
        if self._multiple is None:
            operands = rows[0]
        else:
            operands = [self._joined(shards) for shards in zip(*rows, strict=True)]
        outputs = self._executable.execute_sharded(operands)
        shards = outputs.disassemble_into_single_device_arrays()
        return [
            [
                Buffer(device, shape, dtype, resident=shards[number][index])
                for number, (shape, dtype) in enumerate(self.results)
            ]
            for index, device in enumerate(devices)
        ]

    def _resident(self, buffer: Buffer, location: Any, copied: bool) -> Any:
        """The buffer's values in the private client, on one of its devices."""
        buffer.check()
        resident = buffer.resident
        if copied or resident is None or resident.device != location:
            values = np.array(buffer.array()) if copied else buffer.array()
            resident = _put(values, location)
            if not copied:
                buffer.resident = resident
        return resident

    def _joined(self, shards: Sequence[Any]) -> Any:
        first = shards[0]
        aval = _Aval(first.shape, np.dtype(first.dtype))
        return jaxlib_api.private("xla_client").ArrayImpl(
            aval, self._multiple, list(shards), committed=True, _skip_checks=True
        )


def refusal(name: str, opcodes: Iterable[str], error: Exception) -> Exception:
    """The error of a module that XLA:CPU's client does not take; another fault stays as it is."""
    if "mhlo.unknown" not in str(error):
        return error
    strange = sorted(set(opcodes) - OPCODES.keys())
    named = ", ".join(map(repr, strange)) or "one of its opcodes"
    return StatusError(
        Status.UNIMPLEMENTED,
        f"[NEFF-DEVICE-OPCODE] program {name!r} cannot be executed: {named} has no form in"
        " StableHLO, which XLA:CPU is given\n  help: write it with operations that have one",
    )


def _executable_form(program: Program) -> bytes:
    """The module with its kernel calls and high products as XLA:CPU can execute them."""
    module = without_mulhi(program.module)
    if not program.kernels:
        return module
    from hlo_tools.frameworks import xla_ffi

    xla_ffi.register()
    return to_typed_calls(module, xla_ffi.typed_config)


def _put(values: Array, location: Any) -> Any:
    return jaxlib_api.put(_Aval(values.shape, values.dtype), values, location)


def _multiple_sharding(devices: Sequence[Any]) -> Any:
    """Any sharding over these devices will do: execution reads the single arrays only."""
    import jax

    mesh = jax.sharding.Mesh(np.array(devices, dtype=object), ("device",))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
