"""Results of statistics: a module, its opcodes, its computations and its kernels."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ComputationStatistics", "KernelStatistics", "OpcodeStatistics", "Statistics"]


@dataclass(slots=True)
class OpcodeStatistics:
    """All instructions of one opcode; sums over one run of each place that they stand in.

    Attributes:
        count: how many there are.
        flops, transcendentals: operations on elements.
        bytes: read and written.
    """

    opcode: str
    count: int = 0
    flops: int = 0
    transcendentals: int = 0
    bytes: int = 0


@dataclass(slots=True)
class ComputationStatistics:
    """One run of a computation, with what it calls.

    Attributes:
        name: as in HLO text.
        instructions: its own, without those of computations that it calls.
        runs: how often one run of the entry runs it; 0 for what is only applied to elements
            (reducers, comparators) or never called.
        flops, transcendentals, bytes: of one run.
    """

    name: str
    instructions: int
    runs: int = 0
    flops: int = 0
    transcendentals: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class KernelStatistics:
    """Calls of one kernel with one grid.

    Attributes:
        name, grid: of the kernel, and of its launch.
        bytes: read and written by all the calls by their operands and results.
        macs: multiply-adds of one call: counted from the kernel's file, else as the configuration
            states them (``mac_count``), else None.
    """

    name: str
    grid: tuple[int, ...]
    calls: int
    bytes: int
    macs: int | None = None


@dataclass(frozen=True, slots=True)
class Statistics:
    """Contents of a module and the cost of one run.

    FLOPs of custom calls are not known and count as 0; the bytes of their operands and results
    count. Loops count as often as they are known to run, else once (``unknown_loops``).

    Attributes:
        name: of the module.
        instructions: how many there are in all computations.
        flops, transcendentals, bytes: of one run.
        constants, constant_bytes: how many constants there are, and what they hold.
        parameter_bytes, result_bytes: what enters and leaves the program.
        opcodes, computations, kernels: the same by opcode, by computation and by kernel.
    """

    name: str
    instructions: int
    flops: int
    transcendentals: int
    bytes: int
    constants: int
    constant_bytes: int
    parameter_bytes: int
    result_bytes: int
    unknown_loops: int
    opcodes: tuple[OpcodeStatistics, ...]
    computations: tuple[ComputationStatistics, ...]
    kernels: tuple[KernelStatistics, ...]

    @property
    def intensity(self) -> float:
        """FLOPs a byte; 0 where nothing is moved."""
        return self.flops / self.bytes if self.bytes else 0.0
