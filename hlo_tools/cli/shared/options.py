"""Options that several commands have, in the same words."""

from __future__ import annotations

from typing import Annotated

import typer

from hlo_tools.cli.shared import completion
from hlo_tools.cli.shared.findings import FORMATS

__all__ = ["AsJson", "ExitZero", "FindingsFormat", "FindingsJson"]

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document.")]

FindingsFormat = Annotated[
    str,
    typer.Option(
        "--format",
        help=f"{', '.join(FORMATS)}.",
        metavar="FORMAT",
        autocompletion=completion.words(*FORMATS),
    ),
]
"""How findings are reported."""
FindingsJson = Annotated[bool, typer.Option("--json", help="Same as --format json.")]
ExitZero = Annotated[bool, typer.Option("--exit-zero", help="Exit with code 0 despite findings.")]
