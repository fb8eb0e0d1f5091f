"""``nki-hlo doctor``: who provides each name, and what works."""

from __future__ import annotations

from dataclasses import asdict

from hlo_tools import doctor
from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.options import AsJson

__all__ = ["command"]

_WORDS = {
    "ours": "nki-hlo (simulated)",
    "vendor": "the vendor's own package",
    "framework": "installed",
    "placeholder": "placeholder from PyPI: does nothing",
    "broken": "broken",
    "missing": "not installed",
}


def command(
    as_json: AsJson = False,
) -> int:
    """Show who provides nki, jax, torch and the others, and what works here.

    Exit code 1 when something installed interferes: a placeholder package or a broken import.

    Example: nki-hlo doctor
    """
    providers = doctor.examine_all()
    abilities = doctor.abilities(providers)
    commands = doctor.commands(providers)
    in_the_way = [one for one in providers if one.kind in ("placeholder", "broken")]
    if as_json:
        console.write_json(
            "doctor",
            python=doctor.python_version(),
            providers=[asdict(one) for one in providers],
            commands=[asdict(one) for one in commands],
            abilities=[asdict(one) for one in abilities],
        )
        return 1 if in_the_way else 0
    console.line(f"Python {doctor.python_version()}")
    console.line()
    rows = [(one.name, _WORDS[one.kind], one.version or "-", one.path) for one in providers]
    console.table(("name", "provided by", "version", "from"), rows)
    console.line()
    starts = [(one.name, _WORDS[one.kind], one.path or one.advice) for one in commands]
    console.table(("command", "starts", "from"), starts)
    console.line()
    for one in abilities:
        console.line(f"{'yes' if one.works else 'no ':3}  {one.what}")
        if one.reason:
            console.line(f"       {one.reason}")
    for one in in_the_way:
        console.note(f"{one.name}: {one.advice}")
    return 1 if in_the_way else 0
