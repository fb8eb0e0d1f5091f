"""Warns of races between cores while a kernel runs for the first time.

A race of two accesses depends on values too: two cores may write the same value. So the first run
is watched, unless the cores certainly use different parts of shared HBM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nki_lang.analysis.liveness import accesses_of, written_by
from nki_lang.analysis.regions import may_overlap
from nki_lang.base.errors import warn_at
from nki_lang.base.memory import MemoryRegion
from nki_lang.execute.memory import Memory
from nki_lang.execute.prepare import is_skipped
from nki_lang.ir.fresh import is_fresh_fill
from nki_lang.ir.types import Access, Block, Instruction, NoReorder, walk

__all__ = ["RaceWatch", "cores_may_meet", "warn_of_races"]


def cores_may_meet(bodies: Sequence[Block]) -> bool:
    """Return True if one core may write to shared HBM that another core reads or writes."""
    touched = [_touched(body) for body in bodies]
    return any(
        may_overlap(write, access)
        for core, (_, written) in enumerate(touched)
        for other_core, (accesses, _) in enumerate(touched)
        if other_core != core
        for name, writes in written.items()
        for write in writes
        for access in accesses.get(name, ())
    )


_Touched = dict[str, dict[Access, None]]


def _touched(body: Block) -> tuple[_Touched, _Touched]:
    """Return the accesses of one core to each tensor of shared HBM, and its writes, without
    duplicates.
    """
    accessed: _Touched = {}
    written: _Touched = {}
    for instruction in walk(body):
        if instruction.op == "core_barrier" or is_fresh_fill(instruction):  # access nothing
            continue
        for table, accesses in (
            (accessed, accesses_of(instruction)),
            (written, written_by(instruction)),
        ):
            for access in accesses:
                if access.tensor.buffer is MemoryRegion.shared_hbm:
                    table.setdefault(access.tensor.name, {})[access] = None
    return accessed, written


class RaceWatch:
    """Checks the instructions of one core for races as they run.

    Args:
        body: the core's statements.
        memory: its memory.
        earlier: the watches of the cores before this one.
    """

    def __init__(self, body: Block, memory: Memory, earlier: Sequence[RaceWatch]) -> None:
        # late: most kernels have one core
        from nki_lang.execute.checks.base import Step
        from nki_lang.execute.checks.races import RaceCheck

        self._step = Step
        self.check = RaceCheck(memory, tuple(watch.check for watch in earlier))
        self.check.several = True
        self._regions = dict(_regions(body, ()))

    def run(self, instruction: Instruction, step: Callable[[], None]) -> None:
        """Execute the instruction, and check its accesses."""
        if is_fresh_fill(instruction):  # memory as it is before the kernel begins
            step()
            return
        self.check.order.regions = self._regions.get(id(instruction), ())
        watched = self._step(instruction, skipped=is_skipped(instruction, self.check.memory))
        self.check.before(watched)
        step()
        self.check.after(watched)


def _regions(body: Block, outer: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the ``no_reorder`` blocks around each instruction that is inside one."""
    for statement in body:
        if not isinstance(statement, Instruction):
            enclosing = (*outer, id(statement)) if isinstance(statement, NoReorder) else outer
            yield from _regions(statement.body, enclosing)
        elif outer:
            yield id(statement), outer


def warn_of_races(watches: Sequence[RaceWatch], kernel: str) -> None:
    """Warn at the user's lines of unordered accesses of two cores to the same memory."""
    for finding in watches[0].check.finish():
        if finding.details.get("order") == "cores":
            message = f"[{finding.code}] kernel {kernel!r}: {finding.message}; {finding.remedy}"
            warn_at(finding.location, message)
