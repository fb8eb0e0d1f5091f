"""Which instruction first made a value that is not finite."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nki_lang.dtypes import Array, DType
from nki_lang.execute.checks.base import Check, Step
from nki_lang.execute.checks.report import Finding
from nki_lang.ir.types import Access, Instruction, Tensor
from nki_lang.memory import MemoryRegion
from nki_lang.semantics import TRAITS

__all__ = ["FiniteCheck", "first_not_finite"]


_PLACED = "sbuf at addresses", "psum at addresses"


class FiniteCheck(Check):
    """Finds instructions that make NaN or infinity out of finite numbers, once a line."""

    name = "finite"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._findings: dict[Any, Finding] = {}
        self._clean = True
        self._later: list[Access] = []
        self._sound: dict[str, DType | None] = {}
        self._aliased: bool | None = None

    def before(self, step: Step) -> None:
        """Look at what is read and will not be there afterwards; at the rest when a result is bad."""
        self._later, instruction = [], step.instruction
        self._clean = not any(map(_given, instruction.operands.values()))
        if not self._clean:
            return
        hit = [self._home(access.tensor) for _, access in step.writes]
        waits = "state" in TRAITS[instruction.op].injected  # for others, who may write
        for _, access in step.reads:
            if not waits and not self._may_change(access, hit):
                self._later.append(access)
            elif not self._is_sound(access) and _is_bad(access, self.value):
                self._clean = False
                return

    def _may_change(self, read: Access, hit: list[str]) -> bool:
        """Whether writes there may change what is read, or where it is read."""
        if self._home(read.tensor) in hit:
            return True
        if not read.is_dynamic:
            return False
        offsets = read.scalar_offset, read.vector_offset
        return any(type(one) is Access and self._home(one.tensor) in hit for one in offsets)

    def _home(self, tensor: Tensor) -> str:
        """A name for the memory that the tensor has alone, or may share with others."""
        buffer = tensor.buffer
        if buffer is MemoryRegion.sbuf or buffer is MemoryRegion.psum:
            return tensor.name if tensor.address is None else _PLACED[buffer is MemoryRegion.psum]
        if self._aliased is None:
            self._aliased = bool(self.memory.aliases())
        return "hbm" if self._aliased else tensor.name

    def after(self, step: Step) -> None:
        """Look at what was written, and where it came from."""
        clean = self._clean
        for name, access in step.writes:
            kind = access.element_type
            if not clean or not kind.is_float or kind.kind == "packed":
                self._sound[self._home(access.tensor)] = None
                continue
            value = self.value(access)
            index = first_not_finite(value)
            self._enter(access, sound=index is None)
            if index is None:
                continue
            if any(_is_bad(read, self.value) for read in self._later):
                clean = False
            else:
                self._add(step.instruction, name, access.tensor.name, index, value)

    def _enter(self, access: Access, *, sound: bool) -> None:
        """Note whether all that was ever written there is finite, and of one type."""
        home, kind = self._home(access.tensor), access.element_type
        known = self._sound.setdefault(home, kind if sound else None)
        if known is not None and (not sound or known != kind):
            self._sound[home] = None

    def _is_sound(self, access: Access) -> bool:
        """All that was ever written there was looked at and is finite; only this core writes on chip."""
        if not access.tensor.on_chip or access.is_dynamic:
            return False
        kind = self._sound.get(self._home(access.tensor))
        return kind is not None and kind == access.element_type and self._is_written(access)

    def _add(
        self,
        instruction: Instruction,
        operand: str,
        tensor: str,
        index: tuple[int, ...],
        value: Array,
    ) -> None:
        place = (instruction.location, instruction.op)
        if place in self._findings:
            return
        shown = ", ".join(str(part) for part in index)
        self._findings[place] = Finding(
            self.name,
            "NKI-NOT-FINITE",
            f"{instruction.op} computes {float(value[index])} from finite numbers, at element "
            f"[{shown}] of {operand} ({tensor!r})",
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
        """In program order."""
        return list(self._findings.values())


def _given(value: Any) -> bool:
    """The user wrote an infinity or NaN."""
    return isinstance(value, float) and not math.isfinite(value)


def _is_bad(access: Access, value: Callable[[Access], Array]) -> bool:
    """Some element is not finite."""
    return access.element_type.is_float and first_not_finite(value(access)) is not None


def first_not_finite(value: Array) -> tuple[int, ...] | None:
    """Index of the first element that is not finite."""
    if value.dtype.kind in "iub" or value.size == 0 or _surely_finite(value):
        return None
    wide = value if value.dtype == np.float32 else value.astype(np.float32)
    finite = np.isfinite(wide)
    if finite.all():
        return None
    return tuple(int(part) for part in np.unravel_index(int(np.argmin(finite)), finite.shape))


def _surely_finite(value: Array) -> bool:
    """A quick test: the bits of small floats that are not finite are the largest; sums of squares."""
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
    """The least bits of a positive value from which on none is finite; None if there are none such."""
    if dtype.itemsize > 2:
        return None
    bits = np.arange(1 << 8 * dtype.itemsize, dtype=f"u{dtype.itemsize}")
    with np.errstate(invalid="ignore"):  # signalling NaN
        finite = np.isfinite(bits.view(dtype)).reshape(2, -1)
    limit = int(np.count_nonzero(finite[0]))
    ordered = finite[:, :limit].all() and not finite[:, limit:].any()
    return limit if ordered else None
