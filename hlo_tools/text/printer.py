"""A module as HLO text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from google.protobuf.message import EncodeError
from google.protobuf.message import Message as ProtobufMessage

from hlo_tools._gc import no_collection
from hlo_tools.errors import HloFileError
from hlo_tools.schema.unknown import are_allowed, refuse, unknown_fields
from hlo_tools.text.header import CONFIGURATION, PASSTHROUGH
from hlo_tools.text.names import printed_names
from hlo_tools.text.options import DEFAULT, PrintOptions
from hlo_tools.text.origin import original_value, print_array
from hlo_tools.text.print_attributes import (
    print_accuracy,
    print_attributes,
    print_called,
    print_sugar,
)
from hlo_tools.text.print_lines import Lines
from hlo_tools.text.print_sharding import print_metadata, print_sharding
from hlo_tools.text.print_values import print_literal, quote
from hlo_tools.text.recovery import print_debug_attributes, print_recovery_table
from hlo_tools.types.element_types import BY_NAME
from hlo_tools.types.ids import LOCAL_MASK
from hlo_tools.types.opcodes import OPCODES
from hlo_tools.types.shape_text import print_shape

__all__ = ["print_module"]

Message = Any

_JSON_LIKE = re.compile(r"\A\{.*\}\Z", re.DOTALL)
_MANY = 400
"""Computations with this many instructions are printed by columns, which is faster."""
_PRED = BY_NAME["pred"].number


class Printable(Protocol):
    """A module that knows its message.

    Attributes:
        configuration: attributes of the header that the message lacks.
    """

    configuration: dict[str, str]

    def require_known_fields(self) -> None:
        """Refuse a module with a field that this version does not know."""
        ...

    def untouched(self) -> tuple[Message, bytes] | None:
        """The ``HloModuleProto`` with the bytes it was read from, while nobody can have changed it."""
        ...

    def whole(self) -> Message:
        """The ``HloModuleProto`` with every constant in it."""
        ...


def print_module(module: Printable | Message, options: PrintOptions = DEFAULT) -> str:
    """The text of a module or of an ``HloModuleProto``.

    A loaded module that nobody has looked into takes less time than its message: it is not
    written again.

    Raises:
        HloUnsupportedError: it has a field that this version does not know (HLO-UNKNOWN-FIELD).
    """
    with no_collection():
        if isinstance(module, ProtobufMessage):
            printer = _Printer(module, options)
            is_checked = printer.has_known_fields or are_allowed()
            if not is_checked and next(unknown_fields(module), None) is not None:
                raise refuse(module)
            return "".join(printer.module())
        proto, data = module.untouched() or (module.whole(), None)
        printer = _Printer(proto, options, data)
        printer.configuration = module.configuration
        if data is None or not printer.has_known_fields:
            module.require_known_fields()
        return "".join(printer.module())


class _Printer:
    def __init__(self, proto: Message, options: PrintOptions, data: bytes | None = None) -> None:
        self.proto = proto
        self.options = options
        self.mark = "%" if options.percent else ""
        self.pad = " " * options.indent
        self.computations = {row.id: row.name for row in proto.computations}
        self.shapes: dict[bytes, str] = {}
        self.plain: dict[bytes, str] = {}
        self.frames = options.frames and proto.HasField("stack_frame_index")
        self.canonical: dict[str, str] = {}
        self.signatures: dict[bytes, str] = {}
        self.configuration: dict[str, str] = {}
        self.names = printed_names(proto)
        self.lines = self._lines(data)

    def _lines(self, data: bytes | None) -> Lines | None:
        """The columns of a large module; in a small one, instructions are read one by one."""
        count = sum(len(row.instructions) for row in self.proto.computations)
        if count < _MANY or self.names:
            return None
        try:
            return Lines(self, self.proto.SerializeToString() if data is None else data)
        except (EncodeError, HloFileError):  # too large to be written; groups, which outlines lack
            return None

    @property
    def has_known_fields(self) -> bool:
        """True once the schema is known to have every field of the module."""
        return self.lines is not None and not self.lines.outline.holds_unknown_fields

    # -- module -------------------------------------------------------------------------------

    def module(self) -> Iterator[str]:
        proto = self.proto
        if self.options.header:
            yield f"HloModule {proto.name}{''.join(f', {k}={v}' for k, v in self._header())}\n\n"
            if self.frames and proto.stack_frame_index.file_names:
                yield from _frame_tables(proto.stack_frame_index)
        hidden = self._sugar_bodies()
        shown = [
            (position, row)
            for position, row in enumerate(proto.computations)
            if row.id not in hidden
        ]
        orders = self._orders()
        if self.lines is not None:
            texts = self.lines.printed({position: orders.get(position) for position, _ in shown})
        else:
            texts = (self._instructions(row, orders.get(position)) for position, row in shown)
        for (_, row), lines in zip(shown, texts, strict=True):
            yield self._opening(row)
            yield from lines
            yield self._closing(row)

    def _sugar_bodies(self) -> set[int]:
        """Computations that asynchronous sugar leaves unwritten."""
        wrapped = self._wrapped_operations()
        if not wrapped:
            return set()
        return {
            row.called_computation_ids[0]
            for computation in self.proto.computations
            for row in computation.instructions
            if row.opcode == "async-start" and row.id in wrapped
        }

    def _header(self) -> Iterator[tuple[str, str]]:
        proto = self.proto
        if proto.schedule.sequences:
            yield "is_scheduled", "true"
        if proto.input_output_alias.entries:
            yield "input_output_alias", _aliases(proto.input_output_alias.entries)
        if PASSTHROUGH in self.configuration:
            yield PASSTHROUGH, self.configuration[PASSTHROUGH]
        if proto.buffer_donor.entries:
            rows = ", ".join(
                f"({row.parameter_number}, {{{','.join(map(str, row.parameter_shape_index))}}})"
                for row in proto.buffer_donor.entries
            )
            yield "buffer_donor", f"{{ {rows} }}"
        if proto.HasField("host_program_shape"):
            shape = proto.host_program_shape
            parameters = ", ".join(self._numbered(shape.parameters))
            yield (
                "entry_computation_layout",
                f"{{({parameters})->{print_shape(shape.result, cache=self.shapes)}}}",
            )
        yield from (
            (name, self.configuration[name]) for name in CONFIGURATION if name in self.configuration
        )
        if proto.frontend_attributes.map:
            yield "frontend_attributes", _frontend(proto.frontend_attributes.map)
        tables = (
            ("origin_recovery_table", self._recovery_table()),
            ("debug_attributes", print_debug_attributes(proto.debug_attributes)),
        )
        yield from ((name, text) for name, text in tables if text is not None)

    def _recovery_table(self) -> str | None:
        data = self.proto.original_value_recovery_table
        return (
            print_recovery_table(data, lambda module: print_module(module, self.options))
            if data
            else None
        )

    def _numbered(self, shapes: Any) -> Iterator[str]:
        for index, shape in enumerate(shapes):
            text = print_shape(shape, cache=self.shapes)
            yield f"/*index={index}*/{text}" if index and index % 5 == 0 else text

    # -- computations -------------------------------------------------------------------------

    def _opening(self, row: Message) -> str:
        entry = "ENTRY " if row.id == self.proto.entry_computation_id else ""
        signature = self._signature(row) if self.options.program_shape else ""
        return f"{entry}{self.name_of(row.name)}{signature} {{\n"

    def _closing(self, row: Message) -> str:
        thread = row.execution_thread
        return (
            f"}}, execution_thread={quote(thread)}\n\n" if thread not in ("", "main") else "}\n\n"
        )

    def _signature(self, row: Message) -> str:
        """Return the text of parameters and result without layouts; cache equal ones."""
        shape = row.program_shape
        key = shape.SerializeToString()
        if self.names:
            names = {
                int(inst.parameter_number): str(self.names.get(inst.name) or inst.name)
                for inst in row.instructions
                if inst.opcode == "parameter"
            }
            stated = enumerate(shape.parameter_names)
            return self._signature_of(
                shape, [names.get(number, str(name)) for number, name in stated]
            )
        signature = self.signatures.get(key)
        if signature is None:
            signature = self.signatures[key] = self._signature_of(shape, shape.parameter_names)
        return signature

    def _signature_of(self, shape: Message, names: Sequence[str]) -> str:
        texts = (
            print_shape(parameter, layouts=False, cache=self.plain)
            for parameter in shape.parameters
        )
        parameters = ", ".join(f"{name}: {text}" for name, text in zip(names, texts, strict=False))
        result = print_shape(shape.result, layouts=False, cache=self.plain)
        return f" ({parameters}) -> {result}"

    def _orders(self) -> dict[int, list[int]]:
        """Return the scheduled order of instructions, by position of the computation."""
        sequences = self.proto.schedule.sequences
        orders: dict[int, list[int]] = {}
        computations: Sequence[Message] = self.proto.computations if sequences else ()
        for position, row in enumerate(computations):
            if row.id in sequences:
                positions = {
                    inst.id & LOCAL_MASK: number for number, inst in enumerate(row.instructions)
                }
                ids = (number & LOCAL_MASK for number in sequences[row.id].instruction_ids)
                orders[position] = [positions[number] for number in ids if number in positions]
        return orders

    def _instructions(self, row: Message, order: list[int] | None) -> Iterator[str]:
        rows = list(row.instructions)
        local = {inst.id & LOCAL_MASK: inst for inst in rows}
        for inst in rows if order is None else [rows[number] for number in order]:
            yield from self.instruction_of(inst, row, local)

    def name_of(self, name: str) -> str:
        name = self.names.get(name, name)
        if self.options.ids:
            return self.mark + name
        return self.mark + self.canonical.setdefault(name, re.sub(r"\.\d+\Z", "", name))

    # -- instructions -------------------------------------------------------------------------

    def instruction_of(
        self, row: Message, computation: Message, local: dict[int, Message]
    ) -> Iterator[str]:
        options = self.options
        root = "ROOT " if row.id == computation.root_id else ""
        shape = f"{self.shape_of(row.shape)} " if options.result_shape else ""
        opcode, wrapped = self._opcode(row)
        yield f"{self.pad}{root}{self.name_of(row.name)} = {shape}{opcode}({self.operands_of(row, local)})"
        yield from (f", {name}={text}" for name, text in self.attributes_of(row, wrapped, local))
        metadata = print_metadata(row.metadata) if options.metadata else ""
        if metadata:
            yield f", metadata={metadata}"
        yield self.ending_of(row)

    def shape_of(self, shape: Message) -> str:
        layouts = self.options.layouts
        return print_shape(shape, layouts=layouts, cache=self.shapes if layouts else self.plain)

    def _opcode(self, row: Message) -> tuple[str, Message | None]:
        """Return the opcode, and the wrapped instruction of an asynchronous one."""
        if not row.opcode.startswith("async-"):
            return row.opcode, None
        inner = self._async_inner(row)
        if inner is None:
            return row.opcode, None
        return f"{inner.opcode}-{row.opcode.removeprefix('async-')}", inner

    def _async_inner(self, row: Message) -> Message | None:
        """The one operation of the called computation, when its name shows that it was sugar."""
        return self._wrapped_operations().get(row.id)

    def _wrapped_operations(self) -> dict[int, Message]:
        if not hasattr(self, "_wrapped"):
            searched = self.lines is None or self.lines.has_async
            self._wrapped = dict(self._find_wrapped()) if searched else {}
        return self._wrapped

    def _find_wrapped(self) -> Iterator[tuple[int, Message]]:
        bodies = {row.id: row for row in self.proto.computations}
        for computation in self.proto.computations:
            source: dict[int, Message] = {}
            for row in computation.instructions:
                if row.opcode == "async-start" and row.called_computation_ids:
                    body = bodies.get(row.called_computation_ids[0])
                    is_unnamed = body is not None and _UNNAMED.fullmatch(body.name)
                    inner = _single_operation(body) if is_unnamed else None
                    if inner is not None and not _takes_aliases(row, inner):
                        inner = None
                elif row.opcode in ("async-update", "async-done") and row.operand_ids:
                    inner = source.get(row.operand_ids[0])
                else:
                    continue
                if inner is not None:
                    source[row.id] = inner
                    yield row.id, inner

    def operands_of(self, row: Message, local: dict[int, Message]) -> str:
        if row.opcode == "parameter":
            return str(row.parameter_number)
        if row.opcode == "constant":
            return print_literal(row.literal, large=self.options.large_constants)
        names: list[str] = []
        for index, number in enumerate(row.operand_ids):
            operand, text = local.get(number & LOCAL_MASK), self._operand(number, local)
            if self.options.operand_shapes and operand is not None:
                text = f"{self.shape_of(operand.shape)} {text}"
            names.append(f"/*index={index}*/{text}" if index and index % 5 == 0 else text)
        return ", ".join(names)

    def _operand(self, number: int, local: dict[int, Message]) -> str:
        operand = local.get(number & LOCAL_MASK)
        return f"{self.mark}<missing {number}>" if operand is None else self.name_of(operand.name)

    def attributes_of(
        self, row: Message, wrapped: Message | None, local: dict[int, Message]
    ) -> Iterator[tuple[str, str]]:
        """Return (name, text) of the attributes between the operands and the metadata."""
        options = self.options
        if options.extra_attributes:
            first = local.get(row.operand_ids[0] & LOCAL_MASK) if row.operand_ids else None
            shape = first.shape if first is not None else None
            if wrapped is not None and row.opcode == "async-start":
                yield from print_sugar(row, wrapped, shape)
            else:
                yield from print_attributes(row, shape)
            yield from self._called(row, wrapped, local)
        if row.HasField("sharding"):
            yield "sharding", print_sharding(row.sharding)
        if row.frontend_attributes.map:
            yield "frontend_attributes", _frontend(row.frontend_attributes.map)
        if options.control_dependencies and row.control_predecessor_ids:
            names = (self._operand(number, local) for number in row.control_predecessor_ids)
            yield "control-predecessors", "{" + ", ".join(names) + "}"
        if row.parameter_replication.replicated_at_leaf_buffers:
            flags = (
                "true" if replicated else "false"
                for replicated in row.parameter_replication.replicated_at_leaf_buffers
            )
            yield "parameter_replication", "{" + ",".join(flags) + "}"
        accuracy = print_accuracy(row.result_accuracy) if row.HasField("result_accuracy") else ""
        if accuracy:
            yield "result_accuracy", accuracy
        origin = _origin(row.original_value) if row.original_value else ""
        if origin:
            yield "origin", origin

    def ending_of(self, row: Message) -> str:
        """Return the text after the metadata."""
        if self.options.backend_config and row.backend_config:
            return f", backend_config={_backend_config(row.backend_config)}\n"
        return "\n"

    def _called(
        self, row: Message, wrapped: Message | None, local: dict[int, Message]
    ) -> Iterator[tuple[str, str]]:
        if wrapped is not None:
            if row.opcode != "async-start":
                return
            row = wrapped
        names = [
            self.name_of(self.computations.get(number, f"<missing {number}>"))
            for number in row.called_computation_ids
        ]
        first = local.get(row.operand_ids[0] & LOCAL_MASK) if row.operand_ids else None
        by_predicate = first is not None and first.shape.element_type == _PRED
        yield from print_called(row, names, by_predicate=by_predicate)


_UNNAMED = re.compile(r"async_wrapped(?:\.\d+)?")
"""A name that sugar gives a computation; any other would be lost in it."""


def _single_operation(body: Message) -> Message | None:
    """Return the root if all other instructions are parameters, in operand order."""
    root = next((row for row in body.instructions if row.id == body.root_id), None)
    if root is None or root.opcode in ("parameter", "constant", "tuple"):
        return None
    parameters = [row for row in body.instructions if row is not root]
    if any(row.opcode != "parameter" for row in parameters) or len(parameters) != len(
        root.operand_ids
    ):
        return None
    numbers = {row.id: row.parameter_number for row in parameters}
    in_order = [numbers.get(operand) for operand in root.operand_ids] == list(
        range(len(parameters))
    )
    return root if in_order else None


def _takes_aliases(row: Message, inner: Message) -> bool:
    """Return True if the short async form can print the output_to_operand_aliasing of the start."""
    word = OPCODES.get(inner.opcode)
    has_attribute = word is not None and "output_to_operand_aliasing" in word.attributes
    return has_attribute or not row.output_operand_aliasing


def _frontend(attributes: Any) -> str:
    parts = (
        f"{name}={value if _is_json(value) else quote(value)}"
        for name, value in sorted(attributes.items())
    )
    return "{" + ",".join(parts) + "}"


def _is_json(text: str) -> bool:
    """XLA prints what is in braces without quotes."""
    return _JSON_LIKE.match(text) is not None and _balanced(text)


def _balanced(text: str) -> bool:
    depth, inside, skip = 0, False, False
    for index, char in enumerate(text):
        if skip:
            skip = False
        elif inside:
            skip = char == "\\"
            inside = char != '"'
        elif char == '"':
            inside = True
        elif char in "{}":
            depth += 1 if char == "{" else -1
            if depth == 0 and index != len(text) - 1:
                return False
    return depth == 0 and not inside


def _backend_config(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return quote(data)
    return text if _is_json(text) else quote(data)


def _aliases(entries: Any) -> str:
    rows = ", ".join(
        f"{{{', '.join(map(str, row.output_shape_index))}}}: ({row.parameter_number}, "
        f"{{{', '.join(map(str, row.parameter_shape_index))}}}, "
        f"{'must-alias' if row.kind == 2 else 'may-alias'})"
        for row in entries
    )
    return f"{{ {rows} }}"


def _origin(data: bytes) -> str:
    value = original_value(data)
    if value is None:
        return ""
    if value.is_synthetic_call:
        return "{[synthetic_call]}"
    return (
        "{"
        + _origin_tree(
            [(tuple(element.shape_index), element.original_array) for element in value.elements], 0
        )
        + "}"
    )


def _origin_tree(elements: list[tuple[tuple[int, ...], Message]], depth: int) -> str:
    if len(elements) == 1 and len(elements[0][0]) == depth:
        array = elements[0][1]
        return print_array(array) if array.instruction_name else "{}"
    parts: list[str] = []
    position = 0
    while any(index[depth] == position for index, _ in elements):
        parts.append(
            _origin_tree(
                [element for element in elements if element[0][depth] == position], depth + 1
            )
        )
        position += 1
    return "(" + ", ".join(parts) + ")"


def _frame_tables(index: Message) -> Iterator[str]:
    """Print the four tables of source frames."""
    yield "FileNames\n"
    yield from (f"{number} {quote(name)}\n" for number, name in enumerate(index.file_names, 1))
    yield "\nFunctionNames\n"
    yield from (f"{number} {quote(name)}\n" for number, name in enumerate(index.function_names, 1))
    yield "\nFileLocations\n"
    for number, row in enumerate(index.file_locations, 1):
        yield (
            f"{number} {{file_name_id={row.file_name_id} function_name_id={row.function_name_id} "
            f"line={row.line} end_line={row.end_line} column={row.column} end_column={row.end_column}}}\n"
        )
    yield "\nStackFrames\n"
    for number, row in enumerate(index.stack_frames, 1):
        yield f"{number} {{file_location_id={row.file_location_id} parent_frame_id={row.parent_frame_id + 1}}}\n"
    yield "\n"
