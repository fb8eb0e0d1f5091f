"""``NKI_SIMULATOR=1``: kernel calls of every framework are interpreted instruction by instruction.

Breakpoints and prints in the kernel's Python code then see values. The interpreter needs the
Python function, so it serves calls that were traced in this process; others run as usual. The
vendor's simulator does this for PyTorch only (simulator guide, "Simulation Limitations").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from hlo_tools.frameworks.arguments import Arguments
from hlo_tools.frameworks.plan import CallPlan
from hlo_tools.kernels import calls as kernels
from hlo_tools.types.element_types import Array
from nki_lang.base.targets import Target
from nki_lang.kernel import Kernel, simulate, simulator_is_on
from nki_lang.tracing.arguments import replace_tensors

__all__ = ["remember"]


def remember(
    plan: CallPlan,
    func: Callable[..., object],
    arguments: Arguments,
    target: Target,
    grid: tuple[int, ...],
) -> None:
    """Interpret runs of this plan as long as NKI_SIMULATOR is set.

    Grids of programs are not: the interpreter supports launches on cores only.
    """
    if len(grid) <= 1 and all(extent <= target.max_lnc for extent in grid):
        interpreter = _Interpreter(plan, func, arguments, target, grid)
        kernels.interpret_with(plan.backend_config, interpreter)


@dataclass(frozen=True, slots=True)
class _Interpreter:
    """Results of a plan from its operands, by running the Python function."""

    plan: CallPlan
    func: Callable[..., Any]
    arguments: Arguments
    target: Target
    grid: tuple[int, ...]

    def __call__(self, operands: Sequence[Array]) -> list[Array] | None:
        if not simulator_is_on():
            return None
        arrays = self._tensors(operands)
        waiting = iter(arrays)
        args = [_filled(value, waiting) for value in self.arguments.args]
        kwargs = {name: _filled(value, waiting) for name, value in self.arguments.kwargs.items()}
        kernel = Kernel(self.func, grid=self.grid)
        value = simulate(kernel, target=self.target)(*args, **kwargs)
        returned = cast(tuple[Array, ...], value) if isinstance(value, tuple) else (value,)
        written = dict(self.plan.written)
        return [
            returned[index] if index in self.plan.returned else arrays[written[index]]
            for index in range(len(self.plan.results))
        ]

    def _tensors(self, operands: Sequence[Array]) -> list[Array]:
        """An array for each tensor of the call; a copy, because the function may write it."""
        positions = {tensor: position for position, tensor in enumerate(self.plan.operands)}
        return [
            np.array(operands[positions[index]])
            if index in positions
            else np.zeros(spec.shape, spec.dtype.dtype)
            for index, spec in enumerate(self.arguments.specs)
        ]


def _filled(value: object, arrays: Iterator[Array]) -> Any:
    """An argument with an array in the place of each specification."""

    def following(*_: object) -> Array:
        return next(arrays)

    return replace_tensors(value, "", following)
