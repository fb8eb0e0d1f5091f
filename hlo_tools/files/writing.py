"""Writing output files: beside the target first, then renamed, so none is ever half-written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from hlo_tools.errors import HloFileError
from hlo_tools.files.compression import SUFFIXES, compress
from hlo_tools.files.plain import shown
from nki_lang.base.atomic import atomic_file

if TYPE_CHECKING:
    from hlo_tools.wire.fields import Buffer

__all__ = ["write_bytes", "write_stream"]


def write_bytes(data: Buffer, target: str | Path | BinaryIO) -> None:
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
    try:
        with atomic_file(target, user_path=True) as stream:
            write(stream)
    except OSError as error:
        raise HloFileError(
            f"cannot be written: {error.strerror or error}",
            code="HLO-WRITE",
            place=shown(target),
            remedy="check that the folder exists, is writable and has room",
        ) from None
