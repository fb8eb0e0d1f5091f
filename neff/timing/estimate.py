"""An estimate of a program's time on its target, and what it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from neff.program import Program
from neff.runtime.order import order_of
from neff.timing.simulation import CoreTime, simulate
from nki_lang.targets import target_of

__all__ = ["NOT_MODELLED", "Estimate", "estimate"]

NOT_MODELLED = (
    "instruction fetch and dispatch",
    "the latency of semaphores",
    "the overlap of an instruction with the end of the one before",
    "contention for HBM between cores and for SBUF and PSUM ports between engines",
    "descriptor generation and the cost of triggering a transfer",
    "the faster modes of later engines that are not documented as formulas",
)
"""What the figures leave out; most of it makes the device slower."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Time of a program.

    Attributes:
        target: the family.
        cores: what each core did.
    """

    target: str
    cores: tuple[CoreTime, ...]

    @property
    def total_ns(self) -> float:
        """Until the last core is done."""
        return max((core.total_ns for core in self.cores), default=0.0)

    @property
    def is_complete(self) -> bool:
        """False when some instruction's cost or some loop's number of turns is unknown."""
        return not any(core.unknown or core.unknown_loops for core in self.cores)

    def to_json(self) -> dict[str, Any]:
        """The figures as a document."""
        return {
            "target": self.target,
            "total_us": _us(self.total_ns),
            "complete": self.is_complete,
            "cores": [_core(core, self.target) for core in self.cores],
            "not_modelled": list(NOT_MODELLED),
        }


def estimate(program: Program) -> Estimate:
    """Estimate the time of a program.

    Raises:
        NeffRuntimeError: its engines wait for each other.
    """
    target = target_of(program.target)
    for core, graph in enumerate(program.subgraphs):
        order_of(graph, f"{program.name}: sg{core:02d}")
    return Estimate(
        program.target,
        tuple(simulate(graph.engines, target, graph.semaphores) for graph in program.subgraphs),
    )


def _us(nanoseconds: float) -> float:
    return round(nanoseconds / 1e3, 3)


def _core(core: CoreTime, target: str) -> dict[str, Any]:
    total = core.total_ns or 1.0
    lanes = target_of(target).dma_queues
    engines = {
        engine.name: {
            "instructions": spent.instructions,
            "busy_us": _us(spent.busy_ns),
            "busy_share": round(spent.busy_ns / total, 4),
        }
        for engine, spent in core.engines.items()
    }
    most = sorted(core.opcodes.items(), key=lambda item: -item[1])
    return {
        "total_us": _us(core.total_ns),
        "engines": engines,
        "dma": {
            "transfers": core.dma.instructions,
            "bytes": core.dma_bytes,
            "busy_share": round(core.dma.busy_ns / lanes / total, 4),
        },
        "opcodes_us": {name: _us(spent) for name, spent in most},
        "unknown_cost": dict(sorted(core.unknown.items())),
        "loops_of_unknown_length": core.unknown_loops,
    }
