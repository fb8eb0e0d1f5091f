"""Bounds for what is looked at: time for each check, memory for the whole process."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable
from typing import Any

from hlo_tools import HloError

MEMORY = 16 << 30


class OutOfTime(BaseException):
    """A check took too long; no ``except Exception`` on the way holds it up."""


def _ring(number: int, frame: Any) -> None:
    raise OutOfTime


def within(seconds: float, check: Callable[[], dict[str, str]]) -> dict[str, str]:
    """The check's findings; an exception or too much processor time is one too."""
    signal.signal(signal.SIGPROF, _ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return check()
    except HloError as error:
        return {"": f"ERROR: {error.code} {error.message.splitlines()[0]}"}
    except OutOfTime:
        return {"": f"WRONG: took more than {seconds:.0f} s"}
    except Exception as error:
        trace = traceback.format_exc(limit=-3).replace("\n", " | ")
        return {"": f"WRONG: {type(error).__name__}: {error} {trace}"}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
