"""``nki-neff``: build, inspect, check and run NEFF files on the command line."""

from __future__ import annotations

from hlo_tools.cli.shared.front import start
from neff.cli.commands import PROGRAM

__all__ = ["main"]


def main(words: list[str] | None = None) -> int:
    """Run ``nki-neff`` with ``words`` (the process's arguments when not given).

    Returns:
        The exit code: 0 fine, 1 findings or a difference, 2 usage, 3 an input cannot be read or
        used, 4 an internal error, 130 interrupted.
    """
    return start(PROGRAM, words)
