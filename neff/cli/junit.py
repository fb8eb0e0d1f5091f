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
        "failures": sum(one.status == "failed" for one in outcomes),
        "skipped": sum(one.status == "skipped" for one in outcomes),
        "errors": 0,
    }
    numbers = {name: str(count) for name, count in counts.items()}
    root = ElementTree.Element("testsuites", name="nki-neff build")
    suite = ElementTree.SubElement(root, "testsuite", {"name": "nki-neff build", **numbers})
    for one in outcomes:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname="build",
            name=str(one.work.output),
            time=f"{one.seconds:.3f}",
        )
        if one.status == "skipped":
            ElementTree.SubElement(case, "skipped")
        if one.failure is not None:
            failure = ElementTree.SubElement(
                case, "failure", type=one.failure.code, message=one.failure.message
            )
            failure.text = f"{one.failure.place}\nhelp: {one.failure.remedy}"
        if one.warnings:
            ElementTree.SubElement(case, "system-out").text = "\n".join(one.warnings)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'
