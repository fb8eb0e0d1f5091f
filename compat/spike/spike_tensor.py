"""``spike.spike_tensor``."""

from neff.runtime.spike_api import SpikeTensor

__all__ = ["SpikeTensor"]
