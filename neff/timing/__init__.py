"""How long a program would take on its target, as far as that is documented."""

from __future__ import annotations

from neff.timing.estimate import Estimate, estimate
from neff.timing.simulation import EngineTime

__all__ = ["EngineTime", "Estimate", "estimate"]
