"""The help of a whole program: its commands with a line each, printed without loading any of them.

``--help`` and a bare program name end here before typer, rich or NumPy are imported; the program
prints the same text where its own parser finds ``--help`` behind other options.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from textwrap import fill

__all__ = ["asks_for_help", "help_text", "show_help"]

Rows = Sequence[tuple[str, str]]

_OPTIONS: Rows = (
    ("--debug", "Show tracebacks of errors."),
    ("--color WHEN", "auto, always or never.  [default: auto]"),
    ("-q, --quiet", "Print only data and errors."),
    ("-v, --verbose", "Print more to stderr."),
    ("--version", "Print the version."),
    ("--install-completion", "Install completion for the current shell."),
    ("--show-completion", "Print that completion, to copy or change it."),
    ("-h, --help", "Show this message and exit."),
)
_EXIT_CODES = (
    "Exit codes: 0 fine, 1 findings or a difference, 2 usage, 3 an input cannot be read or used, "
    "4 internal error."
)
_NARROWEST = 40
FINE, USAGE = 0, 2


def asks_for_help(program: str, words: Sequence[str]) -> bool:
    """Whether ``words`` ask for nothing but help, and no shell asks for completions."""
    variable = f"_{program.replace('-', '_').upper()}_COMPLETE"
    return list(words) in ([], ["-h"], ["--help"]) and variable not in os.environ


def show_help(text: str, words: Sequence[str]) -> int:
    """Print a help text; the exit code: 2 when no word was given."""
    stream = sys.stdout
    if stream is None:  # pyright: ignore[reportUnnecessaryComparison]
        return FINE if words else USAGE
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:  # its reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return FINE if words else USAGE


def help_text(program: str, about: str, sections: Mapping[str, Rows]) -> str:
    """The help of a program.

    Args:
        program: its name.
        about: a line about it.
        sections: heading -> commands with a line each.
    """
    width = max(_width(), _NARROWEST)
    lines = [f"Usage: {program} [OPTIONS] COMMAND [ARGS]...", "", _wrapped(about, "  ", width)]
    for heading, rows in {"Options": _OPTIONS, **sections}.items():
        wide = max(len(name) for name, _ in rows) + 2
        lines += ["", f"{heading}:"]
        for name, text in rows:
            start = f"  {name:<{wide}}"
            lines.append(
                fill(text, width, initial_indent=start, subsequent_indent=" " * len(start))
            )
    lines += ["", _wrapped(f"{program} COMMAND --help shows the command's options.", "  ", width)]
    return "\n".join([*lines, _wrapped(_EXIT_CODES, "  ", width), ""])


def _wrapped(text: str, indent: str, width: int) -> str:
    return fill(text, width, initial_indent=indent, subsequent_indent=indent)


def _width() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError, AttributeError):
        return 80
