"""Compiled libraries in a folder that processes share: the name of each has its content's digest.

Loading a damaged library kills the process without a word (SIGBUS), so a library is found only if
its content has the digest in its name.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nki_lang.base.atomic import atomic_file
from nki_lang.base.plain_files import read_plain

__all__ = ["LibraryFiles"]


@dataclass(frozen=True, slots=True)
class LibraryFiles:
    """The libraries that are compiled from one source for one environment.

    Attributes:
        stem: start of their names, different for each source and environment, so that no stale
            library is loaded.
        max_bytes: limit on the size of a file that is read.
    """

    stem: str
    max_bytes: int

    def name(self, content: bytes) -> str:
        """The file name of a library."""
        return f"{self.stem}{hashlib.sha256(content).hexdigest()[:32]}.so"

    def find(self, folder: Path) -> Path | None:
        """Return an undamaged library of a folder, or None.

        A damaged one stays until another of its name replaces it: removing it could remove the
        file that another process has just put in its place.
        """
        pattern = re.compile(re.escape(self.stem) + r"[0-9a-f]{32}\.so")
        try:
            names = sorted(filter(pattern.fullmatch, os.listdir(folder)))
        except OSError:
            return None
        for name in names:
            with suppress(OSError):
                if self.name(read_plain(folder / name, self.max_bytes)) == name:
                    return folder / name
        return None

    def write(self, folder: Path, content: bytes) -> Path:
        """Write a library under the name of its content; another process may write the same.

        Raises:
            OSError: the folder cannot be written.
        """
        path = folder / self.name(content)
        with atomic_file(path, durable=True) as file:
            file.write(content)
        return path
