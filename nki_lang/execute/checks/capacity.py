"""Whether what is alive on chip at one time fits, for kernels that are only simulated.

Tracing refuses a kernel that does not fit. The interpreter allocates every tensor separately,
so it runs such a kernel; this check notes which tensor is touched when. Where the run took no
decision that a trace takes otherwise, those are the trace's own lifetimes. Else the call is traced
after it ran: loops on the device keep their tensors throughout. Of a kernel that reads values, and
so cannot be traced, this run's lifetimes count.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from typing import Any

from nki_lang.errors import NkiError
from nki_lang.execute.checks.base import Call, Check, Step
from nki_lang.execute.checks.report import Finding
from nki_lang.frontend.builder import TraceBuilder, active
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
    def conclude(
        cls, checks: Sequence[Check], call: Call, *, straight: bool
    ) -> list[Finding] | None:
        """What tracing the call finds of capacity; None when it cannot be traced."""
        if straight:
            for check in checks:
                if isinstance(check, CapacityCheck) and (found := check._found()):
                    return found
            return []
        return _traced(call)

    def after(self, step: Step) -> None:
        """Note who is touched when."""
        if self._builder is None:
            self._builder = active()
        spans, now = self._spans, self._count
        for _, access in step.touched:
            name = access.tensor.name
            known = spans.get(name)
            spans[name] = (now if known is None else known[0], now)
        self._count += 1

    def finish(self) -> list[Finding]:
        """What did not fit, unless it was said already."""
        return [] if self.concluded else self._found()

    def _found(self) -> list[Finding]:
        if self._builder is None:
            return []
        try:
            check_capacity(self._builder, self._spans)
        except NkiError as error:
            return [_finding(error)]
        return []


def _traced(call: Call) -> list[Finding] | None:
    """Trace the call. Other faults are left to the run, which reports more."""
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
