"""Instructions of a large module as lines of text, all at once.

Fields become columns, columns become pieces, pieces become text. Names and operations' names are
taken as they are; what else a line shows depends on few bytes, which repeat: the printer is asked
once. Instructions that are unlike the others are left to the printer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import add
from typing import Any, Protocol, cast

import numpy as np

from hlo_tools import schema
from hlo_tools.outline import (
    CALLED,
    CALLED_ONE,
    ID,
    NAME,
    OPCODE,
    OPERAND,
    OPERANDS,
    SHAPE,
    Outline,
)
from hlo_tools.text.options import PrintOptions
from hlo_tools.text.pieces import Columns, Texts
from hlo_tools.text.print_sharding import print_metadata
from hlo_tools.types.ids import LOCAL_MASK
from hlo_tools.wire.columns import Table, split, starts, varints
from hlo_tools.wire.distinct import distinct, distinct_bytes

__all__ = ["Lines", "Printer"]

Array = Any
Message = Any
_METADATA, _WAITS = 7 << 3 | 2, 37 << 3 | 2
_OP_NAME = 2 << 3 | 2
_MAX_LINES_PER_BATCH = 1 << 13
"""Larger batches would push the index arrays out of the cache."""
_MAX_FIELD_BYTES = 512
"""Longer fields (literals) hardly repeat, so a template for them is wasted."""
_NAMED, _OP_NAMED = "\0called\0", 'op_name="x"'
"""Placeholders for the called computation and the operation's name in line templates."""
_BY_OPERAND = frozenset({"compare"})
"""Opcodes whose attributes depend on the first operand's shape."""
_BY_SHAPE = frozenset({"collective-permute", "collective-permute-start"})
"""Opcodes whose attributes depend on their own shape."""


class Printer(Protocol):
    """The general printer of one instruction."""

    proto: Message
    options: PrintOptions
    mark: str
    pad: str
    computations: dict[int, str]

    def name_of(self, name: str) -> str: ...
    def shape_of(self, shape: Message) -> str: ...
    def operands_of(self, row: Message, local: dict[int, Message]) -> str: ...
    def attributes_of(
        self, row: Message, wrapped: Message | None, local: dict[int, Message]
    ) -> Iterator[tuple[str, str]]: ...
    def ending_of(self, row: Message) -> str: ...
    def instruction_of(
        self, row: Message, computation: Message, local: dict[int, Message]
    ) -> Iterator[str]: ...


class Lines:
    """The lines of a module's instructions.

    Args:
        printer: prints what is not known yet.
        data: the bytes of the printer's module.
    """

    def __init__(self, printer: Printer, data: Any) -> None:
        self.printer = printer
        self.outline = outline = Outline(data, also=(_METADATA, _WAITS), messages=True)
        self.opcodes = [opcode for opcode, _ in outline.kinds]
        self.first, self.operands = outline.operands
        self.called_from, self.called = outline.numbers(CALLED, CALLED_ONE)
        self.misplaced = np.zeros(outline.instruction_count, bool)
        self.metadata = outline.bounds(_METADATA)
        self.spans = self._spans()
        self.op_name = self._op_names()
        self.alone = self._alone()
        self.texts = Texts()
        self._local: tuple[int, Any] = -1, None

    @property
    def has_async(self) -> bool:
        """Return True if an instruction is asynchronous."""
        return any(opcode.startswith("async-") for opcode in self.opcodes)

    def printed(self, orders: dict[int, list[int] | None]) -> Iterator[list[str]]:
        """Yield the lines of each computation, as texts one after another.

        Args:
            orders: of each computation, counted in the module, its instructions in the order in
                which they are printed, counted in the computation; None for as they stand.
        """
        bodies = [(self.outline.bodies[position], order) for position, order in orders.items()]
        parts = [
            np.arange(body.first, body.last) if order is None else body.first + np.array(order, int)
            for body, order in bodies
        ]
        rows = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        columns = self._columns(rows)
        line = begin = end = 0
        text, bounds = b"", [0]
        for last in np.cumsum(list(map(len, parts))).tolist():
            texts: list[str] = []
            while line < last:
                if line == end:
                    begin, end = end, min(end + _MAX_LINES_PER_BATCH, len(rows))
                    text, bounds = columns.joined(rows[begin:end], self.texts)
                until = min(last, end)
                texts.append(str(text[bounds[line - begin] : bounds[until - begin]], "utf-8"))
                line = until
            yield texts

    # Fields

    def _spans(self) -> tuple[Array, ...]:
        """Return, per row, the byte bounds of the fields after the metadata and of the last fields.

        Between them stand its id, its operands and what it calls.
        """
        begin, end = self.outline.rows
        # Serializers write fields by number, so in nearly all messages each field begins where
        # the one before it ended. What is between two known fields is then one range, whose bytes
        # stand for all the fields in it; messages in another order are printed one by one.
        behind = begin.copy()
        for tag in (NAME, OPCODE, SHAPE, _METADATA):
            self._follow(self.outline.fields.of(tag), behind)
        ids, last = self.outline.fields.of(ID), end.copy()
        last[ids.row] = starts(ids)
        tail = last.copy()
        self._follow(ids, tail)
        for tag in (OPERANDS, CALLED):
            self._follow(self.outline.fields.of(tag), tail)
        self.misplaced |= behind > last
        return behind, last, tail, end

    def _follow(self, fields: Table, position: Array) -> None:
        """Move each row's position over a field; mark the row if its field is elsewhere."""
        self.misplaced[fields.row[position[fields.row] != starts(fields)]] = True
        position[fields.row] = fields.end

    def _op_names(self) -> Table:
        """Return the byte ranges of the operation names in the metadata."""
        begin, end = self.metadata
        words, rows = self.outline.words, np.flatnonzero(begin < end)
        first = words.at(begin[rows]) & np.uint64(0xFF) == _OP_NAME
        usual, unusual = rows[first], rows[~first]
        size, width = varints(words, begin[usual] + 1)
        start = begin[usual] + 1 + width
        searched = split(words, begin[unusual], end[unusual], (_OP_NAME,))
        names = Table(
            np.concatenate((usual, unusual[searched.row])),
            np.full(len(usual) + len(searched.row), _OP_NAME),
            np.concatenate((start, searched.begin)),
            np.concatenate((start + size.astype(np.int64), searched.end)),
        )
        tags = self.outline.words.at(starts(names)) & np.uint64(0xFF)
        # Three things that the columns below do not cover: a length written longer than needed
        # (its tag is not where it should be), an empty name, and several of them.
        self.misplaced[names.row[tags != _OP_NAME]] = True
        self.misplaced[names.row[names.begin == names.end]] = True
        self.misplaced[np.bincount(names.row, minlength=len(begin)) > 1] = True
        return names

    def _alone(self) -> Array:
        """Return the rows that need the general printer: no template fits them."""
        outline, (behind, last, tail, end) = self.outline, self.spans
        operands = np.diff(self.first)
        alone = self.misplaced | self._is(lambda o: o.startswith("async-") or o == "conditional")
        alone |= self._is({"parameter", "constant"}.__contains__) & (operands > 0)
        alone |= np.diff(self.called_from) > 1
        alone |= last - behind + end - tail > _MAX_FIELD_BYTES
        for tag in (_WAITS, OPERAND, CALLED_ONE):
            alone[outline.fields.of(tag).row] = True
        alone[np.repeat(np.arange(len(alone)), operands)[self.operands < 0]] = True
        return alone

    def _is(self, predicate: Callable[[str], bool]) -> Array:
        """Return the rows whose opcode satisfies ``predicate``."""
        return np.array([predicate(opcode) for opcode in self.opcodes], bool)[self.outline.kind_of]

    # Columns of texts

    def _names(self) -> Array:
        """Every row's name with its mark."""
        printer, outline = self.printer, self.outline
        begin, end = outline.bounds(NAME)
        if not printer.options.ids:
            names = (outline.text(NAME, row) for row in range(len(begin)))
            return self.texts.add(printer.name_of(name) for name in names)
        return self.texts.add_ranges(outline.data, begin, end, before=printer.mark)

    def _shape_texts(self) -> list[str]:
        """Return the text of each kind's shape, and a space."""
        shape = schema.ShapeProto
        return [
            f"{self.printer.shape_of(shape.FromString(data))} " for _, data in self.outline.kinds
        ]

    def _shapes(self) -> Array:
        """The shape of each row."""
        return self.texts.add(self._shape_texts())[self.outline.kind_of]

    def _heads(self) -> Array:
        """Return the text after the name: shape and opcode."""
        texts = [f"{opcode}(" for opcode in self.opcodes]
        if self.printer.options.result_shape:
            texts = map(add, self._shape_texts(), texts)
        return self.texts.add(f" = {text}" for text in texts)[self.outline.kind_of]

    def _attributes(self) -> tuple[Array, ...]:
        """Return five columns of texts: operands, prefix, called name, attributes, suffix."""
        outline, (behind, last, tail, end) = self.outline, self.spans
        number = {opcode: index for index, opcode in enumerate(dict.fromkeys(self.opcodes))}
        opcode = np.array([number[o] for o in self.opcodes], np.int64)[outline.kind_of]
        middle, ending = self._kinds(behind, last)[0], self._kinds(tail, end)[0]
        # Attributes depend on these columns alone, so the printer is asked for one row of each
        # kind. Ids, operands and the called computation are left out of them: they differ in
        # every row, and their names are columns of their own.
        columns = (opcode, middle, ending, self._variant(), self.alone.astype(np.int64))
        kind, rows = distinct(*columns)
        learned = [
            ("", "", "", "") if self.alone[row] else self._learn(row) for row in rows.tolist()
        ]
        texts = list(zip(*learned, strict=True)) or [()] * 4
        inside, before, after, behind = (self.texts.add(column)[kind] for column in texts)
        return inside, before, self._called_names(), after, behind

    def _kinds(self, begin: Array, end: Array) -> tuple[Array, list[bytes]]:
        """Return the number of each row's range, and the distinct ranges; number 0 is empty."""
        data, rows = self.outline.data, np.flatnonzero((begin < end) & ~self.alone)
        kind, first = distinct_bytes(self.outline.words, begin[rows], end[rows])
        kinds = np.zeros(len(begin), np.int64)
        kinds[rows] = kind + 1
        bounds = zip(begin[rows[first]].tolist(), end[rows[first]].tolist(), strict=True)
        return kinds, [b"", *(bytes(data[start:until]) for start, until in bounds)]

    def _variant(self) -> Array:
        """Return the number of the shape on which the attributes depend, 0 for none."""
        kind_of = self.outline.kind_of
        variant = np.where(self._is(_BY_SHAPE.__contains__), kind_of + 1, 0)
        rows = np.flatnonzero(self._is(_BY_OPERAND.__contains__) & (np.diff(self.first) > 0))
        variant[rows] = kind_of[self.operands[self.first[rows]]] + 1
        return variant

    def _learn(self, number: int) -> tuple[str, str, str, str]:
        printer, row = self.printer, self._row(number)
        operand_ids = self.operands[self.first[number] : self.first[number + 1]].tolist()
        local = {operand.id & LOCAL_MASK: operand for operand in map(self._row, operand_ids[:1])}
        names = printer.computations
        # The called name differs among rows of a kind: a stand-in marks where it goes.
        printer.computations = dict.fromkeys(row.called_computation_ids, _NAMED)
        texts = [f", {name}={text}" for name, text in printer.attributes_of(row, None, local)]
        printer.computations = names
        before, after = f"){''.join(texts)}", ""
        if row.called_computation_ids:
            before, _, after = before.partition(printer.mark + _NAMED)
        inside = "" if operand_ids else printer.operands_of(row, {})
        return inside, before, after, printer.ending_of(row)

    def _row(self, number: int) -> Message:
        body = int(self.outline.body_of[number])
        start = self.outline.bodies[body].first
        return self.printer.proto.computations[body].instructions[number - start]

    def _called_names(self) -> Array:
        """Return the names of the computations that the rows call."""
        names = np.zeros(len(self.alone), np.int64)
        if self.printer.options.extra_attributes:
            rows = np.flatnonzero((np.diff(self.called_from) == 1) & ~self.alone)
            called = self.called[self.called_from[rows]]
            numbers, kind = np.unique(called, return_inverse=True)
            names_by_id = self.printer.computations
            texts = (names_by_id.get(number, f"<missing {number}>") for number in numbers.tolist())
            names[rows] = self.texts.add(map(self.printer.name_of, texts))[kind]
        return names

    def _metadata(self) -> tuple[Array, ...]:
        """Return three columns of texts of the metadata: prefix, operation's name, suffix."""
        if not self.printer.options.metadata:
            return ()
        op_names = self.op_name
        begin, end = self.metadata
        start, stop, name = begin.copy(), begin.copy(), np.zeros(len(begin), np.int64)
        start[op_names.row], stop[op_names.row] = starts(op_names), op_names.end
        name[op_names.row] = self.texts.add_ranges(
            self.outline.data, op_names.begin, op_names.end, escaped=True
        )
        name[self.alone] = 0
        (head, heads), (tail, tails) = self._kinds(begin, start), self._kinds(stop, end)
        kind, rows = distinct(head, tail, np.minimum(name, 1))
        columns = [
            _metadata_texts(heads[int(head[row])] + tails[int(tail[row])], named=bool(name[row]))
            for row in rows.tolist()
        ]
        texts = list(zip(*columns, strict=True)) or [()] * 3
        before, after = (self.texts.add(column)[kind] for column in texts[:2])
        return before, name * np.array(texts[2], bool)[kind], after

    def _prefixes(self, rows: Array) -> Array:
        """Return the text before the name; for rows without a template, the line."""
        printer, outline = self.printer, self.outline
        roots = np.array([body.root_id for body in outline.bodies], np.int64)
        pad, root = self.texts.add([printer.pad, f"{printer.pad}ROOT "]).tolist()
        prefix = cast(Array, np.where(outline.ids == roots[outline.body_of], root, pad))
        alone = rows[self.alone[rows]]
        prefix[alone] = self.texts.add(map(self._printed_alone, alone.tolist()))
        return prefix

    def _printed_alone(self, number: int) -> str:
        body_index = int(self.outline.body_of[number])
        body = self.outline.bodies[body_index]
        if self._local[0] != body_index:
            ids = self.outline.local_ids[body.first : body.last].tolist()
            self._local = (
                body_index,
                _ById(self.printer.proto.computations[body_index].instructions, ids),
            )
        row = self._row(number)
        return "".join(
            self.printer.instruction_of(
                row, self.printer.proto.computations[body_index], self._local[1]
            )
        )

    def _columns(self, rows: Array) -> Columns:
        usual = ~self.alone
        names, heads = self._names(), self._heads()
        inside, *attributes, ending = self._attributes()
        count = np.diff(self.first) * usual
        shapes = [self._shapes()] if self.printer.options.operand_shapes else []
        return Columns(
            front=[self._prefixes(rows), names * usual, heads * usual],
            inside=inside,
            count=count,
            first=self.first[:-1],
            operands=[column[self.operands] for column in (*shapes, names)],
            separators=self._separators(int(count.max(initial=0))),
            behind=[c for c in (*attributes, *self._metadata(), ending) if c.any()],
        )

    def _separators(self, count: int) -> Array:
        """Return the separator before each operand; as in XLA, every fifth has a counter."""
        texts = (", " if index % 5 else f", /*index={index}*/" for index in range(count))
        return self.texts.add(texts)


def _metadata_texts(data: bytes, *, named: bool) -> tuple[str, str, bool]:
    """Return the metadata text before and after the operation's name, cut out of ``data``.

    False where there is no name, or ``data`` has a later one, which counts.
    """
    message = schema.OpMetadata.FromString(data)
    if not named or message.op_name:
        text = print_metadata(message)
        return f", metadata={text}" if text else "", "", False
    message.op_name = "x"
    before, mark, after = f", metadata={print_metadata(message)}".partition(_OP_NAMED)
    return before + mark[:-2], mark[-1:] + after, True


class _ById:
    """Instructions of a computation by their ids in it."""

    def __init__(self, rows: Any, ids: list[int]) -> None:
        self.rows = rows
        self.places = dict(zip(ids, range(len(ids)), strict=True))

    def get(self, number: int) -> Message | None:
        location = self.places.get(number)
        return None if location is None else self.rows[location]

    def __getitem__(self, number: int) -> Message:
        return self.rows[self.places[number]]
