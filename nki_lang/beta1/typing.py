"""``neuronxcc.nki.typing``: annotations of tensors in NKI beta 1. They have no effect."""

from __future__ import annotations

from nki_lang.beta1.values import Value

__all__ = ["immutable", "mutable", "mutable_tensor", "scalar", "tensor"]


class tensor:
    """``tensor[128, 512]``, ``tensor[mutable]``: annotations of arguments and variables."""

    def __class_getitem__(cls, entries: Value) -> type[tensor]:
        return cls


class mutable_tensor(tensor):
    """A tensor argument that the kernel writes."""


class mutable:
    """Marks a tensor that the kernel writes: ``tensor[mutable]``."""


class immutable:
    """Marks a tensor that the kernel reads."""


class scalar:
    """The annotation of a number."""
