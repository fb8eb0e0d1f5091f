"""``nki-hlo doctor``: who provides each name, and what works."""

from __future__ import annotations

from dataclasses import asdict

from hlo_tools import doctor
from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.options import AsJson

__all__ = ["command"]

_PROVIDER_TEXTS = {
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
    obstacles = [provider for provider in providers if provider.kind in ("placeholder", "broken")]
    if as_json:
        console.write_json(
            "doctor",
            python=doctor.python_version(),
            providers=[asdict(provider) for provider in providers],
            commands=[asdict(vendor_command) for vendor_command in commands],
            abilities=[asdict(ability) for ability in abilities],
        )
        return 1 if obstacles else 0
    console.line(f"Python {doctor.python_version()}")
    console.line()
    rows = [
        (provider.name, _PROVIDER_TEXTS[provider.kind], provider.version or "-", provider.path)
        for provider in providers
    ]
    console.table(("name", "provided by", "version", "from"), rows)
    console.line()
    starts = [
        (
            vendor_command.name,
            _PROVIDER_TEXTS[vendor_command.kind],
            vendor_command.path or vendor_command.advice,
        )
        for vendor_command in commands
    ]
    console.table(("command", "starts", "from"), starts)
    console.line()
    for ability in abilities:
        console.line(f"{'yes' if ability.works else 'no ':3}  {ability.what}")
        if ability.reason:
            console.line(f"       {ability.reason}")
    for provider in obstacles:
        console.note(f"{provider.name}: {provider.advice}")
    return 1 if obstacles else 0
