"""Records the steps of a simulated call, so that they can be replayed."""

from __future__ import annotations

import functools
from collections.abc import Callable

from nki_lang.base.errors import warning_count
from nki_lang.execute.prepare import is_static
from nki_lang.ir.types import Instruction
from nki_lang.semantics import TRAITS

__all__ = ["MAX_STEPS", "RecordedStep", "Recorder"]

RecordedStep = Callable[[], None]

MAX_STEPS = 200_000
"""Instructions that all records have together; one takes about 0.6 kB."""

_STATE_OPS = frozenset(
    {
        "activate2", "activation", "activation_reduce", "exponential", "range_select",
        "select_reduce", "tensor_scalar_cumulative", "tensor_scalar_reduce",
    }
)  # fmt: skip
"""Operations whose only state are the accumulators, which are reset before a replay."""


class Recorder:
    """Collects the steps of one simulated call.

    Attributes:
        steps: the executed steps; None once the call cannot be replayed.
    """

    def __init__(self) -> None:
        self.steps: list[RecordedStep] | None = []
        self._warnings = warning_count()

    def refuse(self) -> None:
        """Record nothing of this call."""
        self.steps = None

    def finish(self) -> list[RecordedStep] | None:
        """Return the steps; None if the call cannot be replayed, or a replay would omit a warning."""
        return self.steps if warning_count() == self._warnings else None

    def add(self, instruction: Instruction, step: Callable[..., None], **operands: object) -> None:
        """Record a step that was executed, or refuse the call if the step depends on values."""
        if self.steps is None:
            return
        traits = TRAITS[instruction.op]
        stateful = "state" in traits.injected and instruction.op not in _STATE_OPS
        if (
            stateful
            or not traits.writes
            or len(self.steps) >= MAX_STEPS
            or not is_static(instruction, raw=False)
        ):
            self.refuse()
            return
        self.steps.append(functools.partial(step, **operands) if operands else step)
