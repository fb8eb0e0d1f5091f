"""Files whose names come from a folder or from another file: plain ones, of bounded size.

The one way to read them. Devices and pipes never end or never begin, and a link may lead to one.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from typing import Final

__all__ = [
    "MOST_RECORD",
    "MOST_RESULT",
    "MOST_SOURCE",
    "UnfitFileError",
    "check_path",
    "read_plain",
    "shown",
    "size_of",
]

MOST_RECORD: Final = 16 << 20
"""Bytes of a record or of settings at most: JSON and TOML that tools write beside modules."""

MOST_SOURCE: Final = 16 << 20
"""Bytes of a file of program text at most."""

MOST_RESULT: Final = (1 << 35) + 1024
"""Bytes of what a store holds at most, and of a NEFF: its header and an archive of 32 GiB."""

_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class UnfitFileError(OSError):
    """A file that must not be read, however it may be read.

    Attributes:
        too_large: it has too many bytes; else it is no plain file.
    """

    too_large = False


def check_path(path: str | os.PathLike[str]) -> None:
    """Refuse a path that no file can have.

    Raises:
        UnfitFileError: it has a NUL character, or one that the file system cannot encode.
    """
    try:
        fits = b"\0" not in os.fsencode(path)
        reason = "the path has a NUL character"
    except UnicodeEncodeError:
        fits, reason = False, "the path has a character that the file system cannot encode"
    if not fits:
        raise UnfitFileError(errno.EINVAL, reason, shown(path))


def shown(path: str | os.PathLike[str]) -> str:
    """A path as messages have it, whatever characters it has."""
    name = os.fspath(path).replace("\0", "\\0")
    return name.encode("utf-8", "backslashreplace").decode()


def size_of(path: str | os.PathLike[str], most: int) -> int:
    """The size of a plain file, links followed; nothing is opened.

    Raises:
        UnfitFileError: it is no plain file, or has more than ``most`` bytes.
        OSError: it is missing, or may not be looked at.
    """
    check_path(path)
    return _checked(os.stat(path), path, most)


def read_plain(path: str | os.PathLike[str], most: int, *, cut: bool = False) -> bytes:
    """The content of a plain file, links followed.

    Args:
        path: the file.
        most: bytes at most.
        cut: a larger file is read up to there; else it is refused.

    Raises:
        UnfitFileError: it is no plain file, or has more than ``most`` bytes.
        OSError: it cannot be read.
    """
    allowed = sys.maxsize if cut else most
    size_of(path, allowed)  # opening some devices does something already
    with os.fdopen(os.open(path, _FLAGS), "rb") as file:
        size = _checked(os.fstat(file.fileno()), path, allowed)
        content = file.read(min(size, most) + 1)
    if len(content) > min(size, most) and not cut:
        raise _too_large(path, len(content), min(size, most))
    return content[:most] if cut else content


def _checked(status: os.stat_result, path: str | os.PathLike[str], most: int) -> int:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(status.st_mode):
        message = "this is not a plain file, so it is not opened"
        raise UnfitFileError(errno.EINVAL, message, os.fspath(path))
    if status.st_size > most:
        raise _too_large(path, status.st_size, most)
    return status.st_size


def _too_large(path: str | os.PathLike[str], size: int, most: int) -> UnfitFileError:
    message = f"the file has {size} bytes, more than the {most} allowed"
    error = UnfitFileError(errno.EFBIG, message, os.fspath(path))
    error.too_large = True
    return error
