"""Expand: kernel calls become ordinary HLO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hlo_tools.ir.module import Module
from hlo_tools.passes.base import Pass
from hlo_tools.rewrite.errors import PassError

__all__ = ["Expand"]


@dataclass(frozen=True, slots=True)
class Expand(Pass):
    """Put what a kernel computes, written in HLO, in the place of its calls.

    Without arguments every kernel is expanded that hlo_tools.kernel_calls.register_reference
    knows. Results are the reference's.

    Attributes:
        kernel: the kernel's name.
        reference: a file with HLO, or FILE.py:NAME for a NumPy or JAX function.
    """

    name: ClassVar[str] = "expand"

    kernel: str = ""
    reference: str = ""

    def run(self, module: Module) -> bool:
        from hlo_tools.kernel_calls import expand

        if bool(self.kernel) != bool(self.reference):
            raise PassError(
                "expand takes a kernel and its reference, or neither",
                code="HLO-PASS-ARGUMENT",
                remedy="pass kernel=softmax reference=softmax.hlo",
            )
        return bool(expand(module, {self.kernel: self.reference} if self.kernel else None))
