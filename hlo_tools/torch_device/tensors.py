"""Tensors of the device "neuron" and tensors of the CPU over the same memory.

Importing this module imports torch, and compiles nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final, TypeAlias

__all__ = ["NAME", "Tensor", "Torch", "device_view", "host_view", "is_neuron_tensor", "torch"]

NAME: Final = "neuron"

Tensor: TypeAlias = Any
"""A ``torch.Tensor``."""

Torch: TypeAlias = Any
"""An object of PyTorch's."""

torch: Torch = import_module("torch")
"""torch is optional: what is used of it has the same types with and without it."""


def is_neuron_tensor(value: Torch) -> bool:
    """True for a tensor of the device "neuron"; one without data counts, too."""
    return isinstance(value, torch.Tensor) and value.device.type == NAME


def host_view(tensor: Tensor) -> Tensor:
    """A tensor of the CPU over the memory of a tensor of the device; any other tensor as it is."""
    if not is_neuron_tensor(tensor):
        return tensor
    with torch.no_grad():
        return _operators().host_view(tensor.detach())


def device_view(tensor: Tensor, index: int) -> Tensor:
    """A tensor of the device over the memory of a tensor of the CPU.

    Args:
        tensor: a dense tensor of the CPU.
        index: number of the device.
    """
    with torch.no_grad():
        return _operators().device_view(tensor.detach(), index)


def _operators() -> Torch:
    return torch.ops.nki_hlo_device
