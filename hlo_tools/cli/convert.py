"""``nki-hlo convert``: other file formats, id schemes and dialects; constants out and in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hlo_tools import converting, externals
from hlo_tools.cli import console
from hlo_tools.cli.inputs import open_module
from hlo_tools.compressed import SUFFIXES
from hlo_tools.module import Module

__all__ = ["command"]

_BY_SUFFIX = {
    ".txt": "text",
    ".hlo": "text",
    ".json": "json",
    ".pbtxt": "pbtxt",
}
"""Format by the end of the output's name; anything else is a HloModuleProto."""


def command(
    file: Annotated[str, typer.Argument(help="A module, or - for standard input.")],
    output: Annotated[str, typer.Option("--output", "-o", help="Where to, or -.")] = "-",
    to: Annotated[
        str | None, typer.Option("--to", help=f"Format: {', '.join(converting.FORMATS)}.")
    ] = None,
    ids: Annotated[
        str | None, typer.Option("--ids", help="Number instructions anew: wide or legacy.")
    ] = None,
    dialect: Annotated[
        str | None, typer.Option("--dialect", help="Rewrite for older readers: 2024.")
    ] = None,
    externalize: Annotated[
        int | None,
        typer.Option("--externalize", help="Move constants over so many bytes to files beside it."),
    ] = None,
    inline: Annotated[bool, typer.Option("--inline", help="Take such constants in again.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Binary data on a terminal too.")] = False,
) -> int:
    """Write a module in another form. Without options, as it is.

    The format is that of the output's name (.txt, .hlo, .json, .pbtxt, else proto), .gz and .zst
    at the end compress.

    Example: nki-hlo convert model.hlo_module.pb --ids legacy -o model_for_2023.pb
    """
    module = open_module(file)
    if inline:
        taken = externals.inline(module, _folder(file))
        console.note(f"{taken} constants taken in", verbose=True)
    if dialect:
        converting.to_dialect(module, dialect)
    if ids:
        converting.set_ids(module, ids)
    if externalize is not None:
        if output == "-":
            raise typer.BadParameter("--externalize needs a file to put constants beside; use -o")
        moved = externals.externalize(module, _folder(output), threshold=externalize)
        console.note(f"{moved} constants moved out", verbose=True)
    _write(module, to or _format_of(output, module), output, force)
    return 0


def _folder(name: str) -> Path:
    return Path() if name == "-" else Path(name).parent


def _format_of(output: str, module: Module) -> str | None:
    """The format that a name asks for; None keeps the file's own."""
    path = Path(output)
    if path.suffix in SUFFIXES:
        path = path.with_suffix("")
    return _BY_SUFFIX.get(path.suffix)


def _write(module: Module, form: str | None, output: str, force: bool) -> None:
    if form is None and output != "-":
        module.save(output)
        return
    data = module.to_bytes() if form is None else converting.render(module, form)
    if form in ("text", "json", "pbtxt") and output == "-":
        console.line(data.decode().rstrip("\n"))
        return
    console.write_binary(data, output, force=force)
