"""The advice for a program: every rule whose fault is there and costs time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from neff.profile.advice.buffers import PSUM_BUFFER, SINGLE_BUFFER
from neff.profile.advice.engines import GPSIMD, IDLE_ENGINE, ONE_QUEUE
from neff.profile.advice.fusion import ACTIVATION_SUM, SCALAR_STEPS
from neff.profile.advice.hbm import RELOAD, ROUND_TRIP
from neff.profile.advice.precision import PRECISION
from neff.profile.advice.rebuild import rebuilt
from neff.profile.advice.rule import FIRST_FIX, MEAN_FIX, Advice, Fix, Rule, Subject, places_of
from neff.profile.advice.tables import TABLES
from neff.profile.advice.tensor import COLD_TENSOR, DMA_TRANSPOSE, TRANSPOSES
from neff.profile.advice.tiles import DMA_ROWS, FEW_PARTITIONS
from neff.profile.stalls import slowest_core
from neff.profile.table import Profile

__all__ = ["MIN_GAIN_SHARE", "RULES", "advice_of", "advice_rows"]

RULES: dict[str, Rule] = {
    rule.code: rule
    for rule in (
        DMA_ROWS,
        FEW_PARTITIONS,
        SINGLE_BUFFER,
        PSUM_BUFFER,
        COLD_TENSOR,
        TABLES,
        PRECISION,
        ROUND_TRIP,
        RELOAD,
        IDLE_ENGINE,
        GPSIMD,
        ONE_QUEUE,
        TRANSPOSES,
        DMA_TRANSPOSE,
        ACTIVATION_SUM,
        SCALAR_STEPS,
    )
}
"""Every rule by its code."""

MIN_GAIN_SHARE = 0.03
"""Share of the program's time; advice that gains less is not reported."""


def advice_of(profile: Profile, *, rules: Iterable[str] = RULES) -> list[Advice]:
    """Return the reasons why a program is slow, the largest gain first.

    A fault that others hide gains nothing alone; it is listed after them, with what it gains once
    they are fixed.

    Args:
        profile: of the program.
        rules: codes of those to check.
    """
    core = slowest_core(profile)
    if core < 0 or not profile.estimate.total.value:
        return []
    subject = Subject(profile, core)
    judged = {
        code: judgment for code in rules if (judgment := _judged(subject, RULES[code])) is not None
    }
    reported = [advice for advice, _ in judged.values() if advice.share >= MIN_GAIN_SHARE]
    reported.sort(key=lambda advice: (-advice.gain_ns, advice.code))
    hidden = {code: advice for code, (advice, _) in judged.items() if advice.share < MIN_GAIN_SHARE}
    return [*reported, *_uncovered(subject, reported, hidden)]


def _uncovered(
    subject: Subject, reported: list[Advice], hidden: dict[str, Advice]
) -> Iterator[Advice]:
    """Yield the hidden faults that cost time once the reported ones are fixed, one after the
    other.
    """
    fixed: list[str] = []
    # A tensor engine is cold for a reason that has often a rule of its own.
    for advice in sorted(reported, key=lambda advice: advice.code == COLD_TENSOR.code):
        judged = _judged(subject, RULES[advice.code]) if hidden else None
        program = rebuilt(subject.program, judged[1].bodies) if judged else None
        if program is None:
            continue
        fixed.append(advice.code)
        subject = subject.after(program)
        for code in list(hidden):
            later = _judged(subject, RULES[code])
            if later is not None and later[0].share >= MIN_GAIN_SHARE:
                yield replace(hidden.pop(code), behind=tuple(fixed), later_ns=later[0].gain_ns)


def _judged(subject: Subject, rule: Rule) -> tuple[Advice, Fix] | None:
    """Return the advice of a rule and the fix that counts, however little it gains."""
    total = subject.estimate.total.value
    gains: list[tuple[float, Fix]] = []
    for fix in rule.fixes(subject):
        gain_ns = subject.gain(fix)
        if gain_ns is not None:
            gains.append((gain_ns, fix))
            if rule.takes == FIRST_FIX and gain_ns >= MIN_GAIN_SHARE * total:
                break
    if not gains:
        return None
    best_ns, fix = max(gains, key=lambda gain: gain[0])
    low_ns = min(gains, key=lambda gain: gain[0])[0] if rule.takes == MEAN_FIX else best_ns
    gain_ns = (max(low_ns, 0.0) + best_ns) / 2 if rule.takes == MEAN_FIX else best_ns
    lines = places_of(subject, fix.culprits)
    location = lines[0] if lines else ""
    advice = Advice(
        rule.code, fix.message, location, lines, gain_ns, low_ns, best_ns, gain_ns / total
    )
    return advice, fix


def advice_rows(advice_list: list[Advice]) -> list[dict[str, object]]:
    """Advice as JSON values; times in microseconds."""
    return [
        {
            "code": advice.code,
            "title": RULES[advice.code].title,
            "message": advice.message,
            "place": advice.place,
            "lines": list(advice.lines),
            "gain_us": round(advice.gain_ns / 1e3, 3),
            "gain_low_us": round(advice.low_ns / 1e3, 3),
            "gain_high_us": round(advice.high_ns / 1e3, 3),
            "share": round(advice.share, 4),
            "hidden_behind": list(advice.behind),
            "gain_later_us": round(advice.later_ns / 1e3, 3),
            "why": RULES[advice.code].why,
            "remedy": RULES[advice.code].remedy,
        }
        for advice in advice_list
    ]
