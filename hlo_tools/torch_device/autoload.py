"""Entry point of the group ``torch.backends``, which ``import torch`` calls.

The device appears only for a script that requests it: NKI_HLO_DEVICE=1, or the text of the script
(or of ``python -c``) has the device in quotes: ``"neuron"``, ``'neuron:1'``. Other users of torch
pay for reading their script's file, and torch.accelerator stays as it is.
"""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from typing import Final

__all__ = ["autoload", "is_requested"]

SWITCH: Final = "NKI_HLO_DEVICE"
"""``1`` makes the device, ``0`` does not; see :mod:`hlo_tools.extract.protocol`."""

SCRIPT_BYTES_LIMIT: Final = 1 << 20
"""A longer script is read up to here."""

_DEVICE: Final = re.compile(rb"""["']neuron(:\d+)?["']""")


def autoload() -> None:
    """Make the device if the running script requests it; errors of ours never stop ``import torch``."""
    if is_requested():
        import_module("hlo_tools.torch_device.device").install(compiles=True)


def is_requested() -> bool:
    """Return whether the environment or the script of this process requests the device."""
    switch = os.environ.get(SWITCH, "").strip()
    if switch in ("0", "1"):
        return switch == "1"
    return _DEVICE.search(_script()) is not None


def _script() -> bytes:
    """The text of the script, or of the command line's ``-c``."""
    words = list(sys.orig_argv)
    if sys.argv[:1] == ["-c"] and "-c" in words[:-1]:
        return os.fsencode(words[words.index("-c") + 1])
    try:
        with open(sys.argv[0], "rb") as file:
            return file.read(SCRIPT_BYTES_LIMIT)
    except (OSError, IndexError, ValueError):
        return b""
