"""Which device of type "neuron" is meant.

Importing this module imports torch.
"""

from __future__ import annotations

from typing import TypeAlias

from hlo_tools.torch_device.tensors import NAME, Torch, torch
from nki_lang.base.visible_cores import core_count

__all__ = ["DeviceLike", "device_of", "index_of"]

DeviceLike: TypeAlias = Torch
"""A number, a text such as "neuron:1", a ``torch.device``, or None for the current device."""


def index_of(device: DeviceLike) -> int:
    """The number of a device; of one without a number, the current device's.

    Raises:
        ValueError: it is a device of another type.
        RuntimeError: there is no such device.
    """
    if device is None:
        return torch.accelerator.current_device_index()
    named = torch.device(NAME, device) if isinstance(device, int) else torch.device(device)
    if named.type != NAME:
        raise ValueError(f"expected a device {NAME}, not {named}")
    if named.index is None:
        return torch.accelerator.current_device_index()
    if named.index >= core_count():
        raise RuntimeError(
            f"there is no device {named}; there are {core_count()} "
            "(NEURON_RT_NUM_CORES changes that)"
        )
    return named.index


def device_of(device: DeviceLike) -> Torch:
    """A device with its number."""
    return torch.device(NAME, index_of(device))
