"""Names of the source files of a kernel in its kernel file."""

from __future__ import annotations

from nki_lang.base.source import shortest_names
from nki_lang.ir.types import Block, Instruction, KernelIR

__all__ = ["shown_names"]


def _files(statements: Block, files: dict[str, None]) -> None:
    last = None
    for statement in statements:
        location = statement.location
        if location is not None and location is not last:
            last = location
            files[location.file] = None
            files.update(dict.fromkeys(frame.file for frame in location.callers))
        if not isinstance(statement, Instruction):
            _files(statement.body, files)


def shown_names(kernel_ir: KernelIR) -> dict[str, str]:
    """Return file -> its name in a kernel file."""
    files: dict[str, None] = {}
    for body in kernel_ir.bodies:
        _files(body, files)
    return shortest_names(files)
