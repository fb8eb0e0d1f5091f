"""Differences from the vendor's documentation that stay, with the reason."""

from __future__ import annotations

from types import MappingProxyType

__all__ = ["CHANGED", "EXPLAINED"]

CHANGED: MappingProxyType[str, str] = MappingProxyType(
    {
        "nki.jit": "0.7",  # compile_config, specialization_config
        "nki.isa.activation": "0.7",  # engine, before name
        "nki.isa.activate2": "0.7",
    }
)
"""Dotted name -> the version since which the documentation has other parameters."""

EXPLAINED: MappingProxyType[str, str] = MappingProxyType(
    {
        "nki.language.NkiTensor.reshape": "extents may also be separate arguments, as in NumPy",
        "nki.FrameworkKernel": "published integrations of frameworks import it",
        "nki.Kernel": "the class of what nki.jit returns, for annotations",
        "nki.dtype": "a module of NKI 0.2 that published kernels import",
        "nki.typing": "a module of NKI 0.2 that published kernels import",
        "nki.language._TileSize": "the class of nl.tile_size, as the stub names it",
        "nki.isa.barrier": "published kernels call it; it waits as nisa.core_barrier over all cores",
        "nki.compiler.frontend": "a module that published test frameworks import",
        "nki.compiler.kernel_builder": "a module that published test frameworks import",
        "nki.compiler.ncc_driver": "a module that published test frameworks import",
    }
)
"""Dotted name -> why it differs."""
