"""Where a program starts: its ``--help`` is printed without loading any command.

``--help`` and a bare program name end here before typer, rich or NumPy are imported; the program
prints the same text where its own parser finds ``--help`` behind other options.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from hlo_tools.cli.shared.program_help import help_text
from hlo_tools.cli.shared.table import Program

__all__ = ["start"]

FINE, USAGE = 0, 2


def start(program: Program, words: Sequence[str] | None) -> int:
    """Run a program with ``words``, or with the process's arguments; the exit code."""
    arguments = list(sys.argv[1:] if words is None else words)
    if _asks_for_help(program, arguments):
        return _show(help_text(program), arguments)
    from hlo_tools.cli.program import run

    return run(program, arguments)


def _asks_for_help(program: Program, words: Sequence[str]) -> bool:
    """Return True if ``words`` ask for nothing but help, and no shell asks for completions."""
    variable = f"_{program.name.replace('-', '_').upper()}_COMPLETE"
    return list(words) in ([], ["-h"], ["--help"]) and variable not in os.environ


def _show(text: str, words: Sequence[str]) -> int:
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
