"""``nki-neff unpack``."""

from __future__ import annotations

import shutil
from pathlib import Path

from hlo_tools.cli import console
from neff.container import Package, open_package
from neff.errors import NeffError
from nki_lang.atomic import staging_name, sweep

__all__ = ["unpack"]


def unpack(file: Path, output: Path | None, *, check_hash: bool = True) -> int:
    """Write every member below a new folder; the folder is created completely or not at all.

    Args:
        file: the NEFF.
        output: the folder; the file's stem without one.
        check_hash: refuse a payload that does not match its hash.

    Raises:
        NeffFileError: the file is damaged, or a name in it is not safe.
        NeffError: ``NEFF-WRITE``; the folder exists already or cannot be created.
    """
    package = open_package(file, check_hash=check_hash)
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
