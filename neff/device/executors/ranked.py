"""Programs that several devices run together, as one NEFF that each of them loads."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from weakref import WeakValueDictionary

from neff.device.executors.built import (
    NeffExecutor,
    NeffProgram,
    build_file,
    in_bytes,
    result_buffers,
)
from neff.device.executors.partitioning import the_partitioner
from neff.device.executors.profiled import watched_ranks
from neff.device.pjrt.buffers import Buffer
from neff.device.pjrt.topology import Device
from neff.device.programs.program import CompileOptions, Program, TensorSpec
from neff.options import CompileOptions as BuildOptions
from neff.runtime.ranks import LoadedRanks

__all__ = ["RankedExecutor", "RankedProgram"]


class RankedExecutor:
    """Builds programs, for one device or several; finds those that the framework still holds.

    Args:
        target: family to build for.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._single = NeffExecutor(target)
        self._lock = threading.Lock()
        self._built: WeakValueDictionary[str, RankedProgram] = WeakValueDictionary()

    def load(self, program: Program, options: CompileOptions) -> NeffProgram | RankedProgram:
        """The program as a loaded NEFF.

        Raises:
            NeffCompileError: the graph compiler does not cover it.
            HloError: a kernel file is missing or damaged.
        """
        if len(options.device_ids) == 1:
            return self._single.load(program, options)
        count = options.num_replicas, options.num_partitions
        key = f"{program.digest} {count} {hashlib.sha256(options.serialized).hexdigest()}"
        with self._lock:
            program_of_ranks = self._built.get(key)
        if program_of_ranks is None:
            program_of_ranks = RankedProgram(program, options, self._target)
            with self._lock:
                self._built[key] = program_of_ranks
        return program_of_ranks


class RankedProgram:
    """One program on several devices; its interface is that of the CPU executor's programs.

    Attributes:
        results: shape and dtype of each result on one device.
        shardings: fields that describe to the framework how partitioning divided the results.
    """

    def __init__(self, program: Program, options: CompileOptions, target: str) -> None:
        divided = the_partitioner().divide(program, options)
        self.results: list[TensorSpec] = divided.results
        self.shardings = divided.shardings
        devices = BuildOptions(replicas=options.num_replicas, partitions=options.num_partitions)
        with TemporaryDirectory(prefix="nki-hlo-") as folder:
            path = Path(folder) / "program.neff"
            built = build_file(divided.module, target, path, devices)
            self._ranks = LoadedRanks(path, len(options.device_ids), name=built.name)
            self._note = watched_ranks(built, path)
        self._inputs, self._outputs = list(built.inputs), list(built.outputs)

    def run(
        self, arguments: Sequence[Sequence[Buffer]], keep: frozenset[int], devices: Sequence[Device]
    ) -> list[list[Buffer]]:
        """Run on all devices together; see :meth:`neff.device.executors.cpu.CpuProgram.run`."""
        rows = [[in_bytes(buffer.array()) for buffer in row] for row in arguments]
        inputs = [dict(zip(self._inputs, row, strict=True)) for row in rows]
        self._note()
        outputs = self._ranks.run(inputs)
        return [
            result_buffers(values, self._outputs, self.results, row, device)
            for values, row, device in zip(outputs, rows, devices, strict=True)
        ]
