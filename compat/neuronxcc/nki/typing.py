"""``neuronxcc.nki.typing``: the names of :mod:`nki.typing`."""

from nki.typing import mutable_tensor, tensor

__all__ = ["mutable_tensor", "tensor"]
