"""Builds as JUnit's XML: a test a module."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from neff.builds import Outcome

__all__ = ["render_builds"]


def render_builds(outcomes: Sequence[Outcome]) -> str:
    """The document: failed builds are failures, those that were not begun are skipped."""
    counts = {
        "tests": len(outcomes),
        "failures": sum(outcome.status == "failed" for outcome in outcomes),
        "skipped": sum(outcome.status == "skipped" for outcome in outcomes),
        "errors": 0,
    }
    numbers = {name: str(count) for name, count in counts.items()}
    root = ElementTree.Element("testsuites", name="nki-neff build")
    suite = ElementTree.SubElement(root, "testsuite", {"name": "nki-neff build", **numbers})
    for outcome in outcomes:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname="build",
            name=str(outcome.work.output),
            time=f"{outcome.seconds:.3f}",
        )
        if outcome.status == "skipped":
            ElementTree.SubElement(case, "skipped")
        if outcome.failure is not None:
            failure = ElementTree.SubElement(
                case, "failure", type=outcome.failure.code, message=outcome.failure.message
            )
            failure.text = f"{outcome.failure.place}\nhelp: {outcome.failure.remedy}"
        if outcome.warnings:
            ElementTree.SubElement(case, "system-out").text = "\n".join(outcome.warnings)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'
