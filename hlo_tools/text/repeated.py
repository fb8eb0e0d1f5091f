"""Instructions that were read before: most lines of a large module differ in names alone.

What a line gives beside its name and operands follows from its shape, opcode, number of operands
and attributes. Once one such line was read in full, others are made from its message. Metadata,
which does repeat but not together with the rest, is kept by its own text.
"""

from __future__ import annotations

import re
from re import Match
from typing import Any, NamedTuple, Protocol

from hlo_tools import schema
from hlo_tools.errors import HloTextError
from hlo_tools.text.cursor import Cursor
from hlo_tools.text.metadata import plain_metadata, read_metadata
from hlo_tools.types.opcodes import OPCODES
from hlo_tools.wire.large_constants import encode_field

__all__ = ["Computation", "Line", "Repeated"]

Message = Any

_NAME = r"[A-Za-z_][\w.\-]*"
_LINE = re.compile(
    rf"\s*(ROOT )?%?({_NAME}) = "
    r"([a-z]\w*\[[\d,]*\](?:\{[\d,]*\})?|\([^()\n]*\)) ([a-z][a-z0-9\-]*)\(([^()\n]*)\)([^\n]*)\n(?!\s*,)"
)
_BEFORE_METADATA = ", metadata="
_METADATA = re.compile(_BEFORE_METADATA + r'(\{(?:[^{}"]++|"(?:[^"\\]++|\\.)*+")*+\})')
_CALLED = re.compile(rf"\b(?:to_apply|calls)=%?({_NAME})")
_COMMENT = re.compile(r"/\*index=\d+\*/")
_PER_LINE_FIELDS = (
    "name",
    "id",
    "operand_ids",
    "called_computation_ids",
    "parameter_number",
    "metadata",
)
"""Fields that differ between lines that share a template."""
_BY_OPERANDS = frozenset(
    {"map", "send", "recv", "recv-done", "outfeed", "infeed", "add-dependency",
     "get-dimension-size"}
)  # fmt: skip
"""Opcodes whose fields depend on the shapes of their operands."""
_LONGEST_LITERAL = 64
_METADATA_FIELD = 7


class Line(NamedTuple):
    """The key that lines with equal fields share.

    Attributes:
        key: shape, opcode, operands (their number, the text of a constant), attributes.
        operands: their names.
        called: the computation that it names, or "".
        metadata: its text, or "".
    """

    key: tuple[Any, ...]
    operands: list[str]
    called: str
    metadata: str


class _Known(NamedTuple):
    data: bytes
    shape: Message


class Computation(Protocol):
    """The names and shapes of a computation while it is read.

    Attributes:
        message: its message.
        base: what the ids of its instructions begin with.
        names: places of its instructions.
        shapes: their shapes.
        parameters: places of its parameters, by number.
    """

    message: Message
    base: int
    names: dict[str, int]
    shapes: list[Message]
    parameters: dict[int, int]


class Repeated:
    """The lines of a text that were read so far."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], _Known] = {}
        self._metadata: dict[str, bytes | None] = {"": b""}

    def match(self, cursor: Cursor) -> Match[str] | None:
        """One instruction on one line at the cursor: root, name, shape, opcode, operands, rest."""
        return _LINE.match(cursor.text, cursor.pos)

    def split(self, match: Match[str], computation: Computation) -> Line:
        """Split a matched line; comparisons differ by the type of their operands, too."""
        line = self._split(match)
        if line.key[1] != "compare" or not line.operands:
            return line
        first = computation.names.get(line.operands[0])
        kind = None if first is None else computation.shapes[first].element_type
        return line._replace(key=(*line.key, kind))

    def add(
        self, line: Line, name: str, computation: Computation, computations: dict[str, int]
    ) -> Message | None:
        """Add an instruction like one that was read before to its computation; return it.

        Args:
            computations: ids of the computations that it can call.

        Returns:
            None where the line has to be read in full.
        """
        names, base = computation.names, computation.base
        opcode, text = line.key[1], line.operands[0] if line.operands else ""
        operands: list[int] = []
        number = 0
        if opcode == "parameter":
            number = int(text) if text.isdecimal() and len(text) < 10 else -1
            if number < 0 or number in computation.parameters:
                return None
        elif opcode != "constant":
            try:
                operands = [names[operand] | base for operand in line.operands]
            except KeyError:
                return None
        called = computations.get(line.called, -1) if line.called else 0
        inst = None if called < 0 or name in names else self._make(line, computation)
        if inst is None:
            return None
        row, shape = inst
        position = len(computation.shapes)
        row.name, row.id = name, position | base
        if operands:
            row.operand_ids.extend(operands)
        if opcode == "parameter":
            row.parameter_number = number
            computation.parameters[number] = position
        if line.called:
            row.called_computation_ids.append(called)
        names[name] = position
        computation.shapes.append(shape)
        return row

    def _make(self, line: Line, computation: Computation) -> tuple[Message, Message] | None:
        """Add a message to a computation; return it and its shape, or None for a new line."""
        template = self._known.get(line.key)
        if template is None:
            return None
        metadata = self._metadata.get(line.metadata)
        if metadata is None:
            metadata = self._read_metadata(line.metadata)
            if metadata is None:
                return None
        row = computation.message.instructions.add()
        row.MergeFromString(template.data + metadata)
        return row, template.shape

    def remember(self, line: Line, row: Message, unread: str) -> None:
        """Remember the message of a line as a template.

        Args:
            row: the message that reading it in full gave.
            unread: the text between its end and where the reader stopped.
        """
        opcode = line.key[1]
        if (
            unread.strip()
            or row.opcode != opcode
            or opcode in _BY_OPERANDS
            or opcode not in OPCODES
        ):
            return
        if bool(line.called) != (len(row.called_computation_ids) == 1):
            return
        if row.called_computation_ids and not line.called:
            return
        if opcode == "constant" and len(line.key[2]) > _LONGEST_LITERAL:
            return
        count = 0 if opcode in ("parameter", "constant") else len(line.operands)
        if row.control_predecessor_ids or len(row.operand_ids) != count:
            return
        data = self._read_metadata(line.metadata)
        if data is None or schema.HloInstructionProto.FromString(data).metadata != row.metadata:
            return
        copy = schema.HloInstructionProto()
        copy.CopyFrom(row)
        for name in _PER_LINE_FIELDS:
            copy.ClearField(name)
        copy.metadata.SetInParent()
        self._known[line.key] = _Known(copy.SerializeToString(), copy.shape)

    def _split(self, match: Match[str]) -> Line:
        shape, opcode, inner, suffix = match.group(3, 4, 5, 6)
        metadata = called = ""
        end = suffix.find(_BEFORE_METADATA)
        if end >= 0:
            text = suffix[end + len(_BEFORE_METADATA) :]
            if self._read_plain(text) is not None:
                metadata, suffix = text, suffix[:end] + "\n"
            elif metadata_match := _METADATA.search(suffix, end):
                metadata, suffix = (
                    metadata_match.group(1),
                    suffix[: metadata_match.start()] + "\n" + suffix[metadata_match.end() :],
                )
        if "to_apply=" in suffix or "calls=" in suffix:
            named = _CALLED.search(suffix)
            if named is not None:
                called = named.group(1)
                suffix = suffix[: named.start(1)] + "\n" + suffix[named.end(1) :]
        if opcode == "parameter" or opcode == "constant":
            text = inner if opcode == "constant" else ""
            return Line((shape, opcode, text, suffix), [inner], called, metadata)
        if "/*" in inner:
            inner = _COMMENT.sub("", inner)
        operands = inner.replace("%", "").split(", ") if inner else []
        return Line((shape, opcode, len(operands), suffix), operands, called, metadata)

    def _read_metadata(self, text: str) -> bytes | None:
        """Return the bytes of an instruction with only this metadata; None if it is wrong."""
        if text not in self._metadata and self._read_plain(text) is None:
            try:
                metadata = read_metadata(Cursor(text))
                encoded = schema.HloInstructionProto(metadata=metadata).SerializeToString()
            except (HloTextError, ValueError):
                encoded = None
            self._metadata[text] = encoded
        return self._metadata[text]

    def _read_plain(self, text: str) -> bytes | None:
        """The same, of metadata that were read before or have plain words and numbers only."""
        encoded = self._metadata.get(text)
        if encoded is None:
            data = plain_metadata(text)
            if data is not None:
                encoded = self._metadata[text] = encode_field(_METADATA_FIELD, data)
        return encoded
