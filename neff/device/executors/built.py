"""Programs executed as NEFFs: each is compiled, written, read back and run."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from weakref import WeakValueDictionary

import numpy as np

from hlo_tools.ir.loading import load as load_module
from neff.compiler import compile as compile_module
from neff.container import read, write
from neff.device.executors.kept import action_of, store_of
from neff.device.executors.profiled import ProfiledModel, watched
from neff.device.pjrt.buffers import Buffer
from neff.device.pjrt.topology import Device
from neff.device.programs.program import CompileOptions, Program, TensorSpec
from neff.errors import NeffFileError
from neff.options import CompileOptions as BuildOptions
from neff.program import Program as BuiltProgram
from neff.runtime import LoadedModel
from neff.runtime import load as load_model
from nki_lang.base.dtypes import Array

__all__ = [
    "NeffExecutor",
    "NeffProgram",
    "build_and_load",
    "build_file",
    "in_bytes",
    "result_buffers",
]

_OF_NUMPY = frozenset("fiub")
"""Kinds of NumPy's own types; those of other packages are ``V``."""
_BYTES = {"int2": np.int8, "int4": np.int8, "uint2": np.uint8, "uint4": np.uint8}


class NeffExecutor:
    """Builds programs; finds those that the framework still holds.

    Args:
        target: family to build for.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._built: WeakValueDictionary[str, NeffProgram] = WeakValueDictionary()

    def load(self, program: Program, options: CompileOptions) -> NeffProgram:
        """The program, for one device, as a loaded NEFF.

        Raises:
            NeffCompileError: the graph compiler does not cover it.
            HloError: a kernel file is missing or damaged.
        """
        with self._lock:
            cached = self._built.get(program.digest)
            if cached is not None:
                return cached
        loaded = NeffProgram(program, self._target)
        with self._lock:
            self._built[program.digest] = loaded
        return loaded


def build_file(
    module: bytes, target: str, path: Path, options: BuildOptions | None = None
) -> BuiltProgram:
    """A module compiled and written to ``path``, or fetched from the store; read back from there.

    Raises:
        NeffCompileError: the graph compiler does not cover it.
        NeffError: ``NEFF-WRITE``; the file cannot be written.
    """
    loaded = load_module(module)
    store = store_of()
    if store is None:
        write(compile_module(loaded, target=target, options=options), path)
        return read(path)
    action = action_of(module, loaded, target, options)
    files = store.get(action) or {}
    if _NEFF in files:
        path.write_bytes(files[_NEFF])
        with contextlib.suppress(NeffFileError):  # of another kind: built again
            return read(path)
    write(compile_module(loaded, target=target, options=options), path)
    store.put(action, {_NEFF: path.read_bytes()})
    return read(path)


_NEFF: Final = "module.neff"


def build_and_load(
    module: bytes, target: str, options: BuildOptions | None = None
) -> tuple[LoadedModel | ProfiledModel, list[str], list[str]]:
    """A module compiled, written, read back and loaded; names of its inputs and outputs.

    Raises:
        NeffCompileError: the graph compiler does not cover it.
    """
    with TemporaryDirectory(prefix="nki-hlo-") as folder:
        path = Path(folder) / "program.neff"
        built = build_file(module, target, path, options)
        model = watched(load_model(built), path)
    return model, list(built.inputs), list(built.outputs)


class NeffProgram:
    """One program as a loaded NEFF; the same interface as that of the CPU executor's programs."""

    shardings = b""

    def __init__(self, program: Program, target: str) -> None:
        alone = BuildOptions(replicas=1, partitions=1) if program.reads_only_its_number else None
        self._model, self._inputs, self._outputs = build_and_load(program.module, target, alone)
        self.results: list[TensorSpec] = program.results

    def run(
        self, arguments: Sequence[Sequence[Buffer]], keep: frozenset[int], devices: Sequence[Device]
    ) -> list[list[Buffer]]:
        """Run for each device by itself; see :meth:`neff.device.executors.cpu.CpuProgram.run`."""
        return [self._run(row, device) for row, device in zip(arguments, devices, strict=True)]

    def _run(self, row: Sequence[Buffer], device: Device) -> list[Buffer]:
        arrays = [in_bytes(buffer.array()) for buffer in row]
        results = self._model.run(dict(zip(self._inputs, arrays, strict=True)))
        return result_buffers(results, self._outputs, self.results, arrays, device)


def in_bytes(array: Array) -> Array:
    """An input as a NEFF takes it: integers of 2 and 4 bits as bytes."""
    if array.dtype.kind in _OF_NUMPY:  # whose names take longer to make than the rest of this
        return array
    return array.astype(_BYTES[array.dtype.name]) if array.dtype.name in _BYTES else array


def result_buffers(
    values: Mapping[str, Array],
    names: Sequence[str],
    specs: Sequence[TensorSpec],
    arguments: Sequence[Array],
    device: Device,
) -> list[Buffer]:
    """The results of a run on a device, by ``names`` in their order."""
    buffers: list[Buffer] = []
    for name, (shape, dtype) in zip(names, specs, strict=True):
        value = values[name]
        # A result may be an argument's own memory, which the framework may reuse.
        if any(np.may_share_memory(value, array) for array in arguments):
            value = value.copy()
        buffers.append(Buffer(device, shape, dtype, host=value.astype(dtype, copy=False)))
    return buffers
