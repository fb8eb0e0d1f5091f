"""The compiler with its choices made by chance: those that sizes and the timing model make otherwise.

The programs of fuzzers are small: by the model they are never worth a second core, the rarer variant
of a kernel, or a second tile. Each of these has to compute the same.
"""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

__all__ = ["compile_by_chance"]


def compile_by_chance(module: Any, **options: Any) -> Any:
    """As ``neff.compile``, at level 2, with tiles of any size, any variant of each unit, and any
    division between cores that is allowed; the same ones for the same module."""
    import neff
    from neff.compiler import planned
    from neff.compiler.lowering import lowerer
    from neff.compiler.plans import Plan, Tuning

    chance = random.Random(module.to_bytes())
    sizes = Tuning(
        resident=chance.choice((0, 64, 1024, 40 * 1024)),
        at_once=chance.choice((1, 2, 8)),
        wide=chance.choice((1, 16, 100, 2048)),
        ahead=chance.choice((16, 256, 4 * 1024)),
        blocked=chance.choice((2 * 1024, 64 * 1024)),
        elements=chance.choice((1, 3, 16, 100, 4096)),
    )
    plan = Plan("by chance", level=chance.choice((1, 2, 2)), tuning=sizes, search=True)

    def price(*_: Any) -> float:
        return chance.choice((1.0, 1e12))

    with (
        mock.patch.dict(planned.PLANS, {2: (plan,)}),
        mock.patch.object(lowerer, "priced", price),
    ):
        return neff.compile(module, **options)
