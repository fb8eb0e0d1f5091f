"""``nki-hlo explain``: what a code means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated

import typer

from hlo_tools.cli.shared import completion, console
from hlo_tools.cli.shared.codes import Code, beginning_with, closer, find, near
from hlo_tools.cli.shared.options import AsJson
from hlo_tools.plugins import OWN

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
    one = None if code.endswith(("-", "_")) else find(code)
    family = [one] if one else _family(code)
    if as_json:
        console.write_json("explain", codes=[asdict(each) for each in family])
    elif one:
        _explain(one, code)
    else:
        _list(family)
    return 0


def _family(code: str) -> list[Code]:
    """The codes that begin so; all without a beginning."""
    found = beginning_with(code) if not code[-1:].isdigit() else {}
    if not found:
        known = near(code)
        hint = f"; did you mean {' or '.join(known)}?" if known else "; without one, all are listed"
        raise typer.BadParameter(f"there is no code {code!r}{hint}")
    return list(found.values())


def _explain(one: Code, given: str) -> None:
    console.line(f"{one.code}: {one.title}")
    console.line()
    if one.why:
        console.line(one.why)
    if one.remedy:
        console.line(f"Remedy: {one.remedy}.")
    if one.targets != "all" or one.command.endswith("lint"):
        console.line(f"Targets: {one.targets}.")
    for label, text in (("Found by", _found_by(one)), ("Severity", _severity(one))):
        if text:
            console.line(f"{label}: {text}.")
    if one.test:
        console.line(f"Example: {one.test}")
    if one.origin != OWN:
        console.line(f"Provided by: {one.origin}.")
    more = len(closer(one.code))
    if more and given.upper() == one.code:
        console.line(f"{_counted(more)} with {one.code}-: nki-hlo explain {one.code}-")


def _found_by(one: Code) -> str:
    if one.command:
        return one.command
    rule = one.code.startswith("NCC_") or one.origin != OWN
    return "nothing; it cannot be seen in the graph" if rule else ""


def _severity(one: Code) -> str:
    return "" if one.severity == "error" else one.severity


def _counted(number: int) -> str:
    return "one more code begins" if number == 1 else f"{number} more codes begin"


def _list(family: Iterable[Code]) -> None:
    console.table(
        ("code", "found by", "targets", "what is wrong, or must hold"),
        [(one.code, one.command or "-", one.targets, one.title) for one in family],
    )
