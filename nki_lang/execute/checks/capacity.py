"""Whether what is alive on chip at one time fits, for kernels that are only simulated.

Tracing refuses a kernel that does not fit. The interpreter allocates every tensor separately,
so it runs such a kernel; this check traces the call first and reports what tracing finds. Of a
kernel that reads values, and so cannot be traced, it follows what this run touches when.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

from nki_lang.errors import NkiError
from nki_lang.execute.checks.base import Check, reads_of, writes_of
from nki_lang.execute.checks.report import Finding
from nki_lang.frontend.builder import TraceBuilder, active
from nki_lang.ir.types import Instruction
from nki_lang.targets import Target
from nki_lang.tracing.capacity import Spans, check_capacity

__all__ = ["CapacityCheck"]


class CapacityCheck(Check):
    """Finds tiles that do not fit into SBUF or PSUM together, and draws who holds what when."""

    name = "capacity"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._builder: TraceBuilder | None = None
        self._spans: Spans = {}
        self._count = 0

    @classmethod
    def preview(
        cls,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        target: Target,
        grid: tuple[int, ...],
    ) -> list[Finding] | None:
        """Trace the call. Other faults are left to the run that follows, which reports more."""
        from nki_lang.tracing.tracer import trace_kernel

        try:
            with contextlib.redirect_stdout(io.StringIO()):  # what it prints comes with the run
                trace_kernel(func, args, kwargs, target=target, grid=grid)
        except NkiError as error:
            return [_finding(error)] if error.code == "NKI-CAPACITY" else None
        except Exception:  # kernels that read values can be simulated but not traced
            return None
        return []

    def concerns(self, instruction: Instruction) -> bool:
        """Tracing said nothing."""
        return not self.previewed

    def after(self, instruction: Instruction) -> None:
        """Note who is touched when."""
        self._builder = active()
        for _, access in (*reads_of(instruction), *writes_of(instruction)):
            first, _ = self._spans.get(access.tensor.name, (self._count, 0))
            self._spans[access.tensor.name] = (first, self._count)
        self._count += 1

    def finish(self) -> list[Finding]:
        """What did not fit."""
        if self._builder is None:
            return []
        try:
            check_capacity(self._builder, self._spans)
        except NkiError as error:
            return [_finding(error)]
        return []


def _finding(error: NkiError) -> Finding:
    return Finding(
        "capacity", error.code, error.message, error.location, error.remedy, error.details
    )
