"""Overview of a module at a fraction of the cost of loading it: names, opcodes, shapes, calls.

Nothing is decoded but what an overview needs, all instructions at once and as columns of arrays
(:mod:`hlo_tools.wire.columns`); constants are not even read, so a file of many GiB costs as much
as its instructions. Equal shapes are decoded once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from hlo_tools import schema
from hlo_tools.errors import HloFileError
from hlo_tools.outline.ranges import lists, not_ascii, unpacked
from hlo_tools.outline.unknown import table_holds_unknown, tags_to_check
from hlo_tools.schema.unknown import unknown_fields
from hlo_tools.types.ids import LOCAL_BITS, LOCAL_MASK
from hlo_tools.types.shape import Shape
from hlo_tools.wire import fields as wire
from hlo_tools.wire.columns import Table, Words, split, varints
from hlo_tools.wire.damage import explain
from hlo_tools.wire.distinct import distinct, distinct_bytes
from hlo_tools.wire.large_constants import cut_instruction, encode_field

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloInstructionProto, HloModuleProto
    from hlo_tools.wire.fields import Buffer

__all__ = [
    "Body",
    "Outline",
    "OutlinedComputation",
    "OutlinedInstruction",
    "shape_of",
]

Array = Any


def _tags(*fields: tuple[int, int]) -> tuple[int, ...]:
    return tuple(number << 3 | kind for number, kind in fields)


_NAME, _COMPUTATIONS, _ENTRY_ID = _OF_MODULE = _tags((1, 2), (3, 2), (6, 0))
_OF_COMPUTATION = _tags((1, 2), (2, 2), (5, 0), (6, 0))
_, _INSTRUCTIONS, _ID, _ROOT_ID = _OF_COMPUTATION
NAME, OPCODE, SHAPE, TARGET = _tags((1, 2), (2, 2), (3, 2), (28, 2))
ID, OPERANDS, OPERAND, CALLED, CALLED_ONE = _tags((35, 0), (36, 2), (36, 0), (38, 2), (38, 0))
COST = _tags((15, 2), (16, 2), (30, 2), (32, 2), (32, 0), (58, 0))
"""Tags of an instruction's fields; ``COST`` are those that its arithmetic depends on."""
_WANTED = (NAME, OPCODE, SHAPE, TARGET, ID, OPERANDS, OPERAND, CALLED, CALLED_ONE, *COST)
_MODULE, _COMPUTATION, _INSTRUCTION = "HloModuleProto", "HloComputationProto", "HloInstructionProto"
_SPARSE = 8
"""With more unused ids than so many an instruction, ids are searched for."""
_LITERAL_OVER = 1 << 16
"""Larger literals are left out of parts of a module."""


class Body(NamedTuple):
    """A computation in the file: its instructions are rows ``first`` to ``last - 1``."""

    name: str
    id: int
    root_id: int
    first: int
    last: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class OutlinedInstruction:
    """One instruction of an overview, decoded when it is asked for."""

    outline: Outline
    row: int

    @property
    def proto(self) -> HloInstructionProto:
        """Its ``HloInstructionProto``, without a large literal.

        Raises:
            HloFileError: the instruction is damaged.
        """
        try:
            return schema.HloInstructionProto.FromString(self.outline.instruction_bytes(self.row))
        except Exception as error:
            raise self.outline.damage() from error

    @property
    def name(self) -> str:
        return self.outline.text(NAME, self.row)

    @property
    def opcode(self) -> str:
        return self.outline.kinds[int(self.outline.kind_of[self.row])][0]

    @property
    def shape(self) -> Shape:
        return shape_of(self.outline.kinds[int(self.outline.kind_of[self.row])][1])


@dataclass(frozen=True, slots=True)
class OutlinedComputation:
    """A computation of an overview; iterating gives its instructions."""

    outline: Outline
    body: Body

    @property
    def name(self) -> str:
        return self.body.name

    def __iter__(self) -> Iterator[OutlinedInstruction]:
        return (
            OutlinedInstruction(self.outline, r) for r in range(self.body.first, self.body.last)
        )

    def __len__(self) -> int:
        return self.body.last - self.body.first


class Outline:
    """The overview of a module: instructions are rows, numbered in the file's order.

    Args:
        data: bytes or a memory map.
        begin, end: where the HloModuleProto stands in it.
        path: where it came from, for messages.
        also: tags of further fields of instructions for ``fields``.
        messages: look for unknown fields in the messages of instructions too.

    Attributes:
        name, entry_id: of the module, and the id of its entry computation.
        bodies: its computations.
        kinds: the different pairs of opcode and shape (as bytes, see :func:`shape_of`).
        kind_of: for each row, which of them it has.
        fields: the fields of all rows that an overview reads.

    Raises:
        HloFileError: the bytes are no message.
    """

    def __init__(
        self,
        data: Buffer,
        begin: int = 0,
        end: int | None = None,
        *,
        path: str = "",
        also: tuple[int, ...] = (),
        messages: bool = False,
    ) -> None:
        self.data = data
        self.path = path
        self.range = begin, len(data) if end is None else end
        self.words = Words(data)
        self.name, self.entry_id = "", 0
        self._has_messages = messages
        try:
            self._read_module()
            tags = (*_WANTED, *also, *tags_to_check(_INSTRUCTION, messages=messages))
            self.fields = split(self.words, self._begin, self._end, tags, beyond=True)
            self._bounds = {tag: self.bounds(tag) for tag in (NAME, OPCODE, SHAPE)}
            self._check_names()
            self.kinds, self.kind_of = self._kinds()
        except (HloFileError, UnicodeDecodeError) as error:
            raise self.damage() from error

    @cached_property
    def holds_unknown_fields(self) -> bool:
        """Return True if the module has a field that the schema lacks.

        Looked for in the module, its computations and its instructions, and in the messages that
        the module and computations hold; in those of instructions with ``messages`` only.
        """
        tables = (
            (_MODULE, self._top, _COMPUTATIONS),
            (_COMPUTATION, self._inner, _INSTRUCTIONS),
            (_INSTRUCTION, self.fields, SHAPE),
        )
        if any(table_holds_unknown(self.words, *table) for table in tables):
            return True
        shapes = {data for _, data in self.kinds}  # equal ones are read once
        return any(next(unknown_fields(shape_of(shape).proto), None) for shape in shapes)

    # What it holds

    @property
    def computations(self) -> list[OutlinedComputation]:
        return [OutlinedComputation(self, body) for body in self.bodies]

    @property
    def instructions(self) -> Iterator[OutlinedInstruction]:
        """Every instruction of every computation."""
        return (OutlinedInstruction(self, row) for row in range(self.instruction_count))

    @property
    def instruction_count(self) -> int:
        return len(self._begin)

    @property
    def entry(self) -> Body:
        """The computation where the program begins.

        Raises:
            HloFileError: the entry id names no computation (HLO-REFERENCE).
        """
        return self.body(self.entry_id)

    def body(self, number: int) -> Body:
        """The computation with an id.

        Raises:
            HloFileError: there is none (HLO-REFERENCE).
        """
        body = self.by_id.get(number)
        if body is None:
            missing = f" with the id {number}" if self.by_id else ""
            raise HloFileError(
                f"module {self.name or '(no name)'} has no computation{missing}",
                code="HLO-REFERENCE",
                place=self.path,
                remedy="the module is damaged; nki-hlo verify reports all that is wrong",
            )
        return body

    def root(self, body: Body) -> OutlinedInstruction:
        """The instruction whose result is a computation's.

        Raises:
            HloFileError: the root id names no instruction (HLO-REFERENCE).
        """
        positions = np.flatnonzero(
            self.local_ids[body.first : body.last] == body.root_id & LOCAL_MASK
        )
        if not positions.size:
            raise HloFileError(
                f"the root id {body.root_id} of computation %{body.name} names no instruction",
                code="HLO-REFERENCE",
                place=self.path,
                remedy="the module is damaged; nki-hlo verify reports all that is wrong",
            )
        return OutlinedInstruction(self, body.first + int(positions[-1]))

    def parameters(self, body: Body) -> list[OutlinedInstruction]:
        """A computation's parameters by number."""
        kinds = [index for index, (opcode, _) in enumerate(self.kinds) if opcode == "parameter"]
        rows = np.flatnonzero(np.isin(self.kind_of[body.first : body.last], kinds)) + body.first
        parameters = [OutlinedInstruction(self, row) for row in rows.tolist()]
        return sorted(parameters, key=lambda parameter: parameter.proto.parameter_number)

    @property
    def id_scheme(self) -> str:
        """``"wide"`` or ``"legacy"``; see :func:`hlo_tools.types.ids.scheme_of`."""
        roots = any(body.root_id > LOCAL_MASK for body in self.bodies)
        ids = self.ids
        if roots or (ids > LOCAL_MASK).any() or np.unique(ids).size != ids.size:
            return "wide"
        return "legacy"

    @property
    def folder(self) -> Path | None:
        """Folder of its file, which relative names of kernel files start from; None without one."""
        return Path(self.path).parent if self.path and self.path[0] != "<" else None

    @cached_property
    def by_id(self) -> dict[int, Body]:
        """Computations by their ids."""
        return {body.id: body for body in self.bodies}

    def opcodes(self) -> dict[str, int]:
        """How often each opcode occurs, the most frequent first."""
        counts: dict[str, int] = {}
        for (opcode, _), count in self.shapes().items():
            counts[opcode] = counts.get(opcode, 0) + count
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def shapes(self) -> dict[tuple[str, bytes], int]:
        """How often each pair of opcode and shape (as bytes, see :func:`shape_of`) occurs."""
        counts = np.bincount(self.kind_of, minlength=len(self.kinds)).tolist()
        return dict(zip(self.kinds, counts, strict=True))

    def custom_calls(self, target: str) -> list[OutlinedInstruction]:
        """The custom calls of a target."""
        target_bytes, targets = target.encode(), self.fields.of(TARGET)
        data = self.data
        last: dict[int, bool] = {}
        for row, begin, end in zip(*lists(targets.row, targets.begin, targets.end), strict=True):
            last[row] = data[begin:end] == target_bytes
        rows = sorted(row for row, fits in last.items() if fits)
        return [
            inst for row in rows if (inst := OutlinedInstruction(self, row)).opcode == "custom-call"
        ]

    def part_message(self, rows: Iterable[int]) -> HloModuleProto:
        """An ``HloModuleProto`` of some rows alone, without large literals: to look at, not to run.

        What stands in the module beside its computations is all there.

        Raises:
            HloFileError: one of the rows is damaged.
        """
        chosen = np.unique(np.fromiter(rows, np.int64))
        bounds = np.searchsorted(chosen, [(body.first, body.last) for body in self.bodies])
        parts = [self._outside(*self.range, _COMPUTATIONS >> 3)]
        for body, (first, last) in zip(self.bodies, bounds.tolist(), strict=True):
            body_rows = chosen[first:last].tolist()
            if not body_rows and body.id != self.entry_id:
                continue
            inner = [self._beside(body)]
            inner += [
                encode_field(_INSTRUCTIONS >> 3, self.instruction_bytes(r)) for r in body_rows
            ]
            parts.append(encode_field(_COMPUTATIONS >> 3, b"".join(inner)))
        try:
            return schema.HloModuleProto.FromString(b"".join(parts))
        except Exception as error:
            raise self.damage() from error

    # Columns

    @cached_property
    def operands(self) -> tuple[Array, Array]:
        """(first, rows): operands of row ``r`` are ``rows[first[r]:first[r + 1]]``; -1 is none."""
        # Local ids are dense in nearly every module, so (computation, id) -> row is a table: the
        # computations' ranges of ids one after another. Only where ids have wide gaps, and the
        # table would be much larger than the module, they are searched for.
        first, ids = self.numbers(OPERANDS, OPERAND)
        owner = np.repeat(self.body_of, np.diff(first))
        local = ids & LOCAL_MASK
        bodies = np.array(
            [
                index
                for index, computation in enumerate(self.bodies)
                if computation.last > computation.first
            ]
        )
        starts = np.array(
            [
                computation.first
                for computation in self.bodies
                if computation.last > computation.first
            ],
            np.int64,
        )
        lowest, sizes = np.zeros((2, len(self.bodies)), np.int64)
        if bodies.size:
            # Only computations with instructions: reduceat gives one element for an empty range.
            lowest[bodies] = np.minimum.reduceat(self.local_ids, starts)
            sizes[bodies] = np.maximum.reduceat(self.local_ids, starts) - lowest[bodies] + 1
        if int(sizes.sum()) > _SPARSE * (self.instruction_count + 1):
            return first, self._searched(owner << LOCAL_BITS | local)
        position = np.cumsum(sizes) - sizes
        table = np.full(int(sizes.sum()) + 1, -1)
        owners = self.body_of
        table[position[owners] + self.local_ids - lowest[owners]] = np.arange(
            self.instruction_count
        )
        offset = local - lowest[owner]
        return first, table[
            np.where((offset >= 0) & (offset < sizes[owner]), position[owner] + offset, -1)
        ]

    def _searched(self, operand_keys: Array) -> Array:
        """Rows by body and local id, where ids have wide gaps."""
        keys = self.body_of << LOCAL_BITS | self.local_ids
        order = np.argsort(keys, kind="stable")
        positions = cast(Array, np.searchsorted(keys, operand_keys, side="right", sorter=order)) - 1
        fits = positions >= 0
        fits[fits] = keys[order[positions[fits]]] == operand_keys[fits]
        return np.where(fits, order[positions], -1)

    @cached_property
    def body_of(self) -> Array:
        """For each row, which of ``bodies`` it stands in."""
        sizes = [body.last - body.first for body in self.bodies]
        return np.repeat(np.arange(len(sizes)), sizes)

    @cached_property
    def ids(self) -> Array:
        """The id of each row, as the file has it."""
        ids = np.zeros(self.instruction_count, np.int64)
        fields = self.fields.of(ID)
        ids[fields.row] = varints(self.words, fields.begin)[0].astype(np.int64)
        return ids

    @property
    def local_ids(self) -> Array:
        """The id of each row within its computation."""
        return self.ids & LOCAL_MASK

    @property
    def rows(self) -> tuple[Array, Array]:
        """Bounds of every instruction's message."""
        return self._begin, self._end

    def numbers(self, *tags: int) -> tuple[Array, Array]:
        """(first, values) of a repeated number: row ``r`` has ``values[first[r]:first[r + 1]]``."""
        fields = self.fields.of(*tags)
        order = np.argsort(fields.row, kind="stable")
        try:
            owner, values = unpacked(self.words, fields.begin[order], fields.end[order])
        except HloFileError as error:
            raise self.damage() from error
        counts = np.bincount(fields.row[order][owner], minlength=self.instruction_count)
        return np.concatenate(([0], np.cumsum(counts))), values

    def text(self, tag: int, row: int) -> str:
        """A text of a row (:data:`NAME` or :data:`OPCODE`)."""
        begin, end = self._bounds[tag]
        return str(self.data[begin[row] : end[row]], "utf-8")

    def instruction_bytes(self, row: int) -> bytes:
        """An instruction's message, without a large literal."""
        begin, end = int(self._begin[row]), int(self._end[row])
        if end - begin <= _LITERAL_OVER:
            return bytes(self.data[begin:end])
        return cut_instruction(self.data, begin, end, _LITERAL_OVER)[0]

    def damage(self) -> HloFileError:
        """The error that says where the module is damaged."""
        begin, end = self.range
        error = explain(memoryview(self.data)[begin:end], schema.HloModuleProto.DESCRIPTOR)
        location = self.path or error.place
        return type(error)(error.message, code=error.code, place=location, remedy=error.remedy)

    # Reading

    def _read_module(self) -> None:
        begin, end = self.range
        tags = (*_OF_MODULE, *tags_to_check(_MODULE))
        top = split(self.words, np.array([begin]), np.array([end]), tags, beyond=True)
        for first, last in zip(*lists(*top.of(_NAME)[2:]), strict=True):
            self.name = str(self.data[first:last], "utf-8")
        for position in top.of(_ENTRY_ID).begin.tolist():
            self.entry_id = wire.signed(wire.read_varint(self.data, position, end)[0])
        bodies = top.of(_COMPUTATIONS)
        tags = (*_OF_COMPUTATION, *tags_to_check(_COMPUTATION))
        inner = split(self.words, bodies.begin, bodies.end, tags, beyond=True)
        self._top, self._inner = top, inner
        rows = inner.of(_INSTRUCTIONS)
        order = np.argsort(rows.row, kind="stable")
        self._begin, self._end = rows.begin[order], rows.end[order]
        counts = np.bincount(rows.row, minlength=len(bodies.row))
        last = np.cumsum(counts)
        names = [""] * len(bodies.row)
        name_fields = inner.of(_NAME)
        for row, begin, end in zip(
            *lists(name_fields.row, name_fields.begin, name_fields.end), strict=True
        ):
            names[row] = str(self.data[begin:end], "utf-8")
        columns = lists(
            self._last_number(inner.of(_ID), len(names)),
            self._last_number(inner.of(_ROOT_ID), len(names)),
            last - counts,
            last,
            bodies.begin,
            bodies.end,
        )
        self.bodies = list(map(Body._make, zip(names, *columns, strict=True)))

    def _last_number(self, fields: Table, count: int) -> Array:
        numbers = np.zeros(count, np.int64)
        numbers[fields.row] = varints(self.words, fields.begin)[0].astype(np.int64)
        return numbers

    def _outside(self, begin: int, end: int, number: int) -> bytes:
        """The fields of a message but those of one number."""
        fields = wire.fields(self.data, begin, end)
        return b"".join(bytes(self.data[f.offset : f.end]) for f in fields if f.number != number)

    def _beside(self, body: Body) -> bytes:
        """A computation's fields without its instructions: mostly what stands before and behind."""
        # Walking over all fields in Python would cost as much as the computation has instructions.
        # Where each instruction's header (a tag of one byte, then its length) stands is known from
        # its size, so what is left are the gaps between them.
        begin, end = (bounds[body.first : body.last] for bounds in self.rows)
        size = end - begin
        width = sum(
            ((size >= 1 << 7 * position).astype(np.int64) for position in range(1, 5)), size * 0
        )
        start = begin - width - 2
        before = np.concatenate(([body.begin], end))
        # A length that is written longer than it has to be puts the tag elsewhere.
        if (self.words.at(start) & np.uint64(0xFF) != _INSTRUCTIONS).any():
            return self._outside(body.begin, body.end, _INSTRUCTIONS >> 3)
        gaps = np.flatnonzero(np.append(start, body.end) > before)
        spans = zip(*lists(before[gaps], np.append(start, body.end)[gaps]), strict=True)
        return b"".join(bytes(self.data[first:last]) for first, last in spans)

    def bounds(self, tag: int) -> tuple[Array, Array]:
        """Bounds of a field in every row; of several the last counts, 0 and 0 where there is none."""
        table = self.fields.of(tag)
        begin, end = (
            np.zeros(self.instruction_count, np.int64),
            np.zeros(self.instruction_count, np.int64),
        )
        begin[table.row], end[table.row] = table.begin, table.end
        return begin, end

    def _check_names(self) -> None:
        """Names and targets are UTF-8; those with non-ASCII bytes are checked."""
        for tag in (NAME, TARGET):
            table = self.fields.of(tag)
            for row in not_ascii(self.words, table.begin, table.end).tolist():
                str(self.data[table.begin[row] : table.end[row]], "utf-8")

    def _kinds(self) -> tuple[list[tuple[str, bytes]], Array]:
        """The different pairs of opcode and shape, and which each row has."""
        opcodes, shapes = (self._bounds[tag] for tag in (OPCODE, SHAPE))
        # Opcode and shape stand side by side (fields 2 and 3), so one range of bytes, from the
        # opcode's length on, identifies a pair; the length distinguishes two different cuts of it.
        gap = shapes[0] - opcodes[1]
        if ((gap > 1) & (gap < 7) & (opcodes[1] - opcodes[0] < 128)).all():
            kind_of, first = distinct_bytes(self.words, opcodes[0] - 1, shapes[1])
        else:
            columns = (distinct_bytes(self.words, *bounds)[0] for bounds in (opcodes, shapes))
            kind_of, first = distinct(*columns)
        data = self.data
        pairs = [
            (str(data[opcode:opcode_end], "utf-8"), bytes(data[shape:shape_end]))
            for opcode, opcode_end, shape, shape_end in zip(
                *lists(*(column[first] for column in (*opcodes, *shapes))), strict=True
            )
        ]
        # Pairs that are equal but for how a length is written were distinct until here.
        merged = {pair: number for number, pair in enumerate(dict.fromkeys(pairs))}
        return list(merged), np.array([merged[pair] for pair in pairs], np.int64)[kind_of]


def shape_of(data: bytes) -> Shape:
    """The shape in an outlined instruction's bytes.

    Raises:
        HloFileError: the bytes are no shape.
    """
    message = schema.ShapeProto
    try:
        return Shape(message.FromString(data))
    except Exception as error:
        raise explain(data, message.DESCRIPTOR) from error
