"""Strings and bytes across PJRT's C interface: an address and a length, no closing NUL."""

from __future__ import annotations

import ctypes
from functools import cache

__all__ = ["constant", "data_at", "text_at"]


@cache
def constant(text: str) -> tuple[int, int]:
    """(address, length) of a string that lives as long as the process; for a fixed vocabulary."""
    encoded = text.encode()
    buffer = ctypes.create_string_buffer(encoded)
    _LIVE_STRINGS.append(buffer)
    return ctypes.addressof(buffer), len(encoded)


_LIVE_STRINGS: list[ctypes.Array[ctypes.c_char]] = []


def data_at(address: int | None, size: int) -> bytes:
    """A copy of ``size`` bytes at an address; nothing for a null address."""
    return ctypes.string_at(address, size) if address and size else b""


def text_at(address: int | None, size: int) -> str:
    """The UTF-8 text at an address."""
    return data_at(address, size).decode("utf-8", "replace")
