"""``nki-neff``: build, inspect, check and run NEFF files on the command line.

Where the command starts, so nothing is imported here: an interrupt while Python imports the rest
ends the command as one at any other time does.
"""

__all__ = ["main"]


def main(words: "list[str] | None" = None) -> int:
    """Run ``nki-neff`` with ``words`` (the process's arguments when not given).

    Returns:
        The exit code: 0 fine, 1 findings or a difference, 2 usage, 3 an input cannot be read or
        used, 4 an internal error, 130 interrupted.
    """
    try:
        from hlo_tools.cli.shared.front import start
        from neff.cli.commands import PROGRAM

        return start(PROGRAM, words)
    except KeyboardInterrupt:
        import sys

        sys.stderr.write("interrupted\n")
        return 130
