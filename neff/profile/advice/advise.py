"""The advice for a program: every rule whose fault is there and costs time."""

from __future__ import annotations

from collections.abc import Iterable

from neff.profile.advice.buffers import PSUM_BUFFER, SINGLE_BUFFER
from neff.profile.advice.engines import IDLE_ENGINE, ONE_QUEUE
from neff.profile.advice.hbm import RELOAD, ROUND_TRIP
from neff.profile.advice.precision import PRECISION
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

    Args:
        profile: of the program.
        rules: codes of those to look at.
    """
    core = slowest_core(profile)
    if core < 0 or not profile.estimate.total.value:
        return []
    subject = Subject(profile, core)
    found = [advice for code in rules if (advice := _advice(subject, RULES[code])) is not None]
    return sorted(found, key=lambda one: (-one.gain_ns, one.code))


def _advice(subject: Subject, rule: Rule) -> Advice | None:
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
    low, high = (
        (min(gains, key=lambda one: one[0])[0], best) if rule.takes == MIDDLE else (best, best)
    )
    gain = (max(low, 0.0) + high) / 2 if rule.takes == MIDDLE else best
    if gain < LEAST_SHARE * total:
        return None
    lines = places_of(subject, mend.culprits)
    place = lines[0] if lines else ""
    return Advice(rule.code, mend.message, place, lines, gain, low, high, gain / total)


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
            "why": RULES[one.code].why,
            "remedy": RULES[one.code].remedy,
        }
        for one in found
    ]
