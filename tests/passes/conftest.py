"""The working folder with kernels that the passes on kernel calls need."""

from tests.kernel_calls.conftest import folder

__all__ = ["folder"]
