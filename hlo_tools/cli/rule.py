"""``nki-hlo rule``: what a code means."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Any

import typer

from hlo_tools.cli import completion, console
from hlo_tools.lint import registered_rules
from hlo_tools.plugins import OWN
from hlo_tools.verify import RULES as VERIFIER

__all__ = ["command"]


def command(
    code: Annotated[
        str,
        typer.Argument(
            help="A code; without one, all are listed.", autocompletion=completion.rule_codes
        ),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> int:
    """Explain a rule of lint or verify: what must hold, why, and what to do.

    Example: nki-hlo rule NCC_EVRF004
    """
    table = _table()
    if code:
        wanted = code.upper()
        if wanted not in table:
            near = get_close_matches(wanted, table, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise typer.BadParameter(f"there is no rule {code!r}{hint}")
        table = {wanted: table[wanted]}
    if as_json:
        console.write_json("rule", rules=list(table.values()))
    elif code:
        _explain(*table.values())
    else:
        console.table(
            ("code", "checked by", "targets", "what must hold"),
            [(r["code"], r["command"] or "-", r["targets"], r["title"]) for r in table.values()],
        )
    return 0


def _table() -> dict[str, dict[str, Any]]:
    """Code -> what is known about it, lint's rules first."""
    rows = {
        code: {
            "code": code,
            "title": rule.title,
            "why": rule.why,
            "remedy": rule.remedy,
            "targets": rule.targets,
            "severity": rule.severity.value,
            "command": "lint" if rule.check is not None else "",
            "origin": rule.origin,
        }
        for code, rule in registered_rules().items()
    }
    for code, rule in VERIFIER.items():
        rows[code] = {
            "code": code, "title": rule.title, "why": rule.why, "remedy": "", "targets": "all",
            "severity": "error", "command": "verify", "origin": OWN,
        }  # fmt: skip
    return rows


def _explain(rule: dict[str, Any]) -> None:
    console.line(f"{rule['code']}: {rule['title']}")
    console.line()
    console.line(rule["why"])
    if rule["remedy"]:
        console.line(f"Remedy: {rule['remedy']}.")
    console.line(f"Targets: {rule['targets']}.")
    where = (
        f"nki-hlo {rule['command']}"
        if rule["command"]
        else "nothing; it cannot be seen in the graph"
    )
    console.line(f"Found by: {where}.")
    if rule["origin"] != OWN:
        console.line(f"Provided by: {rule['origin']}.")
