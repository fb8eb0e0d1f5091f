"""The order inside one instruction, where the language promises none.

* One DMA transfer is spread over up to 16 engines (get-started, nki-dma-overview), so its elements
  move in any order: a transfer that reads what it overwrites, or that writes one location twice with
  different values, has no defined result.
* ``dma_compute`` needs unique indices (isa stub, ``unique_indices``).
* Compute engines stream elements. No source promises that an element is read before another
  element's result overwrites it, except that a tile may be both source and destination.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from nki_lang.analysis.regions import may_overlap
from nki_lang.base.dtypes import Array
from nki_lang.execute.checks.base import Step
from nki_lang.execute.checks.report import Finding
from nki_lang.execute.memory import Memory
from nki_lang.ir.types import Access, Instruction
from nki_lang.semantics import TRAITS
from nki_lang.semantics.numbers import convert

__all__ = ["InstructionOrder", "is_suspect"]

_DMA_OPS = frozenset({"dma_copy", "dma_transpose", "dma_compute"})
_DMA_REASON = "up to 16 DMA engines move one transfer in parallel"
_STREAM_REASON = "the engine streams elements"


def is_suspect(instruction: Instruction) -> bool:
    """Return True if the result could depend on an element order that is not guaranteed."""
    op = instruction.op
    is_dma = op in _DMA_OPS
    if not is_dma and not TRAITS[op].elementwise:
        return False
    dst = instruction.operands.get("dst")
    if type(dst) is not Access:
        return False
    if is_dma and (dst.vector_offset is not None or _writes_twice(dst)):
        return True
    for value in instruction.operands.values():
        if value is dst:
            continue
        if type(value) is Access:
            if value.tensor.name == dst.tensor.name and (value != dst or op == "dma_transpose"):
                return True
        elif type(value) is tuple and any(_reaches(entry, dst) for entry in value):  # pyright: ignore[reportUnknownVariableType]
            return True
    return op == "dma_transpose" and instruction.operands["src"] is dst


def _reaches(value: Any, dst: Access) -> bool:
    if type(value) is tuple:
        return any(_reaches(entry, dst) for entry in value)  # pyright: ignore[reportUnknownVariableType]
    return type(value) is Access and value.tensor.name == dst.tensor.name and value != dst


def _writes_twice(access: Access) -> bool:
    return any(step == 0 and count > 1 for step, count in access.pattern)


class InstructionOrder:
    """One suspect instruction, examined before and after it executes."""

    def __init__(self, memory: Memory, step: Step) -> None:
        self.memory = memory
        self.instruction = step.instruction
        self.dst: Access = step.instruction.operands["dst"]
        self.transfer = step.instruction.op in _DMA_OPS
        self.sources = [
            (name, access, self._bytes(access))
            for name, access in step.reads
            if name != "dst" and self._matters(access)
        ]

    def findings(self) -> list[Finding]:
        """Return the findings of the executed instruction."""
        findings = [
            finding
            for name, access, before in self.sources
            if (finding := self._overwritten(name, access, before)) is not None
        ]
        if not findings and self.transfer:
            findings += self._written_twice()
        return findings

    def _matters(self, access: Access) -> bool:
        """Return True if the source may share elements with the destination and is in another
        location.
        """
        if prod(access.shape) != prod(self.dst.shape) or not may_overlap(access, self.dst):
            return False
        return self.instruction.op == "dma_transpose" or _walk(access) != _walk(self.dst)

    def _bytes(self, access: Access) -> Array:
        return np.array(self.memory.read(access, skip=True))

    def _overwritten(self, name: str, access: Access, before: Array) -> Finding | None:
        after = self._bytes(access)
        index = _first_difference(before, after)
        if index is None:
            return None
        tensor = access.tensor.name
        why = _DMA_REASON if self.transfer else _STREAM_REASON
        return self._finding(
            f"{self.instruction.op} reads {tensor!r} and writes over what it reads: element "
            f"[{_shown(index)}] of {name} changes, and {why}, so it is undefined whether the old "
            "or the new value is read",
            "write to another tile, and copy it back if it must be in place",
            {"tensor": tensor, "operand": name, "index": list(index), "order": "instruction"},
        )

    def _written_twice(self) -> list[Finding]:
        """Return a finding if two elements with different values went to one location."""
        dst = self.dst
        if self.instruction.op == "dma_compute":
            return self._equal_indices() if dst.vector_offset is not None else []
        if self.instruction.op != "dma_copy":
            return []
        if dst.vector_offset is None and not _writes_twice(dst):
            return []
        if dst.vector_offset is None:
            index = _first_difference(*self._expected_and_stored())
            return [] if index is None else [self._twice(index, None)]
        rows = self.memory.rows(dst, skip=True)
        pairs = _pairs(rows.index[0], rows.good)
        if not pairs:
            return []
        expected, _ = self._expected_and_stored()
        firsts, seconds = map(list, zip(*pairs, strict=True))
        index = _first_difference(expected[firsts], expected[seconds])
        if index is None:
            return []
        return [self._twice(pairs[index[0]], int(rows.index[0][seconds[index[0]]]))]

    def _expected_and_stored(self) -> tuple[Array, Array]:
        """Return the values to write, in the destination's type, and the values that are stored
        now.
        """
        source = self.memory.read(self.instruction.operands["src"], skip=True)
        stored = self.memory.read(self.dst, skip=True)
        return convert(source, stored.dtype).reshape(stored.shape), stored

    def _equal_indices(self) -> list[Finding]:
        rows = self.memory.rows(self.dst, skip=True)
        index = rows.index[0]
        for first, second in _pairs(index, rows.good):
            return [
                self._finding(
                    f"dma_compute adds its rows {first} and {second} to the same row "
                    f"{int(index[second])} of {self.dst.tensor.name!r}; both may read the old sum, "
                    "and one addition is lost",
                    "indices of dma_compute are unique (unique_indices); add equal rows beforehand",
                    {"tensor": self.dst.tensor.name, "rows": [first, second],
                     "index": int(index[second]), "order": "instruction"},
                )
            ]  # fmt: skip
        return []

    def _twice(self, index: tuple[int, ...], row: int | None) -> Finding:
        tensor = self.dst.tensor.name
        action = (
            f"writes element [{_shown(index)}] of dst to a location of {tensor!r} that it writes again"
            if row is None
            else f"scatters its rows {index[0]} and {index[1]}, which differ, to the same row {row} "
            f"of {tensor!r}"
        )
        return self._finding(
            f"{self.instruction.op} {action}; {_DMA_REASON}, so it is undefined which value remains",
            "make the indices unique" if row is not None else "write every element once",
            {"tensor": tensor, "index": list(index), "row": row, "order": "instruction"},
        )

    def _finding(self, message: str, remedy: str, details: dict[str, object]) -> Finding:
        location = self.instruction.location
        return Finding("races", "NKI-RACE", message, location, remedy, details)


def _walk(access: Access) -> tuple[Any, ...]:
    """Return the locations of the elements in order, independent of how the dimensions are
    split.
    """
    dims: list[tuple[int, int]] = []
    for step, count in access.pattern:
        if count == 1:
            continue
        if dims and dims[-1][0] == step * count:
            dims[-1] = (step, dims[-1][1] * count)
        else:
            dims.append((step, count))
    return (access.offset, tuple(dims), access.scalar_offset, access.vector_offset)


def _pairs(index: Array, good: Array) -> list[tuple[int, int]]:
    """Return pairs of consecutive rows with equal existing indices."""
    positions = np.flatnonzero(good)
    values = index[positions]
    order = np.argsort(values, kind="stable")
    same = np.flatnonzero(values[order][1:] == values[order][:-1])
    firsts, seconds = positions[order[same]], positions[order[same + 1]]
    return sorted(zip(firsts.tolist(), seconds.tolist(), strict=True), key=lambda pair: pair[1])


def _first_difference(first: Array, second: Array) -> tuple[int, ...] | None:
    """Return the index of the first element whose bytes differ; None if there is none."""
    kind = f"u{first.dtype.itemsize}"
    first_bits = np.ascontiguousarray(first).view(kind)
    second_bits = np.ascontiguousarray(second).view(kind)
    different = first_bits != second_bits
    if not different.any():
        return None
    position = np.unravel_index(int(np.argmax(different)), different.shape)
    return tuple(int(coordinate) for coordinate in position)


def _shown(index: tuple[int, ...]) -> str:
    return ", ".join(map(str, index))
