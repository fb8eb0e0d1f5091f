"""Loading: any HLO file becomes a Module."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any, BinaryIO

from hlo_tools import schema
from hlo_tools.compressed import decompress
from hlo_tools.damage import explain
from hlo_tools.detect import Detected, detect
from hlo_tools.errors import HloError, HloFileError
from hlo_tools.ids import LOCAL_MASK
from hlo_tools.module import Module
from hlo_tools.skeleton import cut, wrapped

__all__ = ["load", "open_content"]

LARGEST = (1 << 31) - 1
"""Bytes of the largest message that protobuf reads."""
LARGE, LEFT_OF_LARGE = 1 << 30, 1 << 16
"""Of files larger than 1 GiB, constants larger than 64 KiB are left in the file."""

Source = str | Path | bytes | bytearray | memoryview | BinaryIO

_MESSAGES = {
    "module": "HloModuleProto",
    "hlo": "HloProto",
    "snapshot": "HloSnapshot",
    "unoptimized": "HloUnoptimizedSnapshot",
}


def load(source: Source, *, leave_constants: int | None = None) -> Module:
    """Load an HLO module from a path, from bytes, or from a binary stream.

    What it is (HloModuleProto, HloProto, HloSnapshot, HLO text, pbtxt, JSON; plain, gzip or zstd)
    is told from the content. Constants are not decoded. ``Module.save`` writes the same bytes
    again while nothing was changed.

    Args:
        leave_constants: constants larger than so many bytes stay in the file (or the bytes) and
            are read from there when asked for; files over 1 GiB leave those over 64 KiB.

    Raises:
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
        detected = detect(content)
        if leave_constants is not None and detected.kind in _MESSAGES:
            return _read_skeleton(content, detected, place, leave_constants)
        return _READERS[detected.kind](content, detected, place)
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
    except HloError as error:
        raise _placed(error, place) from error.__cause__
    return content, kind if kind in _MESSAGES else None, place


def _read(source: Source, mapped_over: int = LARGE) -> tuple[Any, str]:
    """The bytes (of a large file, a memory map), and what to call them in messages."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source), ""
    if not isinstance(source, (str, Path)):
        return source.read(), str(getattr(source, "name", "stream"))
    try:
        with open(source, "rb") as stream:
            if os.fstat(stream.fileno()).st_size > mapped_over:
                return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ), str(source)
            return stream.read(), str(source)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise HloFileError(
            f"cannot be read: {reason}",
            code="HLO-READ",
            place=str(source),
            remedy="give the path of a module (.pb, .hlo, ...) or - for standard input",
        ) from None


def _placed(error: HloError, place: str) -> HloError:
    """The same error with the file's name in its place."""
    if not place or error.place.startswith(place):
        return error
    where = f"{place}:{error.place}" if error.place else place
    return type(error)(error.message, code=error.code, place=where, remedy=error.remedy)


def _read_message(content: bytes | memoryview, detected: Detected, place: str) -> Module:
    data = bytes(content)
    message = _parse(data, schema.message(_MESSAGES[detected.kind]))
    if detected.kind == "module":
        return Module(message, original=data, path=place)
    inner = message.hlo.hlo_module if detected.kind == "snapshot" else message.hlo_module
    return Module(inner, original=data, envelope=message, path=place)


def _read_skeleton(content: Any, detected: Detected, place: str, threshold: int) -> Module:
    """The module, and the message around it, without the module's large constants."""
    skeleton = cut(content, detected.kind, threshold)
    data = wrapped(content, detected.kind, skeleton.data)
    if len(data) > LARGEST:
        raise HloFileError(
            f"the module has {len(data)} bytes without its large constants, more than "
            f"protobuf reads ({LARGEST})",
            code="HLO-TOO-LARGE",
            remedy="load it with a smaller leave_constants",
        )
    module = _read_message(data, detected, place)
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


def _read_text(content: bytes | memoryview, detected: Detected, place: str) -> Module:
    from hlo_tools.text import parse

    try:
        text = bytes(content).decode("utf-8")
        return Module(parse(text, name=place or "<text>"), path=place)
    except UnicodeDecodeError as error:
        raise HloFileError(
            f"the text is not UTF-8 at byte {error.start}",
            code="HLO-DAMAGED",
            remedy="get the file again from its source",
        ) from None


def _read_pbtxt(content: bytes | memoryview, detected: Detected, place: str) -> Module:
    from google.protobuf import text_format

    return _read_notation(content, "pbtxt", text_format.Parse)


def _read_json(content: bytes | memoryview, detected: Detected, place: str) -> Module:
    from google.protobuf import json_format

    return _read_notation(content, "JSON", json_format.Parse)


def _read_notation(content: bytes | memoryview, name: str, parse: Any) -> Module:
    """A message in protobuf's own text or JSON notation: the module, or an HloProto around it."""
    text = bytes(content).decode("utf-8", errors="replace")
    reasons: list[str] = []
    for kind in ("module", "hlo", "snapshot"):
        message = schema.message(_MESSAGES[kind])()
        try:
            parse(text, message)
        except Exception as error:  # ParseError of either notation, RecursionError
            reasons.append(str(error).splitlines()[0])
            continue
        if kind == "module":
            return Module(message)
        inner = message.hlo.hlo_module if kind == "snapshot" else message.hlo_module
        return Module(inner, envelope=message)
    raise HloFileError(
        f"no HLO module in {name}: {reasons[0]}",
        code="HLO-DAMAGED",
        remedy="field names are those of XLA's hlo.proto",
    )


_READERS = {
    **dict.fromkeys(_MESSAGES, _read_message),
    "text": _read_text,
    "pbtxt": _read_pbtxt,
    "json": _read_json,
}
