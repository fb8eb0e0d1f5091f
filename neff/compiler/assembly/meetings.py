"""Proof that the cores of a program meet often enough, and at the same places.

Between two meetings no core may touch bytes in HBM that another one writes: among them are the
values that both load into registers and take branches by. The statements of all cores are followed
at once, along every path: into a loop, from the end of a turn to the begin of the next one, and
around a loop that has none. A loop in which cores meet must be the same on all of them, with
registers that all compute alike; so all take the same path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from neff.compiler.assembly.dependencies import Tracker
from neff.compiler.assembly.link import instructions_of
from neff.compiler.assembly.regions import FENCES, Region, operands_touched, region_of
from neff.errors import NeffCompileError
from neff.program import Variable
from nki_lang.ir import Access, Block, ForLoop, Instruction, Register, Statement, WhileLoop

__all__ = ["require_meetings"]

_REMEDY = "this is a bug of the compiler, not of the module; please report it with the module"

_Loop = ForLoop | WhileLoop
_Item = tuple[Instruction, str]
"""An instruction, and the label of the module's own kernel that it belongs to, or ""."""


def require_meetings(
    bodies: Sequence[Block], variables: Mapping[str, Variable], labels: Mapping[int, str]
) -> None:
    """Prove that no core touches what another one writes before they have met.

    Args:
        bodies: the linked statements of each core.
        variables: of the program, placed.
        labels: ``id`` of the statements of the module's own kernels -> their label. These kernels
            order their cores themselves.

    Raises:
        NeffCompileError: ``NEFF-RACE``; a meeting is missing. ``NEFF-DEADLOCK``; cores may wait at
            different places.
    """
    if sum(map(bool, bodies)) < 2:
        return
    proof = _Proof(variables, labels, [_register_writes(body) for body in bodies])
    proof.walk(bodies, _Pending(), is_second_turn=False)


@dataclass(frozen=True, slots=True)
class _Entry:
    """An instruction of a core, and the bytes that it touches in memory that cores share."""

    core: int
    item: _Item
    touched: list[tuple[str, Region, bool]]


class _Path:
    """The memory that the cores have touched since they met, on one path."""

    def __init__(self, entries: Iterable[_Entry] = ()) -> None:
        self.entries: list[_Entry] = []
        self._tracker = Tracker()
        for entry in entries:
            self.add(entry)

    def add(self, entry: _Entry) -> None:
        """Take an instruction.

        Raises:
            NeffCompileError: ``NEFF-RACE``; another core has touched the same bytes.
        """
        instruction, label = entry.item
        for before in self._tracker.visit(len(self.entries), entry.core, entry.touched):
            earlier, earlier_label = self.entries[before].item
            core = self.entries[before].core
            if core != entry.core and not (label and label == earlier_label):
                raise NeffCompileError(
                    f"{instruction.op} on core {entry.core} and {earlier.op} on core {core} touch "
                    "the same memory, and the cores do not meet between them on every path",
                    code="NEFF-RACE",
                    place=f"{instruction.location} and {earlier.location}",
                    remedy=_REMEDY,
                )
        self.entries.append(entry)


@dataclass(slots=True)
class _Pending:
    """The memory that the cores have touched since they met, on each path to a location."""

    paths: list[_Path] = field(default_factory=lambda: [_Path()])

    def add(self, entry: _Entry) -> None:
        """Take an instruction on every path."""
        for path in self.paths:
            path.add(entry)

    def joined(self, following: _Pending | None) -> _Pending:
        """A copy with the paths of both; a path that is a part of another one is left out."""
        paths = [*self.paths, *(following.paths if following is not None else ())]
        paths.sort(key=lambda path: -len(path.entries))
        longest: list[tuple[set[int], _Path]] = []
        for path in paths:
            idents = set(map(id, path.entries))
            if not any(idents <= longer for longer, _ in longest):
                longest.append((idents, path))
        return _Pending([_Path(path.entries) for _, path in longest])


@dataclass(slots=True)
class _Proof:
    variables: Mapping[str, Variable]
    labels: Mapping[int, str]
    writes: list[dict[str, list[tuple[object, ...]]]]

    def walk(
        self, bodies: Sequence[Block], pending: _Pending, *, is_second_turn: bool
    ) -> _Pending | None:
        """Follow one nesting level.

        Args:
            bodies: of each core.
            pending: what was touched in front of it.
            is_second_turn: end where the cores certainly meet; what is behind is followed already.

        Returns:
            What is touched since the last meeting; None where a second turn has ended.
        """
        levels = [self._split(body) for body in bodies]
        self._require_alike([meetings for _, meetings in levels])
        for number in range(len(levels[0][0])):
            for core, (segments, _) in enumerate(levels):
                for item in segments[number]:
                    touched = self._touched(item[0])
                    if touched:
                        pending.add(_Entry(core, item, touched))
            if number == len(levels[0][1]):
                break
            meetings = [meetings[number] for _, meetings in levels]
            first = meetings[0]
            if isinstance(first, Instruction):
                if is_second_turn:
                    return None
                pending = _Pending()
            else:
                insides = [loop.body for loop in meetings if isinstance(loop, _Loop)]
                pending = self._loop(first, insides, pending, is_second_turn=is_second_turn)
        return pending

    def _loop(
        self, loop: _Loop, bodies: list[Block], pending: _Pending, *, is_second_turn: bool
    ) -> _Pending:
        end = self.walk(bodies, pending.joined(None), is_second_turn=is_second_turn)
        if is_second_turn:
            return pending.joined(end)
        assert end is not None
        self.walk(bodies, end.joined(None), is_second_turn=True)
        return end if _turns_certainly(loop) else pending.joined(end)

    def _split(self, body: Block) -> tuple[list[list[_Item]], list[Instruction | _Loop]]:
        """Split a body at its meetings: barriers, and loops with barriers."""
        segments: list[list[_Item]] = [[]]
        meetings: list[Instruction | _Loop] = []
        for statement in body:
            label = self.labels.get(id(statement), "")
            if not label and (meeting := _meeting_of(statement)) is not None:
                meetings.append(meeting)
                segments.append([])
            elif isinstance(statement, Instruction):
                segments[-1].append((statement, label))
            else:
                segments[-1] += [(inner, label) for inner in instructions_of(statement.body)]
        return segments, meetings

    def _touched(self, instruction: Instruction) -> list[tuple[str, Region, bool]]:
        """(space, bytes, written) of what it touches in memory that cores share."""
        touched: list[tuple[str, Region, bool]] = []
        if instruction.op in FENCES:
            return touched
        for access, is_written in operands_touched(instruction):
            if type(access) is not Access or access.tensor.on_chip:
                continue
            variable = self.variables[access.tensor.name]
            if variable.kind == "scratch":
                if variable.core < 0:
                    box = region_of(access, (0, variable.offset))
                    touched.append(("scratch", box, is_written))
            elif variable.kind != "constant":
                touched.append(
                    (variable.alias or variable.name, region_of(access, (0, 0)), is_written)
                )
        return touched

    def _require_alike(self, levels: list[list[Instruction | _Loop]]) -> None:
        """Refuse cores that meet at other places, or may take other paths."""
        first = levels[0]
        for core, level in enumerate(levels[1:], start=1):
            position = next(
                (number for number, pair in enumerate(zip(first, level, strict=False))
                 if not self._alike(*pair, core)),
                min(len(first), len(level)) if len(first) != len(level) else None,
            )  # fmt: skip
            if position is None:
                continue
            longer = first if position < len(first) else level
            raise NeffCompileError(
                f"cores 0 and {core} do not meet at the same places: the meetings number "
                f"{position + 1} of their block differ",
                code="NEFF-DEADLOCK",
                place=str(longer[position].location),
                remedy=_REMEDY,
            )

    def _alike(self, first: Instruction | _Loop, second: Instruction | _Loop, core: int) -> bool:
        if isinstance(first, Instruction) or isinstance(second, Instruction):
            return isinstance(first, Instruction) and isinstance(second, Instruction)
        registers = _control(first)
        same = type(first) is type(second) and registers == _control(second)
        return same and self._computed_alike(registers, core)

    def _computed_alike(self, registers: tuple[object, ...], core: int) -> bool:
        """True when a core computes the registers of a loop as the first core does."""
        names = [register.name for register in registers if isinstance(register, Register)]
        name_set = set(names)
        for name in names:
            writes = self.writes[0].get(name, [])
            if writes != self.writes[core].get(name, []):
                return False
            inner = {value for write in writes for value in write if isinstance(value, Register)}
            names += [register.name for register in inner if register.name not in name_set]
            name_set.update(names)
        return True


def _meeting_of(statement: Statement) -> Instruction | _Loop | None:
    if isinstance(statement, Instruction):
        return statement if statement.op in FENCES else None
    if isinstance(statement, _Loop) and any(
        instruction.op in FENCES for instruction in instructions_of(statement.body)
    ):
        return statement
    return None


def _control(loop: _Loop) -> tuple[object, ...]:
    """Return the registers that decide how often a loop runs."""
    if isinstance(loop, WhileLoop):
        return (loop.condition,)
    return (loop.start, loop.stop, loop.step)


def _turns_certainly(loop: _Loop) -> bool:
    if isinstance(loop, WhileLoop) or not (
        isinstance(loop.start, int) and isinstance(loop.stop, int)
    ):
        return False
    return loop.start < loop.stop


def _register_writes(body: Block) -> dict[str, list[tuple[object, ...]]]:
    """Each register's writes: opcode and what is read, but for tiles, whose places differ."""
    writes: dict[str, list[tuple[object, ...]]] = {}
    for instruction in instructions_of(body):
        targets = [
            operand.name for operand, is_written in operands_touched(instruction)
            if type(operand) is Register and is_written
        ]  # fmt: skip
        if targets:
            write = (instruction.op, *_values(instruction))
            for name in targets:
                writes.setdefault(name, []).append(write)
    return writes


def _values(instruction: Instruction) -> Iterator[object]:
    for name, operand in instruction.operands.items():
        if type(operand) is Access:
            if not operand.tensor.on_chip:
                yield (name, operand.tensor.name, operand.offset)
        elif name != "dst":
            yield operand
