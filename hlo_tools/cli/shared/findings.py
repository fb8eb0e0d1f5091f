"""How findings are printed: text, JSON, GitHub's and GitLab's annotations, SARIF, JUnit's XML."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import quote

import typer

from hlo_tools.cli.shared import console
from hlo_tools.verify import Finding, Severity

__all__ = ["FORMATS", "Report", "RuleText", "checkout_path", "print_findings"]

_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_REPOSITORY = "https://github.com/OWNER/nki-hlo"
"""The project's address; OWNER is a placeholder until the project is published."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_LEVELS = {Severity.error: "error", Severity.warning: "warning", Severity.note: "note"}
_SOURCE = re.compile(r"^(?P<file>.+?):(?P<line>\d+)")


@dataclass(frozen=True, slots=True)
class RuleText:
    """The texts of a rule besides its findings."""

    title: str
    why: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """The findings of a checking command.

    Attributes:
        command: its name.
        files: what it checked.
        findings: what it found.
        rules: code -> texts, for every code that can occur.
        extra: further keys of the JSON document.
        tool: the program that the command belongs to.
        noun: what its files are.
        page: the document that describes its rules, from the root of the repository.
    """

    command: str
    files: Sequence[str]
    findings: Sequence[Finding]
    rules: Mapping[str, RuleText]
    extra: Mapping[str, Any]
    tool: str = "nki-hlo"
    noun: str = "module"
    page: str = "docs/lint.md"


def print_findings(report: Report, form: str) -> None:
    """Print a report in one of :data:`FORMATS`.

    Raises:
        typer.BadParameter: there is no such format.
    """
    printer = FORMATS.get(form)
    if printer is None:
        raise typer.BadParameter(f"{form!r} is not one of {', '.join(FORMATS)}")
    printer(report)


def _text(report: Report) -> None:
    """One finding after the other; of equal notes the first, with the number of the others."""
    alike = Counter(map(_note, report.findings))
    del alike[None]
    verbose = console.settings().verbose
    for finding in report.findings:
        repeated = alike.pop(_note(finding), 0) - 1
        if repeated < 0 and finding.severity is Severity.note and not verbose:
            continue
        console.line(f"{finding.file}: {finding}")
        if repeated > 0 and not verbose:
            console.line(f"  and {console.counted(repeated, 'equal note')} (--verbose lists them)")
        if finding.remedy:
            console.line(f"  help: {finding.remedy}")
        rule = report.rules[finding.code]
        console.note(f"  rule: {rule.title}. {rule.why}", verbose=True)
    modules = console.counted(len(report.files), report.noun)
    console.note(f"{modules}, {console.counted(len(report.findings), 'finding')}")


def _note(finding: Finding) -> tuple[str, str] | None:
    """Return what equal notes share; None for a finding that is printed each time."""
    if finding.severity is not Severity.note:
        return None
    return finding.code, finding.message


def _json(report: Report) -> None:
    rows = [
        {
            **asdict(finding),
            "severity": finding.severity.value,
            "rule": report.rules[finding.code].title,
        }
        for finding in report.findings
    ]
    console.write_json(report.command, files=list(report.files), findings=rows, **report.extra)


def _github(report: Report) -> None:
    """Workflow commands: at the user's line where it is known, else at the module's file."""
    for finding in report.findings:
        level = {"note": "notice"}.get(_LEVELS[finding.severity], _LEVELS[finding.severity])
        file, line = _location(finding)
        properties = [f"file={_property(file)}"]
        if line:
            properties.append(f"line={line}")
        properties.append(f"title={_property(finding.code)}")
        location = f"{finding.place}: " if finding.place else ""
        remedy = f"\n{finding.remedy}" if finding.remedy else ""
        console.line(
            f"::{level} {','.join(properties)}::{_data(location + finding.message + remedy)}"
        )


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _location(finding: Finding) -> tuple[str, int]:
    """(file, line) to show the finding at; the line is 0 when unknown."""
    match = _SOURCE.match(finding.source)
    if match:
        return checkout_path(match["file"]), int(match["line"])
    return checkout_path(finding.file), 0


_ROOTS = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR")
"""Variables in which the runners of GitHub and GitLab name the folder of the checkout."""


def checkout_path(path: str) -> str:
    """A path below the checkout as one from there, which is how code hosts name files.

    Where no runner says what the checkout is, it is the working folder.
    """
    root = next((os.environ[name] for name in _ROOTS if os.environ.get(name)), "")
    if not root and not os.path.isabs(path):
        return path
    short = os.path.relpath(os.path.abspath(path), root or None)
    return path if short.startswith(os.pardir) else short


def _gitlab(report: Report) -> None:
    """A report of Code Quality: a list; the fingerprints of findings do not hold lines."""
    counts: Counter[str] = Counter()
    rows: list[dict[str, Any]] = []
    for finding in report.findings:
        file, line = _location(finding)
        text = f"{finding.code} {file} {finding.place} {finding.message}"
        severity = {"error": "major", "warning": "minor"}.get(_LEVELS[finding.severity], "info")
        rows.append(
            {
                "description": f"{finding.message} {finding.remedy}".strip(),
                "check_name": finding.code,
                "fingerprint": _fingerprint(text, counts),
                "severity": severity,
                "location": {"path": file, "lines": {"begin": line or 1}},
            }
        )
    sys.stdout.write(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")


def _fingerprint(text: str, counts: Counter[str]) -> str:
    """Return a digest that stays when lines move; ``counts`` tells findings of equal text apart."""
    counts[text] += 1
    return sha256(f"{text} {counts[text]}".encode()).hexdigest()


def _sarif(report: Report) -> None:
    """SARIF 2.1.0 (OASIS). Fingerprints hold neither lines nor numbers: estimates vary.

    GitHub's code scanning reads the fingerprint ``primaryLocationLineHash`` alone.
    """
    codes = sorted({finding.code for finding in report.findings})
    positions = {code: number for number, code in enumerate(codes)}
    page = f"{_REPOSITORY}/blob/main/{report.page}"
    rules = [_sarif_rule(code, report.rules[code], page) for code in codes]
    counts: Counter[str] = Counter()
    results = [
        _sarif_result(finding, positions[finding.code], counts) for finding in report.findings
    ]
    driver = {
        "name": f"{report.tool} {report.command}",
        "version": console.installed_version(),
        "informationUri": _REPOSITORY,
        "rules": rules,
    }
    run = {"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}
    document = {"$schema": _SARIF, "version": "2.1.0", "runs": [run]}
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def _sarif_rule(code: str, rule: RuleText, page: str) -> dict[str, Any]:
    rule_row: dict[str, Any] = {
        "id": code,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "helpUri": page,
    }
    if rule.remedy:
        rule_row["help"] = {"text": rule.remedy}
    return rule_row


def _sarif_result(finding: Finding, rule: int, counts: Counter[str]) -> dict[str, Any]:
    file, line = _location(finding)
    physical: dict[str, Any] = {"artifactLocation": {"uri": quote(file.replace(os.sep, "/"))}}
    if line:
        physical["region"] = {"startLine": line}
    location: dict[str, Any] = {"physicalLocation": physical}
    if finding.place:
        name = f"{finding.file}:{finding.place}"
        location["logicalLocations"] = [{"fullyQualifiedName": name}]
    text = f"{finding.code} {file} {finding.place} {_NUMBER.sub('#', finding.message)}"
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.message},
        "locations": [location],
        "partialFingerprints": {"primaryLocationLineHash": _fingerprint(text, counts)},
    }


def _junit(report: Report) -> None:
    from hlo_tools.cli.shared.junit import render_junit

    sys.stdout.write(render_junit(report.command, report.files, report.findings))


FORMATS: dict[str, Callable[[Report], None]] = {
    "text": _text, "json": _json, "github": _github, "gitlab": _gitlab, "sarif": _sarif,
    "junit": _junit,
}  # fmt: skip
"""Name of a format -> what prints it."""
