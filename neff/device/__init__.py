"""The device "neuron": a PJRT plugin in Python that JAX and torch_xla load.

Every program that a script compiles comes through it. Graph parts run on a private XLA:CPU
client (or, on request, as a NEFF), kernels on our own executor; ``capture`` shows each program to
whoever wants it, extraction among them. It appears only on request: see
:mod:`neff.device.activation`.
"""

from __future__ import annotations

from neff.device import activation
from neff.device.programs import capture

__all__ = ["activation", "capture"]
