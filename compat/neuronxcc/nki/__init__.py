"""``neuronxcc.nki``: NKI beta 1; the language is in :mod:`nki_lang.beta1`."""

from importlib import import_module
from typing import Any

import nki as _current  # installs the calls with tensors of frameworks  # noqa: F401

from hlo_tools.frameworks import FrameworkKernel
from nki_lang.beta1 import compiler, isa, language, typing
from nki_lang.beta1.kernel import jit, simulate_kernel, trace
from nki_lang.beta1.tile import Tile as tensor

__all__ = [
    "FrameworkKernel", "baremetal", "benchmark", "compiler", "isa", "jit", "language", "profile",
    "simulate_kernel", "tensor", "trace", "typing",
]  # fmt: skip


def baremetal(kernel: Any = None, **kwargs: Any) -> Any:
    """Run the kernel on NumPy arrays; options about files have no effect."""
    return jit(kernel, mode="baremetal", **kwargs)


def __getattr__(name: str) -> Any:
    """``benchmark`` and ``profile``, which bring the timing model."""
    if name in ("benchmark", "profile"):
        return getattr(import_module("neff.runtime.beta1_versions"), name)
    raise AttributeError(f"module 'neuronxcc.nki' has no attribute {name!r}")
