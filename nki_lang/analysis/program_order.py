"""The walk over a core's statements that the analyses of written memory share."""

from __future__ import annotations

from collections.abc import Iterator

from nki_lang.ir.types import Block, ForLoop, Instruction, NoReorder, walk

__all__ = ["certain_iterations", "program_order"]


def program_order(body: Block, *, enters_loops: bool) -> Iterator[tuple[Instruction, bool]]:
    """Yield each instruction once, in program order, and True if it certainly executes.

    What a loop executes depends on registers, and on what its previous iteration left behind, so
    the instructions of loops are uncertain: an analysis may use their writes, not their reads.

    Args:
        body: the statements of one core.
        enters_loops: instructions of loops that certainly have an iteration are certain; they
            are those of the first iteration, before which no later one wrote anything.
    """
    for statement in body:
        if isinstance(statement, Instruction):
            yield statement, True
        elif isinstance(statement, NoReorder) or (
            enters_loops and isinstance(statement, ForLoop) and certain_iterations(statement) > 0
        ):
            yield from program_order(statement.body, enters_loops=enters_loops)
        else:
            for instruction in walk(statement.body):
                yield instruction, False


def certain_iterations(loop: ForLoop) -> int:
    """Return the number of iterations that the loop certainly has; 0 when it is unknown."""
    bounds = (loop.start, loop.stop, loop.step)
    is_static = loop.step != 0 and all(type(value) is int for value in bounds)
    return len(range(*bounds)) if is_static else 0  # type: ignore[arg-type]
