"""Inputs that no file is given for: the options that say what they are."""

from __future__ import annotations

from typing import Annotated

import typer

from hlo_tools.cli.shared import completion

__all__ = ["FILLS", "Fill", "Seed", "check_fill"]

FILLS = ("zeros", "random")

Fill = Annotated[
    str | None,
    typer.Option(
        help="Fill inputs without a file: zeros, or random (normal floats, integers 0 and 1).",
        autocompletion=completion.words(*FILLS),
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of random inputs.")]


def check_fill(fill: str | None) -> None:
    """Raises typer.BadParameter for an unknown way to fill."""
    if fill is not None and fill not in FILLS:
        raise typer.BadParameter(f"{fill!r} is not one of {', '.join(FILLS)}")
