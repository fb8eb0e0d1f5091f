"""Embed: kernel files into the module, or out of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hlo_tools.ir.module import Module
from hlo_tools.passes.base import Pass

__all__ = ["Embed"]


@dataclass(frozen=True, slots=True)
class Embed(Pass):
    """Put the kernel files that a module names into it, so that one file is enough.

    Attributes:
        take_out: write embedded kernels to this folder instead.
    """

    name: ClassVar[str] = "embed"
    ensures: ClassVar[tuple[str, ...]] = ("embedded-kernels",)

    take_out: str = ""

    def run(self, module: Module) -> bool:
        from hlo_tools.kernel_calls import embed, take_out

        if self.take_out:
            return bool(take_out(module, Path(self.take_out)))
        return bool(embed(module, module.folder or Path.cwd()))
