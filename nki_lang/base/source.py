"""Where in the user's code an instruction was written."""

from __future__ import annotations

import contextlib
import inspect
import os.path
import sys
from collections.abc import Iterable
from types import CodeType
from typing import Any, NamedTuple

__all__ = [
    "MAX_CALLERS",
    "PACKAGE_FOLDER",
    "SourceLocation",
    "caller_location",
    "definition_of",
    "in_package",
    "name_of",
    "raised_location",
    "raised_outside",
    "shortest_names",
]

PACKAGE_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""Where this package's own code lies: frames of files below it are not the user's."""

MAX_CALLERS = 32
"""Frames that a location keeps around it; of a deeper recursion those that are innermost."""

_CONTEXTLIB_FILE = contextlib.__file__
"""Its frames stand between a ``with`` statement and this package."""


class SourceLocation(NamedTuple):
    """A place in a source file.

    Attributes:
        file: path as Python reports it.
        line: 1-based line.
        function: name of the enclosing function.
        column: 0-based column, or -1 when it is not known.
        caller: where the enclosing function was called, up to the kernel's own function; None
            there, and when it is not known.
    """

    file: str
    line: int
    function: str = ""
    column: int = -1
    caller: SourceLocation | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def callers(self) -> tuple[SourceLocation, ...]:
        """The calls around the location, innermost first."""
        callers: list[SourceLocation] = []
        outer = self.caller
        while outer is not None:
            callers.append(outer)
            outer = outer.caller
        return tuple(callers)


def in_package(code: CodeType) -> bool:
    """Return True if code belongs to this package, or enters its ``with`` blocks."""
    return code.co_filename.startswith(PACKAGE_FOLDER) or code.co_filename == _CONTEXTLIB_FILE


def name_of(func: object) -> str:
    """Return the name of a function; "kernel" if it has none."""
    return str(getattr(func, "__name__", "kernel"))


def definition_of(func: Any) -> SourceLocation | None:
    """Return the location where a function begins; None if it has no Python code."""
    code = getattr(inspect.unwrap(func), "__code__", None)
    if code is None:
        return None
    return SourceLocation(code.co_filename, code.co_firstlineno, code.co_name)


def caller_location(depth: int = 2) -> SourceLocation | None:
    """Return the nearest frame outside this package, starting ``depth`` frames up.

    It is a tuple of interned values, cheap enough to create one for every instruction.
    """
    frame = sys._getframe(depth)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE_FOLDER):
            return SourceLocation(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back
    return None


def raised_location(error: BaseException) -> SourceLocation | None:
    """Return the innermost location outside this package that an exception passed."""
    location = None
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith(PACKAGE_FOLDER):
            location = SourceLocation(code.co_filename, trace.tb_lineno, code.co_name)
        trace = trace.tb_next
    return location


def raised_outside(error: BaseException) -> bool:
    """Return True if code outside this package raised the exception."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is None or not trace.tb_frame.f_code.co_filename.startswith(PACKAGE_FOLDER)


def _tail(parts: tuple[str, ...], count: int) -> str:
    return "/".join(parts[-count:])


def shortest_names(files: Iterable[str]) -> dict[str, str]:
    """Return file -> the shortest suffix of its path that is unique; relative names stay
    unchanged.
    """
    unique_files = dict.fromkeys(files)
    names = {file: file for file in unique_files if not os.path.isabs(file)}
    components_of = {
        file: tuple(component for component in file.replace(os.sep, "/").split("/") if component)
        for file in sorted(unique_files)
        if file not in names
    }
    used = set(names)
    for file, components in components_of.items():
        count = 1
        other_files = [other_parts for name, other_parts in components_of.items() if name != file]
        while count < len(components) and (
            _tail(components, count) in used
            or any(
                _tail(components, count) == _tail(other_parts, count) for other_parts in other_files
            )
        ):
            count += 1
        names[file] = _tail(components, count)
    return names
