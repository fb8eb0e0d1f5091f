"""Limits on a kernel's estimate in a test: what pytest's fixture ``nki_budget`` calls."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from neff.errors import NeffError
from neff.profile import Budget, Check, ProfileReport, check_budget
from neff.profile.project_budgets import project_budgets
from neff.runtime.kernel_estimates import compiled_profile
from nki_lang.kernel import Kernel

__all__ = ["checked"]


def checked(
    kernel: Kernel,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    *,
    target: str | None = None,
    max_latency_us: float | None = None,
    max_sbuf_bytes: float | None = None,
    max_hbm_bytes: float | None = None,
    min_utilisation: Mapping[str, float] | None = None,
) -> tuple[ProfileReport, list[Check]]:
    """The profile of a kernel, and every limit with what was found.

    Args:
        kernel, args, kwargs: the call.
        target: the family; the kernel's own or the current one by default.
        max_latency_us, max_sbuf_bytes, max_hbm_bytes: limits; of SBUF for all partitions.
        min_utilisation: engine -> share of the time in which it has to be busy, 0 to 1.

    Raises:
        NeffError: ``NEFF-USAGE``; there is no limit, here or in ``[tool.nki-neff.budgets]``.
    """
    kernel_ir = kernel.trace(args, dict(kwargs), target=target)
    program, report = compiled_profile(kernel_ir, kernel.arrays(args, dict(kwargs)))
    budget = Budget(
        None if max_latency_us is None else max_latency_us * 1e3,
        max_sbuf_bytes,
        max_hbm_bytes,
        utilisation=tuple((min_utilisation or {}).items()),
    )
    checks = check_budget(program, report.profile, budget)
    if not checks:
        names = (kernel.__name__,)
        checks = project_budgets(Path.cwd()).check(program, report.profile, names)
    if not checks:
        raise NeffError(
            f"there is no limit for {kernel.__name__}",
            code="NEFF-USAGE",
            remedy="pass max_latency_us=, or name it in [tool.nki-neff.budgets]",
        )
    return report, checks
