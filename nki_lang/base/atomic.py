"""Atomic files: complete or absent.

A device or a pipe cannot be replaced: a path that a user names is written through to it instead.

A file or folder that is being written has a staging name in the folder of its target, which
contains the host and the process of the writer. The next writer of the same target removes staging
files of dead processes of its host. Staging files of other hosts, which may share the folder, stay.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from nki_lang.base.plain_files import check_path

__all__ = ["atomic_file", "staging_name", "sweep"]

_STALE_SECONDS: Final = 60.0
"""Younger files stay: a container may have the host name of another one but not its processes."""


@contextmanager
def atomic_file(
    path: str | os.PathLike[str], *, durable: bool = False, user_path: bool = False
) -> Generator[BinaryIO]:
    """Open a staging file that replaces ``path`` when the block ends without an error.

    Staging files that killed writers of the same target left are removed.

    Args:
        path: the target.
        durable: flush the content to the disk before the file is renamed.
        user_path: the user named the path. Links are followed, and a device or a pipe
            (``/dev/null``, ``/dev/stdout``) receives the content. In caches, where nobody expects
            such a file, it is replaced.

    Raises:
        OSError: the folder is missing or not writable, the disk is full, or the path has a NUL.
    """
    check_path(path)
    target = Path(os.path.realpath(path) if user_path else path)
    if user_path and _is_device(Path(path)):
        with tempfile.TemporaryFile() as content:
            yield content
            content.seek(0)
            with open(path, "wb") as device:
                shutil.copyfileobj(content, device)
        return
    prefix = f".{target.name[:30]}."
    sweep(target.parent, prefix)
    staging = target.with_name(staging_name(prefix))
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(staging, flags, 0o666)
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(staging, target)
    finally:
        with suppress(OSError):
            staging.unlink()


def staging_name(prefix: str) -> str:
    """Return a unique name: ``prefix``, host, process, a random number."""
    return f"{prefix}{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(8)}"


def sweep(folder: Path, prefix: str) -> None:
    """Remove the staging files of dead writers of this host in ``folder`` under ``prefix``."""
    own_prefix = f"{prefix}{socket.gethostname()}-"
    with suppress(OSError):
        for path in [entry for entry in folder.iterdir() if entry.name.startswith(own_prefix)]:
            pid = path.name.removeprefix(own_prefix).partition("-")[0]
            if pid.isdecimal() and not _is_alive(int(pid)) and _is_stale(path):
                _remove(path)


def _is_device(path: Path) -> bool:
    """Return whether the path leads to an existing device, pipe or socket."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _is_alive(pid: int) -> bool:
    if os.name != "posix":  # on other systems signal 0 interrupts the process
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
