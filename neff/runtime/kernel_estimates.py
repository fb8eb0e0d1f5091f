"""Estimates of a kernel at a prompt: what ``kernel.profile`` and ``kernel.cost`` return."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from neff.compiler import compile_kernel
from neff.profile import CostReport, ProfileReport, profile_of, what_if
from neff.profile.what_if import Changes
from neff.program import Program
from neff.runtime.trips import has_open_loops, trips_of
from neff.timing import Estimate, Trips
from nki_lang.ir import KernelIR

__all__ = ["compiled_profile", "cost_report", "profile_report"]


def profile_report(
    kernel: KernelIR, arrays: Sequence[object], *, statistic: str = "body"
) -> ProfileReport:
    """Where the time of a kernel would go on its target.

    Args:
        kernel: traced.
        arrays: one for each input, in order; they are only read when a loop depends on them.
        statistic: what the total includes, see ``neff.timing.estimate``.

    Raises:
        NeffError: the kernel cannot be compiled for its target, or the run fails.
    """
    return compiled_profile(kernel, arrays, statistic=statistic)[1]


def compiled_profile(
    kernel: KernelIR, arrays: Sequence[object], *, statistic: str = "body"
) -> tuple[Program, ProfileReport]:
    """The same with the program."""
    program, trips = _compiled(kernel, arrays)

    def again(changes: Changes) -> Estimate:
        return what_if(program, changes, statistic=statistic, trips=trips)

    return program, ProfileReport(profile_of(program, statistic=statistic, trips=trips), again)


def cost_report(kernel: KernelIR, arrays: Sequence[object]) -> CostReport:
    """Return the cost of each line of a kernel; the arguments are those of
    :func:`profile_report`.
    """
    program, trips = _compiled(kernel, arrays)
    return CostReport(profile_of(program, trips=trips))


def _compiled(kernel: KernelIR, arrays: Sequence[object]) -> tuple[Program, Trips]:
    program = compile_kernel(kernel)
    if not has_open_loops(program) or not all(hasattr(array, "__array__") for array in arrays):
        return program, None
    values = [np.asarray(array) for array in arrays]
    return program, trips_of(program, dict(zip(program.inputs, values, strict=True)))
