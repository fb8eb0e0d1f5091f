"""One instruction as a KLIR statement, and what the companion record adds to it."""

from __future__ import annotations

from typing import Any

from nki_lang.ir.types import Engine, Instruction, Register
from nki_lang.klir import cbor, schema
from nki_lang.klir.companion import PRIVATE_OPCODE
from nki_lang.klir.names import Names
from nki_lang.klir.registers import REGISTER_OPS, inferred, lowered
from nki_lang.klir.table import Row, row_of
from nki_lang.klir.values import NONE_BYTES, SOME_HEAD, TRUE_BYTE, NotExpressibleError

__all__ = ["StatementWriter"]

_PRIVATE = (
    schema.head("Stmt", "oper")
    + schema.head("Operator", "extendedInst")
    + schema.head("ExtendedInst")
    + cbor.integer(PRIVATE_OPCODE)
    + TRUE_BYTE
    + TRUE_BYTE
    + b"\x00"
)


class _Form:
    """The data of a row that the writer needs, looked up once."""

    __slots__ = ("count", "encoders", "extras", "has_engine", "prefix")

    def __init__(self, row: Row) -> None:
        self.prefix = row.prefix
        self.encoders = row.encoders
        self.extras = row.extras
        self.has_engine = row.has_engine
        self.count = len(row.operands)


class StatementWriter:
    """Encodes the instructions of a kernel, in the order of its cores.

    Attributes:
        notes: ``[index, what KLIR cannot say]`` of instructions.
        engines: instruction name -> the engine of the first one, for operators that have none.
    """

    def __init__(self, names: Names, producers: dict[str, tuple[str, ...]]) -> None:
        self.notes: list[list[Any]] = []
        self.engines: dict[str, Engine] = {}
        self._names = names
        self._producers = producers
        self._forms: dict[str, _Form | None] = {}
        self._defined: set[str] = set()
        self._count = 0

    def begin_core(self) -> None:
        """No register has a value yet."""
        self._defined = set()

    def define(self, register: Register) -> None:
        """A loop gives its register a value."""
        self._defined.add(register.name)

    def statement(self, instruction: Instruction) -> bytes:
        """One instruction; what its statement cannot hold is noted."""
        op = instruction.op
        if op in REGISTER_OPS:
            return self._register_statement(instruction)
        names, operands = self._names, instruction.operands
        try:
            form = self._forms[op]
        except KeyError:
            row = row_of(op)
            form = self._forms[op] = None if row is None else _Form(row)
        names.engine = instruction.engine
        names.inexact = False
        if form is None or len(operands) != form.count:
            return self._private(instruction)
        parts = [form.prefix]
        append = parts.append
        try:
            for encode, name in form.encoders:
                append(encode(operands if name is None else operands[name], names))
        except (NotExpressibleError, KeyError):
            return self._private(instruction)
        note: dict[str, Any] | None = None
        for name, usual, must in form.extras:
            if name not in operands or (must and operands[name] != usual):
                return self._private(instruction)
            if operands[name] != usual:
                note = note or {}
                note.setdefault("operands", {})[name] = names.operand_to_json(operands[name])
        if names.inexact:
            note = note or {}
            note.setdefault("operands", {}).update(self._inexact_operands(form, operands))
        return self._finish(instruction, parts, note, form.has_engine)

    def _inexact_operands(self, form: _Form, operands: dict[str, object]) -> dict[str, Any]:
        names = self._names
        inexact: dict[str, Any] = {}
        for encode, name in form.encoders:
            names.inexact = False
            encode(operands if name is None else operands[name], names)
            if names.inexact:
                operand_names = [name] if name is not None else list(operands)
                inexact.update(
                    {operand: names.operand_to_json(operands[operand]) for operand in operand_names}
                )
        return inexact

    def _finish(
        self,
        instruction: Instruction,
        parts: list[bytes],
        note: dict[str, Any] | None,
        has_engine: bool,
    ) -> bytes:
        """The rest of a statement: its name and its place."""
        engine = instruction.engine
        if note is not None and "op" in note:
            if engine is not Engine.unknown:
                note["engine"] = engine.name
        elif not has_engine and engine is not self.engines.setdefault(instruction.op, engine):
            note = note or {}
            note["engine"] = engine.name
        name = instruction.name
        if instruction.depends_on != (self._producers.get(name, ()) if name else ()):
            note = note or {}
            note["depends_on"] = list(instruction.depends_on)
        if note is not None:
            self.notes.append([self._count, note])
        self._count += 1
        parts.append(SOME_HEAD + cbor.text(name) if name else NONE_BYTES)
        parts.append(self._names.position(instruction.location))
        return b"".join(parts)

    def _private(self, instruction: Instruction) -> bytes:
        """An instruction that is only in the companion record."""
        to_json = self._names.operand_to_json
        note = {
            "op": instruction.op,
            "operands": {name: to_json(value) for name, value in instruction.operands.items()},
        }
        name = instruction.op.encode()
        parts = [
            _PRIVATE, cbor.array_head(len(name)), *map(cbor.integer, name),
            cbor.array_head(1), cbor.integer(self._count),
        ]  # fmt: skip
        return self._finish(instruction, parts, note, False)

    def _register_statement(self, instruction: Instruction) -> bytes:
        """Registers have fewer forms in KLIR; see :mod:`nki_lang.klir.registers`."""
        names = self._names
        op, operands = lowered(instruction.op, instruction.operands)
        row = row_of(op)
        if row is None or set(operands) != set(row.operands):
            return self._private(instruction)
        parts = [row.prefix]
        names.inexact = False
        try:
            for encode, name in row.encoders:
                parts.append(encode(operands if name is None else operands[name], names))
        except NotExpressibleError:
            return self._private(instruction)
        note = None
        read = inferred(op, operands, self._defined)
        if names.inexact or read != (instruction.op, instruction.operands):
            to_json = names.operand_to_json
            operands_in_json = {
                name: to_json(value) for name, value in instruction.operands.items()
            }
            note = {"op": instruction.op, "operands": operands_in_json}
        return self._finish(instruction, parts, note, False)
