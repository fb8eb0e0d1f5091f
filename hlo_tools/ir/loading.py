"""Loading: any HLO file becomes a Module."""

from __future__ import annotations

import mmap
import os
import re
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from hlo_tools import schema
from hlo_tools.errors import HloError, HloFileError
from hlo_tools.files.compression import decompress
from hlo_tools.files.detection import detect, message_behind_length
from hlo_tools.ir.module import Module
from hlo_tools.types.ids import LOCAL_MASK
from hlo_tools.wire.damage import explain
from hlo_tools.wire.fields import damage
from hlo_tools.wire.large_constants import cut, wrapped

__all__ = ["load", "open_content"]

LARGEST = (1 << 31) - 1
"""Bytes of the largest message that protobuf reads."""
LARGE, LEFT_OF_LARGE = 1 << 30, 1 << 16
"""Of files larger than 1 GiB, constants larger than 64 KiB are left in the file."""

Source = str | Path | bytes | bytearray | memoryview | BinaryIO | TextIO

_MESSAGES = {
    "module": "HloModuleProto",
    "hlo": "HloProto",
    "snapshot": "HloSnapshot",
    "unoptimized": "HloUnoptimizedSnapshot",
}


def load(source: Source, *, leave_constants: int | None = None) -> Module:
    """Load an HLO module from a path, from bytes, or from a binary stream.

    What it is (HloModuleProto, HloProto, HloSnapshot, HloUnoptimizedSnapshot also as XLA dumps it,
    HLO text, pbtxt, JSON; plain, gzip or zstd) is told from the content. Constants are not decoded. ``Module.save`` writes the same bytes
    again while nothing was changed.

    Args:
        leave_constants: constants larger than so many bytes stay in the file (or the bytes) and
            are read from there when asked for; files over 1 GiB leave those over 64 KiB.

    Raises:
        TypeError: the source is none of these.
        HloFileError: missing, unreadable, cut, damaged, or no HLO file. Code, byte offset and
            reason are in the error.
        HloTextError: HLO text that does not parse.
        HloUnsupportedError: a form that this version does not read.
    """
    data, place = _read(source)
    try:
        content, _compression = decompress(data)
        if leave_constants is None and len(content) > LARGE:
            leave_constants = LEFT_OF_LARGE
        kind = detect(content).kind
        if kind == "delimited":
            return _read_delimited(content, place, leave_constants)
        if leave_constants is not None and kind in _MESSAGES:
            return _read_skeleton(content, kind, place, leave_constants)
        return _READERS[kind](content, kind, place)
    except HloError as error:
        raise _placed(error, place) from error.__cause__


def open_content(source: Source, *, mapped_over: int = LARGE) -> tuple[Any, str | None, str]:
    """The content of a file (unpacked), the kind of message that it is, and what to call it.

    The kind is None for text, pbtxt and JSON.

    Args:
        mapped_over: files with more bytes are mapped and not read.

    Raises:
        HloFileError: as :func:`load`.
    """
    data, place = _read(source, mapped_over)
    try:
        content, _compression = decompress(data)
        kind = detect(content).kind
        if kind == "delimited":
            begin, end = _within(content)
            content, kind = memoryview(content)[begin:end], "unoptimized"
    except HloError as error:
        raise _placed(error, place) from error.__cause__
    return content, kind if kind in _MESSAGES else None, place


def _read(source: Source, mapped_over: int = LARGE) -> tuple[Any, str]:
    """The bytes (of a large file, a memory map), and what to call them in messages."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source), ""
    if not isinstance(source, (str, Path)):
        return _read_stream(source)
    try:
        with open(source, "rb") as stream:
            if os.fstat(stream.fileno()).st_size > mapped_over:
                return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ), str(source)
            return stream.read(), str(source)
    except (OSError, ValueError) as error:
        raise _unreadable(source, error) from None


def _read_stream(stream: Any) -> tuple[bytes, str]:
    place = str(getattr(stream, "name", "stream"))
    if not hasattr(stream, "read"):
        kind = type(stream).__name__
        raise TypeError(f"a module is loaded from a path, bytes or a stream, not from {kind}")
    try:
        data = stream.read()
    except (OSError, ValueError) as error:
        raise HloFileError(
            f"cannot be read: {error}",
            code="HLO-READ",
            place=place,
            remedy="open the file for reading, in binary: open(path, 'rb')",
        ) from None
    return (data.encode() if isinstance(data, str) else data), place


def _unreadable(source: str | Path, error: Exception) -> HloFileError:
    place, remedy = (
        str(source),
        "give the path of a module (.pb, .hlo, ...) or - for standard input",
    )
    if "\n" in place:
        place, remedy = "<text>", "a text is taken for a path; give its bytes: load(text.encode())"
    reason = getattr(error, "strerror", None) or error
    return HloFileError(f"cannot be read: {reason}", code="HLO-READ", place=place, remedy=remedy)


def _placed(error: HloError, place: str) -> HloError:
    """The same error with the file's name in its place."""
    if not place or error.place.startswith(place):
        return error
    where = f"{place}:{error.place}" if error.place else place
    return type(error)(error.message, code=error.code, place=where, remedy=error.remedy)


def _read_message(content: bytes | memoryview, kind: str, place: str) -> Module:
    data = bytes(content)
    message = _parse(data, schema.message(_MESSAGES[kind]))
    if kind == "module":
        return Module(message, original=data, path=place)
    inner = message.hlo.hlo_module if kind == "snapshot" else message.hlo_module
    return Module(inner, original=data, envelope=message, path=place)


def _read_delimited(content: Any, place: str, threshold: int | None) -> Module:
    """An unoptimized snapshot behind its length; its arguments, behind it, stay bytes."""
    begin, end = _within(content)
    message = memoryview(content)[begin:end]
    if threshold is None:
        module = _read_message(message, "unoptimized", place)
    else:
        module = _read_skeleton(message, "unoptimized", place, threshold)
    stated = sum(
        one.argument_size_bytes
        for part in module.envelope.partitions
        for one in part.arguments_descriptors
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


def _within(content: Any) -> tuple[int, int]:
    found = message_behind_length(content)
    assert found is not None
    return found


def _read_skeleton(content: Any, kind: str, place: str, threshold: int) -> Module:
    """The module, and the message around it, without the module's large constants."""
    skeleton = cut(content, kind, threshold)
    data = wrapped(content, kind, skeleton.data)
    if len(data) > LARGEST:
        raise HloFileError(
            f"the module has {len(data)} bytes without its large constants, more than "
            f"protobuf reads ({LARGEST})",
            code="HLO-TOO-LARGE",
            remedy="load it with a smaller leave_constants",
        )
    module = _read_message(data, kind, place)
    module._original = content
    proto = module._proto
    for (computation, index), kept in skeleton.kept.items():
        owner = proto.computations[computation]
        module._kept[owner.id, owner.instructions[index].id & LOCAL_MASK] = kept
    return module


def _parse(data: bytes, message_class: Any) -> Any:
    message = message_class()
    try:
        message.ParseFromString(data)
    except Exception as error:
        raise explain(data, message_class.DESCRIPTOR) from error
    return message


def _read_text(content: bytes | memoryview, kind: str, place: str) -> Module:
    from hlo_tools.text import parse

    try:
        text = _without_log_headers(bytes(content).decode("utf-8"))
        return Module(parse(text, name=place or "<text>"), path=place)
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
    return _LOG_HEADER.sub(lambda found: " " * len(found[0]), text)


_LOG_HEADER = re.compile(r"^[IWEF]\d{4} [\d:.]+ +\d+ [^\]\n]+\] ?", re.MULTILINE)
"""What glog and absl write before each line: ``I0101 12:00:00.000000 12 file.cc:34] ``."""


def _read_pbtxt(content: bytes | memoryview, kind: str, place: str) -> Module:
    from google.protobuf import text_format

    return _read_notation(content, "pbtxt", text_format.Parse, place)


def _read_json(content: bytes | memoryview, kind: str, place: str) -> Module:
    from google.protobuf import json_format

    return _read_notation(content, "JSON", json_format.Parse, place)


def _read_notation(content: bytes | memoryview, name: str, parse: Any, place: str) -> Module:
    """A message in protobuf's own text or JSON notation: the module, or one around it."""
    text = bytes(content).decode("utf-8", errors="replace")
    failures: list[Exception] = []
    for kind in _MESSAGES:
        message = schema.message(_MESSAGES[kind])()
        try:
            parse(text, message)
        except Exception as error:  # ParseError of either notation, RecursionError
            failures.append(error)
            continue
        if kind == "module":
            return Module(message, path=place)
        inner = message.hlo.hlo_module if kind == "snapshot" else message.hlo_module
        return Module(inner, envelope=message, path=place)
    raise _not_parsed(name, max(failures, key=_position))


def _position(error: Exception) -> tuple[int, int]:
    """Line and column where a notation stopped being one; (0, 0) where the error tells none."""
    found = _LINE_COLUMN.search(str(error))
    return (int(found[1] or found[3]), int(found[2] or found[4])) if found else (0, 0)


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
"""Where protobuf's errors of its two notations say where."""

_READERS = {
    **dict.fromkeys(_MESSAGES, _read_message),
    "text": _read_text,
    "pbtxt": _read_pbtxt,
    "json": _read_json,
}
