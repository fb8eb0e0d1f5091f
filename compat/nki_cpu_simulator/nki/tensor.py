"""The tensor of the kernel language."""

from nki_lang.frontend.tensor import NkiTensor

__all__ = ["NkiTensor"]
