"""``spike.spike_singleton``."""

from neff.runtime.spike_api import configure, get_spike_singleton, reset

__all__ = ["configure", "get_spike_singleton", "reset"]
