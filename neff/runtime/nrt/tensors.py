"""Device memory: tensors without type or shape, and slices of them."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["NrtTensor"]


class NrtTensor:
    """Bytes in the memory of a simulated core.

    Attributes:
        core_id: the logical core.
        size: bytes.
        name: what errors call it.
    """

    __slots__ = ("_data", "core_id", "name", "size")

    def __init__(
        self, data: np.ndarray[Any, np.dtype[np.uint8]], core_id: int, name: str | None
    ) -> None:
        self._data: np.ndarray[Any, np.dtype[np.uint8]] | None = data
        self.core_id = core_id
        self.size = data.size
        self.name = name or "unnamed_tensor"

    @property
    def data(self) -> np.ndarray[Any, np.dtype[np.uint8]] | None:
        """Its bytes, seen and not copied; None when it was freed."""
        return self._data

    @property
    def va(self) -> int:
        """Address of the bytes in this process; 0 when it was freed."""
        return 0 if self._data is None else int(self._data.ctypes.data)

    def drop(self) -> None:
        """Let the bytes go; again is fine."""
        self._data = None

    def __repr__(self) -> str:
        return f"NrtTensor(name={self.name!r}, size={self.size}, core_id={self.core_id})"
