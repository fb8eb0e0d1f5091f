"""Converts loops between regions (our IR) and labelled blocks with branches (KLIR).

A counted loop becomes, as leanprover/KLR writes it (KLR/Trace/NKI.lean)::

    label.1:  index := start; bound := stop; jump label.2
    label.2:  if index < bound: body.3 else exit.4
    body.3:   ...; index := index + step; if index < bound: body.3 else exit.4
    exit.4:

A ``while`` loop is the same without the first block, on ``condition != 0``. So a loop is
recognized by its two equal branches: one before it, one at the end of its last block.

:class:`BlockWriter` writes blocks from statements; :func:`recover` recovers regions from blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nki_lang.base.errors import NkiFileError
from nki_lang.base.source import SourceLocation
from nki_lang.ir.types import ForLoop, Instruction, NoReorder, Register, WhileLoop
from nki_lang.klir import cbor, schema
from nki_lang.klir.names import Names
from nki_lang.klir.values import FALSE_BYTE, SOME_HEAD, TRUE_BYTE

__all__ = ["MAX_LOOP_DEPTH", "BlockWriter", "Branch", "LabelledBlock", "recover"]

MAX_LOOP_DEPTH = 64
_STATEMENT = schema.head("Stmt", "oper")


class BlockWriter:
    """Collects the blocks of one body; statements are bytes."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._numbers = 0
        self._labels = 0
        self._blocks: list[bytes] = []
        self._count = 0
        self._label = self.new_label("main")
        self._fixed_order = False
        self.current: list[bytes] = []

    def new_label(self, base: str) -> str:
        """Return a label that no block has yet."""
        self._labels += 1
        return f"{base}.{self._labels}"

    def control(self, operator: str, fields: list[bytes], location: SourceLocation | None) -> None:
        """Add a statement that only controls the flow."""
        self._numbers += 1
        (structure,) = schema.field_types("Operator", operator).values()
        head = _STATEMENT + schema.head("Operator", operator) + schema.head(structure)
        name = SOME_HEAD + cbor.text(f"{operator}.{self._numbers}")
        position = self._names.same_position(location)
        self.current.append(b"".join((head, *fields, name, position)))

    def move(self, register: str, value: int, location: SourceLocation | None) -> None:
        """Add ``register := value``."""
        self.control("registerMove", [cbor.text(register), cbor.integer(value)], location)

    def add(self, register: str, source: str, value: int, location: SourceLocation | None) -> None:
        """Add ``register := source + value``."""
        add = schema.head("AluOp", "add")
        fields = [cbor.text(register), cbor.text(source), cbor.integer(value), add]
        self.control("registerAluOp", fields, location)

    def branch(
        self, op: str, first: str, second: str, yes: str, no: str, location: SourceLocation | None
    ) -> None:
        """Add ``if first op second: yes else no``; a constant operand is always 0."""
        texts = [cbor.text(first), cbor.text(second), b"\x00", schema.head("BrCmpOp", op)]
        self.control("cmpBranch", [*texts, cbor.text(yes), cbor.text(no)], location)

    def begin(self, label: str, *, fixed_order: bool = False) -> None:
        """End the block and begin another one, without a jump."""
        mark = schema.head("Block") + cbor.text(self._label)
        order = TRUE_BYTE if self._fixed_order else FALSE_BYTE
        self._blocks += [mark, order, cbor.array_head(len(self.current)), *self.current]
        self._count += 1
        self.current = []
        self._label = label
        self._fixed_order = fixed_order

    def jump_to(
        self, label: str, location: SourceLocation | None = None, *, fixed_order: bool = False
    ) -> None:
        """End the block with a jump to the next one, ``label``."""
        self.branch("always", "", "", label, "", location)
        self.begin(label, fixed_order=fixed_order)

    def finish(self) -> bytes:
        """Return all blocks as KLIR's list."""
        self.begin("")
        return cbor.array_head(self._count) + b"".join(self._blocks)


@dataclass(slots=True)
class Branch:
    """The branch at the end of a block."""

    op: str
    first: str
    second: str
    constant: int
    yes: str
    no: str
    location: SourceLocation | None


@dataclass(slots=True)
class LabelledBlock:
    """A block as read: its instructions and the branch at its end."""

    label: str
    fixed_order: bool
    body: list[Instruction]
    branch: Branch | None = None


def _refused(message: str) -> NkiFileError:
    return NkiFileError(
        f"the blocks of the kernel do not form nested loops: {message}",
        code="NKI-FILE-CONTROL",
        remedy="this reader reads counted loops, while loops and no_reorder; branches on "
        "registers do not exist in the kernel IR",
    )


def _key(branch: Branch) -> tuple[Any, ...]:
    return branch.op, branch.first, branch.second, branch.constant, branch.yes, branch.no


@dataclass(slots=True)
class _Recovery:
    blocks: list[LabelledBlock]
    ends: dict[tuple[Any, ...], list[int]] = field(default_factory=dict[tuple[Any, ...], list[int]])

    def prepare(self) -> None:
        labels = [block.label for block in self.blocks]
        if len(set(labels)) != len(labels):
            raise _refused("two blocks have one label")
        for index, block in enumerate(self.blocks):
            if block.branch is not None and block.branch.op != "always":
                self.ends.setdefault(_key(block.branch), []).append(index)

    def region(self, begin: int, end: int, depth: int) -> list[Any]:
        """Return the statements of the blocks from ``begin`` to ``end``, without following the last
        branch."""
        if depth > MAX_LOOP_DEPTH:
            raise _refused(f"loops are nested more than {MAX_LOOP_DEPTH} deep")
        statements: list[Any] = []
        index = begin
        while index < end:
            block = self.blocks[index]
            has_own_body = True
            if block.fixed_order:
                location = block.branch.location if block.branch is not None else None
                statements.append(NoReorder(list(block.body), location))
            else:
                statements += block.body
                has_own_body = bool(block.body)
            if index + 1 == end:
                break
            branch = block.branch
            if branch is None:
                raise _refused(f"the block {block.label!r} has no successor")
            following = self.blocks[index + 1].label
            if branch.op == "always":
                if branch.yes != following:
                    raise _refused(
                        f"{block.label!r} jumps to {branch.yes!r}, not to the next block"
                    )
                index += 1
                continue
            if branch.yes != following:
                raise _refused(f"the branch of {block.label!r} goes to {branch.yes!r}")
            before = self.blocks[index - 1] if index > begin and not has_own_body else None
            index = self.loop(index, end, branch, statements, before, depth)
        return statements

    def loop(
        self, index: int, end: int, branch: Branch, statements: list[object],
        before: LabelledBlock | None, depth: int,
    ) -> int:  # fmt: skip
        """Append the loop that begins after block ``index``; return the block after the loop.

        ``before`` is the block before the loop, which may set the index and the bound.
        """
        positions = self.ends[_key(branch)]
        if len(positions) != 2 or positions[0] != index or positions[1] >= end:
            raise _refused(f"the branch of {self.blocks[index].label!r} begins no loop")
        last = positions[1]
        if last + 1 >= len(self.blocks) or self.blocks[last + 1].label != branch.no:
            raise _refused(f"no block {branch.no!r} follows the loop {branch.yes!r}")
        if branch.op == "ne_imm" and branch.constant == 0:
            body = self.region(index + 1, last + 1, depth + 1)
            statements.append(WhileLoop(Register(branch.first), body, branch.location))
            return last + 1
        if branch.op not in ("lt_reg", "gt_reg"):
            raise _refused(f"the loop {branch.yes!r} goes on while {branch.op}")
        step = self._step(self.blocks[last], branch)
        body = self.region(index + 1, last + 1, depth + 1)
        start, stop = _bounds(statements, before, branch)
        statements.append(ForLoop(Register(branch.first), start, stop, step, body, branch.location))
        return last + 1

    def _step(self, block: LabelledBlock, branch: Branch) -> int:
        """Remove the addition to the index from the end of a loop's last block."""
        if block.body:
            last = block.body[-1]
            index = Register(branch.first)
            operands = last.operands
            counts = last.op == "register_alu" and operands["op"] == "add"
            steps_index = counts and operands["dst"] == index and operands["src0"] == index
            if steps_index and (operands["src1"] >= 0) == (branch.op == "lt_reg"):
                block.body.pop()
                return operands["src1"]
        raise _refused(f"the loop {branch.yes!r} does not step its index {branch.first!r}")


def _bounds(
    statements: list[Any], init: LabelledBlock | None, branch: Branch
) -> tuple[int | Register, int | Register]:
    """Remove the moves into the index and the bound from the statements before the loop."""
    start: int | Register = Register(branch.first)
    stop: int | Register = Register(branch.second)
    movable = 0
    if init is not None and not init.fixed_order and init.branch and init.branch.op == "always":
        movable = len(init.body)
    if movable and _moves(statements[-1], stop) and type(statements[-1].operands["src"]) is int:
        stop = statements.pop().operands["src"]
        movable -= 1
    if movable and _moves(statements[-1], start):
        start = statements.pop().operands["src"]
    elif movable and statements[-1].op == "register_alu":
        operands = statements[-1].operands
        if operands["dst"] == start and operands["op"] == "add" and operands["src1"] == 0:
            statements.pop()
            start = operands["src0"]
    return start, stop


def _moves(statement: object, register: object) -> bool:
    return (
        type(statement) is Instruction
        and statement.op == "register_move"
        and statement.operands["dst"] == register
    )


def recover(blocks: list[LabelledBlock]) -> list[Any]:
    """Return the statements of a body, with regions recovered from its blocks.

    Raises:
        NkiFileError: code ``NKI-FILE-CONTROL``; the blocks do not form loops.
    """
    if not blocks:
        return []
    recovery = _Recovery(blocks)
    recovery.prepare()
    statements = recovery.region(0, len(blocks), 0)
    if blocks[-1].branch is not None:
        raise _refused(f"the last block, {blocks[-1].label!r}, ends with a branch")
    return statements
