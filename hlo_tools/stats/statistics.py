"""Statistics of a module, taken from its overview.

The module is read as an :class:`~hlo_tools.outline.Outline`, so constants are never decoded;
instructions that cost alike are looked at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hlo_tools.ir.module import Module
from hlo_tools.outline import Outline, load_outline

__all__ = [
    "ComputationStatistics",
    "KernelStatistics",
    "OpcodeStatistics",
    "Statistics",
    "statistics",
]


@dataclass(slots=True)
class OpcodeStatistics:
    """All instructions of one opcode; sums over one run of each place that they stand in."""

    opcode: str
    count: int = 0
    flops: int = 0
    transcendentals: int = 0
    bytes: int = 0


@dataclass(slots=True)
class ComputationStatistics:
    """One run of a computation, with what it calls.

    Attributes:
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
        bytes: read and written by all the calls as their operands and results tell.
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
    """What a module holds and what one run of it costs.

    FLOPs of custom calls are not known and count as 0; the bytes of their operands and results
    count. Loops count as often as they are known to run, else once (``unknown_loops``).

    Attributes:
        constants, constant_bytes: how many constants there are, and what they hold.
        parameter_bytes, result_bytes: what enters and leaves the program.
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


def statistics(
    source: str | Path | bytes | Module | Outline,
    *,
    trips: Mapping[int, int] | None = None,
    root: Path | None = None,
) -> Statistics:
    """The statistics of a module.

    Args:
        source: a file of any size and form, its bytes, or a module.
        trips: how often ``while`` instructions (by id) run, beside those whose configuration says
            it; of a :class:`Module`, counts are worked out where they are not given.
        root: folder that relative paths of kernel files start from; that of the module's file
            where it is not given.

    Raises:
        HloFileError: the file cannot be read, or refers to what it does not have (HLO-REFERENCE).
    """
    from hlo_tools.stats.counting import count

    if isinstance(source, Module):
        trips = _trips(source) if trips is None else trips
        source = Outline.of(source)
    elif not isinstance(source, Outline):
        source = load_outline(source)
    return count(source, trips or {}, root or source.folder)


def _trips(module: Module) -> dict[int, int]:
    from hlo_tools.passes.while_trip_counts import trip_count

    counts = {v.id: trip_count(v) for v in module.instructions if v.proto.opcode == "while"}
    return {number: count for number, count in counts.items() if count is not None}
