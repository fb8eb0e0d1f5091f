"""``nki-hlo merge``: two modules as one."""

from __future__ import annotations

from typing import Annotated

import typer

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.inputs import open_module
from hlo_tools.cli.shared.outputs import came_as_text, format_of, write_module
from hlo_tools.rewrite.merging import chain_modules, merge_modules

__all__ = ["command"]


def command(
    first: Annotated[str, typer.Argument(help="A module, or - for standard input.")],
    second: Annotated[str, typer.Argument(help="The module to add.")],
    chain: Annotated[
        bool, typer.Option("--chain", help="The second takes the results of the first.")
    ] = False,
    output: Annotated[str, typer.Option("--output", "-o", help="Output file, or -.")] = "-",
    force: Annotated[
        bool, typer.Option("--force", help="Write binary data to a terminal too.")
    ] = False,
) -> int:
    """Merge two modules: both beside each other, or one after the other.

    Parameters and results are those of the first and then those of the second. With --chain, the
    second takes the results of the first, in order. Schedules, aliases and the second module's
    source lines are left out.

    Example: nki-hlo merge before.pb after.pb -o both.pb
    """
    if first == second == "-":
        raise typer.BadParameter("standard input holds one module; pass a file for the other")
    modules = open_module(first), open_module(second)
    form = format_of(output, text=came_as_text(modules[0]))
    merged = chain_modules(*modules) if chain else merge_modules(*modules)
    count = console.counted(len(merged.entry), "instruction")
    console.note(f"{count} in the entry", verbose=True)
    write_module(merged, output, form, force=force)
    return 0
