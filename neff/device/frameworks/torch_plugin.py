"""The device as torch_xla sees it: PJRT_DEVICE=NEURON."""

from __future__ import annotations

import atexit
import contextlib
from importlib import import_module
from typing import Any

from neff.device.activation import capture_is_wanted
from neff.device.frameworks.torch_steps import HostSteps
from neff.device.pjrt.entry import Entry
from neff.device.pjrt.native_library import library
from neff.device.plugin import the_plugin
from neff.device.programs import capture

__all__ = ["library_path"]


def library_path() -> str:
    """Path of a library whose ``GetPjrtApi`` is our function table.

    Raises:
        NeffError: code ``NEFF-DEVICE-ENTRY``; see :func:`neff.device.pjrt.native_library.library`.
    """
    plugin = the_plugin()
    if _wait_at_exit not in plugin.when_connected:
        plugin.when_connected.append(_wait_at_exit)
        if capture_is_wanted():
            steps = HostSteps()
            capture.add(steps.compiled)
            plugin.when_read.append(steps.read)
    entry = plugin.entry or Entry(library())
    return str(entry.path)


def _wait_at_exit() -> None:
    """Let pending programs end before torch_xla's own exit handler runs.

    That handler waits for them while it holds the interpreter's lock, which they need. Exit
    handlers run in reverse order, and torch_xla registers its own when it is imported, before
    it makes a client.
    """
    atexit.register(_finish_work)


def _finish_work() -> None:
    xla_model: Any = import_module("torch_xla.core.xla_model")

    with contextlib.suppress(RuntimeError):  # torch_xla's handler reports it
        xla_model.wait_device_ops()
