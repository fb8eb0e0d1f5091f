"""The process group "neuron": gloo between processes of one machine.

Collectives on tensors of the device run on gloo over the same memory (``native/collectives.cpp``).
``torch.distributed.init_process_group("neuron")`` serves tensors of the device and of the CPU.
"""

from __future__ import annotations

from importlib import import_module

from hlo_tools.errors import HloUnsupportedError
from hlo_tools.torch_device.tensors import NAME, Torch, torch

__all__ = ["register"]


def register() -> None:
    """Make the backend known to torch.distributed, if this build of torch has it."""
    distributed: Torch = import_module("torch.distributed")
    if distributed.is_available() and NAME not in distributed.Backend.backend_list:
        distributed.Backend.register_backend(NAME, _gloo, devices=[NAME, "cpu"])


def _gloo(store: Torch, rank: int, size: int, timeout: Torch) -> Torch:
    """The backend of a group.

    Raises:
        HloUnsupportedError: ``HLO-TORCH-GROUP``; this build of torch has no gloo.
    """
    distributed: Torch = import_module("torch.distributed")
    if not distributed.is_gloo_available():
        raise HloUnsupportedError(
            f"this build of torch {torch.__version__} has no gloo, which the process group "
            f'"{NAME}" uses',
            code="HLO-TORCH-GROUP",
            remedy="install torch from its package index for Linux",
        )
    getattr(torch, NAME).init()
    backend = distributed.ProcessGroupGloo(store, rank, size, timeout=timeout)
    backend._set_sequence_number_for_group()
    return backend
