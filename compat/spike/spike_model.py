"""``spike.spike_model``."""

from neff.runtime.spike_api import BenchmarkResult, SpikeModel

__all__ = ["BenchmarkResult", "SpikeModel"]
