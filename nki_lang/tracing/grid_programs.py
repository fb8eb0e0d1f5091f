"""SPMD grids with more programs than cores: one core runs all programs in sequence.

NKI beta 1 launched kernels over grids of any rank (``kernel[16, 8]``), and the documentation of
``nki.FrameworkKernel`` still does. The programs share inputs, shared HBM tensors and constants.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from nki_lang.base.errors import NkiValidationError
from nki_lang.base.targets import Target
from nki_lang.frontend.builder import TraceBuilder, building
from nki_lang.ir import KernelIR, Tensor
from nki_lang.tracing.body import run_body
from nki_lang.tracing.capacity import check_capacity
from nki_lang.tracing.results import Structure
from nki_lang.tracing.tracer import assemble, bind_inputs, collect_outputs

__all__ = ["trace_programs"]

_MAX_PROGRAMS = 1 << 16


def trace_programs(
    func: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    *,
    target: Target,
    grid: tuple[int, ...],
) -> KernelIR:
    """Trace the function once for each index of ``grid``, in row-major order, into one body.

    Raises:
        NkiValidationError: as for one program; code ``NKI-GRID`` for a grid that is too large.
        TypeError: the arguments do not fit the function's signature.
    """
    programs = list(itertools.islice(_indices(grid), _MAX_PROGRAMS + 1))
    if not programs or len(programs) > _MAX_PROGRAMS:
        raise NkiValidationError(
            f"launch grid {grid} has no program or more than {_MAX_PROGRAMS}",
            code="NKI-GRID",
            remedy="launch fewer programs and loop inside the kernel",
        )
    builder = TraceBuilder(target, grid=grid)
    builder.entry = run_body.__code__
    with building(builder):
        call, inputs = bind_inputs(func, args, kwargs, builder)
        results: tuple[tuple[Tensor, ...], Structure] = ((), None)
        for builder.program in programs:
            builder.shared_count = 0
            value = run_body(func, call)
            builder.require_closed()
            results = collect_outputs(value, func, builder)
    check_capacity(builder)
    return assemble(func, target, grid, inputs, [results], [builder], ())


def _indices(grid: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(extent) for extent in grid))
