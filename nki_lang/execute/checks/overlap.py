"""Tensors at fixed addresses that overwrite each other's live data."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lang.execute.checks.base import Check, reads_of, writes_of
from nki_lang.execute.checks.report import Finding
from nki_lang.ir.types import Access, Instruction
from nki_lang.memory import MemoryRegion
from nki_lang.source import SourceLocation

__all__ = ["OverlapCheck"]

_WORD = 4
"""Owners are kept for words of so many bytes; addresses on chip are aligned to them."""


class OverlapCheck(Check):
    """Finds reads of bytes that another tensor at the same address overwrote.

    Every write through a tensor makes it the owner of those bytes. Reading through a tensor
    bytes that it once owned and another owns now is a finding, once for each pair of lines.
    """

    name = "overlap"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._owners: dict[MemoryRegion, np.ndarray[Any, Any]] = {}
        self._numbers: dict[str, int] = {}
        self._names: list[str] = [""]
        self._written_at: dict[str, SourceLocation | None] = {}
        self._findings: dict[Any, Finding] = {}

    def concerns(self, instruction: Instruction) -> bool:
        """Some tensor lies at an address."""
        for value in instruction.operands.values():
            if type(value) is Access:
                if value.tensor.address is not None:
                    return True
            elif type(value) is tuple:
                return True
        return False

    def before(self, instruction: Instruction) -> None:
        """Look at who owns what is read."""
        for name, access in reads_of(instruction):
            if self._placed(access) and access.tensor.name in self._numbers:
                self._look(instruction, name, access)

    def after(self, instruction: Instruction) -> None:
        """Enter the owner of what was written."""
        for _, access in writes_of(instruction):
            if self._placed(access):
                tensor = access.tensor.name
                if tensor not in self._numbers:
                    self._numbers[tensor] = len(self._names)
                    self._names.append(tensor)
                self._window(access)[...] = self._numbers[tensor]
                self._written_at[tensor] = instruction.location

    def _placed(self, access: Access) -> bool:
        return (
            access.tensor.on_chip
            and access.tensor.address is not None
            and access.vector_offset is None
        )

    def _window(self, access: Access) -> np.ndarray[Any, Any]:
        """Owner of the word that each element of the access lies in."""
        storage = self.memory.storage(access.tensor)
        owners = self._owners.get(access.tensor.buffer)
        if owners is None:
            owners = np.zeros(storage.data.size // _WORD, np.uint16)
            self._owners[access.tensor.buffer] = owners
        layout = self.memory.layout(access)
        if layout.offset % _WORD == 0 and all(s % _WORD == 0 for s in layout.strides):
            scale = np.dtype(np.uint16).itemsize / _WORD
            return np.ndarray(
                layout.shape,
                np.uint16,
                owners,
                int(layout.offset * scale),
                tuple(int(stride * scale) for stride in layout.strides),
            )
        return _Scattered(owners, layout.offset, layout.shape, layout.strides)  # type: ignore[return-value]

    def _look(self, instruction: Instruction, operand: str, access: Access) -> None:
        owners = np.asarray(self._window(access)[...])
        own = self._numbers[access.tensor.name]
        foreign = (owners != own) & (owners != 0)
        if not foreign.any():
            return
        index = tuple(int(i) for i in np.unravel_index(int(np.argmax(foreign)), foreign.shape))
        other = self._names[int(owners[index])]
        key = (instruction.location, access.tensor.name, other)
        if key in self._findings:
            return
        place = ", ".join(str(part) for part in index)
        self._findings[key] = Finding(
            self.name,
            "NKI-OVERLAP",
            f"{instruction.op} reads element [{place}] of {operand}, tensor "
            f"{access.tensor.name!r} at {access.tensor.address}, but {other!r} at an overlapping "
            f"address was written there since, at {self._written_at[other]}",
            instruction.location,
            "move one of the two tensors, or finish with the first before the second is written",
            {"tensor": access.tensor.name, "overwritten_by": other, "index": list(index)},
        )

    def finish(self) -> list[Finding]:
        """In program order."""
        return list(self._findings.values())


class _Scattered:
    """A window over words for accesses that are not aligned to words."""

    def __init__(
        self,
        owners: np.ndarray[Any, Any],
        offset: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> None:
        place = np.full(shape, offset, np.int64)
        for axis, (count, stride) in enumerate(zip(shape, strides, strict=True)):
            line = np.arange(count) * stride
            place += line.reshape(-1, *(1,) * (len(shape) - axis - 1))
        self._words = place // _WORD
        self._owners = owners

    def __getitem__(self, _: Any) -> np.ndarray[Any, Any]:
        return self._owners[self._words]

    def __setitem__(self, _: Any, value: Any) -> None:
        self._owners[self._words] = value
