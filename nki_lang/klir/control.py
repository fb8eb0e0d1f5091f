"""Loops: regions in our IR, labelled blocks with branches in KLIR.

A counted loop becomes, as leanprover/KLR writes it (KLR/Trace/NKI.lean)::

    label.1:  index := start; bound := stop; jump label.2
    label.2:  if index < bound: body.3 else exit.4
    body.3:   ...; index := index + step; if index < bound: body.3 else exit.4
    exit.4:

and a ``while`` loop the same without the first block, on ``condition != 0``. So a loop is found
again by its two equal branches: one in front, one at the end of its last block.

:class:`BlockWriter` makes blocks from statements; :func:`recover` makes regions from blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nki_lang.errors import NkiFileError
from nki_lang.ir.types import ForLoop, Instruction, NoReorder, Register, WhileLoop
from nki_lang.klir import cbor, schema
from nki_lang.klir.names import Names
from nki_lang.klir.values import FALSE, SOME, TRUE
from nki_lang.source import SourceLocation

__all__ = ["MAX_LOOP_DEPTH", "BlockWriter", "Branch", "PlainBlock", "recover"]

MAX_LOOP_DEPTH = 64
_STATEMENT = schema.head("Stmt", "oper")


class BlockWriter:
    """Collects the blocks of one body; statements are given as bytes."""

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
        """A label that no block has yet."""
        self._labels += 1
        return f"{base}.{self._labels}"

    def control(self, operator: str, fields: list[bytes], location: SourceLocation | None) -> None:
        """Adds a statement that only controls the flow."""
        self._numbers += 1
        (structure,) = schema.field_types("Operator", operator).values()
        head = _STATEMENT + schema.head("Operator", operator) + schema.head(structure)
        name = SOME + cbor.text(f"{operator}.{self._numbers}")
        place = self._names.same_position(location)
        self.current.append(b"".join((head, *fields, name, place)))

    def move(self, register: str, value: int, location: SourceLocation | None) -> None:
        """``register := value``."""
        self.control("registerMove", [cbor.text(register), cbor.integer(value)], location)

    def add(self, register: str, source: str, value: int, location: SourceLocation | None) -> None:
        """``register := source + value``."""
        add = schema.head("AluOp", "add")
        fields = [cbor.text(register), cbor.text(source), cbor.integer(value), add]
        self.control("registerAluOp", fields, location)

    def branch(
        self, op: str, first: str, second: str, yes: str, no: str, location: SourceLocation | None
    ) -> None:
        """``if first op second: yes else no``; a constant to compare with is always 0."""
        texts = [cbor.text(first), cbor.text(second), b"\x00", schema.head("BrCmpOp", op)]
        self.control("cmpBranch", [*texts, cbor.text(yes), cbor.text(no)], location)

    def begin(self, label: str, *, fixed_order: bool = False) -> None:
        """Ends the block and begins another, without a jump."""
        mark = schema.head("Block") + cbor.text(self._label)
        order = TRUE if self._fixed_order else FALSE
        self._blocks += [mark, order, cbor.array_head(len(self.current)), *self.current]
        self._count += 1
        self.current = []
        self._label = label
        self._fixed_order = fixed_order

    def jump_to(
        self, label: str, location: SourceLocation | None = None, *, fixed_order: bool = False
    ) -> None:
        """Ends the block with a jump to the next one, ``label``."""
        self.branch("always", "", "", label, "", location)
        self.begin(label, fixed_order=fixed_order)

    def finish(self) -> bytes:
        """All blocks, as KLIR's list."""
        self.begin("")
        return cbor.array_head(self._count) + b"".join(self._blocks)


@dataclass(slots=True)
class Branch:
    """The branch that ends a block."""

    op: str
    first: str
    second: str
    constant: int
    yes: str
    no: str
    location: SourceLocation | None


@dataclass(slots=True)
class PlainBlock:
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
        "registers have no form in the kernel IR",
    )


def _key(branch: Branch) -> tuple[Any, ...]:
    return branch.op, branch.first, branch.second, branch.constant, branch.yes, branch.no


@dataclass(slots=True)
class _Recovery:
    blocks: list[PlainBlock]
    ends: dict[tuple[Any, ...], list[int]] = field(default_factory=dict[tuple[Any, ...], list[int]])

    def prepare(self) -> None:
        labels = [block.label for block in self.blocks]
        if len(set(labels)) != len(labels):
            raise _refused("two blocks have one label")
        for index, block in enumerate(self.blocks):
            if block.branch is not None and block.branch.op != "always":
                self.ends.setdefault(_key(block.branch), []).append(index)

    def region(self, begin: int, end: int, depth: int) -> list[Any]:
        """The statements of the blocks from ``begin`` to ``end``; the last one's branch is not
        followed."""
        if depth > MAX_LOOP_DEPTH:
            raise _refused(f"loops are nested more than {MAX_LOOP_DEPTH} deep")
        statements: list[Any] = []
        at = begin
        while at < end:
            block = self.blocks[at]
            own = True
            if block.fixed_order:
                place = block.branch.location if block.branch is not None else None
                statements.append(NoReorder(list(block.body), place))
            else:
                statements += block.body
                own = bool(block.body)
            if at + 1 == end:
                break
            branch = block.branch
            if branch is None:
                raise _refused(f"the block {block.label!r} has no successor")
            following = self.blocks[at + 1].label
            if branch.op == "always":
                if branch.yes != following:
                    raise _refused(
                        f"{block.label!r} jumps to {branch.yes!r}, not to the next block"
                    )
                at += 1
                continue
            if branch.yes != following:
                raise _refused(f"the branch of {block.label!r} goes to {branch.yes!r}")
            before = self.blocks[at - 1] if at > begin and not own else None
            at = self.loop(at, end, branch, statements, before, depth)
        return statements

    def loop(
        self, at: int, end: int, branch: Branch, statements: list[Any],
        before: PlainBlock | None, depth: int,
    ) -> int:  # fmt: skip
        """Appends the loop that begins behind block ``at``; returns the block after it.

        ``before`` is the block in front, which may set the index and the bound.
        """
        places = self.ends[_key(branch)]
        if len(places) != 2 or places[0] != at or places[1] >= end:
            raise _refused(f"the branch of {self.blocks[at].label!r} begins no loop")
        last = places[1]
        if last + 1 >= len(self.blocks) or self.blocks[last + 1].label != branch.no:
            raise _refused(f"no block {branch.no!r} follows the loop {branch.yes!r}")
        if branch.op == "ne_imm" and branch.constant == 0:
            body = self.region(at + 1, last + 1, depth + 1)
            statements.append(WhileLoop(Register(branch.first), body, branch.location))
            return last + 1
        if branch.op not in ("lt_reg", "gt_reg"):
            raise _refused(f"the loop {branch.yes!r} goes on while {branch.op}")
        step = self._step(self.blocks[last], branch)
        body = self.region(at + 1, last + 1, depth + 1)
        start, stop = _bounds(statements, before, branch)
        statements.append(ForLoop(Register(branch.first), start, stop, step, body, branch.location))
        return last + 1

    def _step(self, block: PlainBlock, branch: Branch) -> int:
        """Takes the addition to the index off the end of a loop's last block."""
        if block.body:
            last = block.body[-1]
            index = Register(branch.first)
            given = last.operands
            counts = last.op == "register_alu" and given["op"] == "add"
            own = counts and given["dst"] == index and given["src0"] == index
            if own and (given["src1"] >= 0) == (branch.op == "lt_reg"):
                block.body.pop()
                return given["src1"]
        raise _refused(f"the loop {branch.yes!r} does not step its index {branch.first!r}")


def _bounds(
    statements: list[Any], init: PlainBlock | None, branch: Branch
) -> tuple[int | Register, int | Register]:
    """Takes the moves into the index and the bound off the statements of the block in front."""
    start: int | Register = Register(branch.first)
    stop: int | Register = Register(branch.second)
    left = 0
    if init is not None and not init.fixed_order and init.branch and init.branch.op == "always":
        left = len(init.body)
    if left and _moves(statements[-1], stop) and type(statements[-1].operands["src"]) is int:
        stop = statements.pop().operands["src"]
        left -= 1
    if left and _moves(statements[-1], start):
        start = statements.pop().operands["src"]
    elif left and statements[-1].op == "register_alu":
        given = statements[-1].operands
        if given["dst"] == start and given["op"] == "add" and given["src1"] == 0:
            statements.pop()
            start = given["src0"]
    return start, stop


def _moves(statement: Any, register: Any) -> bool:
    return (
        type(statement) is Instruction
        and statement.op == "register_move"
        and statement.operands["dst"] == register
    )


def recover(blocks: list[PlainBlock]) -> list[Any]:
    """The statements of a body: regions found in its blocks.

    Raises:
        NkiFileError: code ``NKI-FILE-CONTROL``; the blocks are not made of loops.
    """
    if not blocks:
        return []
    recovery = _Recovery(blocks)
    recovery.prepare()
    statements = recovery.region(0, len(blocks), 0)
    if blocks[-1].branch is not None:
        raise _refused(f"the last block, {blocks[-1].label!r}, ends with a branch")
    return statements
