"""The companion record put into a kernel that was read from KLIR."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from nki_lang.errors import NkiFileError
from nki_lang.ir.types import (
    Block,
    Engine,
    ForLoop,
    Instruction,
    NoReorder,
    Register,
    Tensor,
    WhileLoop,
)
from nki_lang.klir import companion
from nki_lang.klir.callers import CallerReader
from nki_lang.klir.control import MAX_LOOP_DEPTH
from nki_lang.klir.registers import inferred
from nki_lang.klir.table import row_of
from nki_lang.source import SourceLocation

__all__ = ["Finisher", "TreeReader"]


def _no_companion(op: str) -> NkiFileError:
    return NkiFileError(
        f"the instruction {op} is only in the companion record, which is missing",
        code="NKI-FILE-PRIVATE",
        remedy="keep <file>.json beside <file>; both are written together",
    )


class Finisher:
    """Walks over a kernel that was read and puts in what KLIR could not say.

    Args:
        find: the tensor of a name, in the core at hand.
        record: the companion record.
    """

    def __init__(self, find: Callable[[str], Tensor], record: dict[str, Any]) -> None:
        self.find = find
        self.notes = {int(index): note for index, note in record.get("instructions", ())}
        self.functions = [(int(count), str(name)) for count, name in record.get("functions", ())]
        self.callers = CallerReader(record.get("callers"))
        self.engines = {
            op: companion.engine_named(name) for op, name in record.get("engines", {}).items()
        }
        self.places = {
            int(index): (int(line), int(column)) for index, line, column in record.get("places", ())
        }
        self.count = 0
        self.located = 0
        self.at = 0
        self.placed = 0
        self.defined: set[str] = set()

    def block(self, statements: Block) -> None:
        for index, statement in enumerate(statements):
            if statement.location is not None and self.functions:
                statement.location = self.place(statement.location)
            if isinstance(statement, Instruction):
                statements[index] = self.instruction(statement)
                continue
            if isinstance(statement, ForLoop):
                self.defined.add(statement.register.name)
            self.block(statement.body)

    def place(self, location: SourceLocation) -> SourceLocation:
        line, column = self.places.get(self.located, (location.line, location.column))
        self.located += 1
        function = location.function
        if self.at < len(self.functions):
            count, function = self.functions[self.at]
            self.placed += 1
            if self.placed >= count:
                self.at, self.placed = self.at + 1, 0
        return SourceLocation(location.file, line, function, column, self.callers.next())

    def instruction(self, given: Instruction) -> Instruction:
        note = self.notes.get(self.count)
        self.count += 1
        private = (not given.operands and row_of(given.op) is None) or _is_hollow(given)
        if given.op.startswith("register_") and given.operands:
            given.op, given.operands = inferred(given.op, given.operands, self.defined)
        if note is None:
            if private:
                raise _no_companion(given.op)
            self.set_engine(given)
            return given
        if private and "op" not in note:
            raise _no_companion(given.op)
        self.apply(given, note)
        return given

    def set_engine(self, given: Instruction) -> None:
        engine = self.engines.get(given.op)
        if engine is not None and given.engine is Engine.unknown:
            given.engine = engine

    def apply(self, given: Instruction, note: dict[str, Any]) -> None:
        values = {
            name: companion.operand_from_json(value, self.find)
            for name, value in note.get("operands", {}).items()
        }
        if "op" in note:
            given.op, given.operands = str(note["op"]), _ordered(note["op"], values)
        else:
            given.operands = given.operands | values
        if "engine" in note:
            given.engine = companion.engine_named(note["engine"])
        elif "op" not in note:
            self.set_engine(given)
        if "depends_on" in note:
            given.depends_on = tuple(map(str, note["depends_on"]))


def _is_hollow(given: Instruction) -> bool:
    """An instruction that takes operands and came without."""
    row = row_of(given.op)
    return not given.operands and row is not None and bool(row.operands)


def _ordered(op: Any, values: dict[str, Any]) -> dict[str, Any]:
    row = row_of(op)
    if row is None or set(row.operands) != set(values):
        return values
    return {name: values[name] for name in row.operands}


class TreeReader:
    """Puts the instructions of a body into the regions of the companion."""

    def __init__(self, statements: list[Instruction]) -> None:
        self.left = iter(statements)

    def take(self, count: int) -> list[Any]:
        taken = list(islice(self.left, max(count, 0)))
        if len(taken) != count:
            raise ValueError("more instructions than the file has")
        return taken

    def block(self, tree: list[Any], depth: int) -> list[Any]:
        if depth > MAX_LOOP_DEPTH:
            raise ValueError("regions too deep")
        statements: list[Any] = []
        for part in tree:
            if type(part) is int:
                statements += self.take(part)
            else:
                statements.append(self.region(part, depth))
        return statements

    def region(self, part: list[Any], depth: int) -> Any:
        place = part[-2]
        location = None if place is None else SourceLocation(*place)
        if part[0] == "no_reorder":
            return NoReorder(self.block(part[-1], depth + 1), location)
        register = Register(part[1])
        if part[0] == "while":
            return WhileLoop(register, self.block(part[-1], depth + 1), location)
        start, stop, step = [self.bound(one) for one in part[2:5]]
        self.take((start != register) + (type(stop) is int))
        body = self.block(part[-1], depth + 1)
        self.take(1)
        return ForLoop(register, start, stop, step, body, location)

    def bound(self, value: Any) -> int | Register:
        return value if type(value) is int else Register(value["register"])
