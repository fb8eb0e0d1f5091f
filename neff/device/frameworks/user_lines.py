"""The line of the user's code that leads to a function of a framework."""

from __future__ import annotations

import contextlib
import os
import sys
from functools import cache
from importlib.util import find_spec
from types import FrameType

__all__ = ["user_line"]

_LIBRARIES = ("torch", "torch_xla", "nki_lang", "hlo_tools", "neff")


def user_line() -> str:
    """``file:line`` of the innermost frame that is neither torch's nor ours; "" without one."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_library_folders()) and not file.startswith("<"):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


@cache
def _library_folders() -> tuple[str, ...]:
    folders = [contextlib.__file__]
    for name in _LIBRARIES:
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            folders += (folder + os.sep for folder in spec.submodule_search_locations)
    return tuple(folders)
