"""Tuple flattening: the entry takes arrays and gives arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hlo_tools.ir.module import Module
from hlo_tools.passes.base import Pass
from hlo_tools.rewrite.tuples import flatten_entry

__all__ = ["TupleFlattening"]


@dataclass(frozen=True, slots=True)
class TupleFlattening(Pass):
    """Give the entry one parameter for each array, and a result that is an array or a flat tuple.

    Parts come in order, depth first. Aliases and donated parameters follow; shardings of tuples
    are divided among the parts. Other computations stay as they are.

    Attributes:
        parameters: flatten parameters.
        results: flatten the result.
    """

    name: ClassVar[str] = "tuple-flattening"
    ensures: ClassVar[tuple[str, ...]] = ("flat-entry",)

    parameters: bool = True
    results: bool = True

    def run(self, module: Module) -> bool:
        return flatten_entry(module, parameters=self.parameters, results=self.results)
