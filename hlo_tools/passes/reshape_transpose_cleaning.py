"""Reshapes, transposes and broadcasts that cancel, merge, or are simpler as something else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.passes.base import Pass
from hlo_tools.passes.dot_canonicalisation import copy_configuration
from hlo_tools.rewrite.emitting import broadcast, dimensions_of, plain
from hlo_tools.rewrite.patterns import Rules, op, rewrite_all

if TYPE_CHECKING:
    from hlo_tools.schema.messages import DotDimensionNumbers

__all__ = ["CLEANING", "ReshapeTransposeCleaning"]


@dataclass(frozen=True, slots=True)
class ReshapeTransposeCleaning(Pass):
    """Merge and drop reshapes, transposes and broadcasts; fold transposes into dots.

    Attributes:
        dots: fold transposes of operands into the dimension numbers of dots, and those of results
            into the order of operands.
    """

    name: ClassVar[str] = "reshape-transpose-cleaning"

    dots: bool = True

    def run(self, module: Module) -> bool:
        rules = CLEANING + _DOTS if self.dots else CLEANING
        return sum(rewrite_all(rules, computation) for computation in module.computations) > 0


def _is_row_major(*views: Instruction) -> bool:
    return all(view.shape.is_row_major and not any(view.shape.dynamic) for view in views)


def _unchanged(it: Instruction, x: Instruction) -> Instruction | None:
    return x if x.shape.proto == it.shape.proto else None


def _reshape_twice(it: Instruction, x: Instruction) -> Instruction | None:
    return plain(it, "reshape", it.shape, [x]) if _is_row_major(it, x) else None


def _identity(it: Instruction, x: Instruction) -> Instruction | None:
    order = dimensions_of(it)
    return x if order == tuple(range(len(order))) else None


def _transpose_twice(it: Instruction, inner: Instruction, x: Instruction) -> Instruction:
    before = dimensions_of(inner)
    order = [before[axis] for axis in dimensions_of(it)]
    if order == list(range(len(order))) and x.shape.proto == it.shape.proto:
        return x
    return plain(it, "transpose", it.shape, [x], dimensions=order)


def _transpose_of_ones(it: Instruction, x: Instruction) -> Instruction | None:
    """Replace a transpose that moves only dimensions of size 1 by a reshape."""
    sizes = x.shape.dimensions
    moved = [axis for axis in dimensions_of(it) if sizes[axis] != 1]
    if moved != sorted(moved) or not _is_row_major(it, x):
        return None
    return plain(it, "reshape", it.shape, [x])


def _transpose_of_broadcast(
    it: Instruction, wide: Instruction, x: Instruction
) -> Instruction | None:
    order = list(dimensions_of(it))
    positions = [order.index(axis) for axis in dimensions_of(wide)]
    return broadcast(x, it.shape, positions, it) if positions == sorted(positions) else None


def _reshape_of_broadcast(it: Instruction, wide: Instruction, x: Instruction) -> Instruction | None:
    """Move a reshape over the broadcast of a scalar, or if only dimensions of size 1 change."""
    if x.shape.is_scalar:
        return broadcast(x, it.shape, (), it)
    old, new = wide.shape.dimensions, it.shape.dimensions
    if [size for size in old if size != 1] != [size for size in new if size != 1]:
        return None
    axes = [axis for axis, size in enumerate(old) if size != 1]
    positions = dict(zip(axes, [axis for axis, size in enumerate(new) if size != 1], strict=True))
    sources = dimensions_of(wide)
    if any(axis not in positions for axis in sources) or not _is_row_major(it, wide):
        return None
    return broadcast(x, it.shape, [positions[axis] for axis in sources], it)


def _broadcast_twice(it: Instruction, inner: Instruction, x: Instruction) -> Instruction:
    outer = dimensions_of(it)
    return broadcast(x, it.shape, [outer[axis] for axis in dimensions_of(inner)], it)


def _broadcast_nothing(it: Instruction, x: Instruction) -> Instruction | None:
    """No element is repeated: the operand itself, or a reshape of it."""
    positions = list(dimensions_of(it))
    if positions != sorted(positions) or x.shape.element_count != it.shape.element_count:
        return None
    if x.shape.proto == it.shape.proto:
        return x
    if x.shape.rank == 0 or not _is_row_major(it, x):
        return None
    return plain(it, "reshape", it.shape, [x])


def _transposed_into_dot(it: Instruction) -> Instruction | None:
    """Fold transposes of operands into the dimension numbers of a dot.

    Dimensions that are neither batch nor contracted must keep their order: the result has it.
    """
    operands = list(it.operands)
    numbers = type(it.proto.dot_dimension_numbers)()
    numbers.CopyFrom(it.proto.dot_dimension_numbers)
    folded = False
    for operand, side in enumerate(("lhs", "rhs")):
        order = dimensions_of(operands[operand])
        if operands[operand].opcode != "transpose" or not _is_row_major(
            *operands[operand].operands
        ):
            continue
        batch = getattr(numbers, f"{side}_batch_dimensions")
        contracted = getattr(numbers, f"{side}_contracting_dimensions")
        used = {*batch, *contracted}
        free = [order[axis] for axis in range(len(order)) if axis not in used]
        if free != sorted(free):
            continue
        batch[:] = [order[axis] for axis in batch]
        contracted[:] = [order[axis] for axis in contracted]
        operands[operand] = operands[operand].operands[0]
        folded = True
    return _dot(it, operands, numbers) if folded else None


def _transposed_dot(it: Instruction, dot: Instruction) -> Instruction | None:
    """Replace the transpose of a dot by the dot of the swapped operands."""
    old = dot.proto.dot_dimension_numbers
    batch = len(old.lhs_batch_dimensions)
    left, right = (
        operand.shape.rank - batch - len(contracted)
        for operand, contracted in zip(
            dot.operands,
            (old.lhs_contracting_dimensions, old.rhs_contracting_dimensions),
            strict=True,
        )
    )
    swapped = [*range(batch), *range(batch + left, batch + left + right)]
    order = [*swapped, *range(batch, batch + left)]
    if list(dimensions_of(it)) != order or len(dot.users) != 1:
        return None
    if any(dot.proto.HasField(field) for field in ("sparsity_config", "sharding")):
        return None
    numbers = type(old)()
    for side, other_side in (("lhs", "rhs"), ("rhs", "lhs")):
        for kind in ("batch", "contracting"):
            dimensions = getattr(old, f"{other_side}_{kind}_dimensions")
            getattr(numbers, f"{side}_{kind}_dimensions").extend(dimensions)
    swapped_dot = plain(it, "dot", it.shape, dot.operands[::-1], dot_dimension_numbers=numbers)
    copy_configuration(dot.proto, swapped_dot.proto)
    precision = swapped_dot.proto.precision_config.operand_precision
    precision[:] = precision[::-1]
    return swapped_dot


def _broadcast_iota(it: Instruction, numbers: Instruction) -> Instruction | None:
    """Numbers along a dimension, repeated along others."""
    axis = dimensions_of(it)[dimensions_of(numbers)[0]]
    return plain(it, "iota", it.shape, [], dimensions=[axis])


def _dot(it: Instruction, operands: list[Instruction], numbers: DotDimensionNumbers) -> Instruction:
    dot = plain(it, "dot", it.shape, operands, dot_dimension_numbers=numbers)
    copy_configuration(it.proto, dot.proto)
    return dot


CLEANING = Rules(
    (op("reshape", "x"), _unchanged),
    (op("reshape", op("reshape", "x")), _reshape_twice),
    (op("reshape", op("broadcast", "x", capture="wide")), _reshape_of_broadcast),
    (op("transpose", "x"), _identity),
    (op("transpose", op("transpose", "x", capture="inner")), _transpose_twice),
    (op("transpose", op("broadcast", "x", capture="wide")), _transpose_of_broadcast),
    (op("transpose", "x"), _transpose_of_ones),
    (op("broadcast", "x"), _broadcast_nothing),
    (op("broadcast", op("broadcast", "x", capture="inner")), _broadcast_twice),
    (op("broadcast", op("iota", capture="numbers")), _broadcast_iota),
)

_DOTS = Rules(
    (op("dot"), _transposed_into_dot),
    (op("transpose", op("dot", capture="dot")), _transposed_dot),
)
