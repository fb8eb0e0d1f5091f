"""Loops as closures: the body is run until the registers say that it is enough."""

from __future__ import annotations

from collections.abc import Callable

from nki_lang.execute.prepare import Step
from nki_lang.ir.types import ForLoop, Register, WhileLoop

__all__ = ["loop_step"]


def loop_step(
    loop: ForLoop | WhileLoop, run_body: Callable[[], object], registers: dict[str, int]
) -> Step:
    """A closure that runs a loop.

    Args:
        loop: its registers and bounds.
        run_body: runs one iteration.
        registers: the core's registers by name; a counted loop writes its own.
    """
    if isinstance(loop, WhileLoop):
        condition = loop.condition.name

        def repeat() -> None:
            while registers[condition]:
                run_body()

        return repeat
    counter = loop.register.name

    def count() -> None:
        bounds = [_bound(value, registers) for value in (loop.start, loop.stop, loop.step)]
        for value in range(*bounds):
            registers[counter] = value
            run_body()

    return count


def _bound(value: int | Register, registers: dict[str, int]) -> int:
    return registers[value.name] if isinstance(value, Register) else value
