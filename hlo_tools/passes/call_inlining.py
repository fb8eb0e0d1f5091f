"""Call inlining: a call becomes what it calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hlo_tools.ir.module import Module
from hlo_tools.passes.base import Pass
from hlo_tools.rewrite.inlining import MOST_MADE, inline_calls

__all__ = ["CallInlining"]


@dataclass(frozen=True, slots=True)
class CallInlining(Pass):
    """Put the instructions of called computations in the place of calls.

    Composite calls stay. What is called from nowhere afterwards is removed.

    Attributes:
        limit: instructions that an inlined computation has at most; 0 for no limit.
        composites: inline composite calls too.
        most: instructions that are made at most (HLO-INLINE-LIMIT).
    """

    name: ClassVar[str] = "call-inlining"
    ensures: ClassVar[tuple[str, ...]] = ("no-calls",)

    limit: int = 0
    composites: bool = False
    most: int = MOST_MADE

    def run(self, module: Module) -> bool:
        return inline_calls(module, limit=self.limit, composites=self.composites, most=self.most)
