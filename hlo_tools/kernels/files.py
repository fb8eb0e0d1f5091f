"""The kernel files that a module names: finding them, and naming them anew.

A bundle holds copies of the files, and its module names the copies relative to itself.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from hlo_tools.errors import HloError, HloFileError
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.kernels.backend_config import BackendConfig, decode, encode
from hlo_tools.kernels.location import locate, read_kernel_file

__all__ = ["CONSTANTS", "KernelFile", "kernel_files", "rename_kernels"]

CONSTANTS: Final = "shared_constants"
"""Folder beside a kernel file in which its constants lie, each named by its digest."""

_COMPANION: Final = ".json"


@dataclass(frozen=True)
class KernelFile:
    """A kernel file and what belongs to it.

    Attributes:
        path: the ``.klir`` file.
        function: name of the kernel function.
    """

    path: Path
    function: str

    @cached_property
    def parts(self) -> dict[str, bytes]:
        """Name relative to the file's folder -> content: the file, its companion record, the
        constants that it names.

        Raises:
            HloFileError: code ``HLO-KERNEL-MISSING``; the file cannot be read;
                ``HLO-KERNEL-PATH``: a link leads out of the file's folder.
        """
        content = self._read(self.path)
        parts = {self.path.name: content}
        companion = self.path.with_name(self.path.name + _COMPANION)
        if companion.is_file():
            parts[companion.name] = self._read(companion)
        folder = self.path.with_name(CONSTANTS)
        for constant in sorted(folder.glob("*.npy")) if folder.is_dir() else ():
            if constant.name.encode() in content:
                parts[f"{CONSTANTS}/{constant.name}"] = self._read(constant)
        return parts

    @cached_property
    def digest(self) -> str:
        """A digest of everything that makes the kernel, whatever the file is called."""
        digest = hashlib.sha256()
        for name, content in self.parts.items():
            role = name if name.startswith(CONSTANTS) else name.removeprefix(self.path.name)
            digest.update(f"{role}\0{len(content)}\0".encode())
            digest.update(content)
        return digest.hexdigest()

    def _read(self, path: Path) -> bytes:
        is_main_file = path == self.path  # where a kernel may lie, locate has looked at
        folder = None if is_main_file else Path(os.path.realpath(self.path)).parent
        try:
            return read_kernel_file(path, folder)
        except OSError as error:
            raise HloFileError(
                f"the kernel file of {self.function} cannot be read: {error.strerror}",
                code="HLO-KERNEL-MISSING",
                place=str(path),
                remedy="run the script again, so that the kernel is traced again",
            ) from error


def _each_call(
    module: Module,
    root: Path | None,
    change: Callable[[KernelFile, BackendConfig], BackendConfig | None],
) -> None:
    calls = module.find_custom_calls()
    if not calls:
        return
    kernels_by_path: dict[Path, KernelFile] = {}
    for call in calls:
        config = _decoded(call)
        path = locate(config, root)
        kernel = kernels_by_path.setdefault(path, KernelFile(path, config.func_name))
        renamed = change(kernel, config)
        if renamed is not None:
            call.proto.backend_config = encode(renamed).encode()


def _decoded(call: Instruction) -> BackendConfig:
    try:
        return decode(call.proto.backend_config)
    except HloError as error:
        raise HloFileError(
            error.message, code=error.code, place=f"%{call.name}", remedy=error.remedy
        ) from error


def kernel_files(module: Module, root: Path | None = None) -> list[KernelFile]:
    """The kernel files that a module names, each once.

    Args:
        root: the folder that relative paths start from.

    Raises:
        HloFileError: code ``HLO-CONFIG``: a configuration does not decode; ``HLO-KERNEL-PATH``:
            a relative path has no root or leads out of it.
    """
    kernels_by_path: dict[Path, KernelFile] = {}

    def note(kernel: KernelFile, _: BackendConfig) -> None:
        kernels_by_path.setdefault(kernel.path, kernel)

    _each_call(module, root, note)
    return list(kernels_by_path.values())


def rename_kernels(
    module: Module, name_of: Callable[[KernelFile], str], root: Path | None = None
) -> None:
    """Let every kernel call of the module name ``name_of(kernel)`` instead of the file's path."""

    def renamed(kernel: KernelFile, config: BackendConfig) -> BackendConfig:
        return replace(config, binary=name_of(kernel))

    _each_call(module, root, renamed)
    module.mark_changed()
