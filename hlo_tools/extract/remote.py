"""Modules in a store that machines share: entries of a cache, published and fetched whole."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from hlo_tools.errors import HloFileError
from hlo_tools.extract.bundle import complete_entries
from hlo_tools.kernels.location import read_kernel_file
from hlo_tools.store import Action, Store, entries
from nki_lang.base.atomic import staging_name, sweep

__all__ = ["publish", "pull", "push"]

KIND: Final = "module"
_NAME: Final = "entry"
_ENTRY: Final = re.compile(r"\w[\w.+-]*/MODULE_\w+(\+[0-9a-f]{8})?")
_STAGING: Final = ".staging-"


def publish(store: Store, entry: Path) -> bool:
    """Put an entry into a store, under the name that was made from its content; whether it is there."""
    name = f"{entry.parent.name}/{entry.name}"
    files = {
        path.relative_to(entry).as_posix(): read_kernel_file(path, entry)
        for path in sorted(entry.rglob("*"))
        if path.is_file()
    }
    return store.put(Action(KIND, {_NAME: name}), files)


def push(store: Store, cache: Path) -> tuple[list[Path], list[Path]]:
    """Publish every complete entry of a cache: those that the store has now, and the others."""
    published_and_refused: tuple[list[Path], list[Path]] = ([], [])
    for entry in complete_entries(cache):
        published_and_refused[0 if publish(store, entry) else 1].append(entry)
    return published_and_refused


def pull(store: Store, cache: Path) -> tuple[list[str], list[str]]:
    """Write a store's entries into a cache.

    Returns:
        The names of those that were written, and of those that are damaged or not to be trusted.
        What is in the cache already is left as it is.

    Raises:
        OSError: the store cannot be listed, or the cache cannot be written.
    """
    written: list[str] = []
    refused: list[str] = []
    for stored in entries(store.place):
        name = str(stored.parts.get(_NAME, ""))
        is_entry = _ENTRY.fullmatch(name) is not None
        if stored.kind != KIND or (is_entry and (cache / name).is_dir()):
            continue
        files = store.get(Action(KIND, {_NAME: name})) if is_entry else None
        if files is None or not all(_is_safe(file) for file in files):
            refused.append(name)
            continue
        _write(cache / name, files)
        written.append(name)
    return written, refused


def _is_safe(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return bool(parts) and not name.startswith("/") and ".." not in parts and "\\" not in name


def _write(entry: Path, files: Mapping[str, bytes]) -> None:
    """The whole entry under its name, unless another process was first."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    sweep(entry.parent, _STAGING)
    staging = entry.parent / staging_name(_STAGING)
    try:
        for name, content in files.items():
            path = staging / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        os.rename(staging, entry)
    except OSError as error:
        if not entry.is_dir():
            raise HloFileError(
                f"the compile cache cannot be written: {error.strerror or error}",
                code="HLO-CACHE-WRITE",
                place=str(entry),
                remedy="make the folder writable and see that it has room",
            ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
