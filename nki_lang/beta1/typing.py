"""``neuronxcc.nki.typing``: annotations of tensors in NKI beta 1, and arguments without values."""

from __future__ import annotations

from nki_lang.base.dtypes import dtype_of
from nki_lang.beta1.values import Value
from nki_lang.frontend.objects import is_sequence
from nki_lang.tracing.arguments import TensorSpec

__all__ = ["immutable", "mutable", "mutable_tensor", "scalar", "tensor"]


class tensor:
    """``tensor[128, 512]``, ``tensor[mutable]``: annotations of arguments and variables.

    ``tensor[[128, 512], nl.float32]`` is an argument without values for ``nki.benchmark`` and
    ``nki.profile`` (nki/examples/prof-kernel-profile.py, SDK 2.26).
    """

    def __class_getitem__(cls, entries: Value) -> type[tensor] | TensorSpec:
        if not is_sequence(entries) or len(entries) != 2 or not is_sequence(entries[0]):
            return cls
        shape: tuple[int, ...] = tuple(map(int, entries[0]))
        return TensorSpec(shape, dtype_of(entries[1]))


class mutable_tensor(tensor):
    """A tensor argument that the kernel writes."""


class mutable:
    """Marks a tensor that the kernel writes: ``tensor[mutable]``."""


class immutable:
    """Marks a tensor that the kernel reads."""


class scalar:
    """The annotation of a number."""
