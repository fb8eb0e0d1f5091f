"""``nki._torch_xla``: kernels on PyTorch/XLA tensors. Imports torch_xla."""

from hlo_tools.frameworks.torch_xla_kernel import PyTorchXLAKernel

__all__ = ["PyTorchXLAKernel"]
