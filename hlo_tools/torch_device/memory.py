"""Statistics of the memory of the device "neuron", in bytes and allocations.

Importing this module imports torch.
"""

from __future__ import annotations

from hlo_tools.torch_device.numbering import DeviceLike, device_of, index_of
from hlo_tools.torch_device.tensors import NAME, torch

__all__ = [
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
]


def memory_stats(device: DeviceLike = None) -> dict[str, int]:
    """Counters of PyTorch's allocators, such as ``allocated_bytes.all.peak``."""
    return dict(torch.accelerator.memory_stats(_index(device)))


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes of the tensors that are alive."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: DeviceLike = None) -> int:
    """The highest number of bytes so far."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: DeviceLike = None) -> int:
    """Bytes taken from the host; there is no cache, so they are the tensors'."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: DeviceLike = None) -> int:
    """The highest number of reserved bytes so far."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """The counters of a device as a table; ``abbreviated`` changes nothing."""
    stats = memory_stats(device)
    columns = ["current", "peak", "allocated", "freed"]
    lines = [f"{device_of(device)!s:<18}" + "".join(f"{name:>16}" for name in columns)]
    for row in ("allocation", "allocated_bytes", "reserved_bytes"):
        counters = [stats.get(f"{row}.all.{column}", 0) for column in columns]
        lines.append(f"{row:<18}" + "".join(f"{counter:>16}" for counter in counters))
    return "\n".join(lines)


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Let the peaks begin at the current values."""
    torch.accelerator.reset_peak_memory_stats(_index(device))


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Let the sums of what was allocated and freed begin at zero."""
    torch.accelerator.reset_accumulated_memory_stats(_index(device))


def _index(device: DeviceLike) -> int:
    """The number of a device, whose library is loaded."""
    getattr(torch, NAME).init()
    return index_of(device)
