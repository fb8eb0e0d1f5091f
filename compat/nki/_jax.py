"""``nki._jax``: kernels on JAX arrays. Imports JAX."""

from hlo_tools.frameworks.jax_kernel import JaxKernel, nki_call_p

__all__ = ["JaxKernel", "nki_call_p"]
