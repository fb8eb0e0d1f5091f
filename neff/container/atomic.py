"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from hlo_tools.leftovers import staging_name, sweep
from neff.errors import NeffError

__all__ = ["atomic_file"]


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write beside ``path`` that takes its place when the block ends well.

    What killed writers of the same target left beside it goes.

    Raises:
        NeffError: code ``NEFF-WRITE``; the folder is missing or not writable, or the disk full.
    """
    target = Path(path)
    prefix = f".{target.name[:30]}."
    sweep(target.parent, prefix)
    beside = target.with_name(staging_name(prefix))
    try:
        handle = os.open(
            beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666
        )
    except OSError as error:
        raise _cannot(target, error) from None
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except OSError as error:
        raise _cannot(target, error) from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(beside)


def _cannot(path: Path, error: OSError) -> NeffError:
    return NeffError(
        f"cannot write: {error.strerror or error}",
        code="NEFF-WRITE",
        place=str(path),
        remedy="check that the folder exists, is writable and has room",
    )
