"""Applies the companion record to a kernel that was read from KLIR."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from nki_lang.base.errors import NkiFileError
from nki_lang.base.source import SourceLocation
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
from nki_lang.klir.companion_keys import require_known_operands, unknown_entry
from nki_lang.klir.control import MAX_LOOP_DEPTH
from nki_lang.klir.registers import inferred
from nki_lang.klir.table import row_of

__all__ = ["Finisher", "TreeReader"]

_REGION_ENTRIES = {"no_reorder": 3, "while": 4, "for": 7}
"""Kind of a region -> entries of its list, the kind included."""


def _no_companion(op: str) -> NkiFileError:
    return NkiFileError(
        f"the instruction {op} is only in the companion record, which is missing",
        code="NKI-FILE-PRIVATE",
        remedy="keep <file>.json next to <file>; both are written together",
    )


class Finisher:
    """Walks a decoded kernel and adds the information that KLIR cannot express.

    Args:
        find: returns the tensor of a name in the current core.
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
        self.locations = {
            int(index): (int(line), int(column)) for index, line, column in record.get("places", ())
        }
        self.count = 0
        self.located = 0
        self.function_index = 0
        self.placed = 0
        self.defined: set[str] = set()

    def block(self, statements: Block) -> None:
        for index, statement in enumerate(statements):
            if statement.location is not None and self.functions:
                statement.location = self.complete_location(statement.location)
            if isinstance(statement, Instruction):
                statements[index] = self.instruction(statement)
                continue
            if isinstance(statement, ForLoop):
                self.defined.add(statement.register.name)
            self.block(statement.body)

    def complete_location(self, location: SourceLocation) -> SourceLocation:
        line, column = self.locations.get(self.located, (location.line, location.column))
        self.located += 1
        function = location.function
        if self.function_index < len(self.functions):
            count, function = self.functions[self.function_index]
            self.placed += 1
            if self.placed >= count:
                self.function_index, self.placed = self.function_index + 1, 0
        return SourceLocation(location.file, line, function, column, self.callers.next())

    def instruction(self, instruction: Instruction) -> Instruction:
        note = self.notes.get(self.count)
        self.count += 1
        private = (not instruction.operands and row_of(instruction.op) is None) or _is_hollow(
            instruction
        )
        if instruction.op.startswith("register_") and instruction.operands:
            instruction.op, instruction.operands = inferred(
                instruction.op, instruction.operands, self.defined
            )
        if note is None:
            if private:
                raise _no_companion(instruction.op)
            self.set_engine(instruction)
            return instruction
        if private and "op" not in note:
            raise _no_companion(instruction.op)
        self.apply(instruction, note)
        return instruction

    def set_engine(self, instruction: Instruction) -> None:
        engine = self.engines.get(instruction.op)
        if engine is not None and instruction.engine is Engine.unknown:
            instruction.engine = engine

    def apply(self, instruction: Instruction, note: dict[str, Any]) -> None:
        values = {
            name: companion.operand_from_json(value, self.find)
            for name, value in note.get("operands", {}).items()
        }
        require_known_operands(note.get("op", instruction.op), values, self.count - 1)
        if "op" in note:
            instruction.op, instruction.operands = str(note["op"]), _ordered(note["op"], values)
        else:
            instruction.operands = instruction.operands | values
        if "engine" in note:
            instruction.engine = companion.engine_named(note["engine"])
        elif "op" not in note:
            self.set_engine(instruction)
        if "depends_on" in note:
            instruction.depends_on = tuple(map(str, note["depends_on"]))


def _is_hollow(instruction: Instruction) -> bool:
    """Return True for an instruction that takes operands and has none."""
    row = row_of(instruction.op)
    return not instruction.operands and row is not None and bool(row.operands)


def _ordered(op: Any, values: dict[str, Any]) -> dict[str, Any]:
    row = row_of(op)
    if row is None or set(row.operands) != set(values):
        return values
    return {name: values[name] for name in row.operands}


class TreeReader:
    """Distributes the instructions of a body over the regions of the companion."""

    def __init__(self, statements: list[Instruction]) -> None:
        self.remaining = iter(statements)

    def take(self, count: int) -> list[Any]:
        instructions = list(islice(self.remaining, max(count, 0)))
        if len(instructions) != count:
            raise ValueError("more instructions than the file has")
        return instructions

    def block(self, tree: list[Any], depth: int) -> list[Any]:
        if depth > MAX_LOOP_DEPTH:
            raise ValueError("regions too deep")
        statements: list[Any] = []
        for entry in tree:
            if type(entry) is int:
                statements += self.take(entry)
            else:
                statements.append(self.region(entry, depth))
        return statements

    def region(self, entry: list[Any], depth: int) -> Any:
        if len(entry) != _REGION_ENTRIES.get(entry[0]):
            raise unknown_entry(
                "regions", f"a region {str(entry[:1])[:80]} of {len(entry)} entries"
            )
        position = entry[-2]
        location = None if position is None else SourceLocation(*position)
        if entry[0] == "no_reorder":
            return NoReorder(self.block(entry[-1], depth + 1), location)
        register = Register(entry[1])
        if entry[0] == "while":
            return WhileLoop(register, self.block(entry[-1], depth + 1), location)
        start, stop, step = [self.bound(bound) for bound in entry[2:5]]
        self.take((start != register) + (type(stop) is int))
        body = self.block(entry[-1], depth + 1)
        self.take(1)
        return ForLoop(register, start, stop, step, body, location)

    def bound(self, value: Any) -> int | Register:
        if type(value) is int:
            return value
        if len(value) != 1:
            raise unknown_entry("regions", f"a bound with the keys {sorted(value)}")
        return Register(value["register"])
