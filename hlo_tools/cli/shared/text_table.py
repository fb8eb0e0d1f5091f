"""Fitting a table into a terminal: long texts are shortened, then the last columns are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Layout", "fit_columns", "shortened"]

GAP = 2
"""Characters between columns."""
MIN_TEXT_WIDTH = 8
"""Texts are not shortened below this number of characters."""
_ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns of a table are shown, and how wide.

    Attributes:
        widths: width of each shown column, in characters; the shown columns are the first ones.
        hidden: number of columns at the end that are not shown.
    """

    widths: tuple[int, ...]
    hidden: int


def fit_columns(widths: Sequence[int], can_shrink: Sequence[bool], limit: int) -> Layout:
    """Return the layout of a table that is at most ``limit`` characters wide.

    The widest texts become shorter first, so that short columns stay complete. Columns that
    cannot shrink (numbers) keep their width. If the narrowest form is still too wide, columns at
    the end are left out; the first column is always shown.

    Args:
        widths: characters that each column needs.
        can_shrink: whether a column's cells may be shortened.
        limit: characters of a line.
    """
    shown = len(widths)
    while shown > 1 and _narrowest(widths[:shown], can_shrink[:shown]) > limit:
        shown -= 1
    return Layout(_shrunk(widths[:shown], can_shrink[:shown], limit), len(widths) - shown)


def _narrowest(widths: Sequence[int], can_shrink: Sequence[bool]) -> int:
    smallest = (
        min(width, MIN_TEXT_WIDTH) if shrinks else width
        for width, shrinks in zip(widths, can_shrink, strict=True)
    )
    return sum(smallest) + GAP * (len(widths) - 1)


def _shrunk(widths: Sequence[int], can_shrink: Sequence[bool], limit: int) -> tuple[int, ...]:
    """Widths with one common upper bound for texts, the largest bound that fits."""
    excess = sum(widths) + GAP * (len(widths) - 1) - limit
    if excess <= 0:
        return tuple(widths)
    texts = sorted(
        (width for width, shrinks in zip(widths, can_shrink, strict=True) if shrinks), reverse=True
    )
    for count, width in enumerate(texts, 1):
        next_width = texts[count] if count < len(texts) else 0
        bound = width - -(-excess // count)
        if bound >= next_width:
            break
        excess -= count * (width - next_width)
    else:
        bound = MIN_TEXT_WIDTH
    bound = max(bound, MIN_TEXT_WIDTH)
    return tuple(
        min(width, bound) if shrinks else width
        for width, shrinks in zip(widths, can_shrink, strict=True)
    )


def shortened(text: str, width: int) -> str:
    """Return a text of at most ``width`` characters, without its middle.

    A path keeps more of its end, because its file name and line distinguish it.
    """
    if len(text) <= width:
        return text
    remaining = max(width - len(_ELLIPSIS), 0)
    is_path = "/" in text and " " not in text
    start = remaining // 4 if is_path else (remaining + 1) // 2
    return text[:start] + _ELLIPSIS * (width > 0) + text[len(text) - (remaining - start) :]
