"""Errors of a kernel show the frames of the user, not those between."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, TypeVar

from nki_lang.source import PACKAGE_FOLDER

__all__ = ["DEBUG", "without_own_frames"]

DEBUG = "NKI_HLO_DEBUG"
"""The environment variable with which tracebacks keep every frame."""

_ROOT = os.path.dirname(os.path.dirname(PACKAGE_FOLDER))
_OWN = tuple(os.path.join(_ROOT, name) + os.sep for name in ("nki_lang", "hlo_tools", "neff"))

_P = ParamSpec("_P")
_R = TypeVar("_R")


def without_own_frames(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Let errors leave ``function`` with the frames of others alone.

    Only errors with a code, and those raised by the user's code: of any other the frames are what a
    bug report needs. ``NKI_HLO_DEBUG=1`` keeps all.
    """

    @functools.wraps(function)
    def called(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            trace = error.__traceback__
            if not os.environ.get(DEBUG) and (hasattr(error, "code") or not _raised_here(trace)):
                error.__traceback__ = _of_others(trace)
            raise

    return called


def _is_own(trace: TracebackType) -> bool:
    return trace.tb_frame.f_code.co_filename.startswith(_OWN)


def _raised_here(trace: TracebackType | None) -> bool:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and _is_own(trace)


def _of_others(trace: TracebackType | None) -> TracebackType | None:
    first = last = None
    while trace is not None:
        following = trace.tb_next
        if not _is_own(trace):
            first = first or trace
            if last is not None:
                last.tb_next = trace
            last = trace
            last.tb_next = None
        trace = following
    return first
