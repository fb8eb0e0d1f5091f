"""The native library as a file: installed with the wheel, kept in a cache, or compiled.

Mapping a damaged library kills the process without a word (SIGBUS), so nothing is mapped that was
not checked. A library in the cache has the digest of its content in its name. A library of a wheel
must be as long as its own headers say, and made for this processor.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from neff.errors import NeffError
from nki_lang.base.library_files import LibraryFiles
from nki_lang.base.plain_files import read_plain

__all__ = ["compilers", "library"]

_SOURCE: Final = Path(__file__).with_name("entry.c")
_PREBUILT: Final = Path(__file__).with_name("libnkihlo_pjrt.so")
_OPTIONS: Final = ("-shared", "-fPIC", "-Os")

LIBRARY_BYTES_LIMIT: Final = 64 << 20
"""A compiled library has some 20 kB; a larger file is none of ours."""

_ELF_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_ELF_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_ELF_MACHINES: Final = {"x86_64": 62, "aarch64": 183}
_ELF_SHARED: Final = 3
_ELF_LOADED: Final = 1


def library() -> Path:
    """Path of the library: of the wheel, else of the cache, else compiled now.

    Raises:
        NeffError: code ``NEFF-DEVICE-ENTRY``; it is not there and cannot be compiled.
    """
    if _is_installed(_PREBUILT):
        return _PREBUILT
    folder = cache_folder()
    path = _files().find(folder)
    if path is not None:
        return path
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return _files().write(folder, _compiled())
    except OSError:  # the disk is full, or something else has the name
        pass
    return _private_library()


def cache_folder() -> Path:
    """Where the library is kept: ``$NKI_HLO_CACHE/device``, else ``nki-hlo/device`` below
    $XDG_CACHE_HOME or ~/.cache. It may be missing or only be readable.
    """
    named = os.environ.get("NKI_HLO_CACHE")
    shared = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return (Path(named).absolute() if named else Path(shared) / "nki-hlo") / "device"


def compilers() -> list[list[str]]:
    """Commands that compile C here: those on the path, and PyPI's ``ziglang`` if installed."""
    commands = [[path] for name in ("cc", "gcc", "clang") if (path := shutil.which(name))]
    if importlib.util.find_spec("ziglang") is not None:
        commands.append([sys.executable, "-m", "ziglang", "cc"])
    return commands


@cache
def _private_library() -> Path:
    """A library for this process alone, where the cache cannot be written."""
    folder = tempfile.mkdtemp(prefix="nki-hlo-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return _files().write(Path(folder), _compiled())


def _files() -> LibraryFiles:
    """The libraries of this source and this processor."""
    source = _SOURCE.read_bytes()
    digest = hashlib.sha256(source + platform.machine().encode()).hexdigest()
    return LibraryFiles(f"libnkihlo_pjrt_{digest[:16]}_", LIBRARY_BYTES_LIMIT)


def _compiled() -> bytes:
    """The content of the library, from the first compiler that works."""
    reason = ""
    for compiler in compilers():
        with tempfile.TemporaryDirectory(prefix="nki-hlo-") as folder:
            path = Path(folder) / "library.so"
            command = [*compiler, *_OPTIONS, "-o", str(path), str(_SOURCE)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return read_plain(path, LIBRARY_BYTES_LIMIT)
        output = done.stderr.strip()[-400:]
        reason = f"; {' '.join(compiler)} ended with {done.returncode}: {output}"
    raise NeffError(
        "the native library of the device is not installed and could not be compiled: "
        + (f"no C compiler worked{reason}" if reason else "there is no C compiler"),
        code="NEFF-DEVICE-ENTRY",
        place=_SOURCE.name,
        remedy="install gcc or clang, or run: pip install ziglang",
    )


def _is_installed(path: Path) -> bool:
    """Return whether the wheel's library exists, is complete and fits this processor."""
    try:
        content = read_plain(path, LIBRARY_BYTES_LIMIT)
    except OSError:
        return False
    return _is_complete_elf(content) if sys.platform == "linux" else bool(content)


def _is_complete_elf(content: bytes) -> bool:
    """Return whether a file has all bytes that a loader maps, for this 64-bit processor."""
    try:
        header = _ELF_HEADER.unpack_from(content)
        identity, kind, machine = header[:3]
        first, size, count = header[5], header[9], header[10]
        segments = [
            _ELF_SEGMENT.unpack_from(content, first + number * size) for number in range(count)
        ]
    except struct.error:
        return False
    loaded = [segment for segment in segments if segment[0] == _ELF_LOADED]
    return (
        identity[:6] == b"\x7fELF\x02\x01"
        and kind == _ELF_SHARED
        and machine == _ELF_MACHINES.get(platform.machine(), machine)
        and bool(loaded)
        and all(offset + length <= len(content) for _, _, offset, _, _, length, _, _ in loaded)
    )
