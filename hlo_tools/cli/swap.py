"""``nki-hlo kernel swap``: another version of a kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hlo_tools.cli.shared import completion, console
from hlo_tools.cli.shared.inputs import open_module
from hlo_tools.cli.shared.outputs import came_as_text, format_of, write_module
from hlo_tools.cli.shared.rewriting import (
    Force,
    Output,
    Proving,
    Tolerance,
    copy_of,
    name_kernel,
    prove,
)
from hlo_tools.kernel_calls import swap

__all__ = ["command"]


def command(
    file: Annotated[str, typer.Argument(help="A module, or - for standard input.")],
    kernel: Annotated[
        str,
        typer.Argument(
            help="The kernel's name, or %CALL for one call.",
            metavar="NAME",
            autocompletion=completion.kernels,
        ),
    ],
    new: Annotated[str, typer.Argument(help="The new kernel's .klir file.", metavar="KLIR")],
    output: Output,
    proving: Proving = True,
    tolerance: Tolerance = 1e-3,
    force: Force = False,
) -> None:
    """Swap a kernel for one of the same shapes; reject one with different results.

    Example: nki-hlo kernel swap model.pb softmax softmax_v2.klir -o faster.pb
    """
    module = open_module(file)
    form = format_of(output, text=came_as_text(module))
    before = copy_of(module)
    root = module.folder or Path.cwd()
    calls = swap(module, kernel, new, root=root)
    console.note(f"{console.counted(len(calls), 'call')} swapped")
    if proving:
        prove(before, module, tolerance)
    name_kernel(calls, new, output)
    write_module(module, output, form, force=force)
