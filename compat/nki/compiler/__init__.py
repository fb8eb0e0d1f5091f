"""``nki.compiler``: compiling kernels without calling them."""

from nki.compiler import frontend, kernel_builder, ncc_driver

__all__ = ["frontend", "kernel_builder", "ncc_driver"]
