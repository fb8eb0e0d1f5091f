"""Swap: calls of a kernel run another version of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hlo_tools.ir.module import Module
from hlo_tools.passes.base import Pass, needed

__all__ = ["Swap"]


@dataclass(frozen=True, slots=True)
class Swap(Pass):
    """Let calls of a kernel run another one of the same shapes. Results are the new kernel's.

    Attributes:
        calls: the kernel's name, or %CALL for one call.
        kernel: the new kernel's .klir file.
    """

    name: ClassVar[str] = "swap"
    needs: ClassVar[tuple[tuple[str, ...], ...]] = (("calls",), ("kernel",))

    calls: str = ""
    kernel: str = ""

    def run(self, module: Module) -> bool:
        from hlo_tools.kernel_calls import swap

        needed(self)
        return bool(swap(module, self.calls, self.kernel, root=module.folder or Path.cwd()))
