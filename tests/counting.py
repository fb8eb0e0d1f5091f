"""Work counted instead of timed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

__all__ = ["calls_made", "steps_taken"]


def calls_made(action: Callable[[], object]) -> int:
    """How many Python functions an action calls."""
    count = 0

    def called(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(called)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def steps_taken(action: Callable[[], object], folder: str) -> int:
    """How many lines of the sources in a folder an action runs; each iteration counts.

    Args:
        action: what is run.
        folder: text that the paths of the counted sources contain, for example ``neff/compiler/``.
    """
    count = 0

    def traced(frame: FrameType, event: str, argument: object) -> Callable[..., object] | None:
        nonlocal count
        if folder not in frame.f_code.co_filename:
            return None
        count += event == "line"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        action()
    finally:
        sys.settrace(before)
    return count
