"""The root of all errors, and the errors of the kernel language, each with a stable code.

An error states the fault, its location (the user's file and line) and the remedy. Codes are
stable: tools compare codes, people read messages. ``hlo_tools.errors`` and ``neff.errors`` derive
their classes from the same root, :class:`CodedError`.
"""

from __future__ import annotations

import difflib
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn

from nki_lang.base.source import SourceLocation, caller_location, in_package

__all__ = [
    "UNGUARDED",
    "CodedError",
    "NkiAttributeError",
    "NkiError",
    "NkiExecutionError",
    "NkiFileError",
    "NkiTypeError",
    "NkiValidationError",
    "NkiValueError",
    "fail",
    "missing_attribute",
    "note_warning",
    "reports_bugs",
    "warn_at",
    "warn_at_caller",
    "warn_deprecated",
    "warning_count",
]


UNGUARDED: Final = "NKI_HLO_UNGUARDED"
"""Environment variable; "1" raises exceptions that are bugs of ours instead of reporting them."""


def reports_bugs() -> bool:
    """Return True if an exception that is a bug of ours may be reported as another error.

    Tests and fuzzers set ``NKI_HLO_UNGUARDED=1`` and receive the original exception.
    """
    return os.environ.get(UNGUARDED) != "1"


class CodedError(Exception):
    """Root of the errors of ``nki_lang``, ``hlo_tools`` and ``neff``.

    Args:
        message: what is wrong, what was passed and what is allowed, in one or two sentences.
        code: a stable identifier such as ``"HLO-TRUNCATED"``; the default is the class's.
        place: a path, ``file:line:column``, a byte offset or an instruction name.
        remedy: how to fix it; the default is the class's.
        source: document and section that state the rule.
        details: names and numbers of the message, as JSON values.
    """

    default_code = "ERROR"
    default_remedy = ""

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        place: str = "",
        remedy: str = "",
        source: str = "",
        details: dict[str, Any] | None = None,
    ) -> None:
        self.code = code or self.default_code
        self.message = message
        self.place = place
        self.remedy = remedy or self.default_remedy
        self.source = source
        self.details = details or {}
        super().__init__(message)  # pickling passes this argument to the class again

    def __str__(self) -> str:
        return self.render()

    def render(self) -> str:
        """Return the complete text: ``place: [CODE] message``, a line of help and the source."""
        prefix = f"{self.place}: " if self.place else ""
        lines = [f"{prefix}[{self.code}] {self.message}"]
        if self.remedy:
            lines.append(f"  help: {self.remedy}")
        if self.source:
            lines.append(f"  documented in: {self.source}")
        return "\n".join(lines)


class NkiError(CodedError):
    """Root of every error that the kernel language raises.

    Args:
        message: as for :class:`CodedError`.
        code: a stable identifier such as ``"NKI-PARTITION"``.
        location: the user's file and line, where known; ``place`` is its text.
        remedy: how to fix it.
        source: document and section that state the rule.
        details: names and numbers of the message, as JSON values.
    """

    default_code = "NKI-ERROR"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        location: SourceLocation | None = None,
        remedy: str = "",
        source: str = "",
        details: dict[str, Any] | None = None,
    ) -> None:
        self.location = location
        place = str(location) if location else ""
        super().__init__(
            message, code=code, place=place, remedy=remedy, source=source, details=details
        )


class NkiValidationError(NkiError):
    """A kernel breaks a rule of the language or a limit of the target."""

    default_code = "NKI-INVALID"


class NkiTypeError(NkiValidationError, TypeError):
    """A validation error where Python itself would raise a TypeError."""


class NkiValueError(NkiValidationError, ValueError):
    """A validation error where Python itself would raise a ValueError."""


class NkiAttributeError(NkiValidationError, AttributeError):
    """A validation error where Python itself would raise an AttributeError."""


class NkiExecutionError(NkiError):
    """A kernel failed while it ran (out of bounds, deadlock, uninitialised read)."""

    default_code = "NKI-EXEC"


class NkiFileError(NkiError):
    """A kernel file (KLIR or its companion) is damaged or has another format."""

    default_code = "NKI-FILE"


def fail(
    message: str,
    code: str,
    remedy: str = "",
    source: str = "",
    error: type[NkiValidationError] = NkiValidationError,
) -> NoReturn:
    """Raise ``error`` that names the nearest line outside this package."""
    raise error(message, code=code, location=caller_location(2), remedy=remedy, source=source)


_warning_count = 0


def warning_count() -> int:
    """Return the number of warnings that the language has given in this process."""
    return _warning_count


def note_warning() -> None:
    """Count a warning that is given now."""
    global _warning_count
    _warning_count += 1


def warn_at_caller(message: str) -> None:
    """Warn at the nearest line outside this package."""
    warn_at(caller_location(2), message)


def warn_at(location: SourceLocation | None, message: str) -> None:
    """Warn at a line of the user's; without one, at the nearest line outside this package."""
    location = location or caller_location(2)
    file, line = location[:2] if location is not None else ("<unknown>", 0)
    note_warning()
    warnings.warn_explicit(message, UserWarning, file, line)


def warn_deprecated(message: str) -> None:
    """Warn at the nearest line outside this package that a later version has another name.

    A DeprecationWarning: Python shows it, once a line, where the script itself or a test uses the
    name, and not for kernels of a library.
    """
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and in_package(frame.f_code):
        frame = frame.f_back
    namespace = frame.f_globals
    note_warning()
    warnings.warn_explicit(
        message, DeprecationWarning, frame.f_code.co_filename, frame.f_lineno,
        module=namespace.get("__name__"), registry=namespace.setdefault("__warningregistry__", {}),
    )  # fmt: skip


def _reading_location() -> SourceLocation | None:
    """Return the location that reads a name of a module, outside this package and modules that
    re-export it.
    """
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        code = frame.f_code
        if code.co_name != "__getattr__" and not in_package(code):
            return SourceLocation(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back
    return None


def missing_attribute(
    module: str, names: Iterable[str], removed: dict[str, str] | None = None
) -> Callable[[str], Any]:
    """Return a module-level ``__getattr__`` that suggests close names, also of sibling modules.

    Args:
        module: name of the module as people import it.
        names: its public names.
        removed: names of earlier versions, with their replacements.
    """
    public_names = _PUBLIC_NAMES[module] = sorted(names)
    replacements = removed or {}

    def __getattr__(name: str) -> NoReturn:
        message = f"{module} has no {name!r}"
        if name.startswith("_"):  # Python's protocols ask for such names
            raise AttributeError(message, name=name)
        code, remedy = "NKI-UNKNOWN-NAME", ""
        if name in replacements:
            code, remedy = "NKI-REMOVED", replacements[name]
        elif siblings := _siblings_with(module, name):
            remedy = f"write {' or '.join(f'{sibling}.{name}' for sibling in siblings)}"
        elif close := difflib.get_close_matches(name, public_names, 3, 0.6):
            remedy = f"did you mean {' or '.join(close)}?"
        error = NkiAttributeError(message, code=code, location=_reading_location(), remedy=remedy)
        error.name = name
        raise error

    return __getattr__


_PUBLIC_NAMES: Final[dict[str, list[str]]] = {}
"""Public names by module, of the modules that are imported."""


def _siblings_with(module: str, name: str) -> list[str]:
    """Return the modules of the same package that have a name."""
    package = module.rpartition(".")[0]
    return [
        sibling
        for sibling, names in _PUBLIC_NAMES.items()
        if sibling != module and sibling.rpartition(".")[0] == package and name in names
    ]
