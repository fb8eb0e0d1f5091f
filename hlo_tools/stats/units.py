"""Numbers as people read them."""

from __future__ import annotations

__all__ = ["bytes_text", "share_text", "time_text"]


def bytes_text(size: float) -> str:
    """Bytes in the largest binary unit of which there is at least one."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024 or unit == "GiB":
            return f"{size:,.0f} B" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    raise AssertionError


def time_text(seconds: float) -> str:
    """Seconds in a unit of which there is at least one, with three digits."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds >= 1 / scale:
            return f"{seconds * scale:.3g} {unit}" if seconds * scale < 1000 else f"{seconds * scale:,.0f} {unit}"  # fmt: skip
    return f"{seconds * 1e9:.3g} ns"


def share_text(amount: float, total: float) -> str:
    """A share in percent."""
    return f"{amount / total:.1%}" if total else "-"
