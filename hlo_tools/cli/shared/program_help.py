"""The text that a program's ``--help`` prints: its options, and its commands with a line each."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from textwrap import fill

from hlo_tools.cli.shared.table import Program

__all__ = ["help_text"]

Rows = Sequence[tuple[str, str]]

_OPTIONS: Rows = (
    ("--debug", "Show tracebacks of errors."),
    ("--color WHEN", "auto, always or never.  [default: auto]"),
    ("-q, --quiet", "Print only data and errors."),
    ("-v, --verbose", "Print more to stderr."),
    ("--wide", "Print tables in full on a terminal."),
    ("--version", "Print the version."),
    ("--install-completion", "Install completion for this shell, or a named one: bash, zsh, fish."),
    ("--show-completion", "Print that completion, to copy or change it."),
    ("-h, --help", "Show this message and exit."),
)
_EXIT_CODES = (
    "Exit codes: 0 fine, 1 findings or a difference, 2 usage, 3 an input cannot be read or used, "
    "4 internal error."
)
_NARROWEST = 40


def help_text(program: Program) -> str:
    """The help of a program: its options, and its commands with a line each."""
    width = max(_width(), _NARROWEST)
    lines = [
        f"Usage: {program.name} [OPTIONS] COMMAND [ARGS]...",
        "",
        _wrapped(program.about, "  ", width),
    ]
    for heading, rows in {"Options": _OPTIONS, **program.sections()}.items():
        wide = max(len(name) for name, _ in rows) + 2
        lines += ["", f"{heading}:"]
        for name, text in rows:
            start = f"  {name:<{wide}}"
            lines.append(
                fill(text, width, initial_indent=start, subsequent_indent=" " * len(start))
            )
    lines += [
        "",
        _wrapped(f"{program.name} COMMAND --help shows the command's options.", "  ", width),
    ]
    return "\n".join([*lines, _wrapped(_EXIT_CODES, "  ", width), ""])


def _wrapped(text: str, indent: str, width: int) -> str:
    return fill(text, width, initial_indent=indent, subsequent_indent=indent)


def _width() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError, AttributeError):
        return 80
