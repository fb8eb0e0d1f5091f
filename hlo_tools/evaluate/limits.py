"""Limits of an evaluation: memory of a value, and total operations.

Work is counted in elementary operations: one for each element that an instruction makes, two for
each product of a dot or a convolution, and a fixed number for each instruction that is executed.
NumPy does some 10^9 of them in a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2, prod
from typing import TYPE_CHECKING

import numpy as np

from hlo_tools.errors import HloUnsupportedError
from hlo_tools.evaluate.running import running_of
from hlo_tools.ir.module import Module
from hlo_tools.types.element_types import BY_NUMBER, MOST_DIMENSIONS, Array
from hlo_tools.types.opcodes import opcodes_with

if TYPE_CHECKING:
    from hlo_tools.evaluate.values import Value
    from hlo_tools.schema.messages import HloComputationProto, HloInstructionProto, ShapeProto

__all__ = ["Budget", "CallCounts", "LimitError", "Limits"]

EACH = 20_000
"""Operations that executing one instruction counts for, whatever it makes."""
_DEEPEST = 200
"""Levels of calls that are counted; the evaluator executes no more."""
_REMEDY = "evaluate a slice of the module, run it with jaxlib, or raise the limit"
_VIEWS = opcodes_with("reference")


class LimitError(HloUnsupportedError):
    """An evaluation that would take more than it was given."""

    default_code = "HLO-EVALUATE-LIMIT"

    @classmethod
    def of_size(cls, row: HloInstructionProto, size: int, limits: Limits) -> LimitError:
        """The error about an instruction that takes ``size`` bytes."""
        return cls(
            f"{row.opcode} creates {size} bytes, more than the {limits.memory} allowed",
            place=f"%{row.name}",
            remedy=_REMEDY,
        )


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one evaluation.

    Attributes:
        work: elementary operations in all.
        memory: bytes of the largest value.
        calls: instructions that a computation executes through calls, those of a computation
            counted for each call of it; turns of loops are not.
    """

    work: float = 1e12
    memory: int = 8 << 30
    calls: int = 1_000_000


class CallCounts:
    """Count the instructions that computations execute at least, before any is executed.

    Args:
        bodies: the messages of a module's computations by id.
    """

    def __init__(self, bodies: Mapping[int, HloComputationProto]) -> None:
        self._bodies = bodies
        self._known: dict[int, int] = {}

    def check(self, number: int, limits: Limits) -> None:
        """Refuse a computation whose calls of calls execute too many instructions.

        Raises:
            LimitError: they do.
        """
        if self._of(number, 0) > limits.calls:
            raise LimitError(
                f"its calls of calls execute more than {limits.calls:,} instructions",
                place=f"%{self._bodies[number].name}",
                remedy=_REMEDY,
            )

    def _of(self, number: int, depth: int) -> int:
        if number not in self._known and number in self._bodies and depth < _DEEPEST:
            self._known[number] = 0  # of a computation that calls itself
            rows = self._bodies[number].instructions
            self._known[number] = len(rows) + sum(
                self._through(row, depth + 1) for row in rows if row.called_computation_ids
            )
        return self._known.get(number, 0)

    def _through(self, row: HloInstructionProto, depth: int) -> int:
        """Return the instructions that calls execute: the shortest branch, and no loops."""
        if row.opcode not in ("call", "conditional"):
            return 0
        counts = [self._of(number, depth) for number in row.called_computation_ids]
        return min(counts) if row.opcode == "conditional" else sum(counts)


_MAX_ARRAY_BYTES = (1 << 63) - 1
"""NumPy refuses larger arrays, also views that repeat their elements."""

_REPEATING = frozenset({"broadcast", "iota"})
"""Views that are larger than what they show."""


class Budget:
    """Work that is left."""

    __slots__ = ("left", "limits")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.left = limits.work

    def spend(self, row: HloInstructionProto, operations: float) -> None:
        """Take ``operations`` off.

        Raises:
            LimitError: there are not so many left.
        """
        self.left -= operations
        if self.left < 0:
            raise LimitError(
                f"evaluating takes more than {self.limits.work:.1e} elementary operations; "
                f"they ran out at {row.opcode}",
                place=f"%{row.name}",
                remedy=_REMEDY,
            )

    def check_size(self, row: HloInstructionProto) -> None:
        """Refuse an instruction whose result is too large, or has too many dimensions.

        Raises:
            LimitError: it is, or has.
        """
        check_rank(row)
        size = _new_bytes(row)
        if size <= self.limits.memory and row.opcode in _REPEATING:
            array_bytes = byte_size(row.shape)
            size = array_bytes if array_bytes > _MAX_ARRAY_BYTES else size
        if size > self.limits.memory:
            raise LimitError.of_size(row, size, self.limits)


def check_rank(row: HloInstructionProto) -> None:
    """Refuse a result with more dimensions than NumPy's arrays.

    Raises:
        LimitError: it has.
    """
    rank = max((len(shape.dimensions) for shape in (row.shape, *row.shape.tuple_shapes)), default=0)
    if rank > MOST_DIMENSIONS:
        raise LimitError(
            f"{row.opcode} has {rank} dimensions; arrays of NumPy have at most {MOST_DIMENSIONS}",
            code="HLO-RANK",
            place=f"%{row.name}",
            remedy="run it with jaxlib, or reshape what has dimensions of 1",
        )


def _new_bytes(row: HloInstructionProto) -> int:
    """Bytes of the new elements that an instruction makes."""
    if row.opcode == "iota" and row.shape.dimensions:  # a row that is repeated
        return row.shape.dimensions[row.dimensions[0] if row.dimensions else 0] * 8
    return 0 if row.opcode in _VIEWS else byte_size(row.shape)


def check_inputs(module: Module, limits: Limits | None = None) -> None:
    """Refuse to make inputs that are together larger than a value may be.

    Raises:
        LimitError: they are.
    """
    entry, limit = module.entry, (limits or Limits()).memory
    for parameter in entry.parameters:
        check_rank(parameter.proto)
        if any(extent < 0 for extent in parameter.shape.dimensions):
            raise LimitError(
                f"parameter {parameter.shape} has no bound",
                place=f"%{parameter.name}",
                remedy="pass the input itself",
            )
    size = sum(byte_size(parameter.proto.shape) for parameter in entry.parameters)
    if size > limit:
        raise LimitError(
            f"the parameters take {size} bytes, more than the {limit} allowed",
            place=f"%{entry.name}",
            remedy="evaluate a slice of the module",
        )


def byte_size(shape: ShapeProto) -> int:
    """Bytes of a value of this shape in NumPy."""
    if shape.tuple_shapes:
        return sum(byte_size(element_shape) for element_shape in shape.tuple_shapes)
    element = BY_NUMBER.get(shape.element_type)
    return prod(shape.dimensions) * (element.itemsize if element else 0)


def operations(row: HloInstructionProto, operands: Sequence[Array]) -> float:
    """Operations of an instruction beyond one for each element that it makes."""
    if row.opcode in ("dot", "scaled-dot", "ragged-dot"):
        numbers = row.dot_dimension_numbers
        if row.opcode == "ragged-dot":
            numbers = row.ragged_dot_dimension_numbers.dot_dimension_numbers
        axes = numbers.lhs_contracting_dimensions
        groups = operands[2].size if row.opcode == "ragged-dot" else 1
        depth = prod(operands[0].shape[axis] for axis in axes)
        return 2.0 * prod(row.shape.dimensions) * depth * groups
    if row.opcode == "convolution":
        outputs = row.convolution_dimension_numbers.kernel_output_feature_dimension
        kernel = operands[1]
        return 2.0 * prod(row.shape.dimensions) * kernel.size / max(kernel.shape[outputs], 1)
    if row.opcode == "reduce-window":
        shape = row.shape.tuple_shapes[0] if row.shape.tuple_shapes else row.shape
        running = running_of(row.window, operands[0].shape)
        depth = 2 if running else prod(dimension.size for dimension in row.window.dimensions)
        return float(prod(shape.dimensions)) * depth
    if row.opcode == "select-and-scatter":
        return 10.0 * operands[1].size * prod(dimension.size for dimension in row.window.dimensions)
    if row.opcode in ("reduce", "sort", "fft", "map", "scatter"):
        size = float(operands[0].size)
        return size * max(log2(size), 1.0) if row.opcode in ("sort", "fft") and size else size
    if row.opcode in ("cholesky", "triangular-solve"):
        return float(operands[0].size) * operands[0].shape[-1]
    return 0.0


def elements(value: Value) -> int:
    """Elements of an array; a tuple holds what was made before."""
    return value.size if isinstance(value, np.ndarray) else 0
