"""Outcomes of a test: passed, skipped, refused with a code, wrong, foreign, crashed or hung."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["ASIDE", "TestTimeout", "aside", "reason_of"]

_CODE = re.compile(r"\[((?:NEFF|HLO|NKI)-[A-Z0-9-]+)\]\s*(.*)", re.DOTALL)
_NAME = re.compile(r" \S+(?=:)")

ASIDE: Final = frozenset({"NEFF-F64"})
"""Codes of the kinds that are not counted: float64."""

_BUGS = frozenset({"NEFF-INTERNAL", "NEFF-LOWERING", "NEFF-MODULE"})
"""Codes that say the compiler failed, or took a valid module for a damaged one."""


class TestTimeout(BaseException):
    """The test took longer than its limit; no ``except Exception`` of the test catches it."""


def aside(outcome: str, reason: str) -> bool:
    """True for coded refusals of float64 and matrix decompositions.

    A wrong value, a crash or a hang always counts, whatever the test is called.
    """
    code = reason.partition(" ")[0]
    return outcome == "refused" and (code in ASIDE or "'lapack_" in reason)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, then its causes and what was handled when it was raised."""
    visited: set[int] = set()
    queue = [error]
    while queue:
        current = queue.pop(0)
        if id(current) in visited:
            continue
        visited.add(id(current))
        yield current
        queue += [
            linked for linked in (current.__cause__, current.__context__) if linked is not None
        ]


def _states_a_value(error: BaseException) -> bool:
    """True for a failed comparison; a refusal that was handled before it does not excuse it."""
    return isinstance(error, AssertionError) and not (error.__cause__ or _CODE.search(str(error)))


def reason_of(error: BaseException) -> tuple[str, str]:
    """(outcome, reason) of what a test raised; a coded refusal's reason starts with its code."""
    if _states_a_value(error):
        return "wrong", f"{type(error).__name__}: {' '.join(str(error).split())}"[:400]
    for linked in _chain(error):
        if isinstance(linked, TestTimeout):
            return "hang", "took more CPU time than its limit"
        match = _CODE.search(str(linked))
        if match:
            code, text = match.groups()
            outcome = "bug" if code in _BUGS else "refused"
            return outcome, f"{code} {' '.join(text.split())}"[:400]
    text = " ".join(str(error).split())
    outcome = "wrong" if isinstance(error, AssertionError) else "foreign"
    return outcome, f"{type(error).__name__}: {text}"[:400]
