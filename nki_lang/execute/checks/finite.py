"""Which instruction first made a value that is not finite."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nki_lang.dtypes import Array
from nki_lang.execute.checks.base import Check, reads_of, writes_of
from nki_lang.execute.checks.report import Finding
from nki_lang.ir.types import Access, Instruction
from nki_lang.semantics import TRAITS

__all__ = ["FiniteCheck"]


class FiniteCheck(Check):
    """Finds instructions that make NaN or infinity out of finite numbers, once a line."""

    name = "finite"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._findings: dict[Any, Finding] = {}
        self._clean = True
        self._later: list[Access] = []

    def before(self, instruction: Instruction) -> None:
        """Look at what is read and will not be there afterwards; at the rest when a result is bad."""
        self._later = []
        self._clean = not any(map(_given, instruction.operands.values()))
        if not self._clean:
            return
        written = [access for _, access in writes_of(instruction)]
        waits = "state" in TRAITS[instruction.op].injected  # for others, who may write
        for _, access in reads_of(instruction):
            if not access.element_type.is_float:
                continue
            if not waits and not any(self._may_share(access, other) for other in written):
                self._later.append(access)
            elif _bad(self.value(access)) is not None:
                self._clean = False
                return

    def _may_share(self, read: Access, written: Access) -> bool:
        """Whether a write may change what is read, or where it is read."""
        first, second = read.tensor, written.tensor
        if read.is_dynamic or first.name == second.name:
            return True
        if first.address is not None and second.address is not None:
            return first.buffer is second.buffer
        return not first.on_chip and not second.on_chip and bool(self.memory.aliases())

    def after(self, instruction: Instruction) -> None:
        """Look at what was written, and where it came from."""
        if not self._clean:
            return
        for name, access in writes_of(instruction):
            if not access.element_type.is_float or access.element_type.kind == "packed":
                continue
            value = self.value(access)
            index = _bad(value)
            if index is None:
                continue
            if any(_bad(self.value(read)) is not None for read in self._later):
                return
            self._add(instruction, name, access.tensor.name, index, value)

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


def _bad(value: Array) -> tuple[int, ...] | None:
    """Index of the first element that is not finite."""
    if value.dtype.kind in "iub" or value.size == 0:
        return None
    wide = value if value.dtype == np.float32 else value.astype(np.float32)
    finite = np.isfinite(wide)
    if finite.all():
        return None
    return tuple(int(part) for part in np.unravel_index(int(np.argmin(finite)), finite.shape))
