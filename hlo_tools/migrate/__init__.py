"""Kernels of earlier versions of NKI, rewritten for the current one, with a proof of the result."""
