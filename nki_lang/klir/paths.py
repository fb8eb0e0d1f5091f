"""How a kernel file calls the source files of its kernel."""

from __future__ import annotations

from nki_lang.ir.types import Block, Instruction, KernelIR
from nki_lang.source import shortest_names

__all__ = ["shown_names"]


def _files(statements: Block, found: dict[str, None]) -> None:
    last = None
    for statement in statements:
        location = statement.location
        if location is not None and location is not last:
            last = location
            found[location.file] = None
            found.update(dict.fromkeys(frame.file for frame in location.callers))
        if not isinstance(statement, Instruction):
            _files(statement.body, found)


def shown_names(kernel_ir: KernelIR) -> dict[str, str]:
    """File -> the name that a kernel file calls it by."""
    found: dict[str, None] = {}
    for body in kernel_ir.bodies:
        _files(body, found)
    return shortest_names(found)
