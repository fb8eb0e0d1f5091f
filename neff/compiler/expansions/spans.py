"""Windows of convolutions and pooling, one dimension at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Span", "spans_of"]


@dataclass(frozen=True, slots=True)
class Span:
    """A window along a dimension, with the fields of HLO's ``WindowDimension``."""

    size: int
    stride: int
    low: int
    high: int
    window_dilation: int
    base_dilation: int
    reversed: bool


def spans_of(window: Any) -> tuple[Span, ...]:
    """Return the spans of a ``Window`` message."""
    return tuple(
        Span(
            dimension.size, max(1, dimension.stride), dimension.padding_low, dimension.padding_high,
            max(1, dimension.window_dilation), max(1, dimension.base_dilation), dimension.window_reversal,
        )
        for dimension in window.dimensions
    )  # fmt: skip
