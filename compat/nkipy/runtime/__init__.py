"""``nkipy.runtime``: NumPy functions compiled to a NEFF and run from it."""

from neff.nkipy_runtime import (
    DeviceKernel,
    DeviceTensor,
    baremetal_jit,
    baremetal_run_traced_kernel,
    is_neuron_compatible,
)

__all__ = [
    "DeviceKernel",
    "DeviceTensor",
    "baremetal_jit",
    "baremetal_run_traced_kernel",
    "is_neuron_compatible",
]
