"""Constant folding: what depends on constants alone is evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from hlo_tools.errors import HloError
from hlo_tools.evaluate.evaluator import Evaluator
from hlo_tools.evaluate.limits import Limits
from hlo_tools.evaluate.operation import OPERATIONS
from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.passes.base import Pass
from hlo_tools.rewrite.effects import effectful_computations, is_pure
from hlo_tools.rewrite.emitting import constant
from hlo_tools.rewrite.errors import PassError
from hlo_tools.rewrite.patterns import sweep
from hlo_tools.types.element_types import Array
from hlo_tools.types.opcodes import opcodes_with

__all__ = ["ConstantFolding"]

_NEVER = frozenset(
    {"parameter", "constant", "custom-call", "while", "infeed", "outfeed", "bitcast", "copy",
     "partition-id", "replica-id", "rng-bit-generator", "fusion", "opt-barrier", "domain",
     "stochastic-convert"}
)  # fmt: skip
"""Opcodes that are never folded: their result is unknown, or they are meant to be kept."""

_GENERATED = frozenset({"iota", "broadcast"})
"""Opcodes that make much of little: their values are known to others, but they stay."""

_ROUNDED_ALIKE = opcodes_with("exact")
"""Opcodes whose float results are the same bits wherever they are computed."""


_MEMORY = 1 << 30
"""Bytes that computing a constant may take."""


@dataclass(frozen=True, slots=True)
class ConstantFolding(Pass):
    """Replace instructions whose operands are all constants by their value.

    By default only what is the same bits on every device: integers, comparisons, selections,
    movements, and the float operations that IEEE 754 defines exactly.

    Attributes:
        limit: elements that a constant made here has at most.
        work: elementary operations that computing one of them may take; what takes more stays.
        floats: ``exact`` ones, or ``all`` (exponentials, reductions, products, by NumPy).
    """

    name: ClassVar[str] = "constant-folding"

    limit: int = 4096
    work: int = 1_000_000_000
    floats: Literal["exact", "all"] = "exact"

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise PassError(
                f"limit is {self.limit}",
                code="HLO-PASS-ARGUMENT",
                remedy="pass the number of elements that a constant may have, 1 or more",
            )
        if self.work < 1:
            raise PassError(
                f"work is {self.work}",
                code="HLO-PASS-ARGUMENT",
                remedy="pass the elementary operations that a constant may take, 1 or more",
            )

    def run(self, module: Module) -> bool:
        folder = _Folder(module, self.limit, self.work, self.floats == "all")
        return sum(folder.run(computation) for computation in module.computations) > 0


class _Folder:
    def __init__(self, module: Module, limit: int, work: int, all_floats: bool) -> None:
        self._limit = limit
        self._all_floats = all_floats
        self._effectful = effectful_computations(module)
        self._evaluator = Evaluator(module, limits=Limits(work, _MEMORY))
        self._known: dict[Instruction, Array] = {}

    def run(self, computation: Computation) -> bool:
        self._known = {}
        replaced: list[Instruction] = []
        for view in computation.post_order():
            folded = self._value(view)
            if folded is None:
                continue
            self._known[view] = folded
            if view.opcode in _NEVER | _GENERATED or view.proto.HasField("sharding"):
                continue
            constant_inst = constant(view, _narrowed(folded), view.shape)
            self._known[constant_inst] = folded
            view.replace_uses(constant_inst)
            replaced.append(view)
        sweep(computation, replaced)
        return bool(replaced)

    def _value(self, view: Instruction) -> Array | None:
        shape = view.shape
        if not shape.is_array or any(shape.dynamic) or shape.element_count > self._limit:
            return None
        if view.opcode == "constant":
            return self._literal(view)
        if not self._is_foldable(view):
            return None
        operands = [self._known.get(operand) for operand in view.operands]
        if any(operand is None for operand in operands):
            return None
        return self._evaluated(view, operands)

    def _literal(self, view: Instruction) -> Array | None:
        literal = view.literal
        if literal is None or literal.is_elided:
            return None
        return literal.numpy()

    def _is_foldable(self, view: Instruction) -> bool:
        opcode = view.opcode
        if opcode in _NEVER or opcode not in OPERATIONS or view.proto.control_predecessor_ids:
            return False
        if not is_pure(view.proto, self._effectful):
            return False
        if self._all_floats or opcode in _ROUNDED_ALIKE:
            return True
        kinds = {inst.shape.element.kind for inst in (view, *view.operands)}
        return kinds <= {"int", "uint", "pred"}

    def _evaluated(self, view: Instruction, operands: list[Any]) -> Array | None:
        try:
            with np.errstate(all="ignore"):
                evaluated = self._evaluator.operate(view.proto, operands)
        except HloError:  # not defined, so not for us to choose; or beyond a limit
            return None
        shape = view.shape
        if not isinstance(evaluated, np.ndarray | np.generic):
            return None
        array = np.asarray(evaluated)
        fits = array.shape == shape.dimensions and array.dtype == shape.dtype
        return array if fits else None


def _narrowed(value: Array) -> Array:
    """One element when all are the same bits."""
    if value.size <= 1:
        return value
    rows = np.ascontiguousarray(value).reshape(-1).view(np.uint8).reshape(value.size, -1)
    return value.reshape(-1)[0] if (rows == rows[0]).all() else value
