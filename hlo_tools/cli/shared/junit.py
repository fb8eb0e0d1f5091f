"""Findings as JUnit's XML, which CI systems show as tests: a suite a module, a case a finding."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from hlo_tools.verify import Finding, Severity

__all__ = ["render_junit"]

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 has no way to write."""


def render_junit(command: str, files: Sequence[str], findings: Sequence[Finding]) -> str:
    """The document: errors and warnings are failures, notes are output of cases that pass.

    A module without findings is a suite with one case that passes.
    """
    problem_count = sum(finding.severity is not Severity.note for finding in findings)
    root = ElementTree.Element(
        "testsuites", name=f"nki-hlo {command}", tests="0", failures=str(problem_count), errors="0"
    )
    findings_by_file = {
        file: [finding for finding in findings if finding.file == file]
        for file in dict.fromkeys(files)
    }
    for file, file_findings in findings_by_file.items():
        root.append(_suite(command, file, file_findings))
    root.set("tests", str(sum(int(suite.get("tests", "0")) for suite in root)))
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _suite(command: str, file: str, findings: Sequence[Finding]) -> ElementTree.Element:
    failures = sum(finding.severity is not Severity.note for finding in findings)
    suite = ElementTree.Element(
        "testsuite", name=_clean(file), tests=str(max(len(findings), 1)), failures=str(failures),
        errors="0", skipped="0",
    )  # fmt: skip
    if not findings:
        ElementTree.SubElement(suite, "testcase", classname=_clean(file), name=command)
    for finding in findings:
        name = f"{finding.code} {finding.place}".rstrip()
        case = ElementTree.SubElement(suite, "testcase", classname=_clean(file), name=_clean(name))
        if finding.severity is Severity.note:
            ElementTree.SubElement(case, "system-out").text = _clean(str(finding))
            continue
        failure = ElementTree.SubElement(
            case, "failure", type=finding.severity.value, message=_clean(finding.message)
        )
        failure.text = _clean(
            f"{finding}\nhelp: {finding.remedy}" if finding.remedy else str(finding)
        )
    return suite


def _clean(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)
