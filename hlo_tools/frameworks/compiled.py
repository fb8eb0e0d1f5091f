"""Compiling a kernel without calling it (``nki.compiler.kernel_builder.compile_kernel``).

The vendor's language guide shows the call; what it returns is not documented. Here it is a
:class:`CompiledKernel`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hlo_tools.frameworks.numpy_kernel import NumpyKernel, run_bound
from hlo_tools.frameworks.plan import BoundCall, CallPlan

__all__ = ["CompileOptions", "CompiledKernel", "compile_kernel"]


@dataclass(slots=True)
class CompileOptions:
    """How to compile.

    Attributes:
        target: ``trn1``, ``trn2`` or ``trn3``; None takes NEURON_PLATFORM_TARGET_OVERRIDE's.
        grid: launch grid.
        extra: further options, kept and ignored.
    """

    target: str | None = None
    grid: int | tuple[int, ...] = ()
    extra: dict[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """A kernel compiled for some arrays.

    Attributes:
        call: the specialised kernel with those arrays.
        outputs: the output arrays by name.
    """

    call: BoundCall
    outputs: Mapping[str, np.ndarray[Any, Any]]

    @property
    def plan(self) -> CallPlan:
        """Configuration, shapes, constants."""
        return self.call.plan

    @property
    def binary(self) -> Path:
        """The kernel file."""
        return self.call.plan.binary

    def run(self) -> dict[str, np.ndarray[Any, Any]]:
        """Run it on the arrays; outputs are written in place and returned by name."""
        run_bound(self.call, list(self.call.tensors))
        return dict(self.outputs)


def compile_kernel(
    kernel: Callable[..., object],
    *,
    inputs: Mapping[str, np.ndarray[Any, Any]],
    outputs: Mapping[str, np.ndarray[Any, Any]],
    compile_opts: CompileOptions | None = None,
    **constants: object,
) -> CompiledKernel:
    """Compile a function whose parameters are inputs, outputs and constants.

    Args:
        kernel: the function; it writes its outputs in place.
        inputs, outputs: arrays by parameter name; their shapes and dtypes matter.
        compile_opts: target and grid.
        constants: all other parameters.
    """
    options = compile_opts or CompileOptions()
    bound = NumpyKernel(func=kernel, grid=options.grid, platform_target=options.target).bind(
        **{**inputs, **outputs, **constants}
    )
    return CompiledKernel(bound, dict(outputs))
