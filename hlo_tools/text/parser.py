"""HLO text to a module message: header, computations, instructions.

One pass over the text. Operands and called computations must stand before their use, as XLA
demands, so names are resolved where they are read and errors point at them.
"""

from __future__ import annotations

import re
from operator import attrgetter
from typing import Any

from hlo_tools import schema
from hlo_tools._gc import no_collection
from hlo_tools._messages import did_you_mean
from hlo_tools.text.attributes import READERS, Pending
from hlo_tools.text.cursor import Cursor, with_comments
from hlo_tools.text.fields import async_inner, copy_field, empty_fields, same_type, unique
from hlo_tools.text.finish import CALLED_ORDER, finish
from hlo_tools.text.header import HeaderReader
from hlo_tools.text.literals import read_literal
from hlo_tools.text.names import UniqueNames
from hlo_tools.text.repeated import Repeated
from hlo_tools.text.shapes import ShapeReader
from hlo_tools.types.ids import LOCAL_MASK
from hlo_tools.types.opcodes import OPCODES, Opcode, missing_opcode

__all__ = ["parse"]

Message = Any

_START = re.compile(r"(?:(ROOT)\s+)?%?([A-Za-z_][\w.\-]*)\s*=\s*")
_COMPUTATION = re.compile(r"(?:(ENTRY)\s+)?%?([A-Za-z_][\w.\-]*)")
_OPCODE = re.compile(r"([a-z][a-z0-9\-]*)\s*\(")
_OPERANDS = re.compile(r"\s*(?:%?[A-Za-z_][\w.\-]*\s*(?:,\s*%?[A-Za-z_][\w.\-]*\s*)*)?\)")
_ATTRIBUTE = re.compile(r"\s*,\s*([A-Za-z_][\w.\-]*)=")
_BLOCK = re.compile(r"\s*\{")


def parse(text: str, *, name: str = "<text>") -> Message:
    """The ``HloModuleProto`` that ``text`` describes.

    Args:
        text: a module (``HloModule name ...``), or bare computations without a header.
        name: what errors call the text.

    Raises:
        HloTextError: with ``name:line:column``, the line, a caret and what was expected.
    """
    return parse_configured(text, name=name)[0]


def parse_configured(text: str, *, name: str = "<text>") -> tuple[Message, dict[str, str]]:
    """The ``HloModuleProto``, and what the header says beyond it (``num_partitions``, ...).

    Raises:
        HloTextError: as :func:`parse`.
    """
    return with_comments(text, lambda bare: _parsed(bare, name))


def _parsed(text: str, name: str) -> tuple[Message, dict[str, str]]:
    parser = _Parser(text, name)
    try:
        with no_collection():
            return parser.module(), parser.configuration
    except ValueError as error:  # protobuf: a number is too large for its field
        raise parser.cursor.error(f"a value does not fit its field: {error}") from error


class _Computation:
    """The names, shapes and rows of a computation while and after it is read.

    ``base`` is what its ids begin with if it holds no other computation; ids and operands of
    ``unnumbered`` instructions do not begin with it yet.
    """

    __slots__ = ("base", "message", "names", "parameters", "shapes", "unnumbered")

    def __init__(self, message: Message, base: int = -1) -> None:
        self.message = message
        self.base = base
        self.unnumbered: list[int] = []
        self.names: dict[str, int] = {}
        self.shapes: list[Message] = []
        self.parameters: dict[int, int] = {}


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        self.cursor = Cursor(text, name)
        self.shapes = ShapeReader(self.cursor)
        self.proto = schema.HloModuleProto()
        self.computations: dict[str, int] = {}
        self.finished: list[_Computation] = []
        self.entry = -1
        self.scheduled = False
        self.repeated = Repeated()
        self.configuration: dict[str, str] = {}
        self.current: _Computation | None = None

    # -- module -------------------------------------------------------------------------------

    def module(self) -> Message:
        cursor = self.cursor
        header = HeaderReader(cursor, self.shapes, self.proto, parse)
        self.configuration = header.configuration
        if cursor.word("HloModule"):
            header.read()
        named = bool(self.proto.name)
        if cursor.at_end():
            raise cursor.error("the module has no computation")
        while not cursor.at_end():
            self._computation()
        self.proto.computations.sort(key=attrgetter("id"))
        self._module_fields(header, named)
        self._uniquify()
        return self.proto

    def _uniquify(self) -> None:
        """Instruction names are unique in a module, not only in their computation."""
        names = UniqueNames()
        for computation in self.finished:
            message = computation.message
            for name, position in computation.names.items():
                unique = names.unique(name)
                if unique is not name:
                    message.instructions[position].name = unique
            for number, position in computation.parameters.items():
                name = message.instructions[position].name
                message.program_shape.parameter_names[number] = name

    def _module_fields(self, header: HeaderReader, named: bool) -> None:
        proto = self.proto
        entry = self.finished[self.entry if self.entry >= 0 else -1].message
        if not named:
            proto.name = f"module_{entry.name}"
        proto.entry_computation_name = entry.name
        proto.entry_computation_id = entry.id
        proto.host_program_shape.CopyFrom(entry.program_shape)
        for number in range(len(entry.program_shape.parameters)):
            proto.host_program_shape.parameter_names[number] = f"p{number}"
        header.apply_entry_layout(proto.host_program_shape)
        if header.is_scheduled:
            for computation in self.finished:
                if not computation.message.is_fusion_computation:
                    sequence = proto.schedule.sequences[computation.message.id]
                    sequence.instruction_ids.extend(
                        row.id for row in computation.message.instructions
                    )

    # -- computations -------------------------------------------------------------------------

    def _computation(self) -> None:
        cursor = self.cursor
        start = cursor.pos
        match = cursor.match(_COMPUTATION)
        if match is None:
            raise cursor.error(f"expected a computation, found {cursor.next_token()}")
        is_entry = match.group(1) is not None
        name = match.group(2)
        if name in self.computations:
            raise cursor.error(f"computation '{name}' is defined twice", pos=match.start(2))
        declared = self._signature() if cursor.peek("(") else None
        computation = self._body(name, match.start(2))
        if declared is not None and not same_type(
            declared, computation.shapes[self._root(computation)]
        ):
            raise cursor.error(f"the root of '{name}' does not have the declared shape", pos=start)
        if is_entry:
            if self.entry >= 0:
                raise cursor.error("a module has one ENTRY", pos=start)
            self.entry = len(self.finished) - 1
        self._computation_attributes(computation)

    def _root(self, computation: _Computation) -> int:
        return computation.message.root_id & 0xFFFFFFFF

    def _signature(self) -> Message:
        """``(name: shape, ...) -> shape``; only the result is checked, as in XLA."""
        cursor = self.cursor

        def parameter() -> None:
            cursor.identifier("a parameter")
            cursor.accept(":")
            self.shapes.read()

        cursor.items("(", ")", parameter, "the parameters")
        cursor.expect("->", "and the result shape")
        return self.shapes.read()

    def _computation_attributes(self, computation: _Computation) -> None:
        cursor = self.cursor
        while True:
            match = cursor.match(_ATTRIBUTE)
            if match is None:
                return
            if match.group(1) != "execution_thread":
                raise cursor.error(
                    f"a computation has no attribute '{match.group(1)}'", pos=match.start(1)
                )
            thread = cursor.text_string()
            computation.message.execution_thread = "" if thread == "main" else thread

    def _body(self, name: str, pos: int) -> _Computation:
        """``{ instruction ... }``; nested computations are added before this one."""
        cursor = self.cursor
        cursor.deeper()
        outer = self.current
        message = self.proto.computations.add(name=name)
        computation = self.current = _Computation(message, len(self.finished) << 32)
        cursor.expect("{", "to start the instructions")
        root = -1
        while True:
            line = self.repeated.match(cursor)
            if line is None and cursor.accept("}"):
                break
            if line is None and cursor.at_end():
                raise cursor.error(f"computation '{name}' is never closed", pos=pos)
            start = cursor.pos
            if self._instruction(computation, line):
                if root >= 0:
                    raise cursor.error(f"computation '{name}' has two roots", pos=start)
                root = len(message.instructions) - 1
        if not message.instructions:
            raise cursor.error(f"computation '{name}' has no instruction", pos=pos)
        self._program_shape(computation, root if root >= 0 else len(message.instructions) - 1)
        self._register(computation)
        self.current = outer
        cursor.depth -= 1
        return computation

    def _program_shape(self, computation: _Computation, root: int) -> None:
        cursor, message = self.cursor, computation.message
        message.root_id = root
        shape = message.program_shape
        for number in range(len(computation.parameters)):
            parameter = computation.parameters.get(number)
            if parameter is None:
                raise cursor.error(f"computation '{message.name}' has no parameter({number})")
            row = message.instructions[parameter]
            shape.parameters.append(row.shape)
            shape.parameter_names.append(row.name)
        shape.result.CopyFrom(computation.shapes[root])

    def _register(self, computation: _Computation) -> None:
        """Give the computation its id, and its instructions theirs: ``id << 32 | position``."""
        message = computation.message
        number = len(self.finished)
        message.id = number
        self.computations[message.name] = number
        self.finished.append(computation)
        base = number << 32
        message.root_id |= base
        rows = message.instructions
        if computation.base == base:
            rows = [rows[position] for position in computation.unnumbered]
        for row in rows if number else ():
            row.id = row.id & LOCAL_MASK | base
            row.operand_ids[:] = [operand & LOCAL_MASK | base for operand in row.operand_ids]
            if row.control_predecessor_ids:
                row.control_predecessor_ids[:] = [
                    predecessor | base for predecessor in row.control_predecessor_ids
                ]

    # -- instructions -------------------------------------------------------------------------

    def _instruction(self, computation: _Computation, line: re.Match[str] | None) -> bool:
        """One instruction, which ``line`` may hold; True when it is marked ROOT."""
        if line is None:
            return self._new_instruction(computation)
        cursor = self.cursor
        parts = self.repeated.split(line, computation)
        row = self.repeated.add(parts, line.group(2), computation, self.computations)
        if row is not None:
            cursor.pos = line.end()
            self._mark_fusion(row)
            return line.group(1) is not None
        count, end = len(self.finished), line.end()
        self._new_instruction(computation)
        if len(self.finished) == count and cursor.pos >= end - 1:
            row = computation.message.instructions[-1]
            self.repeated.remember(parts, row, cursor.text[end : cursor.pos])
        return line.group(1) is not None

    def _new_instruction(self, computation: _Computation) -> bool:
        """Read one instruction of any form; return True if it is marked ROOT."""
        cursor = self.cursor
        match = cursor.match(_START)
        if match is None:
            raise cursor.error(f"expected an instruction (name = ...), found {cursor.next_token()}")
        name = match.group(2)
        if name in computation.names:
            raise cursor.error(
                f"instruction '{name}' is defined twice in its computation", pos=match.start(2)
            )
        self._right_side(computation, name, match.start(2))
        return match.group(1) is not None

    def _right_side(
        self, computation: _Computation, name: str, pos: int, *, attributes: bool = True
    ) -> int:
        """``shape opcode(operands), attributes``; returns the position in the computation."""
        cursor = self.cursor
        shape = self.shapes.read() if self.shapes.can_start() else None
        opcode_pos = cursor.pos
        match = cursor.match(_OPCODE)
        if match is None:
            expected = "a shape or an opcode" if shape is None else "an opcode"
            raise cursor.error(f"expected {expected} and '(', found {cursor.next_token()}")
        word, wrapped = self._opcode(match.group(1), match.start(1))
        row = schema.HloInstructionProto(opcode=word.name)
        if shape is None and not word.infers_shape:
            raise cursor.error(f"{word.name} needs its shape before it", pos=opcode_pos)
        if shape is not None:
            row.shape.CopyFrom(shape)
        cursor.deeper()
        operands = self._operands(computation, row, word, name)
        pending = Pending(cursor, self.shapes, self._computation_reference)
        inner = async_inner(wrapped)
        target = row if inner is None else inner
        allowed = (
            word.attributes if inner is None else word.attributes | OPCODES[inner.opcode].attributes
        )
        if attributes:
            self._attributes(pending, row, target, allowed, word)
        cursor.depth -= 1
        row.operand_ids.extend(operands)
        self._check_required(pending, word, inner, opcode_pos, attributes)
        self._called(pending, row, word, inner, operands, computation, opcode_pos)
        finish(
            row, [computation.shapes[operand] for operand in operands], pending, self, opcode_pos
        )
        for predecessor, predecessor_pos in pending.predecessors:
            row.control_predecessor_ids.append(
                self._lookup(computation, predecessor, predecessor_pos)
            )
        return self._append(computation, row, name, pos)

    def _append(self, computation: _Computation, row: Message, name: str, pos: int) -> int:
        if not name:
            name = unique(f"{row.opcode}.anon", computation.names)
        position = len(computation.shapes)
        computation.unnumbered.append(position)
        row.name = name
        row.id = position
        computation.names[name] = position
        computation.message.instructions.append(row)
        row = computation.message.instructions[-1]
        computation.shapes.append(row.shape)
        if row.opcode == "parameter":
            if row.parameter_number in computation.parameters:
                raise self.cursor.error(f"parameter({row.parameter_number}) is repeated", pos=pos)
            computation.parameters[row.parameter_number] = position
        return position

    def _opcode(self, word: str, pos: int) -> tuple[Opcode, str]:
        """The opcode, and for async sugar (``negate-start``) the wrapped opcode."""
        opcode = OPCODES.get(word)
        if opcode is not None:
            return opcode, ""
        for suffix in ("start", "update", "done"):
            inner = word.removesuffix(f"-{suffix}")
            if inner != word and inner in OPCODES:
                return OPCODES[f"async-{suffix}"], inner
        hint = did_you_mean(word, OPCODES)
        message = missing_opcode(word, misspelled=bool(hint))
        raise self.cursor.error(message, pos=pos, code="HLO-TEXT-OPCODE", hint=hint)

    def _operands(
        self, computation: _Computation, row: Message, word: Opcode, name: str
    ) -> list[int]:
        """Read the operands after the opening parenthesis, and the closing parenthesis."""
        cursor = self.cursor
        if word.name == "parameter":
            start = cursor.pos
            row.parameter_number = cursor.integer("a parameter number")
            if row.parameter_number < 0:
                raise cursor.error("a parameter number is not negative", pos=start)
            cursor.expect(")", "after the parameter number")
            return []
        if word.name == "constant":
            row.literal.CopyFrom(read_literal(cursor, row.shape))
            row.shape.CopyFrom(row.literal.shape)
            cursor.expect(")", "to end the constant")
            return []
        return self._operand_list(computation, word)

    def _operand_list(self, computation: _Computation, word: Opcode) -> list[int]:
        cursor = self.cursor
        start = cursor.pos
        operands: list[int] = []
        simple = _OPERANDS.match(cursor.text, cursor.pos)
        if simple is not None:
            names = computation.names
            body = simple.group()[:-1].strip()
            for operand in body.split(",") if body else ():
                operand = operand.strip().lstrip("%")
                position = names.get(operand)
                if position is None:
                    raise cursor.error(
                        f"no instruction '{operand}' is defined before this point",
                        pos=cursor.text.index(operand, start), code="HLO-TEXT-OPERAND",
                        hint=did_you_mean(operand, names),
                    )  # fmt: skip
                operands.append(position)
            cursor.pos = simple.end()
        elif not cursor.accept(")"):
            while True:
                operands.append(self._operand(computation))
                if not cursor.accept(","):
                    break
            cursor.expect(")", "to end the operands")
        if word.arity is not None and len(operands) != word.arity:
            raise cursor.error(
                f"{word.name} takes {word.arity} operands, not {len(operands)}", pos=start
            )
        return operands

    def _operand(self, computation: _Computation) -> int:
        """Read a name, with or without its shape, or an instruction written in place."""
        cursor = self.cursor
        cursor.skip()
        start = cursor.pos
        shape = self.shapes.read() if self.shapes.can_start() else None
        cursor.skip()
        if _OPCODE.match(cursor.text, cursor.pos) is not None:
            cursor.pos = start
            return self._right_side(computation, "", start, attributes=False)
        operand_pos = cursor.pos
        position = self._lookup(computation, cursor.identifier("an operand"), operand_pos)
        if shape is not None and not same_type(shape, computation.shapes[position]):
            raise cursor.error("the operand does not have the shape stated before it", pos=start)
        return position

    def _lookup(self, computation: _Computation, name: str, pos: int) -> int:
        position = computation.names.get(name)
        if position is None:
            raise self.cursor.error(
                f"no instruction '{name}' is defined before this point",
                pos=pos, code="HLO-TEXT-OPERAND", hint=did_you_mean(name, computation.names),
            )  # fmt: skip
        return position

    def _attributes(
        self, pending: Pending, row: Message, target: Message, allowed: frozenset[str], word: Opcode
    ) -> None:
        cursor = self.cursor
        text = cursor.text
        while True:
            match = _ATTRIBUTE.match(text, cursor.pos) or cursor.match(_ATTRIBUTE)
            if match is None:
                return
            name = match.group(1)
            if name not in allowed:
                raise cursor.error(
                    f"{word.name} has no attribute '{name}'",
                    pos=match.start(1),
                    code="HLO-TEXT-ATTRIBUTE",
                    hint=did_you_mean(name, allowed),
                )
            if name in pending.names_read:
                raise cursor.error(f"'{name}' is repeated", pos=match.start(1))
            pending.names_read.add(name)
            cursor.pos = match.end()
            inner = target is not row and name == "output_to_operand_aliasing"
            owner = row if name in word.attributes and not inner else target
            READERS[name](pending, owner)

    def _check_required(
        self, pending: Pending, word: Opcode, inner: Message | None, pos: int, attributes: bool
    ) -> None:
        required = set(word.required)
        if inner is not None and word.name == "async-start":
            required |= OPCODES[inner.opcode].required
        missing = sorted(required - pending.names_read)
        if missing:
            raise self.cursor.error(
                f"{word.name} needs {missing[0]}=", pos=pos, code="HLO-TEXT-ATTRIBUTE"
            )

    # -- computations that instructions name ---------------------------------------------------

    def _computation_reference(self) -> int:
        cursor = self.cursor
        if cursor.peek("{"):
            number = len(self.finished)
            name = unique("_", self.computations)
            self.computations[name] = -1  # taken, though nothing inside can refer to it
            return self._body(name, cursor.pos).message.id
        start = cursor.pos
        name = cursor.identifier("a computation")
        number = self.computations.get(name, -1)
        if number < 0:
            raise cursor.error(f"no computation '{name}' is defined before this point", pos=start)
        return number

    def _called(
        self, pending: Pending, row: Message, word: Opcode, inner: Message | None,
        operands: list[int], computation: _Computation, pos: int,
    ) -> None:  # fmt: skip
        if inner is not None and word.name == "async-start":
            row.called_computation_ids.append(
                self._wrap(pending, row, inner, operands, computation)
            )
            return
        for name in CALLED_ORDER:
            row.called_computation_ids.extend(pending.computations.get(name, ()))
        if word.name == "async-start" and not row.called_computation_ids:
            raise self.cursor.error("async-start needs calls=", pos=pos, code="HLO-TEXT-ATTRIBUTE")
        if word.name == "async-start" and row.async_execution_thread not in ("", "main"):
            self._set_thread(row.called_computation_ids[0], row.async_execution_thread)
        if word.name in ("async-update", "async-done"):
            source = computation.message.instructions[operands[0]]
            if not source.opcode.startswith("async-") or source.opcode == "async-done":
                raise self.cursor.error(f"{word.name} takes what an async-start returned", pos=pos)
            if word.name == "async-update" and not same_type(row.shape, source.shape):
                raise self.cursor.error("async-update returns the shape that it takes", pos=pos)
            del row.called_computation_ids[:]
            row.async_execution_thread = ""
        self._mark_fusion(row)

    def _set_thread(self, number: int, thread: str) -> None:
        """Run a computation and its callees on ``thread``; nested starts keep their thread."""
        message = self.finished[number].message
        message.execution_thread = thread
        for row in message.instructions:
            if not row.opcode.startswith("async-"):
                for callee in row.called_computation_ids:
                    self._set_thread(callee, thread)

    def _mark_fusion(self, row: Message) -> None:
        if row.opcode == "fusion":
            number: int = row.called_computation_ids[0]
            self.finished[number].message.is_fusion_computation = True

    def _wrap(
        self,
        pending: Pending,
        row: Message,
        inner: Message,
        operands: list[int],
        outer: _Computation,
    ) -> int:
        """Add the computation that async sugar implies: parameters and the wrapped operation."""
        shapes = row.shape.tuple_shapes
        if len(shapes) < 2:
            raise self.cursor.error("async-start returns ((operands), result, ...)")
        thread = row.async_execution_thread
        message = self.proto.computations.add(
            name=unique("async_wrapped", self.computations),
            execution_thread="" if thread == "main" else thread,
        )
        computation = _Computation(message)
        for number, operand in enumerate(operands):
            parameter = schema.HloInstructionProto(opcode="parameter", parameter_number=number)
            parameter.shape.CopyFrom(outer.shapes[operand])
            empty_fields(parameter)
            self._append(computation, parameter, unique("async_param", computation.names), 0)
        inner.shape.CopyFrom(shapes[1])
        for name in CALLED_ORDER:
            inner.called_computation_ids.extend(pending.computations.get(name, ()))
        inner.operand_ids.extend(range(len(operands)))
        finish(inner, computation.shapes[:], pending, self, self.cursor.pos)
        for shared in ("metadata", "frontend_attributes", "backend_config", "original_value"):
            if (
                row.HasField(shared)
                if shared in ("metadata", "frontend_attributes")
                else getattr(row, shared)
            ):
                copy_field(row, inner, shared)
        self._mark_fusion(inner)
        self._append(computation, inner, unique(inner.opcode, computation.names), 0)
        self._program_shape(computation, len(operands))
        self._register(computation)
        if thread not in ("", "main"):
            self._set_thread(message.id, thread)
        return message.id
