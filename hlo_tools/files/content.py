"""A file's content: read or mapped, unpacked, and what kind of message it is."""

from __future__ import annotations

import mmap
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from hlo_tools.errors import HloError, HloFileError
from hlo_tools.files.compression import decompress
from hlo_tools.files.detection import detect, message_behind_length

if TYPE_CHECKING:
    from hlo_tools.wire.fields import Buffer

__all__ = [
    "MAX_READ_BYTES",
    "MESSAGES",
    "Source",
    "check_readable",
    "message_range",
    "open_content",
    "placed",
    "read",
]

MAX_READ_BYTES = 1 << 30
"""Larger files are memory-mapped: a copy would need as much memory again."""

DESCRIPTOR_PATHS = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")
"""Paths of descriptors that are already open: standard input and a shell's ``<(command)``."""

Source = str | Path | bytes | bytearray | memoryview | BinaryIO | TextIO

MESSAGES = {
    "module": "HloModuleProto",
    "hlo": "HloProto",
    "snapshot": "HloSnapshot",
    "unoptimized": "HloUnoptimizedSnapshot",
}
"""Kind of a binary file -> the message that it holds."""


def open_content(
    source: Source, *, mapped_over: int = MAX_READ_BYTES
) -> tuple[Buffer, str | None, str]:
    """The content of a file (unpacked), the kind of message that it is, and what to call it.

    The kind is None for text, pbtxt and JSON.

    Args:
        mapped_over: files with more bytes are mapped and not read.

    Raises:
        HloFileError: as :func:`hlo_tools.load`.
    """
    data, location = read(source, mapped_over)
    try:
        content, _compression = decompress(data)
        kind = detect(content).kind
        if kind == "delimited":
            begin, end = message_range(content)
            content, kind = memoryview(content)[begin:end], "unoptimized"
    except HloError as error:
        raise placed(error, location) from error.__cause__
    return content, kind if kind in MESSAGES else None, location


def read(source: Source, mapped_over: int = MAX_READ_BYTES) -> tuple[Buffer, str]:
    """The bytes (of a large file, a memory map), and what to call them in messages.

    Raises:
        TypeError: the source is not a path, bytes or stream.
        HloFileError: it cannot be read, or is a device or a named pipe (HLO-READ).
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source), ""
    if not isinstance(source, (str, Path)):
        return _read_stream(source)
    try:
        check_readable(source)
        with open(source, "rb") as stream:
            if os.fstat(stream.fileno()).st_size > mapped_over:
                return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ), str(source)
            return stream.read(), str(source)
    except (OSError, ValueError) as error:
        raise _unreadable(source, error) from None


def check_readable(source: str | Path) -> None:
    """Refuse a file that may block or never end, without opening it.

    Raises:
        ValueError: it is a device or a named pipe.
        OSError: it is missing, or the user may not access it.
    """
    mode = os.stat(source).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or str(source).startswith(DESCRIPTOR_PATHS)):
        raise ValueError("this is a device or a named pipe, not a file")


def _read_stream(stream: Any) -> tuple[bytes, str]:
    location = str(getattr(stream, "name", "stream"))
    if not hasattr(stream, "read"):
        kind = type(stream).__name__
        raise TypeError(f"a module is loaded from a path, bytes or a stream, not from {kind}")
    try:
        data = stream.read()
    except (OSError, ValueError) as error:
        raise HloFileError(
            f"cannot be read: {error}",
            code="HLO-READ",
            place=location,
            remedy="open the file for reading, in binary: open(path, 'rb')",
        ) from None
    return (data.encode() if isinstance(data, str) else data), location


def _unreadable(source: str | Path, error: Exception) -> HloFileError:
    location, remedy = (
        str(source),
        "pass the path of a module (.pb, .hlo, ...) or - for standard input",
    )
    if "\n" in location:
        location, remedy = (
            "<text>",
            "a string is read as a path; pass its bytes: load(text.encode())",
        )
    reason = getattr(error, "strerror", None) or error
    return HloFileError(f"cannot be read: {reason}", code="HLO-READ", place=location, remedy=remedy)


def placed(error: HloError, location: str) -> HloError:
    """The same error with the file's name in its place."""
    if not location or error.place.startswith(location):
        return error
    where = f"{location}:{error.place}" if error.place else location
    return type(error)(error.message, code=error.code, place=where, remedy=error.remedy)


def message_range(content: Buffer) -> tuple[int, int]:
    """Bounds of the message in a delimited file."""
    bounds = message_behind_length(content)
    assert bounds is not None
    return bounds
