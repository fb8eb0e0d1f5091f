"""``nki-hlo kernel expand``: kernel calls replaced by ordinary HLO."""

from __future__ import annotations

from typing import Annotated

import typer

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.inputs import open_module
from hlo_tools.cli.shared.outputs import came_as_text, format_of, write_module
from hlo_tools.cli.shared.rewriting import Force, Output, Proving, Tolerance, copy_of, prove
from hlo_tools.errors import HloError
from hlo_tools.kernel_calls import expand

__all__ = ["command"]


def command(
    file: Annotated[str, typer.Argument(help="A module, or - for standard input.")],
    references: Annotated[
        list[str],
        typer.Option(
            "--reference",
            "-r",
            help="What a kernel (or %call) computes: a file with HLO, or FILE.py:NAME.",
            metavar="NAME=HLO",
        ),
    ],
    output: Output,
    proving: Proving = True,
    tolerance: Tolerance = 1e-3,
    force: Force = False,
) -> None:
    """Replace calls of a kernel by what it computes, written in HLO.

    Example: nki-hlo kernel expand model.pb -r softmax=softmax.hlo -o plain.pb
    Example: nki-hlo kernel expand model.pb -r softmax=references.py:softmax -o plain.pb
    """
    references_by_kernel: dict[str, str] = {}
    for text in references:
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise typer.BadParameter(f"{text!r} is not NAME=HLO")
        references_by_kernel[name] = path
    module = open_module(file)
    form = format_of(output, text=came_as_text(module))
    before = copy_of(module)
    done = expand(module, references_by_kernel)
    if not done:
        raise HloError(
            f"the module does not call any of {', '.join(references_by_kernel)}", code="HLO-NO-KERNEL", place=file,
            remedy="nki-hlo kernels lists what it calls",
        )  # fmt: skip
    console.note(f"{console.counted(len(done), 'call')} expanded")
    if proving:
        prove(before, module, tolerance)
    write_module(module, output, form, force=force)
