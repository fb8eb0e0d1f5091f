"""Plan of one kernel call: everything that a framework needs to emit it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nki_lang.tracing.arguments import TensorSpec
from nki_lang.tracing.results import rebuild

__all__ = ["BoundCall", "CallPlan", "TensorSpec"]


@dataclass(frozen=True, slots=True, eq=False)
class CallPlan:
    """A kernel specialised for one set of shapes, ready to be called in a graph.

    Attributes:
        backend_config: what the custom call carries.
        func_name: the kernel's name.
        binary: the kernel file that ``backend_config`` names.
        operands: which of the call's tensors (counted in the order of the arguments) the custom
            call takes, in its order. A tensor that the kernel only writes is not among them.
        inputs: those operands.
        constant_names, constants: arrays that follow the operands.
        results: what the custom call returns.
        aliases: (operand, result) pairs that share memory.
        written: (result, tensor) pairs: the kernel writes this tensor of the call in place.
        returned: the results that make up the return value of the Python function; empty for
            a function that returns nothing.
        returns_tuple: the function returned a tuple (also one of a single tensor).
        has_collectives: the kernel communicates with other ranks.
        structure: how the returned results are nested, where that is more than one tuple
            (:mod:`nki_lang.tracing.results`).
    """

    backend_config: str
    func_name: str
    binary: Path
    operands: tuple[int, ...]
    inputs: tuple[TensorSpec, ...]
    constant_names: tuple[str, ...]
    constants: tuple[np.ndarray[Any, Any], ...]
    results: tuple[TensorSpec, ...]
    aliases: tuple[tuple[int, int], ...]
    written: tuple[tuple[int, int], ...]
    returned: tuple[int, ...]
    returns_tuple: bool
    has_collectives: bool
    structure: Any = None

    @property
    def input_names(self) -> list[str]:
        """Names of the operands, constants behind them."""
        return [*(spec.name for spec in self.inputs), *self.constant_names]

    @property
    def output_names(self) -> list[str]:
        """Names of the results."""
        return [spec.name for spec in self.results]

    def pack(self, values: Sequence[object]) -> Any:
        """The Python function's return value from the values of the results.

        In a framework whose arrays cannot be written, the tensors that a function without a
        return value wrote are its value.
        """
        chosen = [values[index] for index in self.returned] if self.returned else list(values)
        if self.structure is not None:
            return rebuild(self.structure, chosen)
        return chosen[0] if len(chosen) == 1 and not self.returns_tuple else tuple(chosen)


@dataclass(frozen=True, slots=True)
class BoundCall:
    """One call: its plan, and the framework's tensors in it.

    Attributes:
        plan: the specialised kernel.
        tensors: every tensor among the arguments, in their order.
    """

    plan: CallPlan
    tensors: tuple[Any, ...]

    @property
    def operands(self) -> list[Any]:
        """The tensors that the custom call takes."""
        return [self.tensors[index] for index in self.plan.operands]
