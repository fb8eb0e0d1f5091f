"""A code of an error, warning or finding, as ``explain`` shows it."""

from __future__ import annotations

from dataclasses import dataclass

from hlo_tools.plugins import BUILTIN_ORIGIN

__all__ = ["Code"]


@dataclass(frozen=True, slots=True)
class Code:
    """A code of an error, warning or finding, with its explanation.

    Attributes:
        code: the code.
        title: what is wrong, or what must hold for a rule, in a few words.
        why: what leads there.
        remedy: what to do.
        severity: error, warning, or advice.
        command: the command that looks for it; "" for an error, which any may report.
        targets: the targets that a rule holds for.
        origin: the distribution that it comes with.
        test: a test that reports it, in this project's repository.
    """

    code: str
    title: str
    why: str
    remedy: str
    severity: str = "error"
    command: str = ""
    targets: str = "all"
    origin: str = BUILTIN_ORIGIN
    test: str = ""
