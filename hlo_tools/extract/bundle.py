"""A module directory that is whole: the module, its flags, and the kernels that it names.

An entry is written beside the cache's entries and renamed when it is complete, so there is no
moment at which a reader, another writer or a killed process finds half of one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

from hlo_tools import schema
from hlo_tools.errors import HloError, HloFileError
from hlo_tools.extract.flags import flags_hash, flags_text
from hlo_tools.extract.key import cache_key
from hlo_tools.files.plain import MOST_BYTES, read_beside
from hlo_tools.ir.module import Module
from hlo_tools.kernels.files import KernelFile, kernel_files, rename_kernels
from nki_lang.base.atomic import staging_name, sweep
from nki_lang.base.plain_files import check_path, shown

__all__ = [
    "FLAGS_FILE",
    "MODULE_FILE",
    "check_unchanged",
    "compiler_folder",
    "complete_entries",
    "is_complete",
    "write_bundle",
]

MODULE_FILE: Final = "model.hlo_module.pb"
FLAGS_FILE: Final = "compile_flags.json"

_ENTRY: Final = "MODULE_"
_ENTRY_NAME: Final = re.compile(r"MODULE_(?P<key>\d+)\+(?P<flags>[0-9a-f]{8})")
_STAGING: Final = ".staging-"
_BUILD: Final = "+nkihlo"
"""How the compiler folders of all our versions end."""


def compiler_folder() -> str:
    """Name of the folder for this version's entries.

    Same pattern as the vendor's (``neuronxcc-<version>+<build>``); the build names the compiler.
    """
    try:
        version = metadata.version("nki-hlo")
    except metadata.PackageNotFoundError:
        version = "0.1.0"
    return f"neuronxcc-{version}{_BUILD}"


def write_bundle(
    cache_dir: str | Path, module_bytes: bytes, flags: Sequence[str], *, root: Path | None = None
) -> Path:
    """Write a module with everything it needs into a compile cache.

    Args:
        cache_dir: the cache; made if it does not exist.
        module_bytes: a serialized ``HloModuleProto``.
        flags: the compiler's flags, target first.
        root: the folder that relative kernel paths in the module start from.

    Returns:
        The entry's folder: ``cache_dir/neuronxcc-<version>/MODULE_<key>+<flags>``. An entry that
        is there already is left as it is.

    Raises:
        HloFileError: code ``HLO-CACHE-WRITE``: the cache cannot be written;
            ``HLO-KERNEL-MISSING``: a kernel file is gone; ``HLO-KERNEL-CONFIG`` or
            ``HLO-DAMAGED``: the module is damaged. Nothing is left behind.
    """
    folder = Path(cache_dir).absolute() / compiler_folder()
    entry = folder / _entry_name(module_bytes, flags, root)
    if is_complete(entry):
        return entry
    content = _content(module_bytes, flags, root)
    new_folders: list[Path] = []
    try:
        check_path(folder)
        new_folders += [path for path in (folder, folder.parent) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder, _STAGING)
        staging = _staging_folder(folder)
        try:
            _write(staging, content)
            _install(staging, entry)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        for path in new_folders:  # only empty ones: another process may have written there
            with contextlib.suppress(OSError):
                path.rmdir()
        raise HloFileError(
            f"the compile cache cannot be written: {error.strerror or error}",
            code="HLO-CACHE-WRITE",
            place=shown(error.filename or folder),
            remedy="make the folder writable and see that it has room, or name another one",
        ) from error
    return entry


def _content(module_bytes: bytes, flags: Sequence[str], root: Path | None) -> dict[str, bytes]:
    """Every file of the entry by its name in it."""
    proto = schema.HloModuleProto()
    proto.ParseFromString(module_bytes)
    module = Module(proto, original=module_bytes)
    kernels = kernel_files(module, root)
    names = _names(kernels)
    files: dict[str, bytes] = {}
    for kernel in kernels:
        for name, data in kernel.parts.items():
            suffix = name.removeprefix(kernel.path.name)
            is_main_file = name.startswith(kernel.path.name)
            files[names[kernel.path] + suffix if is_main_file else name] = data
    if kernels:
        rename_kernels(module, lambda kernel: names[kernel.path], root)
    files[FLAGS_FILE] = flags_text(flags).encode()
    files[MODULE_FILE] = module.module_bytes()
    return files


def _names(kernels: Sequence[KernelFile]) -> dict[Path, str]:
    """A name in the entry for each kernel file; those that would clash carry their digest."""
    contents: dict[str, set[str]] = {}
    for kernel in kernels:
        contents.setdefault(kernel.path.name, set()).add(kernel.digest)
    return {
        kernel.path: kernel.path.name
        if len(contents[kernel.path.name]) == 1
        else f"{kernel.path.stem}-{kernel.digest[:8]}{kernel.path.suffix}"
        for kernel in kernels
    }


def _write(folder: Path, content: dict[str, bytes]) -> None:
    for name, data in content.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)


def _install(staging: Path, entry: Path) -> None:
    """Give the finished folder its name, unless another writer was first."""
    for _ in range(3):
        try:
            os.rename(staging, entry)
            return
        except OSError:
            if not entry.exists():
                raise
        if is_complete(entry):
            return
        # Somebody took files out of the entry: put it aside whole and try again.
        aside = _staging_folder(entry.parent)
        try:
            os.rename(entry, aside / "old")
        except FileNotFoundError:
            pass
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    raise OSError(f"{entry} is being changed while it is written")


def is_complete(entry: Path) -> bool:
    """Return True if a folder is an entry whose module, flags and kernels match its name.
    A file that is missing, cut or damaged makes it no entry.
    """
    try:
        module = read_beside(entry / MODULE_FILE, MOST_BYTES)
        flags = json.loads(read_beside(entry / FLAGS_FILE))
        return entry.name == _entry_name(module, flags, entry)
    except (OSError, ValueError, TypeError, HloError):
        return False


def check_unchanged(entry: Path) -> str:
    """Refuse an entry of ours whose module, kernels or flags changed since it was made.

    The name of an entry holds a key of the module with its kernels and one of the flags. The
    former is checked in this version's cache folder only, for other versions and the vendor make
    it in other ways. All make the latter alike: it is checked in the folders of all our versions,
    and wherever else the first key shows that the entry is of our making. A module that does not
    decode is left to whoever reads it, who reports where it is broken.

    Returns:
        What is wrong with the flags of an entry that may be the vendor's: it can be used, and
        nothing is known about its flags. "" otherwise.

    Raises:
        HloFileError: code ``HLO-ENTRY-CHANGED``.
    """
    name = _ENTRY_NAME.fullmatch(entry.name)
    if name is None:
        return ""
    try:
        fits = cache_key(read_beside(entry / MODULE_FILE, MOST_BYTES), entry) == name["key"]
    except (OSError, ValueError, TypeError, HloError):
        fits = None
    if fits is False and entry.parent.name == compiler_folder():
        raise _changed(entry, "the module or a kernel file is not what the folder's name was made "
                       "from: it was damaged or changed after it was extracted")  # fmt: skip
    wrong = _wrong_flags(entry, name["flags"])
    if wrong and (fits or entry.parent.name.endswith(_BUILD)):
        raise _changed(entry, wrong)
    return wrong


def _wrong_flags(entry: Path, expected: str) -> str:
    try:
        flags = json.loads(read_beside(entry / FLAGS_FILE))
        fits = flags_hash(flags) == expected
    except FileNotFoundError:
        return f"{FLAGS_FILE} is missing: the folder's name says that there were flags"
    except (OSError, ValueError, TypeError):
        fits = False
    return "" if fits else f"{FLAGS_FILE} does not match the folder's name"


def _changed(entry: Path, what: str) -> HloFileError:
    return HloFileError(
        what,
        code="HLO-ENTRY-CHANGED",
        place=str(entry),
        remedy="extract it again; what was changed on purpose builds from a folder with a name of "
        "its own, and flags may be passed on the command line",
    )


def _entry_name(module: bytes, flags: Sequence[str], root: Path | None) -> str:
    return f"{_ENTRY}{cache_key(module, root)}+{flags_hash(flags)}"


def complete_entries(cache_dir: str | Path) -> Iterator[Path]:
    """The complete entries of the cache in ``cache_dir``, all compiler versions, in order of names."""
    for entry in sorted(Path(cache_dir).glob(f"*/{_ENTRY}*")):
        if is_complete(entry):
            yield entry


# ------------------------------------------------------------------- what killed writers leave


def _staging_folder(folder: Path) -> Path:
    """A new folder in which an entry is written; its name identifies the writer."""
    path = folder / staging_name(_STAGING)
    path.mkdir()
    return path
