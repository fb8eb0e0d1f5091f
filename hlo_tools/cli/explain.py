"""``nki-hlo explain``: what a code means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated

import typer

from hlo_tools.cli.shared import completion, console
from hlo_tools.cli.shared.codes import Code, beginning_with, closer, find, near
from hlo_tools.cli.shared.options import AsJson
from hlo_tools.plugins import BUILTIN_ORIGIN

__all__ = ["command"]


def command(
    code: Annotated[
        str,
        typer.Argument(
            help="A code, the line that has it, or how codes begin (NEFF-TAR-); all by default.",
            autocompletion=completion.codes,
        ),
    ] = "",
    as_json: AsJson = False,
) -> int:
    """Explain the code of an error, warning or finding: what it means, why, and what to do.

    Example: nki-hlo explain NKI-CAPACITY
    Example: nki-neff explain NEFF-HBM
    """
    exact = None if code.endswith(("-", "_")) else find(code)
    family = [exact] if exact else _family(code)
    if as_json:
        console.write_json("explain", codes=[asdict(entry) for entry in family])
    elif exact:
        _explain(exact, code)
    else:
        _list(family)
    return 0


def _family(code: str) -> list[Code]:
    """The codes that begin so; all without a beginning."""
    family = beginning_with(code) if not code[-1:].isdigit() else {}
    if not family:
        suggestions = near(code)
        hint = (
            f"; did you mean {' or '.join(suggestions)}?"
            if suggestions
            else "; without one, all are listed"
        )
        raise typer.BadParameter(f"there is no code {code!r}{hint}")
    return list(family.values())


def _explain(entry: Code, typed_code: str) -> None:
    console.line(f"{entry.code}: {entry.title}")
    console.line()
    if entry.why:
        console.line(entry.why)
    if entry.remedy:
        console.line(f"Remedy: {entry.remedy}.")
    if entry.targets != "all" or entry.command.endswith("lint"):
        console.line(f"Targets: {entry.targets}.")
    for label, text in (("Found by", _found_by(entry)), ("Severity", _severity(entry))):
        if text:
            console.line(f"{label}: {text}.")
    if entry.test:
        console.line(f"Example: {entry.test}")
    if entry.origin != BUILTIN_ORIGIN:
        console.line(f"Provided by: {entry.origin}.")
    more = len(closer(entry.code))
    if more and typed_code.upper() == entry.code:
        console.line(f"{_counted(more)} with {entry.code}-: nki-hlo explain {entry.code}-")


def _found_by(entry: Code) -> str:
    if entry.command:
        return entry.command
    rule = entry.code.startswith("NCC_") or entry.origin != BUILTIN_ORIGIN
    return "nothing; it cannot be seen in the graph" if rule else ""


def _severity(entry: Code) -> str:
    return "" if entry.severity == "error" else entry.severity


def _counted(number: int) -> str:
    return "one more code begins" if number == 1 else f"{number} more codes begin"


def _list(family: Iterable[Code]) -> None:
    console.table(
        ("code", "found by", "targets", "what is wrong, or must hold"),
        [(entry.code, entry.command or "-", entry.targets, entry.title) for entry in family],
    )
