"""What commands read: modules from paths, folders and standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_tools.errors import HloFileError

if TYPE_CHECKING:
    from hlo_tools.module import Module
    from hlo_tools.outline import Outline

__all__ = ["module_files", "open_module", "open_outline", "read_input"]

_SUFFIXES = (".pb", ".hlo", ".pb.gz", ".pb.zst", ".hlo.txt")


def read_input(name: str) -> bytes | str:
    """``-`` is standard input, read whole; anything else is a path, left to the loader."""
    return sys.stdin.buffer.read() if name == "-" else name


def open_module(name: str) -> Module:
    """The module in a file, in the folder that an extraction wrote, or on standard input (``-``).

    Raises:
        HloError: it cannot be read; HLO-NO-MODULE, HLO-MODULES: a folder with none or several.
    """
    from hlo_tools.loading import load

    module = load(read_input(_only_file(name) if name != "-" else name))
    module.path = module.path or "<stdin>"
    return module


def open_outline(name: str) -> Outline:
    """The overview of the module that :func:`open_module` would load.

    Raises:
        HloError: as there.
    """
    from hlo_tools.outline import load_outline

    outline = load_outline(read_input(_only_file(name) if name != "-" else name))
    outline.path = outline.path or "<stdin>"
    return outline


def _only_file(name: str) -> str:
    files = module_files(name)
    if len(files) == 1:
        return files[0]
    raise HloFileError(
        f"the folder holds {len(files)} modules, one is wanted",
        code="HLO-MODULES",
        place=name,
        remedy=f"name one, for instance {files[0]}",
    )


def module_files(name: str) -> list[str]:
    """The files to look at: the file itself, or every module file under a folder, sorted.

    Raises:
        HloFileError: a folder without modules (HLO-NO-MODULE).
    """
    folder = Path(name)
    if not folder.is_dir():
        return [name]
    found = sorted(
        str(path)
        for path in folder.rglob("*")
        if path.name.endswith(_SUFFIXES) and path.is_file() and not path.name.startswith(".")
    )
    if not found:
        raise HloFileError(
            "the folder holds no module",
            code="HLO-NO-MODULE",
            place=name,
            remedy=f"modules are files that end in {', '.join(_SUFFIXES)}",
        )
    return found
