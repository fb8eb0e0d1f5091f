"""The advice for a program: every rule whose fault is there and costs time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from neff.profile.advice.buffers import PSUM_BUFFER, SINGLE_BUFFER
from neff.profile.advice.engines import IDLE_ENGINE, ONE_QUEUE
from neff.profile.advice.hbm import RELOAD, ROUND_TRIP
from neff.profile.advice.precision import PRECISION
from neff.profile.advice.rebuild import rebuilt
from neff.profile.advice.rule import FIRST, MIDDLE, Advice, Mend, Rule, Subject, places_of
from neff.profile.advice.tables import TABLES
from neff.profile.advice.tensor import COLD_TENSOR, DMA_TRANSPOSE, TRANSPOSES
from neff.profile.advice.tiles import DMA_ROWS, FEW_PARTITIONS
from neff.profile.stalls import slowest_core
from neff.profile.table import Profile

__all__ = ["LEAST_SHARE", "RULES", "advice_of", "advice_rows"]

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
        ONE_QUEUE,
        TRANSPOSES,
        DMA_TRANSPOSE,
    )
}
"""Every rule by its code."""

LEAST_SHARE = 0.03
"""Of the program's time; what gains less is not reported."""


def advice_of(profile: Profile, *, rules: Iterable[str] = RULES) -> list[Advice]:
    """What makes a program slow, the largest gain first.

    A fault that others hide gains nothing alone; it is listed behind them, with what it gains once
    they are mended.

    Args:
        profile: of the program.
        rules: codes of those to check.
    """
    core = slowest_core(profile)
    if core < 0 or not profile.estimate.total.value:
        return []
    subject = Subject(profile, core)
    judged = {code: one for code in rules if (one := _judged(subject, RULES[code])) is not None}
    found = [one for one, _ in judged.values() if one.share >= LEAST_SHARE]
    found.sort(key=lambda one: (-one.gain_ns, one.code))
    hidden = {code: one for code, (one, _) in judged.items() if one.share < LEAST_SHARE}
    return [*found, *_uncovered(subject, found, hidden)]


def _uncovered(
    subject: Subject, found: list[Advice], hidden: dict[str, Advice]
) -> Iterator[Advice]:
    """Faults that cost time as soon as those found are mended, one after the other."""
    mended: list[str] = []
    # A tensor engine is cold for a reason that has often a rule of its own.
    for one in sorted(found, key=lambda one: one.code == COLD_TENSOR.code):
        judged = _judged(subject, RULES[one.code]) if hidden else None
        program = rebuilt(subject.program, judged[1].bodies) if judged else None
        if program is None:
            continue
        mended.append(one.code)
        subject = subject.after(program)
        for code in list(hidden):
            later = _judged(subject, RULES[code])
            if later is not None and later[0].share >= LEAST_SHARE:
                yield replace(hidden.pop(code), behind=tuple(mended), later_ns=later[0].gain_ns)


def _judged(subject: Subject, rule: Rule) -> tuple[Advice, Mend] | None:
    """What a rule finds and the mend that counts, however little it gains."""
    total = subject.estimate.total.value
    gains: list[tuple[float, Mend]] = []
    for mend in rule.mends(subject):
        gain = subject.gain(mend)
        if gain is not None:
            gains.append((gain, mend))
            if rule.takes == FIRST and gain >= LEAST_SHARE * total:
                break
    if not gains:
        return None
    best, mend = max(gains, key=lambda one: one[0])
    low = min(gains, key=lambda one: one[0])[0] if rule.takes == MIDDLE else best
    gain = (max(low, 0.0) + best) / 2 if rule.takes == MIDDLE else best
    lines = places_of(subject, mend.culprits)
    place = lines[0] if lines else ""
    advice = Advice(rule.code, mend.message, place, lines, gain, low, best, gain / total)
    return advice, mend


def advice_rows(found: list[Advice]) -> list[dict[str, object]]:
    """Advice as JSON values; times in microseconds."""
    return [
        {
            "code": one.code,
            "title": RULES[one.code].title,
            "message": one.message,
            "place": one.place,
            "lines": list(one.lines),
            "gain_us": round(one.gain_ns / 1e3, 3),
            "gain_low_us": round(one.low_ns / 1e3, 3),
            "gain_high_us": round(one.high_ns / 1e3, 3),
            "share": round(one.share, 4),
            "hidden_behind": list(one.behind),
            "gain_later_us": round(one.later_ns / 1e3, 3),
            "why": RULES[one.code].why,
            "remedy": RULES[one.code].remedy,
        }
        for one in found
    ]
