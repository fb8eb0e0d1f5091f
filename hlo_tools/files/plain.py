"""Files beside a module and in a cache: plain ones of bounded size, else a coded error."""

from __future__ import annotations

import os
from typing import Final

from hlo_tools.errors import HloFileError
from nki_lang.base.plain_files import (
    MAX_RECORD_BYTES,
    MAX_RESULT_BYTES,
    UnfitFileError,
    check_path,
    read_plain,
    shown,
    size_of,
)

__all__ = [
    "MAX_RECORD_BYTES",
    "MAX_RESULT_BYTES",
    "MOST_BYTES",
    "UnfitFileError",
    "check_path",
    "read_beside",
    "read_plain",
    "shown",
    "size_of",
]

MOST_BYTES: Final = 1 << 32
"""Size at most of a kernel file, its record or a constant, and of a module in a cache."""


def read_beside(path: str | os.PathLike[str], most: int = MAX_RECORD_BYTES) -> bytes:
    """The content of a file that lies beside a module or in a cache.

    Raises:
        HloFileError: ``HLO-SIDE-FILE``: it is no plain file, or has more than ``most`` bytes.
        OSError: it cannot be read.
    """
    try:
        return read_plain(path, most)
    except UnfitFileError as error:
        raise HloFileError(
            error.strerror or str(error),
            code="HLO-SIDE-FILE",
            place=shown(path),
            remedy="remove it: nothing of ours writes such a file",
        ) from error
