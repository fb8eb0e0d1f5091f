"""Instructions of a large module as lines of text, from the columns of its overview.

Beside its name, operands and metadata, a line depends on few bytes of the instruction, which
repeat: what they print as is worked out once. The others are left to the printer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from hlo_tools import schema
from hlo_tools.ids import LOCAL_MASK
from hlo_tools.outline import CALLED, CALLED_ONE, ID, NAME, OPCODE, OPERANDS, SHAPE, Outline
from hlo_tools.text.options import PrintOptions
from hlo_tools.text.print_sharding import print_metadata

__all__ = ["Lines", "Printer"]

Message = Any
_METADATA, _WAITS = 7 << 3 | 2, 37 << 3 | 2
_LONGEST = 512
"""Bytes of fields; longer ones (literals) hardly repeat."""
_NAMED = "\0"
"""Stands for the called computation's name in what is known of lines."""


class Printer(Protocol):
    """What prints an instruction by itself."""

    proto: Message
    options: PrintOptions
    mark: str
    pad: str
    computations: dict[int, str]

    def _name(self, name: str) -> str: ...
    def _shape(self, shape: Message) -> str: ...
    def _operands(self, row: Message, local: dict[int, Message]) -> str: ...
    def _attributes(
        self, row: Message, wrapped: Message | None, local: dict[int, Message]
    ) -> Iterator[tuple[str, str]]: ...


class _Known(NamedTuple):
    """Text of lines that have the same bytes: before the operands, between, behind the metadata.

    ``operands`` is what stands for them where they are no other instructions.
    """

    head: str
    operands: str
    before: str
    behind: str


class Lines:
    """The lines of a module's instructions.

    Args:
        printer: prints what is not known yet.
    """

    def __init__(self, printer: Printer) -> None:
        self.printer = printer
        self.outline = outline = Outline(
            printer.proto.SerializeToString(), also=(_METADATA, _WAITS)
        )
        self.known: dict[tuple[Any, ...], _Known] = {}
        self.metadata: dict[bytes, str] = {b"": ""}
        data = outline.data
        bounds = zip(*(column.tolist() for column in outline.bounds(NAME)), strict=True)
        self.names = [printer._name(str(data[begin:end], "utf-8")) for begin, end in bounds]
        self.kinds = outline.kind_of.tolist()
        first, operands = outline.operands
        self.first, self.operands = first.tolist(), operands.tolist()
        called_from, called = outline.numbers(CALLED, CALLED_ONE)
        self.called_from, self.called = called_from.tolist(), called.tolist()
        self.pad = printer.pad
        self.roots = self._roots()
        self.spans = self._spans()
        self.alone = self._alone(first, operands, called_from)

    def _roots(self) -> set[int]:
        """The rows that are their computation's result."""
        roots = np.array([body.root_id for body in self.outline.bodies], np.int64)
        found = np.flatnonzero(self.outline.ids == roots[self.outline.body_of])
        return set(found.tolist())

    def _spans(self) -> list[tuple[int, ...]]:
        """Of each row, bounds of its metadata, of the fields behind it, and of those at its end."""
        outline = self.outline
        meta = outline.bounds(_METADATA)
        behind, last = outline.rows[0].copy(), outline.rows[1].copy()
        for tag in (NAME, OPCODE, SHAPE, _METADATA):
            found = outline.fields.of(tag)
            behind[found.row] = found.end
        for tag in (CALLED, OPERANDS, ID):
            found = outline.fields.of(tag)
            last[found.row] = found.start
        rest = last.copy()
        for tag in (ID, OPERANDS, CALLED):
            found = outline.fields.of(tag)
            rest[found.row] = found.end
        columns = (*meta, behind, last, rest, outline.rows[1])
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def _alone(self, first: Any, operands: Any, called_from: Any) -> list[bool]:
        """The rows that the printer prints: more than name, operands and metadata tells them apart."""
        outline = self.outline
        opcodes = [opcode for opcode, _ in outline.kinds]
        kinds = [k for k, o in enumerate(opcodes) if o.startswith("async-") or o == "conditional"]
        alone = np.isin(outline.kind_of, kinds) | (np.diff(called_from) > 1)
        alone[outline.fields.of(_WAITS).row] = True
        alone[np.repeat(np.arange(len(alone)), np.diff(first))[operands < 0]] = True
        for row, (_, _, behind, last, rest, end) in enumerate(self.spans):
            if last - behind + end - rest > _LONGEST:
                alone[row] = True
        return alone.tolist()

    @property
    def has_async(self) -> bool:
        """Whether an instruction is asynchronous."""
        return any(opcode.startswith("async-") for opcode, _ in self.outline.kinds)

    def of(self, body: int, order: list[int], one_by_one: Any) -> str:
        """The lines of a computation.

        Args:
            body: which one of the module.
            order: its instructions, counted in the computation, as they are to be printed.
            one_by_one: prints the instruction with a number.
        """
        start = self.outline.bodies[body].first
        lines: list[str] = []
        for at in order:
            if self.alone[start + at]:
                lines.extend(one_by_one(at))
            else:
                lines.append(self._line(start + at, body))
        return "".join(lines)

    def _line(self, row: int, body: int) -> str:
        data, names = self.outline.data, self.names
        begin, end, behind, last, rest, stop = self.spans[row]
        given = self.operands[self.first[row] : self.first[row + 1]]
        count = len(given)
        kind = self.kinds[given[0]] if given else -1
        key = (self.kinds[row], count, kind, data[behind:last], data[rest:stop])
        known = self.known.get(key) or self._learn(key, body, row, given)
        metadata = self.metadata.get(data[begin:end])
        if metadata is None:
            metadata = self._print_metadata(data[begin:end])
        head, inside, before, after = known
        if count == 1:
            inside = names[given[0]]
        elif count:
            inside = (
                ", ".join([names[one] for one in given]) if count < 6 else _counted(names, given)
            )
        if _NAMED in before:
            before = before.replace(_NAMED, self._called_name(row))
        root = "ROOT " if row in self.roots else ""
        return f"{self.pad}{root}{names[row]} = {head}{inside}){before}{metadata}{after}\n"

    def _called_name(self, row: int) -> str:
        printer = self.printer
        number = self.called[self.called_from[row]]
        return printer._name(printer.computations.get(number, f"<missing {number}>"))[
            len(printer.mark) :
        ]

    def _learn(self, key: tuple[Any, ...], body: int, number: int, given: list[int]) -> _Known:
        printer, start = self.printer, self.outline.bodies[body].first
        rows = printer.proto.computations[body].instructions
        row = rows[number - start]
        local = {rows[one - start].id & LOCAL_MASK: rows[one - start] for one in given[:1]}
        names, printer.computations = (
            printer.computations,
            dict.fromkeys(row.called_computation_ids, _NAMED),
        )
        pairs = [p for p in printer._attributes(row, None, local) if p[0] != "metadata"]
        printer.computations = names
        shape = f"{printer._shape(row.shape)} " if printer.options.result_shape else ""
        known = self.known[key] = _Known(
            f"{shape}{row.opcode}(",
            "" if given else printer._operands(row, {}),
            "".join(f", {name}={text}" for name, text in pairs if name != "backend_config"),
            "".join(f", {name}={text}" for name, text in pairs if name == "backend_config"),
        )
        return known

    def _print_metadata(self, data: bytes) -> str:
        text = ""
        if self.printer.options.metadata:
            text = print_metadata(schema.OpMetadata.FromString(data))
        found = self.metadata[data] = f", metadata={text}" if text else ""
        return found


def _counted(names: list[str], given: list[int]) -> str:
    """Operands with a count before every fifth, as XLA writes long lists."""
    return ", ".join(
        f"/*index={at}*/{names[one]}" if at and at % 5 == 0 else names[one]
        for at, one in enumerate(given)
    )
