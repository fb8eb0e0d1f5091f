"""``nki.typing``: names for annotations of kernel parameters."""

from nki_lang.frontend.tensor import NkiTensor

tensor = mutable_tensor = NkiTensor

__all__ = ["mutable_tensor", "tensor"]
