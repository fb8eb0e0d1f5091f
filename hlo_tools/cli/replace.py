"""``nki-hlo kernel replace``: sub-graphs replaced by kernel calls."""

from __future__ import annotations

from typing import Annotated

import typer

from hlo_tools.cli.shared import console
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
from hlo_tools.errors import HloError
from hlo_tools.kernel_calls import replace_matches

__all__ = ["command"]


def command(
    file: Annotated[str, typer.Argument(help="A module, or - for standard input.")],
    pattern: Annotated[
        str,
        typer.Option(
            "--pattern",
            "-p",
            help="The pattern: a file with HLO, or FILE.py:NAME.",
            metavar="HLO",
        ),
    ],
    kernel: Annotated[
        str, typer.Option("--kernel", "-k", help="The kernel to call instead.", metavar="KLIR")
    ],
    output: Output,
    proving: Proving = True,
    tolerance: Tolerance = 1e-3,
    force: Force = False,
) -> None:
    """Call a kernel wherever a pattern matches, and check that the results stay the same.

    FILE.py:NAME is a NumPy function, one decorated with jax.jit, or a pattern of
    hlo_tools.rewrite.patterns.

    Example: nki-hlo kernel replace model.pb -p softmax.hlo -k softmax.klir -o with_kernel.pb
    Example: nki-hlo kernel replace model.pb -p patterns.py:softmax -k softmax.klir -o with_kernel.pb
    """
    module = open_module(file)
    form = format_of(output, text=came_as_text(module))
    before = copy_of(module)
    calls = replace_matches(module, pattern, kernel)
    if not calls:
        raise HloError(
            "the pattern does not match anywhere in the module", code="HLO-NO-MATCH", place=file,
            remedy="opcodes, shapes, attributes and constants must equal the pattern's",
        )  # fmt: skip
    console.note(f"{console.counted(len(calls), 'sub-graph')} replaced")
    if proving:
        prove(before, module, tolerance)
    name_kernel(calls, kernel, output)
    write_module(module, output, form, force=force)
