"""How errors are shown, and which exit code they map to."""

from __future__ import annotations

import sys
import traceback
from typing import Any

import typer

from hlo_tools.cli.shared import console
from hlo_tools.errors import CodedError, reports_bugs

__all__ = ["INTERNAL", "UNUSABLE", "USAGE", "report"]

USAGE, UNUSABLE, INTERNAL = 2, 3, 4

_USAGE_CODES = frozenset(
    {"HLO-ARGUMENT", "HLO-PIPELINE", "HLO-NO-PASS", "HLO-PASS-ARGUMENT", "NEFF-FLAG",
     "HLO-RULE", "HLO-CONFIGURATION", "HLO-FORMAT", "NKI-TARGET", "NEFF-BUDGET", "NEFF-CHIP",
     "NEFF-GROUPING", "NEFF-INPUT", "NEFF-ORDER", "NEFF-PARAMETER", "NEFF-STATISTIC", "NEFF-USAGE", "NEFF-WHAT-IF"}
)  # fmt: skip
"""Codes of errors about an option's value that does not exist; the packages above have some."""
_CODES = dict.fromkeys(_USAGE_CODES, USAGE) | {
    "HLO-DIFFERENT": 1,
    "HLO-INTERNAL": INTERNAL,
    "NEFF-INTERNAL": INTERNAL,
}
"""Exit codes other than 3; two modules that had to be equal and are not are a difference."""
_USAGE_ERROR: Any = typer.BadParameter.__base__


def report(error: Exception, program: str = "nki-hlo") -> int:
    """Print ``error`` on stderr and return the exit code of ``program``.

    This is the guard at the edge of the commands: what nobody foresaw is a bug of ours, and is told
    as one (``NKI_HLO_UNGUARDED=1`` raises it as it is).
    """
    package = program.removeprefix("nki-").upper()
    if console.settings().debug:
        traceback.print_exception(error)
    if isinstance(error, _USAGE_ERROR):
        return _usage(error, program, package)
    if isinstance(error, CodedError):
        _coded(error, program)
        return _CODES.get(error.code, UNUSABLE)
    if isinstance(error, MemoryError):
        _print(
            f"{package}-MEMORY",
            "",
            "out of memory",
            "use a machine with more memory, or a smaller input",
        )
        return UNUSABLE
    if isinstance(error, OSError):
        location = str(error.filename or "")
        _print(
            f"{package}-IO", location, error.strerror or str(error),
            "check that the path exists, is of the expected kind (file or folder) and is accessible",
        )  # fmt: skip
        return UNUSABLE
    if not reports_bugs():
        raise error
    _print(
        f"{package}-INTERNAL", "", f"{type(error).__name__}: {error}",
        f"this is a bug of {program}; report it with the output of the same command and --debug",
    )  # fmt: skip
    return INTERNAL


def _coded(error: CodedError, program: str) -> None:
    _print(error.code, error.place, error.message, error.remedy)
    sys.stderr.write(f"  more: {program} explain {error.code}\n")


def _usage(error: Any, program: str, package: str) -> int:
    context = getattr(error, "ctx", None)
    if not error.format_message():  # help was shown because nothing was given
        return USAGE
    name = context.command_path if context is not None else program
    _print(f"{package}-USAGE", "", error.format_message(), f"{name} --help shows the usage")
    return USAGE


def _print(code: str, location: str, message: str, remedy: str) -> None:
    bold, plain = console.marks("1;31")
    where = f" {location}:" if location else ":"
    text = f"{bold}error[{code}]{plain}{where} {message}\n"
    if remedy:
        text += f"  help: {remedy}\n"
    sys.stdout.flush()
    sys.stderr.write(text)
