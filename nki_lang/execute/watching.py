"""Races between cores, looked for while a kernel runs for the first time.

Whether two accesses race depends on values too: two cores may write the same. So the first run
is watched, unless the cores certainly keep to different parts of shared HBM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nki_lang.errors import warn_at
from nki_lang.execute.liveness import accesses_of, written_by
from nki_lang.execute.memory import Memory
from nki_lang.execute.prepare import is_skipped
from nki_lang.execute.regions import may_overlap
from nki_lang.ir.fresh import is_fresh_fill
from nki_lang.ir.types import Access, Block, Instruction, NoReorder, walk
from nki_lang.memory import MemoryRegion

__all__ = ["RaceWatch", "cores_may_meet", "warn_of_races"]


def cores_may_meet(bodies: Sequence[Block]) -> bool:
    """Whether one core may write to shared HBM where another one reads or writes."""
    touched = [_touched(body) for body in bodies]
    return any(
        may_overlap(write, access)
        for place, (_, written) in enumerate(touched)
        for other, (accesses, _) in enumerate(touched)
        if other != place
        for name, writes in written.items()
        for write in writes
        for access in accesses.get(name, ())
    )


_Touched = dict[str, dict[Access, None]]


def _touched(body: Block) -> tuple[_Touched, _Touched]:
    """The accesses of one core to each tensor of shared HBM, and its writes; each once."""
    every: _Touched = {}
    written: _Touched = {}
    for instruction in walk(body):
        if instruction.op == "core_barrier" or is_fresh_fill(instruction):  # access nothing
            continue
        for into, accesses in (every, accesses_of(instruction)), (written, written_by(instruction)):
            for access in accesses:
                if access.tensor.buffer is MemoryRegion.shared_hbm:
                    into.setdefault(access.tensor.name, {})[access] = None
    return every, written


class RaceWatch:
    """Looks at the instructions of one core as they run.

    Args:
        body: the core's statements.
        memory: its memory.
        others: those of the cores before.
    """

    def __init__(self, body: Block, memory: Memory, others: Sequence[RaceWatch]) -> None:
        # late: most kernels have one core
        from nki_lang.execute.checks.base import Step
        from nki_lang.execute.checks.races import RaceCheck

        self._step = Step
        self.check = RaceCheck(memory, tuple(other.check for other in others))
        self.check.several = True
        self._regions = dict(_regions(body, ()))

    def run(self, instruction: Instruction, step: Callable[[], None]) -> None:
        """Execute the instruction, and enter what it touched."""
        if is_fresh_fill(instruction):  # memory as it is before the kernel begins
            step()
            return
        self.check.order.regions = self._regions.get(id(instruction), ())
        watched = self._step(instruction, skipped=is_skipped(instruction, self.check.memory))
        self.check.before(watched)
        step()
        self.check.after(watched)


def _regions(body: Block, inside: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The ``no_reorder`` blocks around each instruction that is in one."""
    for statement in body:
        if not isinstance(statement, Instruction):
            more = (*inside, id(statement)) if isinstance(statement, NoReorder) else inside
            yield from _regions(statement.body, more)
        elif inside:
            yield id(statement), inside


def warn_of_races(watches: Sequence[RaceWatch], kernel: str) -> None:
    """Warn of what the cores did to each other's memory without an order, at the lines."""
    for finding in watches[0].check.finish():
        if finding.details.get("order") == "cores":
            message = f"[{finding.code}] kernel {kernel!r}: {finding.message}; {finding.remedy}"
            warn_at(finding.location, message)
