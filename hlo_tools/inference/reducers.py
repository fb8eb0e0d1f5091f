"""What computations that combine, choose or map elements must take and give.

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


def fits(one: Type, other: Type) -> bool:
    """Whether two types are equal, or differ only in which floats they hold."""
    if not isinstance(one, Array) or not isinstance(other, Array):
        return one == other
    same = one.element == other.element or one.kind == other.kind == "float"
    return same and one.dimensions == other.dimensions


def check_reducer(
    call: Call, inputs: Sequence[Array], inits: Sequence[Array] = (), *, at: int = 0
) -> None:
    """Check the reducer, called computation ``at``: accumulators first, then elements."""
    if at >= len(call.called):
        return
    parameters, result = call.program(at)
    count = len(inputs)
    call.check(
        len(parameters) == 2 * count,
        f"has a reducer of {counted(len(parameters), 'parameter')} for {counted(count, 'input')}",
    )
    parts = result.parts if isinstance(result, TupleType) else (result,)
    call.check(
        len(parts) == count, f"has a reducer that returns {result} for {counted(count, 'input')}"
    )
    for place, part in enumerate(parts):
        call.check(
            isinstance(part, Array) and part.rank == 0 and part == parameters[place],
            f"has a reducer that takes {parameters[place]} as parameter {place} and returns {part}; "
            "both must be one scalar type",
        )
    for part, init in zip(parts, inits, strict=False):
        call.check(fits(part, init), f"has a reducer that returns {part} and starts from {init}")
    for place, one in enumerate(inputs):
        element, taken = Array(one.element), parameters[count + place]
        call.check(
            fits(element, taken) and fits(parts[place], taken),
            f"has a reducer that takes {taken} as parameter {count + place} for elements of {one}",
        )


def check_chooser(call: Call, elements: Sequence[Array], what: str, *, at: int = 0) -> None:
    """Check a computation that compares two of each element type and returns ``pred[]``."""
    if at >= len(call.called):
        return
    parameters, result = call.program(at)
    call.check(
        len(parameters) == 2 * len(elements),
        f"has a {what} of {counted(len(parameters), 'parameter')} for "
        f"{counted(len(elements), 'operand')}",
    )
    call.check(result == PRED, f"has a {what} that returns {result} instead of pred[]")
    for place, taken in enumerate(parameters):
        one = elements[place // 2]
        call.check(
            fits(Array(one.element), taken),
            f"has a {what} that takes {taken} as parameter {place} for elements of {one}",
        )


def check_mapped(call: Call, operands: Sequence[Array]) -> Array:
    """Check a computation that takes an element of each operand; the scalar that it gives."""
    parameters, result = call.program()
    call.check(
        len(parameters) == len(operands),
        f"has a computation of {counted(len(parameters), 'parameter')} for "
        f"{counted(len(operands), 'operand')}",
    )
    for place, (taken, one) in enumerate(zip(parameters, operands, strict=True)):
        call.check(
            fits(Array(one.element), taken),
            f"has a computation that takes {taken} as parameter {place} for elements of {one}",
        )
    if not isinstance(result, Array) or result.rank:
        call.check(False, f"has a computation that returns {result} instead of a scalar")
    assert isinstance(result, Array)
    return result
