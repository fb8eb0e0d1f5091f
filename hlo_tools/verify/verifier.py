"""All checks of a module, in the order in which they build on each other."""

from __future__ import annotations

from dataclasses import replace

from hlo_tools._gc import no_collection
from hlo_tools.errors import HloError, HloVerifyError
from hlo_tools.ir.module import Module
from hlo_tools.verify.findings import Finding, Severity
from hlo_tools.verify.structure import calls_of, check_structure
from hlo_tools.verify.types import check_types
from hlo_tools.verify.whole import check_whole

__all__ = ["check", "verify"]

_REFERENCES = frozenset({f"HLO-V00{number}" for number in (1, 2, 3, 5, 6, 7, 8, 9)} | {"HLO-V010"})
"""Rules without which shapes cannot be checked."""


def verify(module: Module) -> list[Finding]:
    """Everything that is wrong with a module; an empty list for a valid one."""
    proto = module.proto
    with no_collection():
        calls = calls_of(proto)
        findings = list(check_structure(proto, calls))
        if not any(one.code in _REFERENCES for one in findings):
            findings += check_types(proto, calls)
            findings += check_whole(proto, calls)
    return [_located(one, module) for one in findings]


def check(module: Module) -> None:
    """Raise for the first thing that is wrong with a module.

    Raises:
        HloVerifyError: with the finding's code and place.
    """
    for finding in verify(module):
        if finding.severity is Severity.error:
            raise HloVerifyError(
                finding.message,
                code=finding.code,
                place=":".join(part for part in (module.path, finding.place) if part),
                remedy=finding.remedy
                or "the module was damaged or written wrongly; nki-hlo verify lists all findings",
            )


def _located(finding: Finding, module: Module) -> Finding:
    """The finding with the user's source line and the module's file."""
    source = ""
    if finding.computation and finding.instruction:
        source = _source(module, finding)
    return replace(finding, source=source, file=module.path)


def _source(module: Module, finding: Finding) -> str:
    """``file:line`` of the finding's instruction, as far as the module's references allow."""
    try:
        found = module.computation(finding.computation).find(finding.instruction).source
    except (HloError, IndexError):
        return ""
    return str(found) if found is not None else ""
