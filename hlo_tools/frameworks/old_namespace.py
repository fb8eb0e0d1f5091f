"""The answer to kernels of NKI beta 1, which lived in ``neuronxcc.nki``."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["refuse"]


def refuse(name: str, attribute: str) -> NoReturn:
    """Say how to move on.

    Raises:
        AttributeError: Python itself looked up a dunder name.
        ImportError: anything else.
    """
    if attribute.startswith("__"):
        raise AttributeError(attribute)
    raise ImportError(
        f"[NKI-OLD-NAMESPACE] {name} belongs to NKI beta 1, which this toolchain does not run\n"
        "  help: import nki, nki.language and nki.isa instead of neuronxcc.nki; make tiles with "
        "nl.ndarray(shape, dtype, buffer=nl.sbuf), move data with nisa.dma_copy(dst=, src=), give "
        "every nisa function its dst=, and slice with integers and nl.ds instead of nl.arange and "
        "nl.mgrid",
        name=name,
    )
