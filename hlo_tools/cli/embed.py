"""``nki-hlo kernel embed``: kernel files embedded in a module, and extracted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.inputs import open_module
from hlo_tools.cli.shared.outputs import came_as_text, format_of, write_module
from hlo_tools.kernel_calls import embed, take_out

__all__ = ["command"]


def command(
    file: Annotated[str, typer.Argument(help="A module, or - for standard input.")],
    output: Annotated[str, typer.Option("--output", "-o", help="The new module, or -.")],
    out_to: Annotated[
        str, typer.Option("--take-out", help="Write embedded kernels to this folder instead.")
    ] = "",
    force: Annotated[
        bool, typer.Option("--force", help="Write binary data to a terminal too.")
    ] = False,
) -> None:
    """Embed the kernel files that a module names, so that one file is enough.

    Example: nki-hlo kernel embed model.pb -o whole.pb
    Example: nki-hlo kernel embed whole.pb --take-out kernels -o model.pb
    """
    module = open_module(file)
    form = format_of(output, text=came_as_text(module))
    if out_to:
        beside = None if output == "-" else Path(os.path.abspath(output)).parent
        files = take_out(module, Path(out_to), beside)
        console.note(f"{console.counted(len(files), 'kernel file')} in {out_to}")
    else:
        changed = embed(module, module.folder or Path.cwd())
        console.note(f"kernels embedded in {console.counted(changed, 'call')}")
    write_module(module, output, form, force=force)
