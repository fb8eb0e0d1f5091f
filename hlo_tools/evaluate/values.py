"""Values of an evaluation, the table of operations, and how an operation sees its instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hlo_tools.errors import HloUnsupportedError
from hlo_tools.types.element_types import BY_NUMBER, ElementType

if TYPE_CHECKING:
    from hlo_tools.evaluate.evaluator import Evaluator

__all__ = [
    "OPERATIONS",
    "Array",
    "Call",
    "EvaluationError",
    "Value",
    "operation",
    "product_type",
    "wide",
]

Array = np.ndarray[Any, Any]
Value = Any
"""An array, a tuple of values, or None for a token."""
Message = Any
Operation = Callable[["Call"], Value]
OPERATIONS: dict[str, Operation] = {}


class EvaluationError(HloUnsupportedError):
    """An instruction whose result is not defined, or not defined on one device."""

    default_code = "HLO-EVALUATE"


class Call:
    """One instruction with the values of its operands.

    Attributes:
        row: the instruction's message.
        operands: values of its operands.
        evaluator: for computations that it calls.
    """

    __slots__ = ("evaluator", "operands", "row")

    def __init__(self, row: Message, operands: list[Value], evaluator: Evaluator) -> None:
        self.row = row
        self.operands = operands
        self.evaluator = evaluator

    @property
    def element(self) -> ElementType:
        """Element type of the result."""
        return BY_NUMBER[self.row.shape.element_type]

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy dtype of the result."""
        dtype = self.element.dtype
        assert dtype is not None
        return dtype

    @property
    def extents(self) -> tuple[int, ...]:
        """Extents of the result."""
        return tuple(self.row.shape.dimensions)

    def apply(self, at: int, arguments: list[Value]) -> Value:
        """The result of a called computation."""
        return self.evaluator.computation(self.row.called_computation_ids[at], arguments)

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


def wide(value: Array) -> Array:
    """Small floats as float32: what XLA computes them in."""
    if value.dtype.kind in "biufc" and value.dtype != np.float16:
        return value
    return value.astype(np.float32)


def product_type(call: Call) -> Any:
    """NumPy dtype in which products are summed."""
    kind = call.element.kind
    if kind == "float":
        return np.float64 if call.element.name == "f64" else np.float32
    if kind == "pred":
        return np.bool_
    return call.dtype if call.dtype.kind in "iuc" else np.int32
