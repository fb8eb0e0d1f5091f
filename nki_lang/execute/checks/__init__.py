"""Checks of the simulator that users request by name: ``simulate(kernel, checks=...)``.

Always on, without a request: out-of-bounds accesses, uninitialised values that reach a
result, and accumulation that was never started. :data:`CHEAP` are on as long as no others are
named, and warn.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

from nki_lang.errors import NkiValidationError
from nki_lang.execute.checks.accumulation import AccumulationCheck
from nki_lang.execute.checks.base import Check
from nki_lang.execute.checks.capacity import CapacityCheck
from nki_lang.execute.checks.finite import FiniteCheck
from nki_lang.execute.checks.overlap import OverlapCheck
from nki_lang.execute.checks.precision import PrecisionCheck
from nki_lang.execute.checks.races import RaceCheck
from nki_lang.execute.checks.report import Finding, Report
from nki_lang.execute.checks.unused import UnusedCheck

__all__ = ["CHEAP", "CHECKS", "Check", "Finding", "Report", "checks_of"]

CHECKS: MappingProxyType[str, type[Check]] = MappingProxyType(
    {
        check.name: check
        for check in (
            OverlapCheck,
            RaceCheck,
            AccumulationCheck,
            FiniteCheck,
            UnusedCheck,
            CapacityCheck,
            PrecisionCheck,
        )
    }
)

CHEAP = ("overlap", "races", "accumulation")
"""Checks that run when none are named; races between cores are left out then."""


def checks_of(names: str | Iterable[str] | None) -> tuple[type[Check], ...]:
    """The checks with these names; ``"all"`` for every one, None for none.

    Raises:
        NkiValidationError: code ``NKI-CHECK``; there is no such check.
    """
    if names is None:
        return ()
    wanted = [names] if isinstance(names, str) else list(names)
    if "all" in wanted:
        return tuple(CHECKS.values())
    unknown = sorted(set(wanted) - set(CHECKS))
    if unknown:
        raise NkiValidationError(
            f"there is no check {unknown[0]!r}",
            code="NKI-CHECK",
            remedy=f"checks are {', '.join(CHECKS)}, or 'all'",
        )
    return tuple(CHECKS[name] for name in dict.fromkeys(wanted))
