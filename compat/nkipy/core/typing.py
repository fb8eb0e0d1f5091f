"""``nkipy.core.typing``: names for annotations."""

from nki.typing import mutable_tensor, tensor

__all__ = ["mutable_tensor", "tensor"]
