"""The device for a process that imports torch_xla before its kernels."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hlo_tools.extract import protocol
from neff.device.activation import torch_is_asked

__all__ = ["select_device"]


def select_device() -> None:
    """Make "neuron" torch_xla's device if nobody named one and none is in use yet.

    ``import torch_xla`` sets PJRT_DEVICE to CPU when it is not set. That choice is taken back
    while the runtime has not started: a CPU device cannot run kernels. A device that the
    environment of the process named stays.
    """
    torch_xla: Any = sys.modules["torch_xla"]
    environment = dict(os.environ)
    if environment.pop(protocol.TORCH_DEVICE, "") != "CPU" or _named_at_start():
        return
    if not torch_is_asked(environment):
        return
    if torch_xla._XLAC._xla_runtime_is_initialized():
        return
    os.environ[protocol.TORCH_DEVICE] = "NEURON"
    torch_xla._found_libneuronxla = torch_xla._aws_ec2_inf_trn_init()


def _named_at_start() -> bool:
    """Return whether the process was started with PJRT_DEVICE set.

    Where the system does not tell, the device counts as named.
    """
    try:
        environment = Path("/proc/self/environ").read_bytes()
    except OSError:
        return True
    name = f"{protocol.TORCH_DEVICE}=".encode()
    return any(entry.startswith(name) for entry in environment.split(b"\0"))
