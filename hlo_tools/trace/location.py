"""The user's line that is being traced: the innermost frame outside this package, NumPy and Python."""

from __future__ import annotations

import dis
import os
import sys
from types import TracebackType

import numpy as np

__all__ = ["calls_of_functions", "line_of", "user_line"]

_TRACE_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
_FUNCTIONS = os.path.join(_TRACE_FOLDER, "functions") + os.sep
_STANDARD = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_inside: dict[str, bool] = {}
"""For each file name seen, whether it is ours, NumPy's or of Python's library."""


def _is_inside(name: str) -> bool:
    inside = _inside.get(name)
    if inside is None:
        is_standard = name.startswith(_STANDARD) and "-packages" not in name
        inside = is_standard or name.startswith((_TRACE_FOLDER, _NUMPY, "<__array"))
        _inside[name] = inside
    return inside


def user_line() -> tuple[str, int] | None:
    """(file, line) of the user's code, or None when there is none on the stack."""
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        name = frame.f_code.co_filename
        if not _is_inside(name):
            return name, frame.f_lineno
        frame = frame.f_back
    return None


def line_of(traceback: TracebackType | None) -> tuple[str, int] | None:
    """(file, line) of the user's code that calls a function in C which fails.

    None when Python code raises the error: this package, or a ``raise`` of the user's.
    """
    line: tuple[str, int] | None = None
    while traceback is not None:
        code, number = traceback.tb_frame.f_code, traceback.tb_lineno
        if not _is_inside(code.co_filename) and not code.co_filename.endswith(".pyx"):
            line = code.co_filename, number
        is_last = traceback.tb_next is None
        if is_last and (code.co_filename.startswith(_TRACE_FOLDER) or _raises(traceback)):
            return None
        traceback = traceback.tb_next
    return line


def _raises(traceback: TracebackType) -> bool:
    code, location = traceback.tb_frame.f_code.co_code, traceback.tb_lasti
    return 0 <= location < len(code) and code[location] == dis.opmap["RAISE_VARARGS"]


def calls_of_functions() -> int:
    """How many of the NumPy functions that we define the user's line is in; those that only read
    arguments do not count."""
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    count = 0
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_TRACE_FOLDER, _NUMPY, "<__array")):
            break
        count += name.startswith(_FUNCTIONS) and not name.endswith("arguments.py")
        frame = frame.f_back
    return count
