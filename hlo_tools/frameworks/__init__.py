"""Kernels inside frameworks: the general mechanism, and one kind a framework.

Importing this package imports no framework. A kind is imported when a kernel is first called
with that framework's tensors, or when its module is imported by name:

* :mod:`~hlo_tools.frameworks.numpy_kernel`, :mod:`~hlo_tools.frameworks.jax_kernel`,
  :mod:`~hlo_tools.frameworks.torch_kernel`, :mod:`~hlo_tools.frameworks.torch_xla_kernel`
"""

from hlo_tools.frameworks.framework_kernel import FrameworkKernel, clear_cache
from hlo_tools.frameworks.plan import BoundCall, CallPlan, TensorSpec

__all__ = ["BoundCall", "CallPlan", "FrameworkKernel", "TensorSpec", "clear_cache"]
