"""Where kernel binaries live until somebody bundles them: a per-user folder, by content.

Each kernel has a folder of its own, named by the digest of what is in it (the ``.klir``, its
companion record, its constants). The folder is written beside and renamed, so it is complete or
absent, whoever else writes the same kernel at the same time.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_tools.errors import HloFileError
from hlo_tools.files.plain import MOST_BYTES, read_plain

if TYPE_CHECKING:
    from nki_lang.ir import KernelIR

__all__ = ["cache_folder", "install", "staging_folder", "store", "unwritable"]

_STALE_SECONDS = 24 * 60 * 60


def cache_folder() -> Path:
    """The folder for kernels: ``$NKI_HLO_CACHE``, else ``$XDG_CACHE_HOME/nki-hlo``, else
    ``~/.cache/nki-hlo``; always with ``kernels`` behind it.
    """
    path = os.environ.get("NKI_HLO_CACHE")
    if path:
        return Path(path).absolute() / "kernels"
    shared = os.environ.get("XDG_CACHE_HOME")
    base = Path(shared) if shared and os.path.isabs(shared) else Path.home() / ".cache"
    return base / "nki-hlo" / "kernels"


def store(kernel: KernelIR) -> Path:
    """Write the kernel as ``<cache>/<digest>/<name>.klir`` and return that path.

    A folder that exists already is used when its bytes are the same, and replaced when somebody
    damaged it. A cache that can only be read serves what it has.

    Raises:
        HloFileError: code ``HLO-CACHE-WRITE``; the folder cannot be written, and does not have the
            kernel.
    """
    from nki_lang.base.errors import NkiFileError

    folder = cache_folder()
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", kernel.name).lstrip(".") or "kernel"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sweep(folder)
        with staging_folder(folder) as fresh:
            final = _written(kernel, name, fresh, folder)
            install(fresh, final, lambda: _is_intact(final))
    except (OSError, NkiFileError) as error:
        intact = _kept(kernel, name, folder)
        if intact is not None:
            return intact / f"{name}.klir"
        raise unwritable(folder, error) from error
    return final / f"{name}.klir"


def _written(kernel: KernelIR, name: str, fresh: Path, folder: Path) -> Path:
    """Write a kernel's files into a new folder; returns the place that their digest has in the cache."""
    from nki_lang import klir  # late: most callers need the folder only

    klir.write(kernel, fresh / f"{name}.klir")
    return folder / _digest(fresh)[:32]


def _kept(kernel: KernelIR, name: str, folder: Path) -> Path | None:
    """The kernel's folder in a cache that cannot be written; None when it is not there, intact."""
    from nki_lang.base.errors import NkiFileError

    try:
        with tempfile.TemporaryDirectory(prefix="nki-hlo-") as fresh:
            final = _written(kernel, name, Path(fresh), folder)
            return final if _is_intact(final) else None
    except (OSError, NkiFileError):
        return None


def unwritable(folder: Path, error: Exception) -> HloFileError:
    """The error for a kernel cache that cannot be written."""
    reason = getattr(error, "strerror", None) or error
    return HloFileError(
        f"the kernel cache cannot be written: {reason}",
        code="HLO-CACHE-WRITE",
        place=str(folder),
        remedy="make the folder writable, or name another one in NKI_HLO_CACHE",
    )


@contextlib.contextmanager
def staging_folder(folder: Path) -> Generator[Path]:
    """A new folder beside the entries, which is gone at the end unless it was renamed."""
    fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
    try:
        yield fresh
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


@functools.cache
def _sweep(folder: Path) -> None:
    """Remove what killed processes left half-written a day ago or earlier; once in a process."""
    for pattern in (".new-*", ".old-*"):
        for path in folder.glob(pattern):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                    shutil.rmtree(path, ignore_errors=True)


def _digest(folder: Path) -> str:
    """A digest of the names and the bytes of every file below a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = read_plain(path, MOST_BYTES)
            digest.update(f"{path.relative_to(folder).as_posix()}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()


def _is_intact(folder: Path) -> bool:
    """Return True if an entry's files match the digest in its name."""
    try:
        return folder.is_dir() and _digest(folder)[:32] == folder.name
    except OSError:
        return False


def install(fresh: Path, final: Path, is_intact: Callable[[], bool]) -> None:
    """Rename a new folder to its final name, unless an intact one has it.

    A damaged one is renamed aside at once, so that no reader finds half of an entry.
    """
    for _ in range(3):
        try:
            os.rename(fresh, final)
            return
        except OSError:
            if not os.path.lexists(final):
                raise
        if is_intact():
            return
        damaged = Path(tempfile.mkdtemp(prefix=".old-", dir=final.parent))
        with contextlib.suppress(FileNotFoundError):  # another process was faster
            os.rename(final, damaged / "content")
        shutil.rmtree(damaged, ignore_errors=True)
    raise OSError(f"{final} is being changed while it is written")
