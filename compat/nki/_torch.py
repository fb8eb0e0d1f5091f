"""``nki._torch``: kernels on PyTorch CPU tensors. Imports torch."""

from hlo_tools.frameworks.torch_kernel import TorchKernel

__all__ = ["TorchKernel"]
