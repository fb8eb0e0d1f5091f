"""Signatures of computations that combine, choose or map elements.

As XLA's shape inference has it: types of parameters and results are equal, while those of operands
and initial values may be other floats.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo_tools._messages import counted
from hlo_tools.inference.rule import Call
from hlo_tools.inference.types import Array, TupleType, Type, number

__all__ = ["PRED", "check_chooser", "check_mapped", "check_reducer", "fits"]

PRED = Array(number("pred"))


def fits(left: Type, right: Type) -> bool:
    """Return True if two types are equal, or differ only in their float types."""
    if not isinstance(left, Array) or not isinstance(right, Array):
        return left == right
    same = left.element == right.element or left.kind == right.kind == "float"
    return same and left.dimensions == right.dimensions


def check_reducer(
    call: Call, inputs: Sequence[Array], inits: Sequence[Array] = (), *, number: int = 0
) -> None:
    """Check the reducer, called computation ``number``: accumulators first, then elements."""
    if number >= len(call.called):
        return
    parameters, result = call.program(number)
    count = len(inputs)
    call.check(
        len(parameters) == 2 * count,
        f"has a reducer of {counted(len(parameters), 'parameter')} for {counted(count, 'input')}",
    )
    parts = result.parts if isinstance(result, TupleType) else (result,)
    call.check(
        len(parts) == count, f"has a reducer that returns {result} for {counted(count, 'input')}"
    )
    for position, accumulator in enumerate(parts):
        call.check(
            isinstance(accumulator, Array)
            and accumulator.rank == 0
            and accumulator == parameters[position],
            f"has a reducer that takes {parameters[position]} as parameter {position} and returns {accumulator}; "
            "both must be one scalar type",
        )
    for accumulator, init in zip(parts, inits, strict=False):
        call.check(
            fits(accumulator, init),
            f"has a reducer that returns {accumulator} and starts from {init}",
        )
    for position, array in enumerate(inputs):
        element, parameter = Array(array.element), parameters[count + position]
        call.check(
            fits(element, parameter) and fits(parts[position], parameter),
            f"has a reducer that takes {parameter} as parameter {count + position} for elements of {array}",
        )


def check_chooser(call: Call, elements: Sequence[Array], what: str, *, number: int = 0) -> None:
    """Check a computation that compares two of each element type and returns ``pred[]``."""
    if number >= len(call.called):
        return
    parameters, result = call.program(number)
    call.check(
        len(parameters) == 2 * len(elements),
        f"has a {what} of {counted(len(parameters), 'parameter')} for "
        f"{counted(len(elements), 'operand')}",
    )
    call.check(result == PRED, f"has a {what} that returns {result} instead of pred[]")
    for position, parameter in enumerate(parameters):
        array = elements[position // 2]
        call.check(
            fits(Array(array.element), parameter),
            f"has a {what} that takes {parameter} as parameter {position} for elements of {array}",
        )


def check_mapped(call: Call, operands: Sequence[Array]) -> Array:
    """Check a computation that takes an element of each operand; return its scalar result."""
    parameters, result = call.program()
    call.check(
        len(parameters) == len(operands),
        f"has a computation of {counted(len(parameters), 'parameter')} for "
        f"{counted(len(operands), 'operand')}",
    )
    for position, (parameter, operand) in enumerate(zip(parameters, operands, strict=True)):
        call.check(
            fits(Array(operand.element), parameter),
            f"has a computation that takes {parameter} as parameter {position} for elements of {operand}",
        )
    if not isinstance(result, Array) or result.rank:
        call.check(False, f"has a computation that returns {result} instead of a scalar")
    assert isinstance(result, Array)
    return result
