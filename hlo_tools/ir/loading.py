"""Loading: any HLO file becomes a Module."""

# pyright: reportPrivateUsage=false
# The views and what edits, writes and numbers them anew share the state behind the views.

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_tools import schema
from hlo_tools.errors import HloError, HloFileError
from hlo_tools.files.compression import decompress
from hlo_tools.files.content import (
    MAX_READ_BYTES,
    MESSAGES,
    Source,
    message_range,
    open_content,
    placed,
    read,
)
from hlo_tools.files.detection import detect
from hlo_tools.ir.module import Module
from hlo_tools.types.ids import LOCAL_MASK
from hlo_tools.wire.fields import Buffer, damage
from hlo_tools.wire.large_constants import cut, module_range, wrapped

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hlo_tools.ir.overview import ModuleOutline

__all__ = ["load", "load_outline"]

MAX_MESSAGE_BYTES = (1 << 31) - 1
"""Protobuf reads no larger message."""
MAX_LOADED_CONSTANT_BYTES = 1 << 16
"""Larger constants (64 KiB) stay in the file if the file is larger than 1 GiB."""
_MAPPED_OVER = 1 << 26
"""For an outline, files larger than 64 MiB are mapped: what is not read takes no memory."""


def load(
    source: Source, *, leave_constants: int | None = None, allow_unknown_fields: bool = False
) -> Module:
    """Load an HLO module from a path, from bytes, or from a binary stream.

    What it is (HloModuleProto, HloProto, HloSnapshot, HloUnoptimizedSnapshot also as XLA dumps it,
    HLO text, pbtxt, JSON; plain, gzip or zstd; StableHLO where jaxlib is installed) is detected from the content. Constants are not decoded.
    ``Module.save`` writes the same bytes again while nothing was changed.

    Args:
        leave_constants: constants larger than so many bytes stay in the file (or the bytes) and
            are read from there when asked for; files over 1 GiB leave those over 64 KiB.
        allow_unknown_fields: let the module be evaluated, built, printed, converted and changed
            although it has fields that this version does not know
            (:meth:`Module.require_known_fields`). They are kept, and otherwise passed over.

    Raises:
        TypeError: the source is none of these.
        HloFileError: missing, unreadable, cut, damaged, or no HLO file. Code, byte offset and
            reason are in the error.
        HloTextError: HLO text that does not parse.
        HloUnsupportedError: a form that this version does not read.
    """
    data, place = read(source)
    try:
        content, _compression = decompress(data)
        if leave_constants is None and len(content) > MAX_READ_BYTES:
            leave_constants = MAX_LOADED_CONSTANT_BYTES
        kind = detect(content).kind
        if kind == "delimited":
            module = _read_delimited(content, place, leave_constants)
        elif leave_constants is not None and kind in MESSAGES:
            module = _read_skeleton(content, kind, place, leave_constants)
        else:
            module = _READERS[kind](content, kind, place)
    except HloError as error:
        raise placed(error, place) from error.__cause__
    module.allow_unknown_fields = allow_unknown_fields
    return module


def load_outline(source: str | Path | bytes) -> ModuleOutline:
    """The overview of a module in a file or in bytes, of any size.

    Args:
        source: a path, or the bytes of a file.

    Raises:
        HloError: as :func:`load`; text, pbtxt and JSON are loaded whole.
    """
    from hlo_tools._gc import no_collection
    from hlo_tools.ir.overview import ModuleOutline  # late: loading a module needs no columns

    with no_collection():
        content, kind, place = open_content(source, mapped_over=_MAPPED_OVER)
        if kind is None:
            content, kind = load(source).module_bytes(), "module"
        return ModuleOutline(content, *module_range(content, kind), path=place)


def _read_message(content: Buffer, kind: str, location: str) -> Module:
    data = bytes(content)
    return _module_in(_parse(data, schema.message(MESSAGES[kind])), data, location)


def _module_in(message: Message, original: bytes | None, location: str) -> Module:
    """The module of a file's message, which is one of ``MESSAGES``."""
    if isinstance(message, schema.HloModuleProto):
        return Module(message, original=original, path=location)
    if isinstance(message, schema.HloSnapshot):
        return Module(message.hlo.hlo_module, original=original, envelope=message, path=location)
    assert isinstance(message, (schema.HloProto, schema.HloUnoptimizedSnapshot))
    return Module(message.hlo_module, original=original, envelope=message, path=location)


def _read_delimited(content: Buffer, location: str, threshold: int | None) -> Module:
    """Read an unoptimized snapshot with its length prefix; the arguments after it stay bytes."""
    begin, end = message_range(content)
    message = memoryview(content)[begin:end]
    if threshold is None:
        module = _read_message(message, "unoptimized", location)
    else:
        module = _read_skeleton(message, "unoptimized", location, threshold)
    envelope = module.envelope
    assert isinstance(envelope, schema.HloUnoptimizedSnapshot)
    stated = sum(
        descriptor.argument_size_bytes
        for partition in envelope.partitions
        for descriptor in partition.arguments_descriptors
    )
    if stated > len(content) - end:
        raise damage(
            end,
            f"the arguments need {stated} bytes, {len(content) - end} are left",
            code="HLO-TRUNCATED",
        )
    module._original = content
    module._behind = bytes(memoryview(content)[end:])
    return module


def _read_skeleton(content: Buffer, kind: str, location: str, threshold: int) -> Module:
    """The module, and the message around it, without the module's large constants."""
    skeleton = cut(content, kind, threshold)
    data = wrapped(content, kind, skeleton.data)
    if len(data) > MAX_MESSAGE_BYTES:
        raise HloFileError(
            f"the module has {len(data)} bytes without its large constants, more than "
            f"protobuf reads ({MAX_MESSAGE_BYTES})",
            code="HLO-TOO-LARGE",
            remedy="load it with a smaller leave_constants",
        )
    module = _read_message(data, kind, location)
    module._original = content
    proto = module._proto
    for (computation, index), stored in skeleton.literals.items():
        owner = proto.computations[computation]
        module._kept[owner.id, owner.instructions[index].id & LOCAL_MASK] = stored
    return module


def _parse(data: bytes, message_class: type[Message]) -> Message:
    message = message_class()
    try:
        message.ParseFromString(data)
    except Exception as error:
        from hlo_tools.wire.damage import explain

        raise explain(data, message_class.DESCRIPTOR) from error
    return message


def _read_text(content: Buffer, kind: str, location: str) -> Module:
    from hlo_tools.text import parse_configured

    try:
        text = _without_log_headers(bytes(content).decode("utf-8"))
        proto, configuration = parse_configured(text, name=location or "<text>")
        module = Module(proto, path=location)
        module.configuration = configuration
        return module
    except UnicodeDecodeError as error:
        raise HloFileError(
            f"the text is not UTF-8 at byte {error.start}",
            code="HLO-DAMAGED",
            remedy="get the file again from its source",
        ) from None


def _without_log_headers(text: str) -> str:
    """A text that was copied from a log, with blanks in the place of what begins its lines."""
    if _LOG_HEADER.match(text) is None:
        return text
    return _LOG_HEADER.sub(lambda header: " " * len(header[0]), text)


_LOG_HEADER = re.compile(r"^[IWEF]\d{4} [\d:.]+ +\d+ [^\]\n]+\] ?", re.MULTILINE)
"""The header that glog and absl write before each line: ``I0101 12:00:00.000000 12 file.cc:34] ``."""


def _read_stablehlo(content: Buffer, kind: str, location: str) -> Module:
    from hlo_tools.ir.stablehlo import symbolic, to_hlo  # late: starts a process

    message = _parse(to_hlo(content), schema.HloModuleProto)
    assert isinstance(message, schema.HloModuleProto)
    for number, shape in enumerate(message.host_program_shape.parameters):
        if any(extent < 0 for extent in shape.dimensions):
            raise symbolic(f"parameter {number} has one")
    return _module_in(message, None, location)


def _read_pbtxt(content: Buffer, kind: str, location: str) -> Module:
    from google.protobuf import text_format

    return _read_notation(content, "pbtxt", text_format.Parse, location)


def _read_json(content: Buffer, kind: str, location: str) -> Module:
    from google.protobuf import json_format

    return _read_notation(content, "JSON", json_format.Parse, location)


def _read_notation(
    content: Buffer, name: str, parse: Callable[[str, Message], Message], location: str
) -> Module:
    """A message in protobuf's own text or JSON notation: the module, or one around it."""
    text = bytes(content).decode("utf-8", errors="replace")
    failures: list[Exception] = []
    for kind in MESSAGES:
        message = schema.message(MESSAGES[kind])()
        try:
            parse(text, message)
        except Exception as error:  # ParseError of either notation, RecursionError
            failures.append(error)
            continue
        return _module_in(message, None, location)
    raise _not_parsed(name, max(failures, key=_position))


def _position(error: Exception) -> tuple[int, int]:
    """Line and column where a notation stopped being one; (0, 0) where the error has none."""
    match = _LINE_COLUMN.search(str(error))
    return (int(match[1] or match[3]), int(match[2] or match[4])) if match else (0, 0)


def _not_parsed(name: str, error: Exception) -> HloFileError:
    line, column = _position(error)
    reason = _LINE_COLUMN.sub("", str(error).splitlines()[0]).strip(" :.")
    return HloFileError(
        f"no HLO module in {name}: {reason}",
        code="HLO-DAMAGED",
        place=f"{line}:{column}" if line else "",
        remedy="correct it there, or write the module again: nki-hlo convert --to "
        f"{name.lower()}; field names are those of XLA's hlo.proto",
    )


_LINE_COLUMN = re.compile(r"^(\d+):(\d+) ?:?|: line (\d+) column (\d+)(?: \(char \d+\))?")
"""Matches the location in protobuf's errors, in its two notations."""

_READERS = {
    **dict.fromkeys(MESSAGES, _read_message),
    "text": _read_text,
    "stablehlo": _read_stablehlo,
    "pbtxt": _read_pbtxt,
    "json": _read_json,
}
