"""Names of source files in what is written: independent of the folder they were read from.

An absolute path is cut to its last parts: as many as it takes to tell the files apart.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterable

__all__ = ["shortest_names"]


def _tail(parts: tuple[str, ...], count: int) -> str:
    return "/".join(parts[-count:])


def shortest_names(files: Iterable[str]) -> dict[str, str]:
    """File -> the shortest end of its path that no other has; relative names stay as they are."""
    found = dict.fromkeys(files)
    names = {file: file for file in found if not os.path.isabs(file)}
    parts = {
        file: tuple(part for part in file.replace(os.sep, "/").split("/") if part)
        for file in sorted(found)
        if file not in names
    }
    taken = set(names)
    for file, own in parts.items():
        count = 1
        others = [other for name, other in parts.items() if name != file]
        while count < len(own) and (
            _tail(own, count) in taken
            or any(_tail(own, count) == _tail(other, count) for other in others)
        ):
            count += 1
        names[file] = _tail(own, count)
    return names
