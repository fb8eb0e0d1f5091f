"""Check that tensors alive at the same time fit on chip, for kernels that are only simulated.

Tracing refuses a kernel that does not fit. The interpreter allocates every tensor separately,
so it runs such a kernel; this check records when each tensor is used. If a trace would issue the
same instructions, these records are the lifetimes of the trace. Otherwise the check traces the
call after the run: loops on the device keep their tensors for all iterations. A kernel that reads
values cannot be traced, so the lifetimes of this run count.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from typing import Any

from nki_lang.base.errors import NkiError
from nki_lang.execute.checks.base import Check, SimulatedCall, Step
from nki_lang.execute.checks.report import Finding
from nki_lang.frontend.builder import TraceBuilder, active
from nki_lang.tracing.capacity import Spans, check_capacity

__all__ = ["CapacityCheck"]


class CapacityCheck(Check):
    """Finds tiles that together do not fit into SBUF or PSUM, and draws their lifetimes."""

    name = "capacity"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._builder: TraceBuilder | None = None
        self._spans: Spans = {}
        self._count = 0

    @classmethod
    def conclude(
        cls, checks: Sequence[Check], call: SimulatedCall, *, straight: bool
    ) -> list[Finding] | None:
        """Return the capacity findings of a trace of the call; None when it cannot be traced."""
        if straight:
            for check in checks:
                if isinstance(check, CapacityCheck) and (findings := check._overflows()):
                    return findings
            return []
        return _traced(call)

    def after(self, step: Step) -> None:
        """Record when each tensor is used."""
        if self._builder is None:
            self._builder = active()
        spans, now = self._spans, self._count
        for _, access in step.touched:
            name = access.tensor.name
            span = spans.get(name)
            spans[name] = (now if span is None else span[0], now)
        self._count += 1

    def finish(self) -> list[Finding]:
        """Return the tensors that did not fit, unless :meth:`conclude` returned them."""
        return [] if self.concluded else self._overflows()

    def _overflows(self) -> list[Finding]:
        if self._builder is None:
            return []
        try:
            check_capacity(self._builder, self._spans)
        except NkiError as error:
            return [_finding(error)]
        return []


def _traced(call: SimulatedCall) -> list[Finding] | None:
    """Trace the call. Ignore other errors: the run reports them in more detail."""
    from nki_lang.tracing.tracer import trace_kernel

    try:
        with contextlib.redirect_stdout(io.StringIO()):  # what it prints comes with the run
            trace_kernel(call.func, call.args, call.kwargs, target=call.target, grid=call.grid)
    except NkiError as error:
        return [_finding(error)] if error.code == "NKI-CAPACITY" else None
    except Exception:  # kernels that read values can be simulated but not traced
        return None
    return []


def _finding(error: NkiError) -> Finding:
    return Finding(
        "capacity", error.code, error.message, error.location, error.remedy, error.details
    )
