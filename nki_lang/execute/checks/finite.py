"""Check that finds the first instruction that computed a value that is not finite."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nki_lang.base.dtypes import Array, DType
from nki_lang.base.memory import MemoryRegion
from nki_lang.execute.checks.base import Check, Step
from nki_lang.execute.checks.report import Finding
from nki_lang.ir.types import Access, Instruction, Tensor
from nki_lang.semantics import TRAITS

__all__ = ["FiniteCheck", "first_not_finite"]


_ADDRESSED_BUFFER_KEYS = "sbuf at addresses", "psum at addresses"


class FiniteCheck(Check):
    """Finds instructions that compute NaN or infinity from finite numbers, once per source line."""

    name = "finite"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._findings: dict[Any, Finding] = {}
        self._inputs_finite = True
        self._unread: list[Access] = []
        self._finite_types: dict[str, DType | None] = {}
        self._aliased: bool | None = None

    def before(self, step: Step) -> None:
        """Check the inputs that the instruction may overwrite; the other inputs are checked on
        demand.
        """
        self._unread, instruction = [], step.instruction
        self._inputs_finite = not any(map(_is_infinite_immediate, instruction.operands.values()))
        if not self._inputs_finite:
            return
        written_keys = [self._memory_key(access.tensor) for _, access in step.writes]
        waits_for_cores = (
            "state" in TRAITS[instruction.op].injected
        )  # other cores may write meanwhile
        for _, access in step.reads:
            if not waits_for_cores and not self._may_change(access, written_keys):
                self._unread.append(access)
            elif not self._is_known_finite(access) and _is_bad(access, self.value):
                self._inputs_finite = False
                return

    def _may_change(self, read: Access, written_keys: list[str]) -> bool:
        """Return True if writes to these memories may change the elements of the access or its
        index.
        """
        if self._memory_key(read.tensor) in written_keys:
            return True
        if not read.is_dynamic:
            return False
        offsets = read.scalar_offset, read.vector_offset
        return any(
            type(offset) is Access and self._memory_key(offset.tensor) in written_keys
            for offset in offsets
        )

    def _memory_key(self, tensor: Tensor) -> str:
        """Return a key of the memory that the tensor uses, equal for tensors that may share
        bytes.
        """
        buffer = tensor.buffer
        if buffer is MemoryRegion.sbuf or buffer is MemoryRegion.psum:
            return (
                tensor.name
                if tensor.address is None
                else _ADDRESSED_BUFFER_KEYS[buffer is MemoryRegion.psum]
            )
        if self._aliased is None:
            self._aliased = bool(self.memory.aliases())
        return "hbm" if self._aliased else tensor.name

    def after(self, step: Step) -> None:
        """Check the written values; if one is not finite, check the inputs."""
        inputs_finite = self._inputs_finite
        for name, access in step.writes:
            element_type = access.element_type
            if not inputs_finite or not element_type.is_float or element_type.kind == "packed":
                self._finite_types[self._memory_key(access.tensor)] = None
                continue
            value = self.value(access)
            index = first_not_finite(value)
            self._enter(access, is_finite=index is None)
            if index is None:
                continue
            if any(_is_bad(read, self.value) for read in self._unread):
                inputs_finite = False
            else:
                self._add(step.instruction, name, access.tensor.name, index, value)

    def _enter(self, access: Access, *, is_finite: bool) -> None:
        """Record whether all values ever written to this memory are finite and of one type."""
        key, written_type = self._memory_key(access.tensor), access.element_type
        element_type = self._finite_types.setdefault(key, written_type if is_finite else None)
        if element_type is not None and (not is_finite or element_type != written_type):
            self._finite_types[key] = None

    def _is_known_finite(self, access: Access) -> bool:
        """Return True if all values ever written there were checked and are finite; on chip only
        this core writes.
        """
        if not access.tensor.on_chip or access.is_dynamic:
            return False
        kind = self._finite_types.get(self._memory_key(access.tensor))
        return kind is not None and kind == access.element_type and self._is_written(access)

    def _add(
        self,
        instruction: Instruction,
        operand: str,
        tensor: str,
        index: tuple[int, ...],
        value: Array,
    ) -> None:
        key = (instruction.location, instruction.op)
        if key in self._findings:
            return
        position = ", ".join(str(coordinate) for coordinate in index)
        self._findings[key] = Finding(
            self.name,
            "NKI-NOT-FINITE",
            f"{instruction.op} computes {float(value[index])} from finite numbers, at element "
            f"[{position}] of {operand} ({tensor!r})",
            instruction.location,
            "check for a division by zero, an overflow of exp, or a type with too small a range",
            {
                "op": instruction.op,
                "tensor": tensor,
                "index": list(index),
                "count": int(np.count_nonzero(~np.isfinite(value.astype(np.float32)))),
            },
        )

    def finish(self) -> list[Finding]:
        """Return the findings in program order."""
        return list(self._findings.values())


def _is_infinite_immediate(value: object) -> bool:
    """Return True if the user wrote an infinity or NaN as an immediate."""
    return isinstance(value, float) and not math.isfinite(value)


def _is_bad(access: Access, value: Callable[[Access], Array]) -> bool:
    """Return True if an element is not finite."""
    return access.element_type.is_float and first_not_finite(value(access)) is not None


def first_not_finite(value: Array) -> tuple[int, ...] | None:
    """Return the index of the first element that is not finite; None if all are finite."""
    if value.dtype.kind in "iub" or value.size == 0 or _surely_finite(value):
        return None
    wide = value if value.dtype == np.float32 else value.astype(np.float32)
    finite = np.isfinite(wide)
    if finite.all():
        return None
    return tuple(
        int(coordinate) for coordinate in np.unravel_index(int(np.argmin(finite)), finite.shape)
    )


def _surely_finite(value: Array) -> bool:
    """Return True if a cheap test proves that all elements are finite.

    float32: the sum of squares is finite. Small types: the bit patterns of values that are not
    finite are the largest, so a comparison of integers decides.
    """
    if value.dtype == np.float32:
        if not value.flags.c_contiguous:
            return False
        flat = value.reshape(-1)
        with np.errstate(all="ignore"):
            return math.isfinite(float(np.dot(flat, flat)))
    limit = _least_not_finite(value.dtype)
    if limit is None:
        return False
    size = value.dtype.itemsize
    positive = int(value.view(f"i{size}").max()) < limit
    return positive and int(value.view(f"u{size}").max()) < limit + (1 << 8 * size - 1)


@functools.cache
def _least_not_finite(dtype: np.dtype[Any]) -> int | None:
    """Return the smallest positive bit pattern above all finite values; None if there is none."""
    if dtype.itemsize > 2:
        return None
    bits = np.arange(1 << 8 * dtype.itemsize, dtype=f"u{dtype.itemsize}")
    with np.errstate(invalid="ignore"):  # signalling NaN
        finite = np.isfinite(bits.view(dtype)).reshape(2, -1)
    limit = int(np.count_nonzero(finite[0]))
    ordered = finite[:, :limit].all() and not finite[:, limit:].any()
    return limit if ordered else None
