"""Where the kernel file lies that a configuration names."""

from __future__ import annotations

import os
from pathlib import Path

from hlo_tools.errors import HloFileError
from hlo_tools.kernels.backend_config import BackendConfig

__all__ = ["locate"]


def locate(config: BackendConfig, root: Path | None = None) -> Path:
    """The path of the kernel file that a configuration names.

    Args:
        config: the decoded configuration.
        root: the folder that a relative path starts from (that of the module's file).

    Raises:
        HloFileError: code ``HLO-KERNEL-PATH``; the path is relative and there is no root, or it
            leads out of the root; ``HLO-EMBEDDED``: the kernel in the configuration is damaged.
    """
    if config.extra_binary:  # late: few kernels are embedded
        from hlo_tools.kernels.embedded import is_embedded, unpack

        if is_embedded(config):
            return unpack(config)
    path = Path(config.binary)
    if path.is_absolute():
        return path
    if root is None:
        raise HloFileError(
            f"kernel {config.func_name} is named by a relative path and no folder was given",
            code="HLO-KERNEL-PATH",
            place=config.binary,
            remedy="load the module from its file, or give the folder as root",
        )
    folder = Path(os.path.abspath(root))
    found = Path(os.path.abspath(folder / path))
    if not found.is_relative_to(folder):
        raise HloFileError(
            f"the path of kernel {config.func_name} leads out of the module's folder",
            code="HLO-KERNEL-PATH",
            place=config.binary,
        )
    return found
