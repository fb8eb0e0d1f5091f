"""``nki-hlo``: the HLO tools on the command line."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main(words: list[str] | None = None) -> int:
    """Run ``nki-hlo`` with ``words`` (the process's arguments when not given).

    Returns:
        The exit code: 0 fine, 1 findings or a difference, 2 usage, 3 an input cannot be read or
        used, 4 an internal error, 130 interrupted.
    """
    from hlo_tools.cli.front import asks_for_help, help_text, show_help

    given = list(sys.argv[1:] if words is None else words)
    try:
        if asks_for_help("nki-hlo", given):
            from hlo_tools.cli.commands import ABOUT, sections

            return show_help(help_text("nki-hlo", ABOUT, sections()), given)
        from hlo_tools.cli.program import run
    except KeyboardInterrupt:  # loading takes long enough to be interrupted
        sys.stderr.write("interrupted\n")
        return 130
    return run(given)
