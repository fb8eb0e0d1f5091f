"""Whether what is alive on chip at one time fits, for kernels that are only simulated.

Tracing refuses a kernel that does not fit. The interpreter gives every tensor memory of its own,
so it runs such a kernel; this check traces the call first and reports what tracing says.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

from nki_lang.errors import NkiError
from nki_lang.execute.checks.base import Check
from nki_lang.execute.checks.report import Finding
from nki_lang.ir.types import Instruction
from nki_lang.targets import Target

__all__ = ["CapacityCheck"]


class CapacityCheck(Check):
    """Finds tiles that do not fit into SBUF or PSUM together, and draws who holds what when."""

    name = "capacity"

    @classmethod
    def preview(
        cls,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        target: Target,
        grid: tuple[int, ...],
    ) -> list[Finding]:
        """Trace the call. Other faults are left to the run that follows, which tells more."""
        from nki_lang.tracing import trace_kernel

        try:
            with contextlib.redirect_stdout(io.StringIO()):  # what it prints comes with the run
                trace_kernel(func, args, kwargs, target=target, grid=grid)
        except NkiError as error:
            if error.code == "NKI-CAPACITY":
                return [
                    Finding(
                        cls.name, error.code, error.message, error.location, error.remedy,
                        error.details,
                    )
                ]  # fmt: skip
        except Exception:  # kernels that look at values can be simulated but not traced
            return []
        return []

    def concerns(self, instruction: Instruction) -> bool:
        """Everything is said before the run."""
        return False
