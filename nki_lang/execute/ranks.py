"""Several ranks of one program in one process, for kernels with collectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nki_lang.base.dtypes import Array
from nki_lang.execute.exchange import Cores, Meeting, Ranks, run_together
from nki_lang.execute.executor import load
from nki_lang.ir.types import KernelIR
from nki_lang.semantics import EngineState

__all__ = ["meeting_of", "run_ranks"]


def run_ranks(
    kernel_ir: KernelIR | Sequence[KernelIR], inputs: Sequence[Sequence[Array]]
) -> list[list[Array]]:
    """Run a kernel once for each rank; the ranks exchange data in its collectives.

    Args:
        kernel_ir: one kernel for all, or one for each rank.
        inputs: for each rank the arrays of its inputs, in order.

    Returns:
        The outputs of each rank.

    Raises:
        NkiExecutionError: a wrong replica group, shapes that differ, or ``NKI-DEADLOCK`` when the
            ranks do not call the same collectives in the same order.
    """
    count = len(inputs)
    kernels = [kernel_ir] * count if isinstance(kernel_ir, KernelIR) else list(kernel_ir)
    executables = [load(kernel) for kernel in kernels]
    programs: list[Callable[[], None]] = []
    for executable, arrays in zip(executables, inputs, strict=True):
        programs += executable.begin(list(arrays))
    meeting = meeting_of([executable.states for executable in executables])
    run_together(programs, meeting)
    return [executable.finish() for executable in executables]


def meeting_of(ranks: Sequence[Sequence[EngineState]]) -> Meeting:
    """Return a meeting of all cores of all ranks, and attach it to each state."""
    names: list[str] = []
    bases: list[int] = []
    for rank, cores in enumerate(ranks):
        bases.append(len(names))
        several = len(cores) > 1
        names += [f"rank {rank}" + f" core {core}" * several for core in range(len(cores))]
    meeting = Meeting(len(names), names)
    for rank, cores in enumerate(ranks):
        for core, state in enumerate(cores):
            state.rank = rank
            state.group = Ranks(meeting, bases, core)
            state.exchange = Cores(meeting, bases[rank], len(cores)) if len(cores) > 1 else None
    return meeting
