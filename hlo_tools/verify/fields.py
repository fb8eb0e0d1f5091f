"""Fields that this version does not know: what they say is passed over."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from hlo_tools.ir.module import Module
from hlo_tools.schema.unknown import are_allowed, describe_field, place_of
from hlo_tools.schema.unknown_numbers import unknown_numbers
from hlo_tools.verify.findings import Finding, Severity

__all__ = ["check_fields"]

_REMEDY = "the module is from a newer producer: install a newer nki-hlo"
MAX_FINDINGS = 100
"""Unknown fields that are listed; a newer producer writes them into every instruction."""


def check_fields(module: Module) -> Iterator[Finding]:
    """One finding for each field or enum number that the schema lacks; warnings where allowed."""
    is_allowed = module.allow_unknown_fields or are_allowed()
    severity = Severity.warning if is_allowed else Severity.error
    for number in islice(unknown_numbers(module.proto), MAX_FINDINGS):
        yield Finding(
            "HLO-V044",
            str(number),
            severity=severity,
            computation=number.computation,
            instruction=number.instruction,
            remedy=_REMEDY,
        )
    for field in islice(module.unknown_fields(), MAX_FINDINGS):
        computation, instruction = place_of(field)
        yield Finding(
            "HLO-V044",
            describe_field(field),
            severity=severity,
            computation=computation,
            instruction=instruction,
            remedy=_REMEDY,
        )
