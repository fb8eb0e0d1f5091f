"""How hard the compiler tries: what each ``optlevel`` does, and the sizes that a search varies.

Level 1 applies the rules of level 1 alone. Level 2 applies all rules and takes the sizes of
:class:`Tuning` as they are. Level 3 lets the timing model choose: for each unit among variants of its
kernel, and for the program among plans of the levels below and other bounds of fusion.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["PLANS", "SIZES", "SMALLER", "Plan", "Tuning"]


@dataclass(frozen=True, slots=True)
class Tuning:
    """Sizes that units are made with.

    Attributes:
        resident: bytes of each partition that right operands of a unit's products take at most.
        at_once: tiles of a unit over rows that are worked on at the same time, at most; they need
            some room each.
        wide: elements of a tile of short rows in each partition; at 2048 fixed costs of
            instructions vanish.
        ahead: bytes of each partition for rows of a left operand that are loaded at once.
        blocked: bytes of each partition for a block of columns of a right operand.
        elements: of a tile of an elementwise unit in each partition, at most. 16 KiB of float32:
            four times what saturates a DMA queue (nki-dma-bandwidth-guide, 74-85), and small enough
            to keep several tiles in flight.
    """

    resident: int = 40 * 1024
    at_once: int = 8
    wide: int = 2048
    ahead: int = 4 * 1024
    blocked: int = 64 * 1024
    elements: int = 4096

    def divided(self, share: int) -> Tuning:
        """Return sizes of which a kernel needs about a ``share``-th of the memory in flight."""
        return replace(
            self,
            at_once=max(1, self.at_once // share),
            wide=max(1, self.wide // share),
            ahead=max(1, self.ahead // share),
            blocked=max(1, self.blocked // share),
            elements=max(1, self.elements // share),
        )


SMALLER = (2, 4, 8, 64)
"""Divisors of the sizes that are tried, in order, for a unit whose kernel exceeds SBUF or PSUM."""

SIZES: dict[str, tuple[int, ...]] = {
    "at_once": (4, 12),
    "wide": (1024, 4096),
    "ahead": (2 * 1024, 8 * 1024),
    "blocked": (32 * 1024,),
    "elements": (1024, 2048, 8192),
}
"""Sizes that a search tries for a unit instead of the usual one, by the field of :class:`Tuning`."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How a program is compiled.

    Attributes:
        name: for ``--explain``.
        level: of the rules that are applied.
        tuning: sizes to begin with.
        search: the timing model chooses among variants of each unit.
    """

    name: str
    level: int = 2
    tuning: Tuning = Tuning()
    search: bool = False


_DEFAULT_TUNING = Tuning()

PLANS: dict[int, tuple[Plan, ...]] = {
    1: (Plan("rules of level 1", level=1),),
    2: (Plan("all rules"),),
    3: (
        Plan("all rules, units chosen", search=True),
        Plan("all rules"),
        Plan("rules of level 1", level=1),
        Plan(
            "products share 64 KiB",
            tuning=replace(_DEFAULT_TUNING, resident=64 * 1024),
            search=True,
        ),
        Plan(
            "products share 128 KiB",
            tuning=replace(_DEFAULT_TUNING, resident=128 * 1024),
            search=True,
        ),
    ),
}
"""Level -> plans that are compared by the estimate of the whole program; the first of equals is taken."""
