"""``nki-hlo bisect``: where two evaluations part."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from hlo_tools.cli import completion, console
from hlo_tools.cli.inputs import open_module
from hlo_tools.cli.module_inputs import FILLS, gather
from hlo_tools.evaluate.bisect import against_jaxlib, between

__all__ = ["command"]


def command(
    file: Annotated[str, typer.Argument(help="A module.")],
    other: Annotated[
        str | None, typer.Argument(help="A second module; without it, jaxlib is the other side.")
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", "-i", help="FILE.npy in parameter order, or NAME=FILE.npy."),
    ] = None,
    fill: Annotated[
        str,
        typer.Option(
            help="What other inputs are: zeros or random.", autocompletion=completion.words(*FILLS)
        ),
    ] = "random",
    tolerance: Annotated[
        float, typer.Option(help="Largest difference, relative to the largest value.")
    ] = 1e-4,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> int:
    """Find the first instruction where two modules, or our evaluation and jaxlib's, differ.

    Instructions of two modules are matched by name. Exit code 1 when one is found.

    Example: nki-hlo bisect before.hlo after.hlo
    """
    if fill not in FILLS:
        raise typer.BadParameter(f"{fill!r} is none of {', '.join(FILLS)}")
    module = open_module(file)
    arrays = gather(module, inputs or [], fill)
    root = module.folder
    if other is None:
        found = against_jaxlib(module, arrays, tolerance=tolerance, root=root)
    else:
        found = between(module, open_module(other), arrays, tolerance=tolerance, root=root)
    if as_json:
        console.write_json("bisect", difference=asdict(found) if found else None)
    elif found is None:
        console.line("no difference")
    else:
        source = f"  {found.source}" if found.source else ""
        console.line(
            f"%{found.instruction} ({found.opcode}) differs by {found.difference:.1e}{source}"
        )
    return 1 if found else 0
