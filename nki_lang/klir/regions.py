"""The regions of a body written as KLIR's blocks, or as a tree for the companion record."""

from __future__ import annotations

from typing import Any

from nki_lang.base.errors import NkiValidationError
from nki_lang.base.source import SourceLocation
from nki_lang.ir.types import Block, ForLoop, Instruction, NoReorder, Register, WhileLoop
from nki_lang.klir.control import BlockWriter
from nki_lang.klir.names import Names
from nki_lang.klir.statements import StatementWriter

__all__ = ["encode_body"]


def encode_body(
    statements: Block, names: Names, writer: StatementWriter
) -> tuple[bytes, list[Any] | None]:
    """The blocks of one core, and its tree of regions when blocks do not determine it."""
    names.begin_core()
    writer.begin_core()
    loops = any(not isinstance(statement, Instruction) for statement in statements)
    body = _BodyWriter(names, writer, _registers_of(statements) if loops else set())
    body.block(statements, in_order=False)
    tree = _tree_of(statements, names.files) if body.irregular else None
    return body.blocks.finish(), tree


class _BodyWriter:
    """Writes regions as blocks."""

    def __init__(self, names: Names, writer: StatementWriter, registers: set[str]) -> None:
        self.names = names
        self.writer = writer
        self.registers = registers
        self.blocks = BlockWriter(names)
        self.irregular = False

    def block(self, statements: Block, *, in_order: bool) -> None:
        encode = self.writer.statement
        for statement in statements:
            if isinstance(statement, Instruction):
                self.blocks.current.append(encode(statement))
                continue
            if in_order:
                self.irregular = True
            if isinstance(statement, ForLoop):
                self.counted(statement, in_order)
            elif isinstance(statement, WhileLoop):
                self.conditional(statement, in_order)
            else:
                self.in_order(statement, in_order)

    def in_order(self, region: NoReorder, inside: bool) -> None:
        location = region.location
        self.names.position(location)
        blocks = self.blocks
        if not inside:
            blocks.jump_to(blocks.new_label("label"), fixed_order=True)
        self.block(region.body, in_order=True)
        if not inside:
            blocks.jump_to(blocks.new_label("label"), location)

    def counted(self, loop: ForLoop, in_order: bool) -> None:
        self.writer.define(loop.register)
        location, index, blocks = loop.location, loop.register.name, self.blocks
        self.names.position(location)
        blocks.jump_to(blocks.new_label("label"), fixed_order=in_order)
        if loop.stop == loop.register:
            self.irregular = True
        self.start(loop, index)
        bound = self.bound(loop, index)
        blocks.jump_to(blocks.new_label("label"), fixed_order=in_order)
        body, after = blocks.new_label("body"), blocks.new_label("exit")
        falling = type(loop.step) is int and loop.step < 0
        test = ("gt_reg" if falling else "lt_reg", index, bound, body, after, location)
        blocks.branch(*test)
        blocks.begin(body, fixed_order=in_order)
        self.block(loop.body, in_order=in_order)
        if type(loop.step) is int:
            blocks.add(index, index, _int32(loop.step), location)
        else:
            self.irregular = True
            blocks.add(index, index, 0, location)
        blocks.branch(*test)
        blocks.begin(after, fixed_order=in_order)

    def start(self, loop: ForLoop, index: str) -> None:
        if type(loop.start) is int:
            self.blocks.move(index, _int32(loop.start), loop.location)
        elif loop.start != loop.register:
            assert type(loop.start) is Register
            self.blocks.add(index, loop.start.name, 0, loop.location)

    def bound(self, loop: ForLoop, index: str) -> str:
        if type(loop.stop) is Register:
            return loop.stop.name
        assert type(loop.stop) is int
        bound = f"{index}.stop"
        while bound in self.registers:
            bound += "_"
        self.blocks.move(bound, _int32(loop.stop), loop.location)
        return bound

    def conditional(self, loop: WhileLoop, in_order: bool) -> None:
        location, blocks = loop.location, self.blocks
        self.names.position(location)
        body, after = blocks.new_label("body"), blocks.new_label("exit")
        test = ("ne_imm", loop.condition.name, "", body, after, location)
        blocks.branch(*test)
        blocks.begin(body, fixed_order=in_order)
        self.block(loop.body, in_order=in_order)
        blocks.branch(*test)
        blocks.begin(after, fixed_order=in_order)


def _int32(value: int) -> int:
    if not -(1 << 31) <= value < (1 << 31):
        raise NkiValidationError(
            f"a loop counts with {value}, which does not fit into a 32-bit register",
            code="NKI-KLIR-RANGE",
            remedy="let the loop count in larger steps",
        )
    return value


def _place(location: SourceLocation | None, names: dict[str, str]) -> Any:
    if location is None:
        return None
    return [names[location.file], location.line, location.function, location.column]


def _bound(value: int | Register) -> Any:
    return {"register": value.name} if type(value) is Register else value


def _tree_of(statements: Block, names: dict[str, str]) -> list[Any]:
    """The regions of a block: numbers are runs of instructions."""
    tree: list[Any] = []
    for statement in statements:
        if isinstance(statement, Instruction):
            if tree and type(tree[-1]) is int:
                tree[-1] += 1
            else:
                tree.append(1)
            continue
        inner, location = _tree_of(statement.body, names), _place(statement.location, names)
        if isinstance(statement, ForLoop):
            bounds = [_bound(statement.start), _bound(statement.stop), _bound(statement.step)]
            tree.append(["for", statement.register.name, *bounds, location, inner])
        elif isinstance(statement, WhileLoop):
            tree.append(["while", statement.condition.name, location, inner])
        else:
            tree.append(["no_reorder", location, inner])
    return tree


def _registers_of(statements: Block) -> set[str]:
    """Names of the registers that a body with loops sets."""
    names: set[str] = set()
    for statement in statements:
        if isinstance(statement, Instruction):
            names |= {
                operand.name for operand in statement.operands.values() if type(operand) is Register
            }
        else:
            if isinstance(statement, ForLoop):
                bounds = (statement.register, statement.start, statement.stop, statement.step)
                names |= {operand.name for operand in bounds if type(operand) is Register}
            elif isinstance(statement, WhileLoop):
                names.add(statement.condition.name)
            names |= _registers_of(statement.body)
    return names
