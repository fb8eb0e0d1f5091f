"""The names of :mod:`nki.compiler`; put in its place, its modules are still found."""

from nki.compiler import __path__, frontend, kernel_builder, ncc_driver

__all__ = ["__path__", "frontend", "kernel_builder", "ncc_driver"]
