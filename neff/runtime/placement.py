"""Checks of a memory placement: live tensors do not share bytes, and begin with a write.

The runtime may let a tensor live anywhere only if no other tensor's bytes are meant by it: two
tensors whose bytes overlap must not live at the same time, save that a result may lie exactly
where an operand lay that dies with it (:mod:`neff.in_place`). A tensor lives from the first
instruction that names it to the last; one that a loop names lives for the whole loop, unless
all of its uses are within one iteration of the same body and its first access there is a write.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from neff.in_place import in_place
from neff.program import Program
from nki_lang.analysis.liveness import accesses_of, written_by
from nki_lang.base.memory import MemoryRegion
from nki_lang.ir import Block, Instruction, NoReorder, Tensor, walk
from nki_lang.ir.coverage import Coverage, piece_of
from nki_lang.semantics import TRAITS

__all__ = ["UNWRITTEN", "Clash", "clashes", "shares_bytes"]

UNWRITTEN = "memory that nobody wrote"

_SCRATCH = 2
"""Number of the scratch area beside those of SBUF (0) and PSUM (1)."""


@dataclass(frozen=True, slots=True)
class Clash:
    """Two tensors that share bytes while both live, or a tensor that is read before it is written:
    then ``second`` is :data:`UNWRITTEN`.
    """

    first: str
    second: str
    instruction: Instruction


@dataclass(slots=True)
class _Life:
    """A tensor's bytes, as (space, first and last partition, first and last byte), and its time.

    Times count instructions in program order. ``ends`` is the last instruction that names it.
    """

    tensor: Tensor
    place: tuple[int, int, int, int, int]
    first: int
    last: int
    begins: Instruction
    ends: Instruction

    @property
    def name(self) -> str:
        return self.tensor.name


def clashes(body: Block, program: Program) -> Iterator[Clash]:
    """Yield every two tensors of one core that share bytes at the same time, ordered by the later
    start, and every tensor whose first access is a read.

    Args:
        body: the core's instructions in order.
        program: whose they are; places scratch variables.
    """
    active = _Active()
    for life in _lives(body, program):
        if all(access.tensor.name != life.name for access in written_by(life.begins)):
            yield Clash(life.name, UNWRITTEN, life.begins)
        for neighbor in active.meeting(life):
            if not _in_place(neighbor, life):
                yield Clash(neighbor.name, life.name, life.begins)
        active.add(life)


class _Active:
    """Tensors that may still live, as rows of an array; the dead are dropped when it is full."""

    def __init__(self) -> None:
        self.lives: list[_Life] = []
        self.rows = np.zeros((64, 6), np.int64)

    def add(self, life: _Life) -> None:
        if len(self.lives) == len(self.rows):
            live_rows = np.flatnonzero(self.rows[:, 5] >= life.first)
            self.lives = [self.lives[index] for index in live_rows]
            rows = np.zeros((max(64, 2 * len(live_rows)), 6), np.int64)
            rows[: len(live_rows)] = self.rows[live_rows]
            self.rows = rows
        self.rows[len(self.lives)] = (*life.place, life.last)
        self.lives.append(life)

    def meeting(self, life: _Life) -> list[_Life]:
        """Return the live tensors that share a byte with the beginning one."""
        space, low, high, begin, end = life.place
        rows = self.rows[: len(self.lives)].T
        hit = (rows[5] >= life.first) & (rows[0] == space) & (rows[1] <= high) & (low <= rows[2])
        hit &= (rows[3] <= end) & (begin <= rows[4])
        return [self.lives[index] for index in np.flatnonzero(hit)]


def shares_bytes(body: Block, program: Program) -> bool:
    """Return whether two tensors of one core share bytes at the same time."""
    return any(clash.second != UNWRITTEN for clash in clashes(body, program))


def _in_place(old: _Life, new: _Life) -> bool:
    """One instruction ends the old tensor and begins the new one, exactly in its place."""
    return (
        old.place == new.place
        and old.last == new.first
        and old.ends is new.begins
        and in_place(new.begins, old.tensor, new.tensor)
    )


@dataclass(frozen=True, slots=True)
class _Moment:
    """One instruction in program order.

    Attributes:
        time: number of instructions before it.
        loops: the loops around it, outermost first, each with the times of its first and last
            instruction.
    """

    instruction: Instruction
    time: int
    loops: tuple[tuple[int, int], ...]


def _moments(
    body: Block, start: int = 0, loops: tuple[tuple[int, int], ...] = ()
) -> Iterator[_Moment]:
    time = start
    for statement in body:
        if isinstance(statement, Instruction):
            yield _Moment(statement, time, loops)
            time += 1
            continue
        count = sum(1 for _ in walk(statement.body))
        around = loops if isinstance(statement, NoReorder) else (*loops, (time, time + count - 1))
        yield from _moments(statement.body, time, around)
        time += count


def _lives(body: Block, program: Program) -> list[_Life]:
    """Return every placed tensor in the order of first use.

    A tensor of which all uses are in one loop lives within an iteration if it begins there; for
    every loop further inside it lives as long as the loop. A tile begins anew in each iteration
    when the first use writes it, a scratch variable when all of it is written before it is read.
    A tensor that does not may hold what an earlier iteration wrote, so it lives as long as the
    outermost loop.
    """
    uses: dict[str, tuple[Tensor, tuple[int, int, int, int, int], list[_Moment]]] = {}
    for moment in _moments(body):
        for access in accesses_of(moment.instruction):
            tensor = access.tensor
            use = uses.get(tensor.name)
            if use is None:
                area = _place(tensor, program)
                if area is None:
                    continue
                use = uses[tensor.name] = (tensor, area, [])
            use[2].append(moment)
    lives = (_life(tensor, area, moments) for tensor, area, moments in uses.values())
    return sorted(lives, key=lambda life: life.first)


def _life(tensor: Tensor, area: tuple[int, int, int, int, int], moments: list[_Moment]) -> _Life:
    begins, ends = moments[0].instruction, moments[-1].instruction
    depth = _common_depth(moments)
    if depth and not _begins_anew(tensor, moments, depth):
        depth = 0
    outer, inner = moments[0].loops[depth:], moments[-1].loops[depth:]
    first = outer[0][0] if outer else moments[0].time
    last = inner[0][1] if inner else moments[-1].time
    return _Life(tensor, area, first, last, begins, ends)


def _begins_anew(tensor: Tensor, moments: list[_Moment], depth: int) -> bool:
    """Return True if no iteration reads what an earlier one wrote into the tensor."""
    if tensor.address is not None:
        return _writes(moments[0].instruction, tensor)
    coverage = Coverage(tensor.nbytes)
    for moment in moments:
        instruction = moment.instruction
        named = [access for access in accesses_of(instruction) if access.tensor.name == tensor.name]
        written = [
            access for access in written_by(instruction) if access.tensor.name == tensor.name
        ]
        if len(moment.loops) > depth or len(written) < len(named):
            return False
        is_certain = instruction.operands.get("oob_mode") != "skip"
        if TRAITS[instruction.op].updates or not is_certain or any(a.is_dynamic for a in written):
            return False
        for access in written:
            coverage.add(piece_of(access))
        if coverage.try_finish():
            return True
    return False


def _writes(instruction: Instruction, tensor: Tensor) -> bool:
    return any(access.tensor.name == tensor.name for access in written_by(instruction))


def _common_depth(moments: list[_Moment]) -> int:
    """Return how many loops all moments are in together."""
    common = moments[0].loops
    for moment in moments:
        if moment.loops is not common:
            pairs = zip(common, moment.loops, strict=False)
            common = tuple(left for left, right in pairs if left == right)
    return len(common)


def _place(tensor: Tensor, program: Program) -> tuple[int, int, int, int, int] | None:
    if tensor.address is not None:
        partition, byte = tensor.address
        lanes = tensor.shape[0] if tensor.shape else 1
        space = int(tensor.buffer is MemoryRegion.psum)
        if not lanes or not tensor.free_bytes:
            return None
        return space, partition, partition + lanes - 1, byte, byte + tensor.free_bytes - 1
    variable = program.variables.get(tensor.name)
    if variable is None or variable.kind != "scratch" or not variable.nbytes:
        return None
    return _SCRATCH, 0, 0, variable.offset, variable.offset + variable.nbytes - 1
