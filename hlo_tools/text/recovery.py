"""``origin_recovery_table={...}`` and ``debug_attributes={...}`` of a module's header.

The table maps an array that a transformation removed to the one that replaces it, with a module
that computes the old from the new. XLA prints that module between quotes without escaping the
quotes in it, and then cannot read its own print; here they are escaped, which XLA reads too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from hlo_tools import schema
from hlo_tools.errors import HloTextError, HloUnsupportedError
from hlo_tools.text.cursor import Cursor
from hlo_tools.text.origin import print_array, read_array
from hlo_tools.text.print_values import quote

__all__ = [
    "print_debug_attributes",
    "print_recovery_table",
    "read_debug_attributes",
    "read_recovery_table",
]

Message = Any
Parse = Callable[[str], Message]

_Table = schema.OriginalValueRecoveryTableProto
_Entry = schema.DebugAttributeTableEntryProto
_LOG_MODE = schema.DebugAttributesProto.DebugLogModeProto
_FLAGS = ("false", "true")


def read_recovery_table(cursor: Cursor, parse: Parse) -> bytes:
    """``{ {"old"} : {"new"}, "module" ... }`` as an ``OriginalValueRecoveryTableProto``.

    Args:
        parse: the parser of a module's text.

    Raises:
        HloTextError: also for a module that does not parse; the place is where it begins.
    """
    table = _Table()
    cursor.expect("{", "to start the table")
    while not cursor.accept("}"):
        entry = table.entries.add()
        read_array(cursor, entry.old_original_array)
        cursor.expect(":", "between the old and the new array")
        read_array(cursor, entry.new_original_array)
        if cursor.accept(","):
            entry.recovery_module.CopyFrom(_read_module(cursor, parse))
    return table.SerializeToString()


def _read_module(cursor: Cursor, parse: Parse) -> Message:
    cursor.skip()
    start = cursor.pos
    text = cursor.text_string("the text of a module between quotes")
    if "origin_recovery_table" in text:
        raise cursor.error("a module in the table has no table of its own", pos=start)
    try:
        return parse(text)
    except HloTextError as error:
        reason = error.message.splitlines()[0]
        raise cursor.error(
            f"the module in the table does not parse: {reason}", pos=start
        ) from error


def print_recovery_table(data: bytes, print_module: Callable[[Message], str]) -> str | None:
    """The text of a table, or None for one of the forms before 2025-09.

    Raises:
        HloUnsupportedError: a module in the table has a table of its own.
    """
    try:
        table = _Table.FromString(data)
    except Exception:  # protobuf's DecodeError: the fields had other numbers
        return None
    rows: list[str] = []
    for entry in table.entries:
        pair = f"{print_array(entry.old_original_array)} : {print_array(entry.new_original_array)}"
        if not entry.HasField("recovery_module"):
            rows.append(f"  {pair}\n")
            continue
        if entry.recovery_module.original_value_recovery_table:
            raise HloUnsupportedError(
                "a module in the origin recovery table has a table of its own", code="HLO-NESTED"
            )
        text = print_module(entry.recovery_module).replace("\\", "\\\\").replace('"', '\\"')
        body = "".join(f"    {line}\n" if line else "\n" for line in text.splitlines())
        rows.append(f'  {pair},\n  "\n{body}\n  "\n')
    return "{\n" + "".join(rows) + "}\n"


def read_debug_attributes(cursor: Cursor) -> list[bytes]:
    """``{ {"array"}:({log_mode=default,callback_id=1,op_id=0,partitioned=false}), ... }``."""

    def entry() -> bytes:
        row = _Entry()
        read_array(cursor, row.original_array)
        cursor.expect(":", "after the array")
        cursor.items("(", ")", lambda: _read_attributes(cursor, row.debug_attributes.add()))
        return row.SerializeToString()

    return cursor.items("{", "}", entry, "the debug attributes")


def _read_attributes(cursor: Cursor, attributes: Message) -> None:
    cursor.expect("{", "to start the attributes")
    while not cursor.accept("}"):
        start = cursor.pos
        name = cursor.attribute_name()
        if name == "log_mode":
            word = cursor.identifier("a log mode").upper()
            if word not in list(_LOG_MODE.keys()):
                raise cursor.error(f"there is no log mode '{word.lower()}'", pos=start)
            attributes.log_mode = _LOG_MODE.Value(word)
        elif name in ("callback_id", "op_id"):
            setattr(attributes, name, cursor.integer())
        elif name == "partitioned":
            attributes.partitioned = cursor.boolean()
        elif name == "operands_sharding":
            attributes.operands_sharding = cursor.text_string()
        else:
            raise cursor.error(f"debug attributes have no property '{name}'", pos=start)
        cursor.accept(",")


def print_debug_attributes(rows: Iterable[bytes]) -> str | None:
    """The text of a module's debug attributes, or None when it has none or of another form."""
    rows = list(rows)
    if not rows:
        return None
    try:
        entries = [_Entry.FromString(row) for row in rows]
    except Exception:  # protobuf's DecodeError
        return None
    lines = (
        f"  {print_array(entry.original_array)}:({', '.join(_attributes(entry))})"
        for entry in entries
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _attributes(entry: Message) -> Iterator[str]:
    for attributes in entry.debug_attributes:
        has_mode = attributes.log_mode in _LOG_MODE.values()
        mode = _LOG_MODE.Name(attributes.log_mode).lower() if has_mode else "none"
        text = (
            f"log_mode={mode},callback_id={attributes.callback_id},op_id={attributes.op_id},"
            f"partitioned={_FLAGS[attributes.partitioned]}"
        )
        if attributes.operands_sharding:
            text += f",operands_sharding={quote(attributes.operands_sharding)}"
        yield f"{{{text}}}"
