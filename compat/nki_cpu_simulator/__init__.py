"""``nki_cpu_simulator``: the name under which test suites look for a simulator of kernels."""

from nki_cpu_simulator import nki

__all__ = ["nki"]
