"""Where commands write modules: the format is that of the output's name."""

from __future__ import annotations

import sys

from hlo_tools.cli import console
from hlo_tools.ir import formats
from hlo_tools.ir.module import Module

__all__ = ["came_as_text", "format_of", "write_module", "write_text"]

_NOTATIONS = frozenset({"text", "json", "pbtxt"})


def came_as_text(module: Module) -> bool:
    """Whether a module, just loaded, was HLO text or another notation."""
    return module.is_changed and module.envelope is None


def format_of(output: str, *, text: bool = False) -> str | None:
    """The format that an output's name selects; None keeps the message that came in.

    Args:
        text: standard output gets text.
    """
    if output == "-":
        return "text" if text else None
    return formats.form_of(output)


def write_module(module: Module, output: str, form: str | None, *, force: bool = False) -> None:
    """Write a module to a file, or to standard output for ``-``.

    Args:
        form: one of :data:`hlo_tools.ir.formats.FORMATS`, or None for the message that came in.
        force: bytes to a terminal too.

    Raises:
        HloFileError: the file cannot be written.
        typer.BadParameter: bytes for a terminal.
    """
    if form is None and output != "-":
        module.save(output)  # the name asks for no format either
        return
    data = module.to_bytes() if form is None else formats.render(module, form)
    if form in _NOTATIONS:
        write_text(data.decode(), output)
    else:
        console.write_binary(data, output, force=force)


def write_text(text: str, output: str) -> None:
    """Text that ends with one line feed, to a file or to standard output."""
    text = text.rstrip("\n") + "\n"
    if output == "-":
        sys.stdout.write(text)
    else:
        console.write_binary(text.encode(), output)
