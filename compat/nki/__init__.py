"""NKI, as scripts import it: names handed on from the open toolchain."""

import sys
from importlib import import_module

from hlo_tools.frameworks import FrameworkKernel, dispatch, finalization
from neff.device import activation
from nki import collectives, dtype, isa, language, typing
from nki_lang.kernel import Kernel, jit, simulate

__version__ = "0.7.0"
"""The version of NKI whose language this is; scripts compare it."""

dispatch.install()
finalization.set_guard(lambda handler: import_module("neff.device.pjrt.entry").guarded(handler))
if activation.asked_for() or activation.executor_is_chosen() or activation.artifacts_are_wanted():
    numpy_calls = import_module("neff.device.frameworks.numpy_calls")
    if numpy_calls.is_wanted():
        numpy_calls.install()
if "torch_xla" in sys.modules:
    import_module("neff.device.frameworks.torch_selection").select_device()

__all__ = [
    "FrameworkKernel",
    "Kernel",
    "collectives",
    "dtype",
    "isa",
    "jit",
    "language",
    "simulate",
    "typing",
]


def __getattr__(name: str) -> object:
    """``benchmark`` and ``profile`` of earlier versions."""
    if name in ("benchmark", "profile"):
        return getattr(import_module("neff.runtime.earlier_versions"), name)
    if name in _REPLACEMENTS:
        raise AttributeError(f"module 'nki' has no attribute {name!r}: {_REPLACEMENTS[name]}")
    raise AttributeError(f"module 'nki' has no attribute {name!r}")


_REPLACEMENTS = {
    "simulate_kernel": "write nki.simulate(kernel)(*arrays) instead of simulate_kernel(kernel, *arrays)",
    "baremetal": "decorate the kernel with nki.jit and call it with NumPy arrays; nki.benchmark "
    "and nki-neff time report times",
}
"""Names of beta 1 (``neuronxcc.nki``) -> their replacement."""
