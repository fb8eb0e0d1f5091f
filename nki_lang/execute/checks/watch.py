"""Hooks that report the findings of each simulated call to a program that runs other people's
kernels.

``NKI_CHECKS`` names the checks of every ``nki.simulate`` that names none itself;
``NKI_CHECKS_JOURNAL`` is a file that gets one line of JSON a finding. Both serve programs that
start a script; within a process, :data:`LISTENERS` are called.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, Final

from nki_lang.base.errors import NkiError
from nki_lang.execute.checks.report import Finding, Report

__all__ = ["CHECKS_VARIABLE", "JOURNAL_VARIABLE", "LISTENERS", "report_to", "requested_checks"]

CHECKS_VARIABLE: Final = "NKI_CHECKS"
JOURNAL_VARIABLE: Final = "NKI_CHECKS_JOURNAL"

LISTENERS: list[Callable[[Any, list[Finding]], None]] = []
"""Functions called after every simulated call with the kernel's function and its findings."""


def requested_checks() -> list[str] | None:
    """Return the names in NKI_CHECKS, separated by commas; None when it is not set."""
    names = os.environ.get(CHECKS_VARIABLE, "")
    return [name.strip() for name in names.split(",") if name.strip()] or None


def report_to(func: Callable[..., object], report: Report, error: NkiError | None) -> None:
    """Pass the findings of one call to listeners and the journal; an error that ended it is a
    finding, too.
    """
    findings = list(report)
    if error is not None:
        fault = Finding(
            "fault", error.code, error.message, error.location, error.remedy, error.details
        )
        findings.append(fault)
    for listener in LISTENERS:
        listener(func, findings)
    path = os.environ.get(JOURNAL_VARIABLE)
    if not path:
        return
    kernel = getattr(func, "__name__", "kernel")
    rows = [json.dumps({"kernel": kernel})]
    rows += [json.dumps({"kernel": kernel, **finding.to_json()}) for finding in findings]
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, ("\n".join(rows) + "\n").encode())
    finally:
        os.close(handle)
