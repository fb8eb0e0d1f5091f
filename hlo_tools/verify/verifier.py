"""All checks of a module, in the order in which they build on each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from hlo_tools._gc import no_collection
from hlo_tools.errors import HloError, HloVerifyError
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.types.opcodes import NEWER
from hlo_tools.verify.attributes import check_attributes
from hlo_tools.verify.backends import options_for
from hlo_tools.verify.buffers import check_buffers
from hlo_tools.verify.calling import check_calling
from hlo_tools.verify.deadlocks import check_deadlocks
from hlo_tools.verify.fields import check_fields
from hlo_tools.verify.findings import Finding, Severity
from hlo_tools.verify.index import Index
from hlo_tools.verify.layouts import check_layouts
from hlo_tools.verify.options import DEFAULT, Options
from hlo_tools.verify.pairs import check_pairs
from hlo_tools.verify.shardings import check_shardings
from hlo_tools.verify.structure import calls_of, check_structure
from hlo_tools.verify.types import check_types
from hlo_tools.verify.whole import check_whole
from nki_lang.base.unknown_fields import UPDATE

__all__ = ["check", "verify"]

_REFERENCES = frozenset({f"HLO-V00{number}" for number in (1, 2, 3, 5, 6, 7, 8, 9)} | {"HLO-V010"})
"""Rules without which shapes cannot be checked."""


def verify(module: Module, *, options: Options = DEFAULT) -> list[Finding]:
    """Return all findings about a module; an empty list if it is valid.

    Args:
        module: the module; it is only read.
        options: which of the checks that need to be asked for are made.

    Raises:
        HloError: the options name no backend (HLO-ARGUMENT).
    """
    proto = module.proto
    options = options_for(module, options)
    with no_collection():
        calls = calls_of(proto)
        findings = [*check_fields(module), *check_structure(proto, calls)]
        if not any(finding.code in _REFERENCES for finding in findings):
            index = Index(proto, calls)
            findings += check_types(proto, calls, options)
            findings += check_whole(proto, calls)
            if not any(finding.severity is Severity.error for finding in findings):
                findings += _connections(index, options)
    return _located(findings, module)


def _connections(index: Index, options: Options) -> Iterator[Finding]:
    """Findings about how instructions go together, in a module whose types are right."""
    yield from check_pairs(index)
    yield from check_calling(index, options)
    yield from check_shardings(index, options)
    yield from check_buffers(index)
    yield from check_attributes(index, options)
    yield from check_layouts(index, options)
    if options.deadlocks:
        yield from check_deadlocks(index)


_REMEDY = "the module was damaged or written wrongly; nki-hlo verify lists all findings"


def check(module: Module) -> None:
    """Raise the first error of a module.

    Raises:
        HloVerifyError: with the finding's code and place.
    """
    for finding in verify(module):
        if finding.severity is Severity.error:
            raise HloVerifyError(
                finding.message,
                code=finding.code,
                place=":".join(text for text in (module.path, finding.place) if text),
                remedy=finding.remedy or (UPDATE if NEWER in finding.message else _REMEDY),
            )


def _located(findings: list[Finding], module: Module) -> list[Finding]:
    """The findings with the user's source lines and the module's file; names are looked up once."""
    if not findings:
        return []
    named = {finding.computation for finding in findings if finding.instruction}
    rows: dict[str, dict[str, Instruction]] = {}
    with suppress(HloError):  # ids that occur twice: the findings say so
        for body in module.computations:
            if body.name in named:
                rows[body.name] = {finding.proto.name: finding for finding in body.instructions}
    return [
        replace(finding, source=_source(rows.get(finding.computation, {}).get(finding.instruction)),
                file=module.path)
        for finding in findings
    ]  # fmt: skip


def _source(view: Instruction | None) -> str:
    """``file:line`` of an instruction, as far as the module's references allow."""
    try:
        location = view.source if view is not None else None
    except (HloError, IndexError):
        return ""
    return str(location) if location is not None else ""
