"""Kernel files put into a module, and taken out of it again.

The form is that of :mod:`hlo_tools.kernels.embedded`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from hlo_tools.files.writing import write_bytes
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.kernels.backend_config import BackendConfig, decode, encode
from hlo_tools.kernels.embedded import EMBEDDED, digest_of, files_of, is_embedded, pack
from hlo_tools.kernels.files import KernelFile
from hlo_tools.kernels.location import locate

__all__ = ["embed", "set_config", "take_out"]


def embed(module: Module, root: Path | None = None) -> int:
    """Put the kernel files that a module names into it; how many calls changed.

    Args:
        root: folder that relative paths start from; that of the module's file where it is not
            given.

    Raises:
        HloError: a configuration does not decode, or a file is missing.
    """
    module.require_known_fields()
    packed: dict[Path, dict[str, Any]] = {}
    changed = 0
    for call in module.find_custom_calls():
        config = decode(call.backend_config)
        if is_embedded(config):
            continue
        path = locate(config, root or module.folder)
        if path not in packed:
            packed[path] = pack(KernelFile(path, config.func_name).parts)
        extra = {**config.extra_binary, EMBEDDED: packed[path]}
        set_config(call, replace(config, binary=path.name, extra_binary=extra))
        changed += 1
    return changed


def take_out(module: Module, folder: str | Path, beside: str | Path | None = None) -> list[Path]:
    """Write embedded kernels to ``folder`` and let the calls name the files; the files.

    Args:
        beside: the module's folder; paths in the module are relative to it where they can be.

    Raises:
        HloFileError: an embedded kernel is damaged, or a file cannot be written.
    """
    module.require_known_fields()
    written: dict[str, Path] = {}
    for call in module.find_custom_calls():
        config = decode(call.backend_config)
        if not is_embedded(config):
            continue
        files = files_of(config)
        digest = digest_of(files)
        if digest not in written:
            home = Path(folder) / digest[:16]
            for name, content in files.items():
                (home / name).parent.mkdir(parents=True, exist_ok=True)
                write_bytes(content, home / name)
            written[digest] = home / config.binary
        remaining = {key: value for key, value in config.extra_binary.items() if key != EMBEDDED}
        binary = _named(written[digest], beside)
        set_config(call, replace(config, binary=binary, extra_binary=remaining))
    return list(written.values())


def _named(path: Path, beside: str | Path | None) -> str:
    absolute = Path(os.path.abspath(path))
    home = Path(os.path.abspath(beside)) if beside is not None else None
    if home is not None and absolute.is_relative_to(home):
        return absolute.relative_to(home).as_posix()
    return str(absolute)


def set_config(call: Instruction, config: BackendConfig) -> None:
    """Give a call another configuration."""
    call.proto.ClearField("backend_config_payload")
    call.proto.backend_config = encode(config).encode()
    call.module.mark_changed()
