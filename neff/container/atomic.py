"""Output files of this package: there whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from typing import BinaryIO

from neff.errors import NeffError
from nki_lang.base import atomic
from nki_lang.base.plain_files import shown

__all__ = ["atomic_file"]


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Generator[BinaryIO]:
    """:func:`nki_lang.base.atomic.atomic_file` with this package's error.

    Raises:
        NeffError: code ``NEFF-WRITE``; the folder is missing or not writable, or the disk full.
    """
    try:
        with atomic.atomic_file(path, durable=True, user_path=True) as file:
            yield file
    except OSError as error:
        raise NeffError(
            f"cannot write: {error.strerror or error}",
            code="NEFF-WRITE",
            place=shown(path),
            remedy="check that the folder exists, is writable and has room",
        ) from None
