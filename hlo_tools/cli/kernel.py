"""``nki-hlo kernel``: the kernels of a module embedded, swapped, put in, taken out."""

from __future__ import annotations

import typer

from hlo_tools.cli import embed, expand, replace, swap
from hlo_tools.cli.shared.selection import with_selection

__all__ = ["VERBS", "app"]

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, help="Change the kernels that a module calls."
)

VERBS = {
    "embed": embed.command, "swap": swap.command, "replace": replace.command,
    "expand": expand.command,
}  # fmt: skip
"""Word behind ``kernel`` -> what does it."""

_LINES = {
    "embed": "Embed kernel files in a module, or extract them.",
    "swap": "Swap a kernel for another version.",
    "replace": "Replace sub-graphs by kernel calls.",
    "expand": "Expand kernel calls into ordinary HLO.",
}

for _verb, _command in VERBS.items():
    app.command(_verb, short_help=_LINES[_verb])(with_selection(_command))
