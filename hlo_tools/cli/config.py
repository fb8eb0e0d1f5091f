"""``nki-hlo config``: the settings in effect."""

from __future__ import annotations

from typing import Annotated

import typer

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.configuration import ALL_SETTINGS, Value, read_configuration
from hlo_tools.cli.shared.options import AsJson
from hlo_tools.cli.shared.targets import target_for

__all__ = ["command"]


def command(
    what: Annotated[str, typer.Argument(help="Only show.", metavar="show")] = "show",
    as_json: AsJson = False,
) -> int:
    """Show the settings for this folder and where each comes from.

    They are read from NKI_HLO_* variables, nki-hlo.toml and [tool.nki-hlo] in pyproject.toml. The
    target is that of commands without --target, for modules without compile_flags.json.

    Example: nki-hlo config
    """
    if what != "show":
        raise typer.BadParameter(f"{what!r} is not an action of config; it only shows")
    values = dict(read_configuration().values)
    chosen = target_for()
    values["target"] = Value(chosen.target.name, chosen.origin)
    if as_json:
        rows = {
            name: {"value": setting_value.value, "origin": setting_value.origin}
            for name, setting_value in values.items()
        }
        console.write_json("config", settings=rows)
        return 0
    console.table(
        ("setting", "value", "from", "what it is"),
        [
            (setting.name, _shown(values[setting.name].value), values[setting.name].origin,
             setting.help)
            for setting in ALL_SETTINGS
        ],
    )  # fmt: skip
    return 0


def _shown(value: str | list[str]) -> str:
    return (value if isinstance(value, str) else ",".join(value)) or "-"
