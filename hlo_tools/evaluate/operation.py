"""The table of operations, and how an operation sees its instruction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from hlo_tools.evaluate.devices import Device
from hlo_tools.evaluate.limits import LimitError, Limits
from hlo_tools.evaluate.values import Array, EvaluationError, Value
from hlo_tools.types.element_types import BY_NUMBER, DType, ElementType

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloComputationProto, HloInstructionProto, ShapeProto

__all__ = ["OPERATIONS", "Call", "CustomCall", "Runner", "operation", "product_type"]

Operation = Callable[["Call"], Value]
CustomCall: TypeAlias = "Callable[[HloInstructionProto, list[Array]], list[Array]]"
"""Computes the results of a custom call from its message and its operands."""
OPERATIONS: dict[str, Operation] = {}


class Runner(Protocol):
    """The interface of the evaluator that operations use.

    Attributes:
        device: which device this is, among those that are evaluated together.
        custom_calls: what computes custom calls, by target.
        limits: what the evaluation may take.
        has_bounded_values: True once an array is smaller than the bound in its shape.
    """

    device: Device
    limits: Limits
    has_bounded_values: bool
    custom_calls: Mapping[str, CustomCall]

    def computation(self, number: int, arguments: Sequence[Value]) -> Value:
        """The result of one computation."""
        ...

    def body(self, number: int) -> HloComputationProto:
        """The message of a computation."""
        ...

    def shape_of(self, instruction_id: int) -> ShapeProto | None:
        """Shape of an instruction of the computation that is being evaluated."""
        ...

    def is_elementwise(self, number: int) -> bool:
        """Return True if a computation of scalars can be applied to arrays."""
        ...


class Call:
    """One instruction with the values of its operands.

    Attributes:
        row: the instruction's message.
        values: values of its operands.
        operands: the same, for the many operations whose operands are arrays.
        evaluator: for computations that it calls.
    """

    __slots__ = ("evaluator", "operands", "row", "values")

    def __init__(self, row: HloInstructionProto, values: list[Value], evaluator: Runner) -> None:
        self.row = row
        self.values = values
        self.operands = cast(list[Array], values)
        self.evaluator = evaluator

    @property
    def element(self) -> ElementType:
        """Element type of the result."""
        return BY_NUMBER[self.row.shape.element_type]

    @property
    def dtype(self) -> DType:
        """NumPy dtype of the result."""
        dtype = self.element.dtype
        assert dtype is not None
        return dtype

    @property
    def extents(self) -> tuple[int, ...]:
        """Extents of the result."""
        return tuple(self.row.shape.dimensions)

    def apply(self, index: int, arguments: Sequence[Value]) -> Value:
        """The result of a called computation."""
        return self.evaluator.computation(self.row.called_computation_ids[index], arguments)

    def holds(self, index: int, arguments: Sequence[Value]) -> bool:
        """Return True if a called predicate is true."""
        return bool(self.apply(index, arguments))

    def full(self, extents: Sequence[int], value: ArrayLike, dtype: DType) -> Array:
        """An array of one value that is larger than the operands and the result may be.

        Raises:
            LimitError: it takes more memory than a value may.
        """
        size = prod(extents) * dtype.itemsize
        if size > self.evaluator.limits.memory:
            raise LimitError.of_size(self.row, size, self.evaluator.limits)
        return np.full(extents, value, dtype=dtype)

    def fail(self, message: str, code: str = "HLO-EVALUATE", remedy: str = "") -> EvaluationError:
        """An error about this instruction."""
        return EvaluationError(
            f"{self.row.opcode} {message}", code=code, place=f"%{self.row.name}", remedy=remedy
        )


def operation(names: str) -> Callable[[Operation], Operation]:
    """Register what one or more opcodes compute."""

    def register(function: Operation) -> Operation:
        for name in names.split():
            OPERATIONS[name] = function
        return function

    return register


def product_type(call: Call) -> DType:
    """NumPy dtype in which products are summed; sparse operands, which are not covered, are refused."""
    if call.row.sparsity_config.ByteSize():
        raise call.fail("has sparse operands, which are not evaluated")
    kind = call.element.kind
    if kind == "float":
        return np.dtype(np.float64 if call.element.name == "f64" else np.float32)
    if kind == "pred":
        return np.dtype(np.bool_)
    return call.dtype if call.dtype.kind in "iuc" else np.dtype(np.int32)
