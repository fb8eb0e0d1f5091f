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
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_tools.errors import HloFileError
from hlo_tools.files.plain import MOST_BYTES, read_plain

if TYPE_CHECKING:
    from nki_lang.ir import KernelIR

__all__ = ["cache_folder", "store"]

_STALE_SECONDS = 24 * 60 * 60


def cache_folder() -> Path:
    """The folder for kernels: ``$NKI_HLO_CACHE``, else ``$XDG_CACHE_HOME/nki-hlo``, else
    ``~/.cache/nki-hlo``; always with ``kernels`` behind it.
    """
    given = os.environ.get("NKI_HLO_CACHE")
    if given:
        return Path(given).absolute() / "kernels"
    shared = os.environ.get("XDG_CACHE_HOME")
    base = Path(shared) if shared and os.path.isabs(shared) else Path.home() / ".cache"
    return base / "nki-hlo" / "kernels"


def store(kernel: KernelIR) -> Path:
    """Write the kernel as ``<cache>/<digest>/<name>.klir`` and return that path.

    A folder that exists already is used when its bytes are the same, and replaced when somebody
    damaged it.

    Raises:
        HloFileError: code ``HLO-CACHE-WRITE``; the folder cannot be written.
    """
    from nki_lang import klir  # late: most callers need the folder only
    from nki_lang.errors import NkiFileError

    folder = cache_folder()
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", kernel.name).lstrip(".") or "kernel"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sweep(folder)
        fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
        try:
            klir.write(kernel, fresh / f"{name}.klir")
            final = folder / _digest(fresh)[:32]
            _install(fresh, final)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except (OSError, NkiFileError) as error:
        reason = getattr(error, "strerror", None) or error
        raise HloFileError(
            f"the kernel cache cannot be written: {reason}",
            code="HLO-CACHE-WRITE",
            place=str(folder),
            remedy="make the folder writable, or name another one in NKI_HLO_CACHE",
        ) from error
    return final / f"{name}.klir"


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


def _install(fresh: Path, final: Path) -> None:
    """Rename the new folder to its final name, unless an intact one has it."""
    for _ in range(3):
        try:
            os.rename(fresh, final)
            return
        except OSError:
            if not final.is_dir():
                raise
        if _digest(final)[:32] == final.name:
            return
        damaged = Path(tempfile.mkdtemp(prefix=".old-", dir=final.parent))
        with contextlib.suppress(FileNotFoundError):  # another process was faster
            os.rename(final, damaged / "content")
        shutil.rmtree(damaged, ignore_errors=True)
    raise OSError(f"{final} is being changed while it is written")
