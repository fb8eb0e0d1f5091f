"""``cpu_simulate``: the simulator under the name and calling form that test suites use."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from nki_lang.kernel import jit, simulate

__all__ = ["SimulatedKernel", "cpu_simulate"]


class SimulatedKernel:
    """``cpu_simulate(kernel)[lnc](**arguments)``.

    NKI_NC_VERSION (``gen2`` to ``gen4``) chooses the family unless
    NEURON_PLATFORM_TARGET_OVERRIDE does.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel if hasattr(kernel, "__getitem__") else jit(kernel)

    def __getitem__(self, lnc: int) -> SimulatedKernel:
        return SimulatedKernel(self._kernel[lnc])

    def __call__(self, *args: object, **kwargs: object) -> Any:
        generation = os.environ.get("NKI_NC_VERSION")
        if generation and not os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE"):
            os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = generation
            try:
                return simulate(self._kernel)(*args, **kwargs)
            finally:
                del os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"]
        return simulate(self._kernel)(*args, **kwargs)


def cpu_simulate(kernel: Callable[..., object]) -> SimulatedKernel:
    """The kernel as a function that the eager interpreter executes on NumPy arrays."""
    return SimulatedKernel(kernel)
