"""The device's native library: compiled on first use, and kept for each version of torch.

It is kept where torch keeps extensions that it compiles: TORCH_EXTENSIONS_DIR, else
``torch_extensions`` below $XDG_CACHE_HOME or ~/.cache. A library has the digest of its content in
its name, and a damaged one is not loaded.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from filelock import FileLock

from hlo_tools.errors import HloUnsupportedError
from hlo_tools.torch_device.tensors import torch
from nki_lang.base.library_files import LibraryFiles
from nki_lang.base.plain_files import read_plain

__all__ = ["compiler", "is_compiled", "is_obtainable", "loaded"]

_SOURCES: Final = Path(__file__).with_name("native")
_OPTIONS: Final = ("-std=c++20", "-O1", "-fPIC", "-w")
_COMPILERS: Final = ("c++", "g++", "clang++")

LIBRARY_BYTES_LIMIT: Final = 256 << 20
"""A compiled library has some 5 MB; a larger file is none of ours."""

LOCK_SECONDS: Final = 1800
"""How long a process waits for another one that compiles."""


@cache
def loaded() -> ctypes.CDLL:
    """The library, in this process.

    Raises:
        HloUnsupportedError: ``HLO-TORCH-DEVICE``; it is not there and cannot be compiled.
    """
    path = _library()
    torch.ops.load_library(str(path))
    return ctypes.CDLL(str(path))


def is_compiled() -> bool:
    """Return whether the library is there already."""
    return _files().find(_folder()) is not None


def is_obtainable() -> bool:
    """Return whether the library is there, or a compiler that could make it."""
    return compiler() is not None or is_compiled()


def compiler() -> list[str] | None:
    """The C++ compiler: of the variable CXX, else the first on the path."""
    named = shlex.split(os.environ.get("CXX", ""))
    if named:
        return named if shutil.which(named[0]) else None
    paths = [path for name in _COMPILERS if (path := shutil.which(name))]
    return paths[:1] or None


def _folder() -> Path:
    named = os.environ.get("TORCH_EXTENSIONS_DIR")
    shared = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(named) if named else Path(shared) / "torch_extensions"


def _library() -> Path:
    folder = _folder()
    path = _files().find(folder)
    if path is not None:
        return path
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(folder / f"{_files().stem}.lock", timeout=LOCK_SECONDS):
            return _files().find(folder) or _files().write(folder, _compiled())
    except OSError as error:
        raise _unavailable(f"{folder} cannot be written: {error.strerror or error}") from error


@cache
def _files() -> LibraryFiles:
    """The libraries of these sources, this version of torch and this processor."""
    digest = hashlib.sha256(f"{torch.__version__} {platform.machine()}".encode())
    for source in sorted(_SOURCES.iterdir()):
        digest.update(source.read_bytes())
    return LibraryFiles(f"libnkihlo_torch_{digest.hexdigest()[:16]}_", LIBRARY_BYTES_LIMIT)


def _compiled() -> bytes:
    """The content of the library: each source compiled by a process of its own, then linked."""
    command = compiler()
    if command is None:
        raise _unavailable(
            f"there is no C++ compiler ({', '.join(_COMPILERS)}, or the variable CXX)"
        )
    root = Path(torch.__file__).parent
    options = [
        *_OPTIONS,
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        f"-I{root / 'include'}",
    ]
    with tempfile.TemporaryDirectory(prefix="nki-hlo-") as name:
        scratch = Path(name)
        objects = [scratch / f"{source.stem}.o" for source in sorted(_SOURCES.glob("*.cpp"))]
        sources = [_SOURCES / f"{path.stem}.cpp" for path in objects]
        _run([
            [*command, *options, "-c", str(source), "-o", str(path)]
            for source, path in zip(sources, objects, strict=True)
        ])  # fmt: skip
        library = scratch / "library.so"
        linked = ["-shared", "-o", str(library), f"-L{root / 'lib'}", "-ltorch_cpu", "-lc10"]
        _run([[*command, *map(str, objects), *linked]])
        return read_plain(library, LIBRARY_BYTES_LIMIT)


def _run(commands: Sequence[list[str]]) -> None:
    """Run commands side by side; the first that fails is the error."""
    running = [
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for command in commands
    ]
    failed = ""
    for command, process in zip(commands, running, strict=True):
        _, output = process.communicate()
        if process.returncode and not failed:
            failed = f"{command[0]} ended with {process.returncode}: {output.strip()[:400]}"
    if failed:
        raise _unavailable(failed)


def _unavailable(reason: str) -> HloUnsupportedError:
    return HloUnsupportedError(
        f'the native library of the torch device "neuron" could not be compiled: {reason}',
        code="HLO-TORCH-DEVICE",
        place=_SOURCES.name,
        remedy="install g++ or clang++ (torch brings the headers); torch.compile and "
        "torch_neuronx.trace work without the device",
    )
