"""The names of :mod:`nki`, and ``cpu_simulate``."""

from nki import *  # noqa: F403
from nki import __all__ as _names

from hlo_tools.frameworks.simulated import cpu_simulate

__all__ = [*_names, "cpu_simulate"]
