"""Proof that no kernel reads a value in memory after another value has taken its place.

The calls of a program are followed once in their order, through loops and branches, with the placed
memory: who wrote each run of bytes last is known at each point. What a call reads must still be
there on every path, from the turn before too. What the calls *mean* comes from the record that the
lowering of the graph keeps (:mod:`neff.compiler.assembly.history`), which node's value each view is;
what they *do* comes from the kernels' instructions and the places of the variables. The analysis
that chose to compute a value in place has no part in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from neff.compiler.assembly.byte_runs import Run, Runs
from neff.compiler.assembly.dependencies import Tracker
from neff.compiler.assembly.history import Began, Choice, Event, History, Renamed, Turns, Used
from neff.compiler.assembly.link import Call, Repeat
from neff.compiler.assembly.regions import Region, operands_touched, region_of
from neff.errors import NeffCompileError
from neff.program import Variable
from nki_lang.ir import Access, Block, ForLoop, Instruction, KernelIR, WhileLoop

__all__ = ["Touched", "require_values"]

_REMEDY = "this is a bug of the compiler, not of the module; please report it with the module"

_LOST = "?"
"""In a run of bytes that holds one value on one path and another one on another path."""


@dataclass(frozen=True, slots=True)
class Touched:
    """The tensors in HBM of a call's kernel that its instructions read and write, by name."""

    reads: frozenset[str]
    writes: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a memory is: bytes ``low`` to ``high``, excluded, of a space."""

    space: str
    low: int
    high: int

    def overlaps(self, second: _Place) -> bool:
        """True when a byte is in both."""
        return self.space == second.space and self.low < second.high and second.low < self.high


def require_values(
    history: History,
    calls: list[Call],
    repeats: list[Repeat],
    touched: list[Touched],
    variables: Mapping[str, Variable],
) -> None:
    """Prove that each call reads the values that it means.

    Args:
        history: what the calls mean.
        calls: in program order.
        repeats: which of them are loops, and branches that are taken.
        touched: what each of them does.
        variables: of the program, placed.

    Raises:
        NeffCompileError: ``NEFF-STALE-READ``; the compiler made a wrong program.
    """
    proof = _Proof(history, calls, touched, variables)
    proof.require_structure(repeats)
    for name, variable in variables.items():
        if variable.kind in ("input", "constant"):
            proof.begin(name)
    proof.follow(history.events)


@dataclass(slots=True)
class _Proof:
    history: History
    calls: list[Call]
    touched: list[Touched]
    variables: Mapping[str, Variable]
    runs: Runs = field(default_factory=Runs)
    places: dict[str, _Place] = field(default_factory=dict[str, _Place])
    writers: dict[str, int] = field(default_factory=dict[str, int])
    ends: dict[int, list[Run]] = field(default_factory=dict[int, list[Run]])

    def place(self, version: str) -> _Place:
        """Where a version is."""
        location = self.places.get(version)
        if location is None:
            variable = self.variables[self.history.memory(version)]
            if variable.kind == "scratch":
                low, space = variable.offset, f"scratch {variable.core}"
            else:
                low, space = 0, f"hbm {variable.alias or variable.name}"
            location = self.places[version] = _Place(space, low, low + variable.nbytes)
        return location

    def begin(self, version: str) -> None:
        """From here on the version is in its memory."""
        location = self.place(version)
        self.runs.put(Run(location.space, location.low, location.high, version))

    def follow(self, events: Iterable[Event]) -> None:
        """Run through events, from what is in memory in front of them."""
        for event in events:
            if isinstance(event, Used):
                self._use(event)
            elif isinstance(event, Renamed):
                self._require(event.old, event.call, "takes it over")
                self.begin(event.new)
                self.writers[event.new] = event.call
            elif isinstance(event, Began):
                self.begin(event.version)
            elif isinstance(event, Turns):
                self._turns(event)
            else:
                self._choice(event)

    def require_structure(self, repeats: list[Repeat]) -> None:
        """Refuse a record that has not each call once, in the loops that the program has."""
        spans: list[tuple[int, int]] = []
        last = _spans(self.history.events[:-1], 0, spans)  # behind them the outputs are read
        expected = sorted((loop.first, loop.last) for loop in repeats)
        if last != len(self.calls) or sorted(spans) != expected:
            raise NeffCompileError(
                f"the record of values has {last} of {len(self.calls)} kernels in {len(spans)} of "
                f"{len(repeats)} loops and branches, or not in the same order",
                code="NEFF-STALE-READ",
                place=_location(self.calls, last),
                remedy=_REMEDY,
            )

    # -- calls -----------------------------------------------------------------------------

    def _use(self, event: Used) -> None:
        for version in event.reads:
            self._require(version, event.call, "reads it")
        if event.call == len(self.calls):
            return
        call, touched = self.calls[event.call], self.touched[event.call]
        self._require_meaning(event, call, touched)
        meant = set(map(self.history.memory, event.reads))
        reads = {call.bindings[name] for name in touched.reads}
        for version in event.writes:
            memory = self.history.memory(version)
            if self.variables[memory].kind in ("input", "constant"):
                self._refuse(version, event.call, "writes over it", None)
            if not call.op and memory in reads and memory not in meant:
                self._require(version, event.call, "reads it")
            for operand in event.reads:
                if version != operand and self.place(version).overlaps(self.place(operand)):
                    self._require_order(event, operand, version)
        self._write(event)

    def _write(self, event: Used) -> None:
        for version in event.writes:
            self.begin(version)
            self.writers[version] = event.call
        if event.call < len(self.calls):
            for name in _private(self.calls[event.call], self.history, event):
                self.begin(name)

    def _require(self, version: str, call: int, verb: str) -> None:
        """Refuse a version that is not in its memory any more, or not on every path."""
        location = self.place(version)
        for run in self.runs.over(location.space, location.low, location.high):
            if run.value != version:
                self._refuse(version, call, verb, run.value)

    def _require_meaning(self, event: Used, call: Call, touched: Touched) -> None:
        """Refuse a kernel that touches memory of which the record does not say what it means."""
        memory = self.history.memory
        written = {memory(version) for version in event.writes}
        meant = written | {memory(version) for version in event.reads}
        bindings = call.bindings
        private = _private(call, self.history, event)
        for names, allowed in ((touched.writes, written), (touched.reads, meant)):
            for name in names:
                if bindings[name] not in allowed and bindings[name] not in private:
                    self._refuse(bindings[name], event.call, "touches it", None)

    def _require_order(self, event: Used, operand: str, version: str) -> None:
        """Refuse a kernel that reads bytes of an operand after it has written its result there."""
        call, memory = self.calls[event.call], self.history.memory
        alike = memory(operand) == memory(version)
        names = {name for name, bound in call.bindings.items() if bound == memory(version)}
        if not alike or not reads_come_first(call.kernel, names):
            self._refuse(operand, event.call, "reads it", version)

    def _refuse(self, version: str, call: int, verb: str, value: str | None) -> None:
        name = self.history.memory(version)
        reader = _described(self.calls, call)
        if value is None:
            why = "nothing on record says which value is there"
        elif value == _LOST:
            why = "on some path another value is there"
        else:
            writer = _described(self.calls, self.writers.get(value, len(self.calls)))
            why = f"{writer} has put another value in its place" if value else "nothing wrote it"
        raise NeffCompileError(
            f"a value in the variable {name} is lost before {reader} {verb}: {why}",
            code="NEFF-STALE-READ",
            place=_location(self.calls, call),
            remedy=_REMEDY,
        )

    # -- loops and branches ----------------------------------------------------------------

    def _written(self, event: Turns | Choice) -> list[Run]:
        """The bytes that a loop's turn or branches write, with what they hold in the end."""
        runs = self.ends.get(id(event))
        if runs is None:
            if isinstance(event, Turns):
                outcome = self._outcome(event.body)
            else:
                outcome = _in_common([self._outcome(branch) for branch in event.branches])
            runs = self.ends[id(event)] = list(outcome.all())
        return runs

    def _outcome(self, events: Iterable[Event]) -> Runs:
        """Return the contents of memory after the events, independent of the contents before."""
        around, self.runs = self.runs, Runs()
        for event in events:
            if isinstance(event, Used):
                self._write(event)
            elif isinstance(event, Renamed):
                self.begin(event.new)
            elif isinstance(event, Began):
                self.begin(event.version)
            else:
                certain = isinstance(event, Choice) or event.certain
                for run in self._written(event):
                    self.runs.put(run) if certain else self.runs.meet(run, _LOST)
        outcome, self.runs = self.runs, around
        return outcome

    def _turns(self, event: Turns) -> None:
        """A turn begins with what is there in front of the loop, or with what a turn ends with."""
        written = self._written(event)
        before = self._snapshot(written)
        for run in written:
            self.runs.meet(run, _LOST)
        self.follow(event.body)
        if not event.certain:
            for run in before:
                self.runs.meet(run, _LOST)

    def _choice(self, event: Choice) -> None:
        """Each branch begins with what is there in front of all."""
        written = self._written(event)
        before = self._snapshot(written)
        ends: list[list[Run]] = []
        for branch in event.branches:
            for run in before:
                self.runs.put(run)
            self.follow(branch)
            ends.append(self._snapshot(written))
        for end in ends[:-1]:
            for run in end:
                self.runs.meet(run, _LOST)

    def _snapshot(self, runs: Iterable[Run]) -> list[Run]:
        return [piece for run in runs for piece in self.runs.over(run.space, run.low, run.high)]


def _spans(events: Iterable[Event], first: int, spans: list[tuple[int, int]]) -> int:
    """Collect the first and the last call (excluded) of each loop or branch that has calls.

    Returns:
        The number behind the last call; -1 when the numbers have gaps.
    """
    for event in events:
        if isinstance(event, Used):
            first = first + 1 if event.call == first else -1
        elif isinstance(event, Turns | Choice):
            for body in [event.body] if isinstance(event, Turns) else event.branches:
                begin, first = first, _spans(body, first, spans)
                if first > begin:
                    spans.append((begin, first))
    return first


def _private(call: Call, history: History, event: Used) -> list[str]:
    """The variables that a kernel allocates for itself."""
    memories = {history.memory(version) for version in (*event.reads, *event.writes)}
    return [name for name in call.bindings.values() if name not in memories]


def _in_common(outcomes: list[Runs]) -> Runs:
    """Return the contents of memory after any of the branches; lost where the branches differ."""
    first, *following = outcomes
    for outcome in following:
        for run in list(outcome.all()):
            first.meet(run, _LOST)
        for run in list(first.all()):
            for run_left in list(outcome.over(run.space, run.low, run.high)):
                first.meet(run_left, _LOST)
    return first


def reads_come_first(kernel: KernelIR, names: Set[str]) -> bool:
    """Return True when a kernel reads no byte of a memory after it has written that byte.

    Later iterations of loops count, and no core may touch a byte that another core writes.

    Args:
        kernel: what runs.
        names: of its tensors that are in the memory; of several nobody knows where they meet.
    """
    tracker, written = Tracker(), set[int]()
    cores: list[int] = []
    for core, body in enumerate(kernel.bodies):
        for instruction in _with_second_turns(body):
            touched = [
                (access, is_written)
                for access, is_written in operands_touched(instruction)
                if type(access) is Access and access.tensor.name in names
            ]
            touched.sort(key=lambda pair: pair[1])
            for access, is_written in touched:
                box = region_of(access, (0, 0)) if len(names) == 1 else _ANYWHERE
                before = tracker.visit(len(cores), core, [("", box, is_written)])
                if not is_written and not before.isdisjoint(written):
                    return False
                if any(cores[earlier] != core for earlier in before):
                    return False
                if is_written:
                    written.add(len(cores))
                cores.append(core)
    return True


_ANYWHERE = Region(0, 1, 0, 1 << 62)


def _with_second_turns(body: Block) -> Iterator[Instruction]:
    """The instructions in order, those of loops twice."""
    for statement in body:
        if isinstance(statement, Instruction):
            yield statement
        else:
            yield from _with_second_turns(statement.body)
            if isinstance(statement, ForLoop | WhileLoop):
                yield from _with_second_turns(statement.body)


def _described(calls: list[Call], number: int) -> str:
    if number >= len(calls):
        return "the end of the program"
    call = calls[number]
    where = f" of {call.location.function}" if call.location and call.location.function else ""
    return f"kernel {call.kernel.name} ({call.label}){where}"


def _location(calls: list[Call], number: int) -> str:
    if number >= len(calls):
        return "the outputs"
    call = calls[number]
    return str(call.location or call.op or call.label)
