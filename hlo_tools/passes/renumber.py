"""Renumber: dense instruction ids in one of the two schemes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from hlo_tools.ir.module import Module
from hlo_tools.ir.renumbering import set_ids
from hlo_tools.passes.base import Pass

__all__ = ["Renumber"]


@dataclass(frozen=True, slots=True)
class Renumber(Pass):
    """Number instructions anew, densely, in the file's order.

    Attributes:
        ids: ``wide`` (as XLA since 2025-09) or ``legacy`` (small numbers; older readers take no
            others).
    """

    name: ClassVar[str] = "renumber"

    ids: Literal["wide", "legacy"] = "wide"

    def run(self, module: Module) -> bool:
        before = [
            row.id for computation in module.proto.computations for row in computation.instructions
        ]
        set_ids(module, self.ids)
        return before != [
            row.id for computation in module.proto.computations for row in computation.instructions
        ]
