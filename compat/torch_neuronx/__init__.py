"""``torch_neuronx``: NKI kernels as PyTorch operators, tracing, and the torch device "neuron"."""

import nki

from hlo_tools.frameworks.torch_operator import nki_op
from hlo_tools.torch_device import device as torch_device
from hlo_tools.torch_device.memory import (
    max_memory_allocated,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_peak_memory_stats,
)
from neff.runtime.beta1_versions import nki_jit
from neff.torch_graph import backend
from neff.torch_trace import (
    DataParallel,
    analyze,
    async_load,
    dynamic_batch,
    install_load,
    lazy_load,
    move_trace_to_device,
    replace_weights,
    trace,
)

torch_device.install()
backend.register()
install_load()

__all__ = [
    "DataParallel",
    "analyze",
    "async_load",
    "dynamic_batch",
    "lazy_load",
    "max_memory_allocated",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "move_trace_to_device",
    "nki",
    "nki_jit",
    "nki_op",
    "replace_weights",
    "reset_peak_memory_stats",
    "trace",
]
