"""``nki-neff profile --advice``: what makes a program slow, as text, JSON, GitHub's or SARIF."""

from __future__ import annotations

from pathlib import Path

from hlo_tools.cli.shared.findings import Report, RuleText, print_findings
from hlo_tools.verify import Finding, Severity
from neff.profile import Profile
from neff.profile.advice import RULES, Advice, advice_of, advice_rows

__all__ = ["print_advice"]

_WARNING_SHARE = 0.1
"""Of the program's time; what gains less is a note."""


def print_advice(file: Path, profile: Profile, form: str) -> None:
    """Print the advice for a program in one of the formats of findings.

    Raises:
        typer.BadParameter: there is no such format.
    """
    found = advice_of(profile)
    texts = {code: RuleText(rule.title, rule.why, rule.remedy) for code, rule in RULES.items()}
    extra: dict[str, object] = {"estimated": True, "advice": advice_rows(found)}
    findings = [_finding(one, str(file)) for one in found]
    report = Report("profile", [str(file)], findings, texts, extra, "nki-neff", "program")
    print_findings(report, form)


def _finding(one: Advice, file: str) -> Finding:
    between = ""
    if round(one.low_ns / 1e3, 1) != round(one.high_ns / 1e3, 1):
        between = f" ({one.low_ns / 1e3:.1f}–{one.high_ns / 1e3:.1f})"
    if one.behind:
        gain = (
            f"next to nothing as it is, {one.later_ns / 1e3:.1f} µs less once "
            f"{', '.join(one.behind)} {'is' if len(one.behind) == 1 else 'are'} mended (estimated)"
        )
    else:
        gain = f"{one.gain_ns / 1e3:.1f} µs{between} less, {one.share:.0%} of the time (estimated)"
    return Finding(
        one.code,
        f"{one.message}. Without it: {gain}",
        Severity.warning if one.share >= _WARNING_SHARE else Severity.note,
        source=one.place,
        file=file,
        remedy=RULES[one.code].remedy,
    )
