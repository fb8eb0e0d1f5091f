"""Removes the frames of this project from the tracebacks of kernel errors."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from types import FunctionType, TracebackType
from typing import ParamSpec, TypeVar, cast

from nki_lang.base.source import PACKAGE_FOLDER

__all__ = ["DEBUG_VARIABLE", "without_package_frames", "without_package_frames_in_methods"]

DEBUG_VARIABLE = "NKI_HLO_DEBUG"
"""Environment variable that keeps every frame in tracebacks."""

_ROOT = os.path.dirname(os.path.dirname(PACKAGE_FOLDER))
_PACKAGE_FOLDERS = tuple(
    os.path.join(_ROOT, name) + os.sep for name in ("nki_lang", "hlo_tools", "neff")
)

_P = ParamSpec("_P")
_R = TypeVar("_R")


def without_package_frames(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Wrap ``function`` so that its errors show only frames of other code.

    This applies to errors with a code and to errors that the user's code raises; a bug report needs
    the frames of all other errors. A cause that has a code is not printed, because the error's own
    message contains it. ``NKI_HLO_DEBUG=1`` keeps all frames.
    """

    @functools.wraps(function)
    def called(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            trace = error.__traceback__
            if not os.environ.get(DEBUG_VARIABLE) and (
                hasattr(error, "code") or not _raised_here(trace)
            ):
                error.__traceback__ = _outside_packages(trace)
                cause = error.__cause__
                if cause and hasattr(cause, "code") and _raised_here(cause.__traceback__):
                    error.__cause__ = None
                    error.__suppress_context__ = True
            raise

    return called


_C = TypeVar("_C")


def without_package_frames_in_methods(decorated_class: type[_C]) -> type[_C]:
    """Apply :func:`without_package_frames` to the public methods of a class, and to calls of it."""
    for name, member in list(vars(decorated_class).items()):
        if name.startswith("_") and name not in ("__call__", "__init__"):
            continue
        function: object = getattr(member, "__func__", member)
        if not isinstance(function, FunctionType) or isinstance(member, staticmethod):
            continue
        wrapped = without_package_frames(cast("Callable[..., object]", function))
        is_classmethod = isinstance(member, classmethod)
        setattr(decorated_class, name, classmethod(wrapped) if is_classmethod else wrapped)
    return decorated_class


def _is_package_frame(trace: TracebackType) -> bool:
    return trace.tb_frame.f_code.co_filename.startswith(_PACKAGE_FOLDERS)


def _raised_here(trace: TracebackType | None) -> bool:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and _is_package_frame(trace)


def _outside_packages(trace: TracebackType | None) -> TracebackType | None:
    first = last = None
    while trace is not None:
        following = trace.tb_next
        if not _is_package_frame(trace):
            first = first or trace
            if last is not None:
                last.tb_next = trace
            last = trace
            last.tb_next = None
        trace = following
    return first
