"""From the kernel IR to what the executor runs; each step takes a kernel and returns the next.

``kernel IR -> accumulation resolved -> doubtful memory filled -> copies forwarded ->
instructions coalesced -> slots assigned``
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nki_lang.analysis.coalescing import coalesced
from nki_lang.analysis.forwarding import forwarded
from nki_lang.analysis.fresh import filled_in, with_fresh_memory
from nki_lang.analysis.gaps import Gap, gaps_of
from nki_lang.analysis.liveness import Slots, assign_slots
from nki_lang.analysis.unwritten import REMEDY, UnwrittenRead
from nki_lang.base.dtypes import Array
from nki_lang.base.errors import warn_at
from nki_lang.base.targets import Target, target_of
from nki_lang.execute.reaching import ReachingRead, certain_reads
from nki_lang.ir.accumulation import resolve_accumulation
from nki_lang.ir.types import Block, KernelIR

__all__ = ["Program", "program_of", "uninitialised"]

_SYNCHRONIZING_OPS = frozenset({"core_barrier", "sendrecv"})


@dataclass(frozen=True, slots=True)
class Program:
    """The data that every run of a kernel shares; no run changes it.

    Attributes:
        kernel_ir: the kernel with accumulation made explicit.
        target: the target family of the kernel.
        bodies: the statements of each core, with fewer, larger steps where that is possible.
        slots: the memory slots that the private tensors of each core share.
        constants: name of a constant's tensor -> its value.
        bound: names of the tensors whose memory each run passes: arguments, constants, results.
        gaps: elements of the results that certainly no instruction writes.
        check: True if runs report uninitialised reads.
        communicates: True if the cores wait for each other.
    """

    kernel_ir: KernelIR
    target: Target
    bodies: tuple[Block, ...]
    slots: tuple[Slots, ...]
    constants: Mapping[str, Array]
    bound: frozenset[str]
    gaps: tuple[Gap, ...]
    check: bool
    communicates: bool


def program_of(kernel_ir: KernelIR, *, check: bool) -> Program:
    """Return the program of a kernel; warn of certain reads of unwritten memory, and of unwritten
    results.
    """
    resolved = resolve_accumulation(kernel_ir)
    constants = {entry.tensor.name: entry.value for entry in resolved.constants}
    arguments = {tensor.name for tensor in (*resolved.inputs, *resolved.outputs)}
    bound = frozenset(constants) | arguments
    simplified = resolved
    gaps = () if check else _gaps(resolved, constants)
    if not check:
        bodies = _filled(resolved)
        simplified = replace(resolved, bodies=bodies)
        _warn_of_reads(resolved, filled_in(bodies), gaps)
    # The check reports each instruction at its own line, and another core may read a tile
    # between any two instructions: both need the kernel as it was written.
    if not check and len(resolved.bodies) == 1:
        simplified = coalesced(forwarded(simplified))
    several = len(resolved.bodies) > 1
    return Program(
        kernel_ir=resolved,
        target=target_of(resolved.target),
        bodies=simplified.bodies,
        slots=tuple(assign_slots(body, bound) for body in simplified.bodies),
        constants=constants,
        bound=bound,
        gaps=gaps,
        check=check,
        communicates=several
        and any(step.op in _SYNCHRONIZING_OPS for step in resolved.instructions()),
    )


def uninitialised(kernel_ir: KernelIR) -> list[UnwrittenRead | ReachingRead]:
    """Return the operands of a kernel that certainly read unwritten memory."""
    resolved = resolve_accumulation(kernel_ir)
    return _certain_reads(resolved, filled_in(_filled(resolved)))


def _certain_reads(
    kernel_ir: KernelIR, doubtful: frozenset[str]
) -> list[UnwrittenRead | ReachingRead]:
    """Return operands without any content, and operands whose missing elements reach a result."""
    if not doubtful:
        return []
    target = target_of(kernel_ir.target)
    return certain_reads(kernel_ir.bodies, kernel_ir.outputs, doubtful, target)


def _filled(resolved: KernelIR) -> tuple[Block, ...]:
    """Return the bodies with fills of the memory that may be read before it is written."""
    initialised = {tensor.name for tensor in resolved.inputs}
    initialised |= {entry.tensor.name for entry in resolved.constants}
    return with_fresh_memory(resolved.bodies, initialised, resolved.outputs)


def _gaps(kernel_ir: KernelIR, constants: Mapping[str, object]) -> tuple[Gap, ...]:
    """Return the elements of the results that no instruction writes; warn once per result."""
    initialised = [*(tensor.name for tensor in kernel_ir.inputs), *constants]
    gaps = gaps_of(kernel_ir.bodies, kernel_ir.outputs, initialised)
    for gap in gaps:
        warn_at(
            gap.location,
            f"[NKI-UNWRITTEN] kernel {kernel_ir.name!r}: {gap.message}; write the whole result, "
            "or return the part that is written",
        )
    return tuple(gaps)


def _warn_of_reads(kernel_ir: KernelIR, doubtful: frozenset[str], gaps: tuple[Gap, ...]) -> None:
    """Warn of reads of unwritten memory, except at lines that were reported for a result."""
    reported = {gap.location for gap in gaps}
    for read in _certain_reads(kernel_ir, doubtful):
        if read.location not in reported:
            message = f"[NKI-UNINITIALISED] kernel {kernel_ir.name!r}: {read.message}; {REMEDY}"
            warn_at(read.location, message)
