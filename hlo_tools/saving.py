"""Writing output files: beside the target first, then renamed, so none is ever half-written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from hlo_tools.compressed import SUFFIXES, compress
from hlo_tools.errors import HloFileError

__all__ = ["write_bytes", "write_stream"]


def write_bytes(data: Any, target: str | Path | BinaryIO) -> None:
    """Write bytes (or a buffer) to a path, compressed as its suffix says, or to a binary stream.

    Raises:
        HloFileError: the path cannot be written (HLO-WRITE); nothing is left behind.
    """
    if not isinstance(target, (str, Path)):
        target.write(data)
        return
    kind = SUFFIXES.get(Path(target).suffix, "")
    packed = compress(bytes(data), kind) if kind else data
    write_stream(lambda stream: stream.write(packed), target)


def write_stream(write: Callable[[BinaryIO], object], target: str | Path | BinaryIO) -> None:
    """Let ``write`` fill a stream that becomes the file ``target`` when it is done.

    Raises:
        HloFileError: the path cannot be written (HLO-WRITE); nothing is left behind.
    """
    if not isinstance(target, (str, Path)):
        write(target)
        return
    path = Path(target)
    beside: str | None = None
    try:
        handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as stream:
            write(stream)
        os.chmod(beside, 0o666 & ~_umask())
        os.replace(beside, path)
        beside = None
    except OSError as error:
        raise HloFileError(
            f"cannot be written: {error.strerror or error}",
            code="HLO-WRITE",
            place=str(path),
            remedy="check that the folder exists, is writable and has room",
        ) from None
    finally:
        if beside is not None and os.path.exists(beside):
            os.unlink(beside)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
