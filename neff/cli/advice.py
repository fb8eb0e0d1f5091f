"""``nki-neff profile --advice``: what makes a program slow, as text, JSON, GitHub's or SARIF."""

from __future__ import annotations

from collections.abc import Sequence

from hlo_tools.cli.shared.findings import Report, RuleText, print_findings
from hlo_tools.verify import Finding, Severity
from neff.profile import Profile
from neff.profile.advice import RULES, Advice, advice_of, advice_rows

__all__ = ["print_advice"]

_WARNING_SHARE = 0.1
"""Share of the program's time; advice that gains less is a note."""


def print_advice(profiles: Sequence[tuple[str, Profile]], form: str) -> None:
    """Print the advice for programs, each with the name of its file, in a format of findings.

    Raises:
        typer.BadParameter: there is no such format.
    """
    by_file = [(file, advice_of(profile)) for file, profile in profiles]
    advice_list = [advice for _, rows in by_file for advice in rows]
    texts = {code: RuleText(rule.title, rule.why, rule.remedy) for code, rule in RULES.items()}
    extra: dict[str, object] = {"estimated": True, "advice": advice_rows(advice_list)}
    findings = [_finding(advice, file) for file, rows in by_file for advice in rows]
    report = Report(
        "profile", [file for file, _ in by_file], findings, texts, extra,
        tool="nki-neff", noun="program", page="docs/profile.md",
    )  # fmt: skip
    print_findings(report, form)


def _finding(advice: Advice, file: str) -> Finding:
    between = ""
    if round(advice.low_ns / 1e3, 1) != round(advice.high_ns / 1e3, 1):
        between = f" ({advice.low_ns / 1e3:.1f}–{advice.high_ns / 1e3:.1f})"
    if advice.behind:
        gain = (
            f"next to nothing as it is, {advice.later_ns / 1e3:.1f} µs less once "
            f"{', '.join(advice.behind)} {'is' if len(advice.behind) == 1 else 'are'} mended (estimated)"
        )
    else:
        gain = f"{advice.gain_ns / 1e3:.1f} µs{between} less, {advice.share:.0%} of the time (estimated)"
    return Finding(
        advice.code,
        f"{advice.message}. Without it: {gain}",
        Severity.warning if advice.share >= _WARNING_SHARE else Severity.note,
        source=advice.place,
        file=file,
        remedy=RULES[advice.code].remedy,
    )
