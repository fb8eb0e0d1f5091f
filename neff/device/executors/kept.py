"""NEFFs that the executor built, kept in a store: a second process need not compile."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from hlo_tools.errors import HloError
from hlo_tools.extract.flags import cache_folder
from hlo_tools.ir.module import Module
from hlo_tools.kernels.files import kernel_files
from hlo_tools.store import Action, Store, open_store
from neff.options import CompileOptions
from neff.version import __version__, toolchain_digest

__all__ = ["NEFF_CACHE", "action_of", "store_of"]

NEFF_CACHE: Final = "NKI_HLO_NEFF_CACHE"
"""Environment variable: URL or folder of the store; ``0`` for none."""

_BUILD_CACHE: Final = "NKI_HLO_BUILD_CACHE"
"""The setting of ``nki-neff build``."""


def store_of(environment: Mapping[str, str] = os.environ) -> Store | None:
    """The store that the environment names; None for none, or when there can be none.

    Without :data:`NEFF_CACHE` or NKI_HLO_BUILD_CACHE it is the folder ``neffs`` of the compile cache
    (NEURON_COMPILE_CACHE_URL), else of $NKI_HLO_CACHE, else of ``nki-hlo`` in $XDG_CACHE_HOME or
    ~/.cache.
    """
    setting = (environment.get(NEFF_CACHE) or environment.get(_BUILD_CACHE) or "").strip()
    if setting == "0":
        return None
    try:
        return open_store(setting or str(_folder(environment)))
    except (HloError, OSError, RuntimeError):
        if setting and urlsplit(setting).scheme:
            raise  # the user named a place: an unknown scheme is no reason to go without
        return None


def _folder(environment: Mapping[str, str]) -> Path:
    compile_cache = cache_folder(environment)
    if compile_cache is not None:
        return compile_cache.absolute() / "neffs"
    setting = environment.get("NKI_HLO_CACHE")
    if setting:
        return Path(setting).absolute() / "neffs"
    shared = environment.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "nki-hlo" / "neffs"


def action_of(code: bytes, module: Module, target: str, options: CompileOptions | None) -> Action:
    """Everything that a program's NEFF is made from.

    Raises:
        HloError: a kernel file is missing or damaged.
    """
    parts = {
        "version": __version__,
        "toolchain": toolchain_digest(),
        "target": target,
        "input module": hashlib.sha256(code).hexdigest(),
    }
    chosen = asdict(options or CompileOptions())
    parts |= {f"option {name}": str(value) for name, value in chosen.items()}
    for kernel in kernel_files(module, None):
        for name, content in kernel.parts.items():
            parts[f"input {name}"] = hashlib.sha256(content).hexdigest()
    return Action("executor neff", parts)
