"""``--show-completion SHELL`` and ``--install-completion SHELL``.

Typer's own options take no value: they guess the shell from the parent process, and a shell that
is named is ignored. Without a name they still do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import typer

from hlo_tools.cli.shared import console

__all__ = ["answer_completion", "completion_request"]

SHELLS: Final = ("bash", "zsh", "fish", "powershell", "pwsh")
_OPTIONS: Final = ("--show-completion", "--install-completion")


def completion_request(words: Sequence[str]) -> bool:
    """Return True if the words of a command line ask for the completion of a named shell."""
    first = words[0] if words else ""
    option, equals, _ = first.partition("=")
    return option in _OPTIONS and (bool(equals) or len(words) > 1)


def answer_completion(program: str, words: Sequence[str]) -> int:
    """Print or install the completion of a program for the shell that the words name.

    Raises:
        typer.BadParameter: there is no completion for such a shell.
    """
    from typer._completion_shared import get_completion_script, install

    option, equals, shell = words[0].partition("=")
    shell = shell if equals else words[1]
    if shell not in SHELLS:
        raise typer.BadParameter(f"{option} takes {', '.join(SHELLS)}; there is no {shell!r}")
    variable = f"_{program.replace('-', '_').upper()}_COMPLETE"
    if option == "--show-completion":
        console.line(get_completion_script(prog_name=program, complete_var=variable, shell=shell))
        return 0
    name, path = install(shell=shell, prog_name=program, complete_var=variable)
    console.note(f"{name} completion installed in {path}; it takes effect in a new shell")
    return 0
