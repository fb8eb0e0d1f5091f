"""A rule of the advice, and the program that it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from neff.profile.advice.rebuild import bodies_of, rebuilt
from neff.profile.analysis import by
from neff.profile.attribution import Share
from neff.profile.stalls import slowest_core
from neff.profile.table import Profile, profile_of
from neff.program import Program
from neff.timing import Estimate, estimate
from nki_lang.ir import Block, Instruction
from nki_lang.ir.types import walk

__all__ = ["BEST_FIX", "FIRST_FIX", "MEAN_FIX", "Advice", "Fix", "Rule", "Subject", "places_of"]


FIRST_FIX, BEST_FIX, MEAN_FIX = "first", "best", "middle"


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing that makes a program slow, and what it would gain without.

    Attributes:
        code: of the rule.
        message: what was found, with figures.
        place: the user's line that costs most, or "".
        lines: all lines that take part, ``place`` first.
        gain_ns: by which a simulation without the fault is faster.
        low_ns, high_ns: the same for the least and the most that can be done about it.
        share: of the program's time.
        behind: codes of faults that hide this one: alone it gains next to nothing.
        later_ns: what it gains when those are fixed.
    """

    code: str
    message: str
    place: str
    lines: tuple[str, ...]
    gain_ns: float
    low_ns: float
    high_ns: float
    share: float
    behind: tuple[str, ...] = ()
    later_ns: float = 0.0


@dataclass(frozen=True, slots=True)
class Fix:
    """The statements of each core without a fault.

    Attributes:
        message: what the fault is, with figures.
        culprits: instructions whose lines are named.
        bodies: statements of each core to simulate.
        tensor_is_warm: simulate with a tensor engine that is never cold.
    """

    message: str
    culprits: tuple[Instruction, ...]
    bodies: list[Block]
    tensor_is_warm: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the advice.

    Attributes:
        code: stable, ``PERF-…``.
        title: what is slow.
        why: what the machine does, with its source.
        remedy: what to write instead.
        fixes: alternatives that remove the fault, none when it is not there.
        takes: which of the fixes counts: the first one that can be built and gains something, the
            best one, or the middle between the least and the greatest gain.
    """

    code: str
    title: str
    why: str
    remedy: str
    fixes: Callable[[Subject], Iterator[Fix]]
    takes: str = FIRST_FIX


@dataclass(slots=True)
class Subject:
    """A program that the rules check.

    Attributes:
        profile: of the judged program.
        bodies: the statements of each core.
        core: the slowest one; rules look for faults there.
    """

    profile: Profile
    core: int
    bodies: list[Block] = field(default_factory=list[Block])
    _lines: dict[str, Share] = field(default_factory=dict[str, Share])

    def __post_init__(self) -> None:
        self.bodies = bodies_of(self.program)
        self._lines = {share.name: share for share in by(self.profile, "line")}

    def after(self, program: Program) -> Subject:
        """The same machine with another program."""
        profile = profile_of(
            program,
            parameters=self.profile.parameters,
            statistic=self.estimate.statistic,
            dma=self.estimate.dma,
            trips=self.profile.trips,
        )
        return Subject(profile, slowest_core(profile))

    @property
    def program(self) -> Program:
        """Return the judged program."""
        return self.profile.program

    @property
    def estimate(self) -> Estimate:
        """Return the estimate of the program as it is."""
        return self.profile.estimate

    @property
    def total_ns(self) -> float:
        """Time of the slowest core's body."""
        return self.estimate.cores[self.core].total.value

    @property
    def body(self) -> Block:
        """Statements of the slowest core."""
        return self.bodies[self.core]

    def with_body(self, body: Block) -> list[Block]:
        """The statements of all cores, with others on the slowest one."""
        return [
            body if core == self.core else unchanged for core, unchanged in enumerate(self.bodies)
        ]

    def changed(self, change: Callable[[Block], Block]) -> list[Block]:
        """The statements of all cores, each changed."""
        return [change(body) for body in self.bodies]

    def instructions(self) -> Iterator[Instruction]:
        """Iterate over the instructions of the slowest core; the body of a loop comes once."""
        return walk(self.body)

    def cost(self, location: str) -> tuple[float, float]:
        """Time of a line on the critical path, and on its lanes."""
        share = self._lines.get(location)
        return (share.path_ns, share.self_ns) if share else (0.0, 0.0)

    def gain(self, fix: Fix) -> float | None:
        """Nanoseconds by which a new simulation is faster; None when it cannot be built."""
        program = rebuilt(self.program, fix.bodies)
        if program is None:
            return None
        parameters = self.profile.parameters
        if fix.tensor_is_warm:
            warm = {**parameters.overrides, "tensor.cold_share": 1.0}
            parameters = type(parameters)(parameters.target, warm)
        faster = estimate(
            program,
            parameters=parameters,
            statistic=self.estimate.statistic,
            dma=self.estimate.dma,
            trips=self.profile.trips,
        )
        return self.estimate.total.value - faster.total.value


def places_of(subject: Subject, culprits: Iterable[Instruction]) -> tuple[str, ...]:
    """Return the lines of instructions, the costliest first, then the lines that called their
    functions.
    """
    lines: dict[str, None] = {}
    callers: dict[str, None] = {}
    for inst in culprits:
        if inst.location is not None and inst.location.line:
            lines[str(inst.location)] = None
            callers.update(dict.fromkeys(map(str, inst.location.callers)))
    by_cost = sorted(
        lines, key=lambda location: (tuple(-x for x in subject.cost(location)), location)
    )
    return (*by_cost, *sorted(callers.keys() - lines.keys()))
