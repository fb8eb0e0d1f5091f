"""The user's line that is being traced: the innermost frame outside this package and NumPy."""

from __future__ import annotations

import os
import sys

import numpy as np

__all__ = ["calls_of_functions", "user_line"]

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
_FUNCTIONS = os.path.join(_HERE, "functions") + os.sep
_inside: dict[str, bool] = {}
"""For each file name seen, whether it is ours or NumPy's."""


def user_line() -> tuple[str, int] | None:
    """(file, line) of the user's code, or None when there is none on the stack."""
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        name = frame.f_code.co_filename
        inside = _inside.get(name)
        if inside is None:
            inside = _inside[name] = name.startswith((_HERE, _NUMPY, "<__array"))
        if not inside:
            return name, frame.f_lineno
        frame = frame.f_back
    return None


def calls_of_functions() -> int:
    """How many of the NumPy functions that we define the user's line is in; those that only read
    arguments do not count."""
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    found = 0
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_HERE, _NUMPY, "<__array")):
            break
        found += name.startswith(_FUNCTIONS) and not name.endswith("arguments.py")
        frame = frame.f_back
    return found
