"""``torch_neuronx``: NKI kernels as PyTorch operators, tracing, and the torch device "neuron"."""

import nki

from hlo_tools.frameworks import torch_device
from hlo_tools.frameworks.torch_operator import nki_op
from neff.torch_graph import backend
from neff.torch_trace import trace

nki_jit = nki.jit

torch_device.install()
backend.register()

__all__ = ["nki", "nki_jit", "nki_op", "trace"]
