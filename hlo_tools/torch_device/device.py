"""Makes the device "neuron": its name, its module ``torch.neuron`` and, on first use, its library.

Importing this module imports torch.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from hlo_tools.errors import HloUnsupportedError
from hlo_tools.torch_device import library, process_group
from hlo_tools.torch_device.module import DeviceModule
from hlo_tools.torch_device.tensors import NAME, torch
from nki_lang.base.visible_cores import core_count

__all__ = ["device_count", "install", "load"]

_lock = threading.RLock()
_installed: list[DeviceModule] = []
_loaded: list[bool] = []


def device_count() -> int:
    """How many devices there are; see :mod:`nki_lang.base.visible_cores`."""
    return core_count()


def install(*, compiles: bool = False) -> None:
    """Make the name "neuron" and ``torch.neuron``.

    Args:
        compiles: compile the native library now if it never was, rather than on first use. Without
            a compiler the first use is the error.

    Raises:
        RuntimeError: another package uses PyTorch's PrivateUse1 slot already.
    """
    with _lock:
        if _installed or hasattr(torch, NAME):  # the vendor's package made the device
            return
        torch.utils.rename_privateuse1_backend(NAME)
        module = DeviceModule(f"torch.{NAME}", load, library.is_obtainable)
        torch._register_device_module(NAME, module)
        torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
        process_group.register()
        _installed.append(module)
        if library.is_compiled() or (compiles and library.compiler() is not None):
            with suppress(HloUnsupportedError):
                module.init()


def load() -> None:
    """Load the native library and install PyTorch's hooks; only the first call does so.

    Raises:
        HloUnsupportedError: ``HLO-TORCH-DEVICE``; there is no C++ compiler, or it failed.
    """
    with _lock:
        if _loaded:
            return
        native = library.loaded()
        native.neuron_install(device_count())
        torch.set_autocast_dtype(NAME, torch.bfloat16)
        _loaded.append(True)
