"""Dynamic slices, and the runtime index of a view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nki_lang.ir import Access, Register

if TYPE_CHECKING:
    from nki_lang.frontend.registers import VirtualRegister

__all__ = ["DynamicSlice", "Index", "ds"]


class DynamicSlice(NamedTuple):
    """``nl.ds(start, size)``: ``size`` elements from ``start``, which may be a register."""

    start: Any
    size: int


def ds(start: int | VirtualRegister, size: int) -> DynamicSlice:
    """A slice of ``size`` elements that begins at ``start`` (an integer or a register).

    Args:
        start: the first value (the end, when it is the only argument).
        size: how many elements, an integer.

    Returns:
        DynamicSlice: what an index takes.

    Source: nl.ds (nki/api/nki/language, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        part = a[:, nl.ds(128, 64)]
    """
    return DynamicSlice(start, size)


class Index(NamedTuple):
    """The dynamic part of a view.

    Attributes:
        scalar: a register or a one-element access, or None.
        vector: an access with one index for each element of a dimension, or None.
        step: elements of the view's dtype that one index counts for.
        dim: dimension of the view that the vector indexes (0 gather, 1 tensor indirection).
        storage_dim: dimension of the storage's shape with that step, or -1.
    """

    scalar: Register | Access | None
    vector: Access | None
    step: int
    dim: int
    storage_dim: int
