"""The answer to modules of NKI beta 1 (``neuronxcc.nki``) whose sources are not public."""

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
        f"[NKI-OLD-NAMESPACE] {name} of NKI beta 1 has no published source\n"
        "  help: copy the kernel from nki-samples (src/nki_samples/reference) into your program; "
        "neuronxcc.nki, its language, isa, compiler and typing are here",
        name=name,
    )
