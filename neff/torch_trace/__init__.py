"""``torch_neuronx.trace``: a PyTorch function or module compiled ahead of time into one NEFF.

Importing this module imports torch; tracing imports torch_xla where it is installed.
"""

from neff.torch_trace.tracing import TracedModel, trace

__all__ = ["TracedModel", "trace"]
