"""Windows of convolutions and pooling, one dimension at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Span", "spans_of"]


@dataclass(frozen=True, slots=True)
class Span:
    """A window along one dimension, as HLO's ``WindowDimension`` has it."""

    size: int
    stride: int
    low: int
    high: int
    window_dilation: int
    base_dilation: int
    reversed: bool


def spans_of(window: Any) -> tuple[Span, ...]:
    """The spans of a ``Window`` message."""
    return tuple(
        Span(
            one.size, max(1, one.stride), one.padding_low, one.padding_high,
            max(1, one.window_dilation), max(1, one.base_dilation), one.window_reversal,
        )
        for one in window.dimensions
    )  # fmt: skip
