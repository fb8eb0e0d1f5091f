"""Traces a task: its buffers become the arguments of a kernel of the language."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import nki_lang
from neff.compiler.assembly.budget import DoesNotFitError
from neff.compiler.assembly.memory import require_room
from neff.compiler.lowering.tiles.origins import issued_at
from neff.compiler.lowering.tiles.task import WORD_DTYPES, Task
from neff.errors import NeffCompileError
from neff.program import Variable
from nki_lang.base.errors import NkiError
from nki_lang.base.source import SourceLocation
from nki_lang.base.targets import Target
from nki_lang.ir import KernelIR
from nki_lang.tracing.arguments import TensorSpec

__all__ = ["trace_task"]

_CAPACITY_CODES = frozenset({"NKI-CAPACITY"})
"""Codes of the language for kernels whose tiles exceed a memory."""


def trace_task(
    task: Task,
    variables: Mapping[str, Variable],
    target: Target,
    *,
    location: SourceLocation | None = None,
    cores: int = 1,
) -> KernelIR:
    """Return the kernel of a task; each buffer is a flat tensor with the variable's name.

    Instructions have the ``location``, unless the body names another one
    (:mod:`neff.compiler.lowering.tiles.origins`). With two ``cores`` each has a body of its own. The
    language's checks of a kernel run here, for this target.

    Raises:
        DoesNotFitError: its tiles exceed SBUF or PSUM.
        NeffCompileError: ``NEFF-LOWERING``; the kernel breaks a rule of the language.
    """
    names = list(dict.fromkeys((*task.reads, *task.writes)))

    def kernel(*buffers: Any) -> None:
        with issued_at(location):
            task.body(dict(zip(names, buffers, strict=True)))

    kernel.__name__ = task.name
    specs = tuple(_flat(variables[name]) for name in names)
    try:
        traced = nki_lang.trace(kernel, specs, target=target, grid=cores if cores > 1 else ())
    except NkiError as error:
        if error.code in _CAPACITY_CODES:
            raise DoesNotFitError(
                error.message, place=str(error.location or task.name), remedy=error.remedy
            ) from error
        raise NeffCompileError(
            f"the compiler's own kernel {task.name} breaks a rule: {error.message}",
            code="NEFF-LOWERING",
            place=str(error.location or task.name),
            remedy="this is a bug in the compiler; please report it with the module",
        ) from error
    require_room(traced, target)
    return traced


def _flat(variable: Variable) -> TensorSpec:
    dtype, count = variable.dtype, max(1, prod(variable.shape))
    if dtype.name in WORD_DTYPES:
        dtype, count = WORD_DTYPES[dtype.name], 2 * count
    return TensorSpec((count,), dtype, variable.name)
