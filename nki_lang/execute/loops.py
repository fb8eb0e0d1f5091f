"""Loops as closures: they execute the body until the loop's registers end the loop."""

from __future__ import annotations

from collections.abc import Callable

from nki_lang.base.errors import NkiExecutionError
from nki_lang.execute.prepare import Step
from nki_lang.ir.types import ForLoop, Register, WhileLoop

__all__ = ["loop_bounds", "loop_condition", "loop_step"]


def loop_step(
    loop: ForLoop | WhileLoop, run_body: Callable[[], object], registers: dict[str, int]
) -> Step:
    """Return a closure that executes a loop.

    Args:
        loop: its registers and bounds.
        run_body: executes one iteration.
        registers: the core's registers by name; a counted loop writes its own.

    The closure raises NkiExecutionError (NKI-EXEC) when a register of the loop has no value (in a
    damaged file), or when the step is 0.
    """
    if isinstance(loop, WhileLoop):
        condition = loop_condition(loop, registers)

        def repeat() -> None:
            while condition():
                run_body()

        return repeat
    bounds, counter = loop_bounds(loop, registers), loop.register.name

    def count() -> None:
        for value in bounds():
            registers[counter] = value
            run_body()

    return count


def loop_condition(loop: WhileLoop, registers: dict[str, int]) -> Callable[[], int]:
    """Return a function that returns the loop's condition; it raises as :func:`loop_step`."""
    return lambda: _value(loop.condition, registers, loop)


def loop_bounds(loop: ForLoop, registers: dict[str, int]) -> Callable[[], range]:
    """Return a function that returns the loop's range; it raises as :func:`loop_step`."""

    def bounds() -> range:
        start, stop, step = [
            _value(value, registers, loop) for value in (loop.start, loop.stop, loop.step)
        ]
        if step == 0:
            raise _fault(loop, "its step is 0")
        return range(start, stop, step)

    return bounds


def _value(value: int | Register, registers: dict[str, int], loop: ForLoop | WhileLoop) -> int:
    if not isinstance(value, Register):
        return value
    try:
        return registers[value.name]
    except KeyError:
        raise _fault(loop, f"its register {value.name!r} has no value") from None


def _fault(loop: ForLoop | WhileLoop, reason: str) -> NkiExecutionError:
    return NkiExecutionError(
        f"a loop on the device cannot be executed: {reason}",
        code="NKI-EXEC",
        location=loop.location,
        remedy="give the register a value before the loop, and a step other than zero",
    )
