"""``nkipy.core.trace``: trace NumPy functions to HLO."""

from hlo_tools.trace.kernel import NKIPyKernel

__all__ = ["NKIPyKernel"]
