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

PACKAGE_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
"""Where this package's own code lies: frames of files below it are not the user's."""

MAX_CALLERS = 32
"""Frames that a location keeps around it; of a deeper recursion those that are innermost."""

_MANAGERS = contextlib.__file__
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
        """The calls around it, innermost first."""
        found: list[SourceLocation] = []
        outer = self.caller
        while outer is not None:
            found.append(outer)
            outer = outer.caller
        return tuple(found)


def in_package(code: CodeType) -> bool:
    """Whether code belongs to this package, or enters its ``with`` blocks."""
    return code.co_filename.startswith(PACKAGE_FOLDER) or code.co_filename == _MANAGERS


def name_of(func: object) -> str:
    """The name of a function; "kernel" of what has none."""
    return str(getattr(func, "__name__", "kernel"))


def definition_of(func: Any) -> SourceLocation | None:
    """Where a function begins; None for what has no code in Python."""
    code = getattr(inspect.unwrap(func), "__code__", None)
    if code is None:
        return None
    return SourceLocation(code.co_filename, code.co_firstlineno, code.co_name)


def caller_location(depth: int = 2) -> SourceLocation | None:
    """The nearest frame outside this package, starting ``depth`` frames up.

    A tuple of interned values: cheap enough to be taken for every instruction.
    """
    frame = sys._getframe(depth)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE_FOLDER):
            return SourceLocation(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back
    return None


def raised_location(error: BaseException) -> SourceLocation | None:
    """The innermost place outside this package that an exception came through."""
    found = None
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith(PACKAGE_FOLDER):
            found = SourceLocation(code.co_filename, trace.tb_lineno, code.co_name)
        trace = trace.tb_next
    return found


def raised_outside(error: BaseException) -> bool:
    """Whether an exception was raised by code outside this package."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is None or not trace.tb_frame.f_code.co_filename.startswith(PACKAGE_FOLDER)


def _tail(parts: tuple[str, ...], count: int) -> str:
    return "/".join(parts[-count:])


def shortest_names(files: Iterable[str]) -> dict[str, str]:
    """File -> the shortest end of its path that no other has; relative names stay as they are."""
    found = dict.fromkeys(files)
    names = {file: file for file in found if not os.path.isabs(file)}
    parts = {
        file: tuple(part for part in file.replace(os.sep, "/").split("/") if part)
        for file in sorted(found)
        if file not in names
    }
    taken = set(names)
    for file, own in parts.items():
        count = 1
        others = [other for name, other in parts.items() if name != file]
        while count < len(own) and (
            _tail(own, count) in taken
            or any(_tail(own, count) == _tail(other, count) for other in others)
        ):
            count += 1
        names[file] = _tail(own, count)
    return names
