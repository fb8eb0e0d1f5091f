"""Reads files whose names come from a folder or from another file: regular files of bounded size.

Devices and pipes may block or never end, and a link may lead to one, so they are refused.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from typing import Final

__all__ = [
    "MAX_RECORD_BYTES",
    "MAX_RESULT_BYTES",
    "MAX_SOURCE_BYTES",
    "UnfitFileError",
    "check_path",
    "read_plain",
    "shown",
    "size_of",
]

MAX_RECORD_BYTES: Final = 16 << 20
"""Limit for records and settings: JSON and TOML that tools write next to modules."""

MAX_SOURCE_BYTES: Final = 16 << 20
"""Limit for program text."""

MAX_RESULT_BYTES: Final = (1 << 35) + 1024
"""Limit for content of a store and for a NEFF: its header and an archive of 32 GiB."""

_OPEN_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class UnfitFileError(OSError):
    """A file that must not be read.

    Attributes:
        too_large: True if it has too many bytes; else it is no regular file.
    """

    too_large = False


def check_path(path: str | os.PathLike[str]) -> None:
    """Refuse a path that no file can have.

    Raises:
        UnfitFileError: it has a NUL character, or a character that the file system cannot encode.
    """
    try:
        fits = b"\0" not in os.fsencode(path)
        reason = "the path has a NUL character"
    except UnicodeEncodeError:
        fits, reason = False, "the path has a character that the file system cannot encode"
    if not fits:
        raise UnfitFileError(errno.EINVAL, reason, shown(path))


def shown(path: str | os.PathLike[str]) -> str:
    """Return a path as it appears in messages, with escapes for unprintable characters."""
    name = os.fspath(path).replace("\0", "\\0")
    return name.encode("utf-8", "backslashreplace").decode()


def size_of(path: str | os.PathLike[str], max_bytes: int) -> int:
    """Return the size of a regular file, following links, without opening it.

    Raises:
        UnfitFileError: it is no regular file, or has more than ``max_bytes`` bytes.
        OSError: it is missing, or the user may not access it.
    """
    check_path(path)
    return _checked(os.stat(path), path, max_bytes)


def read_plain(path: str | os.PathLike[str], max_bytes: int, *, truncate: bool = False) -> bytes:
    """Return the content of a regular file, following links.

    Args:
        path: the file.
        max_bytes: the limit.
        truncate: read a larger file up to the limit instead of refusing it.

    Raises:
        UnfitFileError: it is no regular file, or has more than ``max_bytes`` bytes.
        OSError: it cannot be read.
    """
    allowed = sys.maxsize if truncate else max_bytes
    size_of(path, allowed)  # opening some devices has side effects
    with os.fdopen(os.open(path, _OPEN_FLAGS), "rb") as file:
        size = _checked(os.fstat(file.fileno()), path, allowed)
        content = file.read(min(size, max_bytes) + 1)
    if len(content) > min(size, max_bytes) and not truncate:
        raise _too_large(path, len(content), min(size, max_bytes))
    return content[:max_bytes] if truncate else content


def _checked(status: os.stat_result, path: str | os.PathLike[str], max_bytes: int) -> int:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(status.st_mode):
        message = "this is not a plain file, so it is not opened"
        raise UnfitFileError(errno.EINVAL, message, os.fspath(path))
    if status.st_size > max_bytes:
        raise _too_large(path, status.st_size, max_bytes)
    return status.st_size


def _too_large(path: str | os.PathLike[str], size: int, max_bytes: int) -> UnfitFileError:
    message = f"the file has {size} bytes, more than the {max_bytes} allowed"
    error = UnfitFileError(errno.EFBIG, message, os.fspath(path))
    error.too_large = True
    return error
