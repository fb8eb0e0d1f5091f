"""Files that are there whole or not at all.

A file or folder that is being written is beside its target, with its writer in its name: host
and process. Whoever writes to the same place next removes those whose process on this host is
gone. Those of other hosts, which may share the folder, stay.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from nki_lang.plain_files import check_path

__all__ = ["atomic_file", "staging_name", "sweep"]

_STALE_SECONDS: Final = 60.0
"""Younger ones stay: a container may have another's host name but not its processes."""


@contextmanager
def atomic_file(path: str | os.PathLike[str], *, durable: bool = False) -> Generator[BinaryIO]:
    """A file to write beside ``path`` that takes its place when the block ends well.

    What killed writers of the same target left beside it goes.

    Args:
        path: the target.
        durable: the content is on the disk before the file has its name.

    Raises:
        OSError: the folder is missing or not writable, the disk is full, or the path has a NUL.
    """
    check_path(path)
    target = Path(path)
    prefix = f".{target.name[:30]}."
    sweep(target.parent, prefix)
    beside = target.with_name(staging_name(prefix))
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(beside, flags, 0o666)
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(beside, target)
    finally:
        with suppress(OSError):
            beside.unlink()


def staging_name(prefix: str) -> str:
    """A name that nobody else takes: ``prefix``, host, process, a random number."""
    return f"{prefix}{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(8)}"


def sweep(folder: Path, prefix: str) -> None:
    """Remove what writers of this host that are gone left in ``folder`` under ``prefix``."""
    own = f"{prefix}{socket.gethostname()}-"
    with suppress(OSError):
        for path in [each for each in folder.iterdir() if each.name.startswith(own)]:
            pid = path.name.removeprefix(own).partition("-")[0]
            if pid.isdecimal() and not _is_alive(int(pid)) and _is_stale(path):
                _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _is_alive(pid: int) -> bool:
    if os.name != "posix":  # elsewhere signal 0 is no question but an interrupt
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _is_stale(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > _STALE_SECONDS
    except OSError:
        return False
