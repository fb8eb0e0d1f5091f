"""The view of an instruction for inference rules, and the table of rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hlo_tools._messages import counted
from hlo_tools.inference.types import (
    Array,
    InferenceError,
    TupleType,
    Type,
    called_types,
    of,
)
from hlo_tools.types.element_types import BY_NUMBER

__all__ = ["RULES", "Call", "rule"]

Message = Any
Rule = Callable[["Call"], Type]
RULES: dict[str, Rule] = {}


class Call:
    """One instruction with the types of its operands.

    Attributes:
        row: the instruction's message.
        operands: types of the operands.
        called: program shapes of the called computations.
    """

    __slots__ = ("called", "operands", "row")

    def __init__(self, row: Message, operands: Sequence[Type], called: Sequence[Message]) -> None:
        self.row = row
        self.operands = operands
        self.called = called

    def check(self, fine: bool, message: str) -> None:
        """Raise unless ``fine``: the instruction breaks the rule that ``message`` states."""
        if not fine:
            raise self.broken(message)

    def broken(self, message: str) -> InferenceError:
        """The instruction breaks the rule that ``message`` states."""
        return InferenceError(f"{self.row.opcode} {message}", place=self.row.name)

    def operand(self, number: int) -> Type:
        """Type of an operand that must exist."""
        self.check(
            number < len(self.operands),
            f"takes at least {counted(number + 1, 'operand')}, not {len(self.operands)}",
        )
        return self.operands[number]

    def array(self, number: int) -> Array:
        """Type of an operand that must be an array."""
        operand = self.operand(number)
        if type(operand) is not Array or operand.kind == "none":
            raise InferenceError(
                f"{self.row.opcode} takes an array as operand {number}, not {operand}",
                place=self.row.name,
            )
        return operand

    def arrays(self, start: int = 0, stop: int | None = None) -> list[Array]:
        """Several operands that must be arrays."""
        return [
            self.array(number)
            for number in range(start, len(self.operands) if stop is None else stop)
        ]

    def axes(self, values: Sequence[int], rank: int, what: str) -> tuple[int, ...]:
        """Dimension numbers, each in range and named once."""
        axes = tuple(values)
        self.check(
            all(0 <= axis < rank for axis in axes) and len(set(axes)) == len(axes),
            f"has {what} {list(axes)}; each must be a dimension below {rank}, once",
        )
        return axes

    def axis(self, values: Sequence[int], rank: int, what: str) -> int:
        """The only one of dimension numbers."""
        self.check(len(values) == 1, f"needs one dimension in {what}, not {list(values)}")
        return self.axes(values, rank, what)[0]

    def program(self, number: int = 0) -> tuple[tuple[Type, ...], Type]:
        """Parameters and result of a called computation."""
        self.check(number < len(self.called), "calls no computation")
        return called_types(self.called[number])

    def result_array(self) -> Array:
        """The array type that the instruction states."""
        if not self.row.HasField("shape"):
            raise InferenceError(f"{self.row.opcode} needs a stated shape", place=self.row.name)
        stated = of(self.row.shape)
        if not isinstance(stated, Array) or stated.kind == "none":
            raise InferenceError(
                f"{self.row.opcode} returns an array, not {stated}", place=self.row.name
            )
        return stated

    def result_element(self, lhs: Array, rhs: Array) -> int:
        """Element type of a product: the stated one, else the operand type of higher precision."""
        if self.row.HasField("shape"):
            return self.row.shape.element_type
        return lhs.element if self.bits(lhs) >= self.bits(rhs) else rhs.element

    def bits(self, kind: Array) -> int:
        """Bits of one element."""
        return BY_NUMBER[kind.element].bits

    def tuple_of(self, *parts: Type) -> TupleType:
        """A tuple type."""
        return TupleType(parts)

    def one_or_tuple(self, parts: Sequence[Type]) -> Type:
        """The only part, or the tuple of all."""
        return parts[0] if len(parts) == 1 else TupleType(tuple(parts))


def rule(names: str) -> Callable[[Rule], Rule]:
    """Register the rule of one or more opcodes."""

    def register(function: Rule) -> Rule:
        for name in names.split():
            RULES[name] = function
        return function

    return register
