"""Inputs of commands: modules from paths, folders and standard input."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hlo_tools._messages import counted
from hlo_tools.cli.shared.failures import report
from hlo_tools.cli.shared.progress import step
from hlo_tools.cli.shared.selection import chosen, module_target, options_to_choose
from hlo_tools.errors import HloError, HloFileError

if TYPE_CHECKING:
    from hlo_tools.ir.module import Module
    from hlo_tools.ir.overview import ModuleOutline

__all__ = [
    "SUFFIXES",
    "is_text",
    "load_input",
    "look_at_each",
    "module_files",
    "open_module",
    "open_outline",
]

Found = TypeVar("Found")

_TEXT_SUFFIXES = (".hlo", ".hlo.gz", ".hlo.zst", ".hlo.txt")
SUFFIXES = (".pb", ".pb.gz", ".pb.zst", *_TEXT_SUFFIXES)
_TEXT = re.compile(rb"(?:\s|//[^\n]*\n)*(?:HloModule\s|hlo_module\s*\{)")
_HEAD = 1 << 12
"""Bytes in which a text shows that it is HLO."""


def open_module(name: str, *, to_inspect: bool = False) -> Module:
    """The module in a file, in the folder that an extraction wrote, or on standard input (``-``).

    Args:
        to_inspect: the command shows what the module holds and interprets nothing; then unknown
            fields are told in a note, and not refused.

    Raises:
        HloError: it cannot be read, or has a field that this version does not know
            (HLO-UNKNOWN-FIELD); HLO-NO-MODULE, HLO-MODULES: a folder with none or several.
    """
    from hlo_tools.ir.loading import load

    if name == "-":
        return load_input(sys.stdin.buffer.read(), to_inspect=to_inspect)
    return _checked(load(_only_file(name)), to_inspect)


def load_input(data: bytes, *, to_inspect: bool = False) -> Module:
    """The module on standard input; errors name it so.

    Raises:
        HloError: it cannot be read, or has a field that this version does not know.
    """
    from hlo_tools.ir.loading import load

    return _checked(load(_StandardInput(data)), to_inspect)


def _checked(module: Module, to_inspect: bool) -> Module:
    if not to_inspect:
        module.require_known_fields()
    elif module.holds_unknown_fields:
        _note_unknown(module.path)
    return module


def _note_unknown(path: str) -> None:
    from hlo_tools.cli.shared import console

    console.note(
        f"{path}: the module has fields that this version does not know and does not show; "
        "nki-hlo verify lists them"
    )


def is_text(name: str) -> bool:
    """Return True if a file is HLO text that is not compressed."""
    path = Path(name)
    if not path.is_file():
        return False
    with open(path, "rb") as stream:
        match = _TEXT.match(stream.read(_HEAD))
    return match is not None and not match[0].endswith(b"{")


def look_at_each(
    paths: Sequence[str], look: Callable[[Module], list[Found]]
) -> tuple[list[str], list[Found], list[HloError]]:
    """The files that were read, what was found in them, and why others were not.

    Modules with unknown fields are looked at too; a note says so.

    Raises:
        HloError: the only file, or every file, cannot be read; the first one's.
    """
    read: list[str] = []
    findings: list[Found] = []
    unread: list[HloError] = []
    for number, path in enumerate(paths):
        step(path, number, len(paths))
        try:
            module = open_module(path, to_inspect=True)
        except HloError as error:
            unread.append(error)
            continue
        findings += look(module)
        read.append("<stdin>" if path == "-" else path)
    if unread and not read:
        for error in unread[1:]:
            report(error)
        raise unread[0]
    return read, findings, unread


class _StandardInput(io.BytesIO):
    name = "<stdin>"


def open_outline(name: str) -> ModuleOutline:
    """The overview of the module that :func:`open_module` would load.

    Raises:
        HloError: as there.
    """
    from hlo_tools.ir.loading import load_outline

    if name != "-":
        outline = load_outline(_only_file(name))
        if outline.holds_unknown_fields:
            _note_unknown(outline.path)
        return outline
    data = sys.stdin.buffer.read()
    try:
        outline = load_outline(data)
    except HloError:
        load_input(data)  # its error says that it is about standard input
        raise
    outline.path = "<stdin>"
    if outline.holds_unknown_fields:
        _note_unknown(outline.path)
    return outline


def _only_file(name: str) -> str:
    files = module_files(name)
    if len(files) == 1:
        return files[0]
    raise HloFileError(
        f"the folder contains {len(files)} modules, but one is expected",
        code="HLO-MODULES",
        place=name,
        remedy=f"{options_to_choose(files)}; or name the file, for instance {files[0]}",
    )


def module_files(name: str) -> list[str]:
    """The files to read: the file itself, or the chosen modules under a folder, sorted.

    Raises:
        HloFileError: a folder without modules, or without a chosen one (HLO-NO-MODULE).
    """
    folder = Path(name)
    if not folder.is_dir():
        return [name]
    modules = sorted(str(path) for path in folder.rglob("*") if _is_module(path))
    if not modules:
        raise HloFileError(
            "the folder contains no module",
            code="HLO-NO-MODULE",
            place=name,
            remedy=f"modules are files that end in {', '.join(SUFFIXES)}, "
            "or in .txt and begin as HLO text does",
        )
    selected = chosen(name, modules)
    if not selected:
        raise HloFileError(
            f"none of the folder's {counted(len(modules), 'module')} is chosen",
            code="HLO-NO-MODULE",
            place=name,
            remedy=_remedy_of_selection(modules),
        )
    return selected


def _remedy_of_selection(modules: Sequence[str]) -> str:
    text = (
        "--latest, --kernels-only, --name, --stale and --target choose; nki-hlo show -s lists them"
    )
    targets = sorted({target for file in modules if (target := module_target(file))})
    return f"{text}: they are for {' and '.join(targets)}" if targets else text


def _is_module(path: Path) -> bool:
    """Return True if a file of a folder is to be read: a damaged module is, another message is not.

    XLA's dumps put messages of other kinds (``.pb``) beside modules, and the modules' text into
    ``.txt``. A name that ends in ``.hlo`` promises a module, whatever the file contains.
    """
    if path.name.startswith(".") or not path.is_file():
        return False
    try:
        if path.name.endswith(SUFFIXES):
            return path.name.endswith(_TEXT_SUFFIXES) or not _is_something_else(path)
        if path.suffix == ".txt":
            with open(path, "rb") as stream:
                return _TEXT.match(stream.read(_HEAD)) is not None
    except OSError:
        return True
    return False


def _is_something_else(path: Path) -> bool:
    from hlo_tools.files.content import open_content

    try:
        open_content(path, mapped_over=0)
    except HloError as error:
        return error.code == "HLO-NOT-HLO"
    return False
