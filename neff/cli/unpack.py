"""``nki-neff unpack``."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from hlo_tools.cli.shared import console
from neff.cli.options import File, IgnoreHash
from neff.container import Package, open_package
from neff.errors import NeffError
from nki_lang.base.atomic import staging_name, sweep

__all__ = ["command"]


def command(
    file: File,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder to create; FILE's stem by default."),
    ] = None,
    ignore_hash: IgnoreHash = False,
) -> int:
    """Write the members of any NEFF into a new folder, which is created completely or not at all.

    Example: nki-neff unpack matmul.neff -o members
    """
    package = open_package(file, check_hash=not ignore_hash)
    folder = output or Path(file.stem)
    if folder.exists():
        raise NeffError(
            "it already exists", code="NEFF-WRITE", place=str(folder),
            remedy="name a folder that does not exist with -o",
        )  # fmt: skip
    try:
        _write(package, folder)
    except OSError as error:
        raise NeffError(
            f"cannot write: {error.strerror or error}",
            code="NEFF-WRITE",
            place=str(folder),
            remedy="check that the folder above exists, is writable and has room",
        ) from None
    console.line(f"{folder}  {console.counted(len(package.members), 'member')}")
    return 0


def _write(package: Package, folder: Path) -> None:
    above, prefix = folder.absolute().parent, f".{folder.name[:30]}."
    sweep(above, prefix)
    beside = above / staging_name(prefix)
    beside.mkdir()
    try:
        for name, data in package.members.items():
            path = beside / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
