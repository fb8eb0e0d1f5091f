"""Checks of a memory placement: live tensors do not share bytes, and begin with a write.

The runtime may let a tensor live anywhere only if no other tensor's bytes are meant by it: two
tensors whose bytes overlap must not live at the same time, save that a result may lie exactly
where an operand lay that dies with it (:mod:`neff.in_place`). A tensor lives from the first
instruction that names it to the last; one that a loop names lives for the whole loop, unless
all of its uses are within one iteration of the same body.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from neff.in_place import in_place
from neff.program import Program
from nki_lang.analysis.liveness import accesses_of, written_by
from nki_lang.base.memory import MemoryRegion
from nki_lang.ir import Block, Instruction, Tensor, walk

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
    """A tensor's bytes, as (space, first and last partition, first and last byte), and its time."""

    tensor: Tensor
    place: tuple[int, int, int, int, int]
    first: int
    last: int
    begins: Instruction

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
            if not _in_place(body, neighbor, life):
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


def _in_place(body: Block, old: _Life, new: _Life) -> bool:
    """One instruction ends the old tensor and begins the new one, exactly in its place."""
    return (
        old.place == new.place
        and old.last == new.first
        and body[new.first] is new.begins
        and in_place(new.begins, old.tensor, new.tensor)
    )


def _lives(body: Block, program: Program) -> list[_Life]:
    """Every placed tensor, in the order of first use; a whole loop is one moment."""
    lives: dict[str, _Life] = {}
    for time, statement in enumerate(body):
        for instruction in walk([statement]):
            for access in accesses_of(instruction):
                _live(access.tensor, instruction, program, lives, time)
    return sorted(lives.values(), key=lambda life: life.first)


def _live(
    tensor: Tensor, instruction: Instruction, program: Program, lives: dict[str, _Life], time: int
) -> None:
    life = lives.get(tensor.name)
    if life is not None:
        life.last = max(life.last, time)
        return
    place = _place(tensor, program)
    if place is not None:
        lives[tensor.name] = _Life(tensor, place, time, time, instruction)


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
