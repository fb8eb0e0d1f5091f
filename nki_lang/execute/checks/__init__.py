"""Checks of the simulator that users request by name: ``simulate(kernel, checks=...)``.

Three checks are always on: out-of-bounds accesses, uninitialised values that reach a
result, and accumulation that was never started. :data:`DEFAULT_CHECKS` run and warn when
the user requests no checks.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

from nki_lang.base.errors import NkiValidationError
from nki_lang.execute.checks.accumulation import AccumulationCheck
from nki_lang.execute.checks.base import Check
from nki_lang.execute.checks.capacity import CapacityCheck
from nki_lang.execute.checks.finite import FiniteCheck
from nki_lang.execute.checks.overlap import OverlapCheck
from nki_lang.execute.checks.precision import PrecisionCheck
from nki_lang.execute.checks.races import RaceCheck
from nki_lang.execute.checks.report import Finding, Report
from nki_lang.execute.checks.unused import UnusedCheck

__all__ = ["CHECKS", "DEFAULT_CHECKS", "Check", "Finding", "Report", "checks_of"]

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

DEFAULT_CHECKS = ("overlap", "races", "accumulation")
"""Checks that run when the caller names none; they leave out races between cores."""


def checks_of(names: str | Iterable[str] | None) -> tuple[type[Check], ...]:
    """Return the checks with these names: all checks for ``"all"``, none for None.

    Raises:
        NkiValidationError: code ``NKI-CHECK``; there is no such check.
    """
    if names is None:
        return ()
    requested = [names] if isinstance(names, str) else list(names)
    if "all" in requested:
        return tuple(CHECKS.values())
    unknown = sorted(set(requested) - set(CHECKS))
    if unknown:
        raise NkiValidationError(
            f"there is no check {unknown[0]!r}",
            code="NKI-CHECK",
            remedy=f"checks are {', '.join(CHECKS)}, or 'all'",
        )
    return tuple(CHECKS[name] for name in dict.fromkeys(requested))
