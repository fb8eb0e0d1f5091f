"""``nki.compiler``: compiling kernels without calling them, and the configurations of ``nki.jit``."""

from nki.compiler import frontend, kernel_builder, ncc_driver
from nki_lang.tracing.configuration import AddressRotation, CompileConfig, SpecializationConfig

__all__ = [
    "AddressRotation",
    "CompileConfig",
    "SpecializationConfig",
    "frontend",
    "kernel_builder",
    "ncc_driver",
]
