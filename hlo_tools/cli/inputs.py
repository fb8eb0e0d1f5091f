"""What commands read: modules from paths, folders and standard input."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_tools.errors import HloError, HloFileError

if TYPE_CHECKING:
    from hlo_tools.module import Module
    from hlo_tools.outline import Outline

__all__ = ["load_input", "module_files", "open_module", "open_outline"]

_SUFFIXES = (".pb", ".hlo", ".pb.gz", ".pb.zst", ".hlo.gz", ".hlo.zst", ".hlo.txt")


def open_module(name: str) -> Module:
    """The module in a file, in the folder that an extraction wrote, or on standard input (``-``).

    Raises:
        HloError: it cannot be read; HLO-NO-MODULE, HLO-MODULES: a folder with none or several.
    """
    from hlo_tools.loading import load

    if name == "-":
        return load_input(sys.stdin.buffer.read())
    return load(_only_file(name))


def load_input(data: bytes) -> Module:
    """The module that standard input held; errors say so.

    Raises:
        HloError: it cannot be read.
    """
    from hlo_tools.loading import load

    return load(_StandardInput(data))


class _StandardInput(io.BytesIO):
    name = "<stdin>"


def open_outline(name: str) -> Outline:
    """The overview of the module that :func:`open_module` would load.

    Raises:
        HloError: as there.
    """
    from hlo_tools.outline import load_outline

    if name != "-":
        return load_outline(_only_file(name))
    data = sys.stdin.buffer.read()
    try:
        outline = load_outline(data)
    except HloError:
        load_input(data)  # its error says that it is about standard input
        raise
    outline.path = "<stdin>"
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
