"""The tensor of the kernel language."""

from nki_lang.tensor import NkiTensor

__all__ = ["NkiTensor"]
