"""The rules of one version of NKI, applied to a kernel before it is traced or interpreted.

``NKI_HLO_NKI=0.7`` selects the version. The kernel's source and everything that it calls is read by
:mod:`nki_lang.strict`; the first error is raised at its line and warnings are given once a kernel.
"""

from __future__ import annotations

import inspect
from types import CodeType
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from nki_lang.base.errors import NkiValidationError, warn_at
from nki_lang.base.source import SourceLocation, definition_of
from nki_lang.base.versions import selected_version

if TYPE_CHECKING:
    from nki_lang.strict import Violation

__all__ = ["require_selected_version"]

ASSIGNMENT_RULE: Final = "NKI-STRICT-TILE-ASSIGN"
"""Assignments to tiles run in the vendor's simulator, so ``nki-hlo check`` alone reports them."""

_CHECKED: WeakKeyDictionary[CodeType, dict[tuple[str, str], tuple[Violation, ...]]] = (
    WeakKeyDictionary()
)
"""Code of a kernel -> (file, version) -> its errors; equal code may be in several files."""


def require_selected_version(func: Any) -> None:
    """Refuse a kernel that the selected version of NKI refuses; without a selection do nothing.

    Raises:
        NkiValidationError: the code of the first rule that the kernel breaks (``NKI-STRICT-...``),
            or ``NKI-VERSION``: the variable names no version.
    """
    version = selected_version()
    if not version:
        return
    inner = getattr(inspect.unwrap(func), "__func__", inspect.unwrap(func))
    code = getattr(inner, "__code__", None)
    if not isinstance(code, CodeType):
        return
    checked = _CHECKED.setdefault(code, {})
    key = code.co_filename, version
    if key not in checked:
        checked[key] = _errors(inner, version)
    errors = checked[key]
    if not errors:
        return
    first = errors[0]
    also_reported = (
        f"; {len(errors) - 1} more: nki-hlo check --nki {version}" if len(errors) > 1 else ""
    )
    raise NkiValidationError(
        f"{first.message} in {first.function}: {first.why}",
        code=first.code,
        location=_location(first),
        remedy=first.instead + also_reported,
    )


def _errors(func: object, version: str) -> tuple[Violation, ...]:
    """Return the errors of a kernel by line, and warn of what else was reported.

    A kernel without a source file is not checked, and a warning says so.
    """
    from nki_lang.strict import check_kernel

    try:
        violations = check_kernel(func, version=version)
    except NkiValidationError as error:
        warn_at(
            definition_of(func),
            f"the rules of NKI {version} are not applied: {error.message}; {error.remedy}",
        )
        return ()
    for violation in violations:
        if violation.severity == "warning":
            text = f"[{violation.code}] {violation.message}: {violation.why}; {violation.instead}"
            warn_at(_location(violation), text)
    return tuple(
        violation
        for violation in violations
        if violation.severity == "error" and violation.code != ASSIGNMENT_RULE
    )


def _location(violation: Violation) -> SourceLocation:
    return SourceLocation(violation.file, violation.line, violation.function)
