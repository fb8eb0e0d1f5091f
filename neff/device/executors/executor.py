"""Which executor runs programs: NKI_HLO_EXECUTOR is ``cpu``, ``neff`` or ``neff,cpu``."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Protocol

from hlo_tools.errors import HloUnsupportedError
from hlo_tools.extract.protocol import EXECUTOR
from neff.device.pjrt.buffers import Buffer
from neff.device.pjrt.status import Status, StatusError
from neff.device.pjrt.topology import Device, Topology
from neff.device.programs.program import CompileOptions, Program, TensorSpec
from neff.errors import NeffCompileError

__all__ = ["Executor", "LoadedProgram", "chosen_executor"]

NAMES = ("cpu", "neff")


class LoadedProgram(Protocol):
    """A program that can run.

    Attributes:
        results: shape and dtype of each result on one device.
        shardings: fields of ``HloModuleProto`` that describe how results are divided.
    """

    results: list[TensorSpec]
    shardings: bytes

    def run(
        self, arguments: Sequence[Sequence[Buffer]], keep: frozenset[int], devices: Sequence[Device]
    ) -> list[list[Buffer]]:
        """Run once.

        Args:
            arguments: a row of buffers for each device.
            keep: numbers of the arguments whose memory must not be taken.
            devices: where the rows are.

        Returns:
            A row of results for each device.
        """
        ...


class Executor(Protocol):
    """An execution mode: makes programs ready to run."""

    def load(self, program: Program, options: CompileOptions) -> LoadedProgram:
        """Make a program ready.

        Raises:
            NeffCompileError, HloUnsupportedError: this executor does not cover it.
        """
        ...


class _FirstThatCan:
    """Tries executors in their order; reports which program the first one did not take, and why."""

    def __init__(self, executors: Sequence[Executor]) -> None:
        self._executors = executors

    def load(self, program: Program, options: CompileOptions) -> LoadedProgram:
        *preferred, last = self._executors
        for executor in preferred:
            try:
                return executor.load(program, options)
            except (NeffCompileError, HloUnsupportedError) as error:
                print(
                    f"note: {program.name} runs on XLA:CPU: [{error.code}] {error.message}",
                    file=sys.stderr,
                )
        return last.load(program, options)


def chosen_executor(topology: Topology, environment: Mapping[str, str] = os.environ) -> Executor:
    """The executor that the environment selects; ``cpu`` by default.

    Raises:
        StatusError: code ``NEFF-EXECUTOR``; there is no such executor.
    """
    names = environment.get(EXECUTOR, "").replace(" ", "") or "cpu"
    executors = [_named(name, names, topology) for name in names.split(",")]
    return executors[0] if len(executors) == 1 else _FirstThatCan(executors)


def _named(name: str, setting: str, topology: Topology) -> Executor:
    if name == "cpu":
        from neff.device.executors.cpu import CpuExecutor

        return CpuExecutor(len(topology.devices))
    if name == "neff":
        from neff.device.executors.ranked import RankedExecutor

        return RankedExecutor(topology.target.name)
    raise StatusError(
        Status.INVALID_ARGUMENT,
        f"[NEFF-EXECUTOR] {EXECUTOR}={setting!r} is not an executor\n"
        f"  help: use {', '.join(NAMES)}, or neff,cpu",
    )
