"""The header of a module: ``HloModule name, attributes`` and the tables of source frames."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hlo_tools._messages import counted
from hlo_tools.text.cursor import Cursor
from hlo_tools.text.recovery import read_debug_attributes, read_recovery_table
from hlo_tools.text.shapes import ShapeReader
from hlo_tools.text.structures import read_frontend_attributes

__all__ = ["CONFIGURATION", "PASSTHROUGH", "HeaderReader"]

Message = Any

_ATTRIBUTE = re.compile(r",\s*([A-Za-z_][\w.\-]*)=")
PASSTHROUGH = "alias_passthrough_params"
CONFIGURATION = (
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
    "replica_count",
    "num_partitions",
)
"""Attributes that text has and messages lack, in the order in which XLA writes them."""
_MUST = {"may-alias": 1, "must-alias": 2}


class HeaderReader:
    """Reads the header into a module message.

    Args:
        cursor: behind the word ``HloModule``.
        shapes: reads shapes from the same cursor.
        proto: an empty ``HloModuleProto``.
        parse: parses the text of a module that stands within the header.

    Attributes:
        is_scheduled: the order of the instructions is a schedule.
        configuration: attributes of the compile configuration as text, such as ``num_partitions``,
            which ``HloModuleProto`` has no field for. XLA leaves out those at their default.
    """

    def __init__(
        self,
        cursor: Cursor,
        shapes: ShapeReader,
        proto: Message,
        parse: Callable[[str], Message],
    ) -> None:
        self.cursor = cursor
        self.parse = parse
        self.shapes = shapes
        self.proto = proto
        self.is_scheduled = False
        self.configuration: dict[str, str] = {}
        self.entry_layout: tuple[list[Message], Message] | None = None
        proto.input_output_alias.SetInParent()
        proto.buffer_donor.SetInParent()
        proto.frontend_attributes.SetInParent()

    def read(self) -> None:
        """Read the line after the word ``HloModule``."""
        cursor = self.cursor
        self.proto.name = cursor.identifier("the module's name")
        cursor.accept(":")
        names_read: set[str] = set()
        while True:
            match = cursor.match(_ATTRIBUTE)
            if match is None:
                break
            name = match.group(1)
            reader = _READERS.get(name)
            if reader is None or name in names_read:
                what = "is repeated" if reader else "is not an attribute of a module"
                raise cursor.error(
                    f"'{name}' {what}", pos=match.start(1), code="HLO-TEXT-ATTRIBUTE"
                )
            names_read.add(name)
            reader(self)
        if cursor.word("FileNames"):
            _read_frames(cursor, self.proto.stack_frame_index)

    def apply_entry_layout(self, program_shape: Message) -> None:
        """Put the shapes of ``entry_computation_layout`` in place of the entry's own."""
        if self.entry_layout is None:
            return
        parameters, result = self.entry_layout
        if len(parameters) != len(program_shape.parameters):
            raise self.cursor.error(
                f"entry_computation_layout has {counted(len(parameters), 'parameter')}, "
                f"the entry {len(program_shape.parameters)}"
            )
        del program_shape.parameters[:]
        program_shape.parameters.extend(parameters)
        program_shape.result.CopyFrom(result)

    # -- readers ------------------------------------------------------------------------------

    def read_scheduled(self) -> None:
        self.is_scheduled = self.cursor.boolean()

    def read_integer(self, name: str) -> None:
        number = self.cursor.integer()
        if number != 1:
            self.configuration[name] = str(number)

    def read_booleans(self, name: str) -> None:
        cursor = self.cursor
        values = (
            cursor.items("{", "}", cursor.boolean, "booleans")
            if cursor.peek("{")
            else [cursor.boolean()]
        )
        if values != [False]:
            text = ",".join(str(value).lower() for value in values)
            self.configuration[name] = text if name == PASSTHROUGH else f"{{{text}}}"

    def read_aliases(self) -> None:
        cursor = self.cursor

        def entry() -> None:
            output = cursor.integers()
            cursor.expect(":", "after the output index")
            cursor.expect("(", "before the parameter")
            row = self.proto.input_output_alias.entries.add(output_shape_index=output, kind=1)
            row.parameter_number = cursor.integer()
            cursor.expect(",", "after the parameter")
            row.parameter_shape_index.extend(cursor.integers())
            if cursor.accept(","):
                kind = cursor.identifier("may-alias or must-alias")
                if kind not in _MUST:
                    raise cursor.error(f"expected may-alias or must-alias, found '{kind}'")
                row.kind = _MUST[kind]
            cursor.expect(")", "after the parameter")

        cursor.items("{", "}", entry, "the aliases")

    def read_donors(self) -> None:
        cursor = self.cursor

        def entry() -> None:
            cursor.expect("(", "before the parameter")
            row = self.proto.buffer_donor.entries.add(parameter_number=cursor.integer())
            cursor.expect(",", "after the parameter")
            row.parameter_shape_index.extend(cursor.integers())
            cursor.expect(")", "after the parameter")

        cursor.items("{", "}", entry, "the donors")

    def read_entry_layout(self) -> None:
        cursor = self.cursor
        cursor.expect("{", "to start the layout")
        parameters = cursor.items("(", ")", self.shapes.read, "the parameter shapes")
        cursor.expect("->", "and the result shape")
        result = self.shapes.read()
        cursor.expect("}", "to end the layout")
        self.entry_layout = parameters, result

    def read_attributes(self) -> None:
        for name, value in read_frontend_attributes(self.cursor):
            self.proto.frontend_attributes.map[name] = value

    def read_recovery(self) -> None:
        self.proto.original_value_recovery_table = read_recovery_table(self.cursor, self.parse)

    def read_debug(self) -> None:
        self.proto.debug_attributes.extend(read_debug_attributes(self.cursor))


_READERS: dict[str, Callable[[HeaderReader], None]] = {
    "is_scheduled": HeaderReader.read_scheduled,
    "replica_count": lambda header: header.read_integer("replica_count"),
    "num_partitions": lambda header: header.read_integer("num_partitions"),
    "input_output_alias": HeaderReader.read_aliases,
    "buffer_donor": HeaderReader.read_donors,
    "alias_passthrough_params": lambda header: header.read_booleans("alias_passthrough_params"),
    "entry_computation_layout": HeaderReader.read_entry_layout,
    "frontend_attributes": HeaderReader.read_attributes,
    "allow_spmd_sharding_propagation_to_parameters": lambda header: header.read_booleans(
        "allow_spmd_sharding_propagation_to_parameters"
    ),
    "allow_spmd_sharding_propagation_to_output": lambda header: header.read_booleans(
        "allow_spmd_sharding_propagation_to_output"
    ),
    "origin_recovery_table": HeaderReader.read_recovery,
    "debug_attributes": HeaderReader.read_debug,
}

_NUMBER = re.compile(r"\d+")


def _read_frames(cursor: Cursor, index: Message) -> None:
    """``FileNames``, ``FunctionNames``, ``FileLocations`` and ``StackFrames``."""
    while cursor.match(_NUMBER):
        index.file_names.append(cursor.text_string())
    cursor.expect("FunctionNames", "after the file names")
    while cursor.match(_NUMBER):
        index.function_names.append(cursor.text_string())
    cursor.expect("FileLocations", "after the function names")
    while cursor.match(_NUMBER):
        _read_row(cursor, index.file_locations.add(), "a file location")
    cursor.expect("StackFrames", "after the file locations")
    while cursor.match(_NUMBER):
        frame = index.stack_frames.add()
        _read_row(cursor, frame, "a stack frame")
        frame.parent_frame_id -= 1


def _read_row(cursor: Cursor, row: Message, what: str) -> None:
    cursor.expect("{", f"to start {what}")
    fields = row.DESCRIPTOR.fields_by_name
    while not cursor.accept("}"):
        start = cursor.pos
        name = cursor.attribute_name()
        if name not in fields:
            raise cursor.error(f"{what} has no property '{name}'", pos=start)
        setattr(row, name, cursor.integer())
        cursor.accept(",")
