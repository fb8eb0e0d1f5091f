"""Dots in one form: batch dimensions first, one row, one contracted, one column dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hlo_tools import schema
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.passes.base import Pass
from hlo_tools.rewrite.emitting import plain, reshape, transpose
from hlo_tools.rewrite.patterns import sweep
from hlo_tools.types.shape import array_shape

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloInstructionProto

__all__ = ["DotCanonicalisation", "is_canonical"]


@dataclass(frozen=True, slots=True)
class DotCanonicalisation(Pass):
    """Bring every dot into the form [batch..., m, k] x [batch..., k, n] -> [batch..., m, n].

    Those that run asynchronously stay, since nothing may be done beside them.
    Transposes and reshapes before and after it do the rest. Sums run over the same products; their
    order may be another one.
    """

    name: ClassVar[str] = "dot-canonicalisation"
    ensures: ClassVar[tuple[str, ...]] = ("canonical-dots",)

    def run(self, module: Module) -> bool:
        changed = False
        for computation in module.computations:
            dots = [view for view in computation if view.opcode == "dot" and not is_canonical(view)]
            if not dots or computation.is_asynchronous:
                continue
            for view in dots:
                view.replace_uses(_canonical(view))
            sweep(computation, dots)
            changed = True
        return changed


@dataclass(frozen=True, slots=True)
class _Side:
    """One operand's dimensions, sorted into what a dot does with them."""

    batch: tuple[int, ...]
    contracted: tuple[int, ...]
    free: tuple[int, ...]

    @classmethod
    def of(cls, view: Instruction, side: str) -> _Side:
        numbers = view.proto.dot_dimension_numbers
        batch = tuple(getattr(numbers, f"{side}_batch_dimensions"))
        contracted = tuple(getattr(numbers, f"{side}_contracting_dimensions"))
        rank = view.operands[0 if side == "lhs" else 1].shape.rank
        free = tuple(axis for axis in range(rank) if axis not in {*batch, *contracted})
        return cls(batch, contracted, free)


def is_canonical(view: Instruction) -> bool:
    """Return True if a dot has the pass's form, or the pass does not rewrite it."""
    if not _is_covered(view):
        return True
    lhs, rhs = _Side.of(view, "lhs"), _Side.of(view, "rhs")
    count = len(lhs.batch)
    batch = tuple(range(count))
    return (
        (lhs.batch, rhs.batch) == (batch, batch)
        and (lhs.free, lhs.contracted) == ((count,), (count + 1,))
        and (rhs.contracted, rhs.free) == ((count,), (count + 1,))
    )


def _is_covered(view: Instruction) -> bool:
    """Dense dots of two operands with known sizes, in row-major order, free to be replaced."""
    shapes = [view.shape, *(operand.shape for operand in view.operands)]
    return (
        len(view.operands) == 2
        and not view.proto.HasField("sharding")
        and all(shape.is_row_major and not any(shape.dynamic) for shape in shapes)
    )


def _canonical(view: Instruction) -> Instruction:
    lhs, rhs = _Side.of(view, "lhs"), _Side.of(view, "rhs")
    left, right = view.operands
    sizes = left.shape.dimensions
    batch = [sizes[axis] for axis in lhs.batch]
    rows = [sizes[axis] for axis in lhs.free]
    columns = [right.shape.dimensions[axis] for axis in rhs.free]
    inner = math.prod(sizes[axis] for axis in lhs.contracted)
    m, n = math.prod(rows), math.prod(columns)
    left = _arranged(left, (*lhs.batch, *lhs.free, *lhs.contracted), (*batch, m, inner), view)
    right = _arranged(right, (*rhs.batch, *rhs.contracted, *rhs.free), (*batch, inner, n), view)
    count = len(batch)
    numbers = schema.DotDimensionNumbers(
        lhs_batch_dimensions=range(count),
        rhs_batch_dimensions=range(count),
        lhs_contracting_dimensions=[count + 1],
        rhs_contracting_dimensions=[count],
    )
    shape = array_shape(view.shape.element, (*batch, m, n))
    dot = plain(view, "dot", shape, [left, right], dot_dimension_numbers=numbers)
    copy_configuration(view.proto, dot.proto)
    return reshape(dot, view.shape.dimensions, view)


def _arranged(
    operand: Instruction, order: Sequence[int], dimensions: Sequence[int], view: Instruction
) -> Instruction:
    return reshape(transpose(operand, order, view), dimensions, view)


def copy_configuration(source: HloInstructionProto, target: HloInstructionProto) -> None:
    """Precision, algorithm and backend configuration of an instruction's message."""
    for field in ("precision_config", "backend_config_payload"):
        if source.HasField(field):
            getattr(target, field).CopyFrom(getattr(source, field))
    if source.backend_config:
        target.backend_config = source.backend_config
