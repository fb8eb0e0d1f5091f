"""Where the kernel file lies that a configuration names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from hlo_tools.errors import HloFileError
from hlo_tools.files.plain import MOST_BYTES, UnfitFileError, read_plain, shown, size_of
from hlo_tools.kernels.backend_config import BackendConfig
from hlo_tools.kernels.cache import cache_folder

__all__ = ["MOST_BYTES", "allow", "check_file", "locate", "read_kernel_file"]

_VARIABLE: Final = "NKI_HLO_KERNEL_PATHS"
"""Environment variable with further folders that absolute paths may lead into, as in ``PATH``."""

_allowed: set[str] = set()


def locate(config: BackendConfig, root: Path | None = None) -> Path:
    """The path of the kernel file that a configuration names; nothing is read.

    Args:
        config: the decoded configuration.
        root: the folder that a relative path starts from (that of the module's file). None is
            for modules that this process made: their absolute paths are followed anywhere.

    Raises:
        HloFileError: code ``HLO-KERNEL-PATH``; the path is relative and there is no root, or it
            leads out of the root (through a link, too) though neither the kernel cache nor
            ``NKI_HLO_KERNEL_PATHS`` has it, or it is that of no plain file;
            ``HLO-TOO-LARGE``; ``HLO-EMBEDDED``: the kernel in the configuration is damaged.
    """
    if config.extra_binary:  # late: few kernels are embedded
        from hlo_tools.kernels.embedded import is_embedded, unpack

        if is_embedded(config):
            return unpack(config)
    if "\0" in config.binary:
        raise HloFileError(
            f"the path of kernel {config.func_name} has a NUL character",
            code="HLO-KERNEL-PATH",
            place=config.binary.replace("\0", "\\0"),
            remedy="do not trust this module",
        )
    path = Path(config.binary)
    if path.is_absolute():
        _check_files(path, None if root is None else _folder_of(config, path, root))
        return path
    if root is None:
        raise HloFileError(
            f"kernel {config.func_name} is named by a relative path, but no folder was passed",
            code="HLO-KERNEL-PATH",
            place=config.binary,
            remedy="load the module from its file, or pass the folder as root",
        )
    folder = Path(os.path.abspath(root))
    target = Path(os.path.abspath(folder / path))
    if not target.is_relative_to(folder):
        raise HloFileError(
            f"the path of kernel {config.func_name} leaves the module's folder",
            code="HLO-KERNEL-PATH",
            place=config.binary,
        )
    _check_files(target, folder)
    return target


def allow(path: str | os.PathLike[str]) -> None:
    """Let modules name this kernel file by its absolute path: the user of this process named it."""
    _allowed.add(os.path.realpath(path))


def _folder_of(config: BackendConfig, path: Path, root: Path) -> Path:
    """The first folder that holds an absolute path, of those that a stranger may name."""
    listed = os.environ.get(_VARIABLE, "").split(os.pathsep)
    real = os.path.realpath(path)
    for folder in (
        root,
        cache_folder(),
        *(Path(listed_folder) for listed_folder in listed if os.path.isabs(listed_folder)),
    ):
        if Path(real).is_relative_to(os.path.realpath(folder)):
            return folder
    if real in _allowed:
        return Path(real).parent
    raise HloFileError(
        f"kernel {config.func_name} lies in neither the module's folder nor the kernel cache",
        code="HLO-KERNEL-PATH",
        place=config.binary,
        remedy=f"if you trust the module, list the kernel's folder in {_VARIABLE}",
    )


def _check_files(path: Path, folder: Path | None) -> None:
    for file in (path, path.with_name(path.name + ".json")):
        check_file(file, folder)


def check_file(path: Path, folder: Path | None = None) -> None:
    """Refuse what must not be opened: devices, pipes, links out of ``folder``, very large files.

    A missing file, or a folder, passes: reading it raises.

    Raises:
        HloFileError: ``HLO-KERNEL-PATH`` or ``HLO-TOO-LARGE``.
    """
    if not os.path.exists(path):
        return
    if folder is not None and not Path(os.path.realpath(path)).is_relative_to(
        os.path.realpath(folder)
    ):
        raise HloFileError(
            "the file is a link out of the folder that it is looked for in",
            code="HLO-KERNEL-PATH",
            place=str(path),
            remedy="copy the kernel file itself into the folder",
        )
    try:
        size_of(path, MOST_BYTES)
    except UnfitFileError as error:
        raise _unfit(error, path) from error
    except OSError:
        return


def read_kernel_file(path: Path, folder: Path | None = None) -> bytes:
    """The content of a kernel file, a record or a constant, see :func:`check_file`.

    Raises:
        HloFileError: ``HLO-KERNEL-PATH`` or ``HLO-TOO-LARGE``.
        OSError: it cannot be read.
    """
    check_file(path, folder)
    try:
        return read_plain(path, MOST_BYTES)
    except UnfitFileError as error:
        raise _unfit(error, path) from error


def _unfit(error: UnfitFileError, path: Path) -> HloFileError:
    return HloFileError(
        error.strerror or str(error),
        code="HLO-TOO-LARGE" if error.too_large else "HLO-KERNEL-PATH",
        place=shown(path),
    )
