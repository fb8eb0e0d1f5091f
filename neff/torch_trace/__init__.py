"""``torch_neuronx.trace``: a PyTorch function or module compiled ahead of time into one NEFF.

Importing this module imports torch; tracing imports torch_xla where it is installed.
"""

from neff.torch_trace.models import (
    DataParallel,
    analyze,
    async_load,
    dynamic_batch,
    install_load,
    lazy_load,
    load,
    move_trace_to_device,
    replace_weights,
)
from neff.torch_trace.tracing import TracedModel, trace

__all__ = [
    "DataParallel",
    "TracedModel",
    "analyze",
    "async_load",
    "dynamic_batch",
    "install_load",
    "lazy_load",
    "load",
    "move_trace_to_device",
    "replace_weights",
    "trace",
]
