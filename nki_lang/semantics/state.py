"""State that the engines of one core keep between instructions."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Protocol

from nki_lang.base.dtypes import Array
from nki_lang.base.errors import fail
from nki_lang.base.source import SourceLocation
from nki_lang.base.targets import TARGETS, Target

__all__ = ["EngineState", "Exchange", "Group", "has_wide_scales"]

MX_SCALE = "NKI_HLO_MX_SCALE"
"""Environment variable: ``ocp`` selects block scales by the OCP sample algorithm, which older
documents describe instead of NeuronCore-v4's rule."""


def has_wide_scales() -> bool:
    """Return True if ``quantize_mx`` computes scales as NeuronCore-v4 does.

    Raises:
        NkiValidationError: code ``NKI-MX-SCALE``; the variable has an unknown value.
    """
    value = os.environ.get(MX_SCALE, "").strip()
    if value not in ("", "ocp"):
        fail(f"{MX_SCALE}={value} in the environment", "NKI-MX-SCALE",
             "ocp selects the scales of the OCP sample algorithm; unset, those of NeuronCore-v4",
             "nki.isa.quantize_mx")  # fmt: skip
    return not value


class Exchange(Protocol):
    """Synchronization of the cores of one kernel (``sendrecv``, ``core_barrier``)."""

    def barrier(self, core: int, cores: tuple[int, ...], location: SourceLocation | None) -> None:
        """Wait until every core of ``cores`` calls this."""
        ...

    def swap(
        self,
        core: int,
        value: Array,
        to: int,
        source: int,
        pipe: int,
        location: SourceLocation | None,
    ) -> Array:
        """Pass ``value`` to core ``to`` and return the value that core ``source`` passes."""
        ...


class Group(Protocol):
    """Synchronization of ranks (collectives)."""

    size: int

    def meet(
        self,
        member: int,
        members: tuple[int, ...],
        key: tuple[object, ...],
        value: object,
        location: SourceLocation | None,
    ) -> dict[int, Any]:
        """Wait until all ``members`` have called this equally often; return the value of each."""
        ...


@dataclass(slots=True)
class EngineState:
    """State of one core.

    Attributes:
        target: the target family.
        registers: value of every scalar register by name.
        vector_accumulator: the Vector Engine's reduction registers, one float32 a partition,
            or None before the first use (isa stub, tensor_scalar_cumulative: shared by
            exponential, range_select, select_reduce, tensor_scalar_reduce).
        scalar_accumulator: the Scalar Engine's ``reduce_regs``, likewise.
        random: state of the generators by engine name.
        core: index of this core in the kernel.
        exchange: synchronization of the kernel's cores; None for a single core.
        wide_mx_scale: block scales as NeuronCore-v4 computes them (isa stub, quantize_mx);
            False for scales of the OCP sample algorithm (``NKI_HLO_MX_SCALE=ocp``).
        rank: rank of this process in collectives.
        group: synchronization of the ranks; None for a single rank.
    """

    target: Target = field(default_factory=lambda: TARGETS["trn3"])
    registers: dict[str, int] = field(default_factory=dict[str, int])
    vector_accumulator: Array | None = None
    scalar_accumulator: Array | None = None
    random: dict[str, Any] = field(default_factory=dict[str, Any])
    core: int = 0
    exchange: Exchange | None = None
    wide_mx_scale: bool = field(default_factory=has_wide_scales)
    rank: int = 0
    group: Group | None = None

    def reset(self) -> None:
        """Restore the state before the first instruction."""
        self.registers.clear()
        self.vector_accumulator = None
        self.scalar_accumulator = None
        self.random.clear()
