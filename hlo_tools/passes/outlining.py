"""Outlining: chosen instructions become a computation of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.passes.base import Pass
from hlo_tools.rewrite.errors import PassError
from hlo_tools.rewrite.inlining import outline

__all__ = ["Outlining"]


@dataclass(frozen=True, slots=True)
class Outlining(Pass):
    """Move instructions of the entry into a computation of their own, and call it.

    They are chosen by name, or by the scope in their metadata's op_name: ``scope=jit(f)/layer_1``
    takes everything that was written under it. What they take from outside becomes parameters.

    Attributes:
        instructions: names.
        scope: beginning of op_name, up to a /.
        called: the new computation's name.
    """

    name: ClassVar[str] = "outlining"
    needs: ClassVar[tuple[tuple[str, ...], ...]] = (("instructions", "scope"),)

    instructions: tuple[str, ...] = ()
    scope: str = ""
    called: str = "outlined"

    def run(self, module: Module) -> bool:
        if bool(self.instructions) == bool(self.scope):
            raise PassError(
                "outlining takes either names of instructions or a scope",
                code="HLO-PASS-ARGUMENT",
                remedy="pass instructions=add.1,multiply.2 or scope=jit(f)/layer_1",
            )
        chosen = self._named(module) if self.instructions else self._scoped(module)
        if chosen:
            outline(chosen, self.called)
        return bool(chosen)

    def _named(self, module: Module) -> list[Instruction]:
        return [module.entry.find(name) for name in self.instructions]

    def _scoped(self, module: Module) -> list[Instruction]:
        scope = self.scope.rstrip("/")
        return [
            view
            for view in module.entry
            if view.opcode != "parameter" and _is_under(view.metadata.op_name, scope)
        ]


def _is_under(name: str, scope: str) -> bool:
    return name == scope or name.startswith(scope + "/")
