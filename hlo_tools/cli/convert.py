"""``nki-hlo convert``: other file formats, id schemes and dialects; constants moved out and in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hlo_tools.cli.shared import completion, console
from hlo_tools.cli.shared.inputs import open_module
from hlo_tools.cli.shared.outputs import format_of, write_module, write_text
from hlo_tools.ir import external_constants
from hlo_tools.ir.dialects import DIALECTS, to_dialect
from hlo_tools.ir.formats import FORMATS, STABLEHLO
from hlo_tools.ir.module import Module
from hlo_tools.ir.renumbering import SCHEMES, set_ids
from hlo_tools.python_source import TARGETS, to_python, write_python

__all__ = ["command"]


Externalize = Annotated[
    int | None,
    typer.Option(
        "--externalize",
        help="Move constants larger than this many bytes to files beside it.",
        min=0,
    ),
]


def command(
    file: Annotated[str, typer.Argument(help="A module, or - for standard input.")],
    output: Annotated[str, typer.Option("--output", "-o", help="Output file, or -.")] = "-",
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            help=f"Format: {', '.join((*FORMATS, *STABLEHLO))}; {' or '.join(TARGETS)}: Python.",
            autocompletion=completion.words(*FORMATS, *STABLEHLO, *TARGETS),
        ),
    ] = None,
    ids: Annotated[
        str | None,
        typer.Option(
            "--ids",
            help="Renumber instructions: wide or legacy.",
            autocompletion=completion.words(*SCHEMES),
        ),
    ] = None,
    dialect: Annotated[
        str | None,
        typer.Option(
            "--dialect",
            help="Rewrite for older readers: 2024.",
            autocompletion=completion.words(*DIALECTS),
        ),
    ] = None,
    externalize: Externalize = None,
    inline: Annotated[
        bool, typer.Option("--inline", help="Move such constants back into the module.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Write binary data to a terminal too.")
    ] = False,
) -> int:
    """Write a module in another form. Without options, unchanged.

    The format is that of the name (.txt, .hlo, .json, .pbtxt, .mlir, .pb); .gz and .zst
    at the end compress. --to jax or numpy writes a Python file with a function for each computation
    and a main that runs them; constants are in NAME.constants.npz beside it.

    Example: nki-hlo convert model.hlo_module.pb --to jax -o model.py

    Example: nki-hlo convert model.hlo_module.pb --ids legacy -o model_for_2023.pb
    """
    module = open_module(file)
    if inline:
        count = external_constants.inline(module, _folder(file))
        console.note(f"{console.counted(count, 'constant')} moved in", verbose=True)
    if dialect:
        to_dialect(module, dialect)
    if ids:
        set_ids(module, ids)
    if externalize is not None:
        if output == "-":
            raise typer.BadParameter(
                "--externalize writes constants beside the output file; use -o"
            )
        moved = external_constants.externalize(module, _folder(output), threshold=externalize)
        console.note(f"{console.counted(moved, 'constant')} moved out", verbose=True)
    if to in TARGETS:
        _write_source(module, output, to)
        return 0
    write_module(module, output, to or format_of(output), force=force)
    return 0


def _write_source(module: Module, output: str, target: str) -> None:
    """A Python file, or its text on standard output where it reads no arrays."""
    if output != "-":
        write_python(module, output, target)
        return
    source = to_python(module, target)
    if source.arrays:
        raise typer.BadParameter("the constants are written beside the output file; use -o")
    write_text(source.text, output)


def _folder(name: str) -> Path:
    return Path() if name == "-" else Path(name).parent
