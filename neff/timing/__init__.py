"""How long a program takes on its target, and how sure that is.

What flows through here:

1. :mod:`parameter_table` and :mod:`parameters`: every number of the model in one table, with a
   value for each generation, a range, a kind (documented, measured, assumed) and a source. Users
   override it. Nothing else holds a cost.
2. :mod:`lowering` (with :mod:`transfers`) turns a compiled program, and :mod:`replay` a decoded
   instruction stream, into lists of :class:`~neff.timing.machine.Item` for each engine:
   their work (:mod:`work`), the semaphores that they wait for and that they signal.
3. :mod:`costs` gives each piece of work its issue interval, its latency, the ports that it keeps
   from another engine (:mod:`ports`), and the packets of a transfer, by the parameters of one
   generation at one end of their ranges.
4. :mod:`machine` and :mod:`simulation` run the lists over simulated time: engines in order, the
   tensor engine's clock and weights, queues of transfers, sixteen DMA engines, semaphores; loops
   of the device as a first iteration and one iteration for all others.
5. :mod:`events`: one flat table of events: time, lane, and the event that each waited for.
6. :mod:`model_error`: what the model itself leaves out, by bottleneck, from measured kernels.
7. :mod:`contributions`: the parameters that the total depends on most, and what is left out.
8. :mod:`estimate`: the total with its range, the share that measured parameters have in it, and
   each engine's busy time.

:mod:`instructions` answers what one instruction costs, for a compiler that has a choice.

It imports ``neff.program`` and the kernel language only, so that the compiler may call it for costs.
"""

from __future__ import annotations

from neff.timing.contributions import Contribution
from neff.timing.costs import Cost, Pricing
from neff.timing.estimate import (
    DMA_MODES,
    MAIN_PARAMETER_COUNT,
    NOT_MODELLED,
    STATISTICS,
    CoreTime,
    Estimate,
    Span,
    Trips,
    estimate,
)
from neff.timing.events import Event, LaneTime, lane_times
from neff.timing.instructions import InstructionCost, InstructionCosts
from neff.timing.model_error import BOTTLENECKS
from neff.timing.parameters import (
    PARAMETERS,
    TOOLCHAINS,
    Parameter,
    Parameters,
    Side,
    Value,
    overrides_of,
)
from neff.timing.replay import StreamInstruction, read_stream, replay, replay_total

__all__ = [
    "BOTTLENECKS",
    "DMA_MODES",
    "MAIN_PARAMETER_COUNT",
    "NOT_MODELLED",
    "PARAMETERS",
    "STATISTICS",
    "TOOLCHAINS",
    "Contribution",
    "CoreTime",
    "Cost",
    "Estimate",
    "Event",
    "InstructionCost",
    "InstructionCosts",
    "LaneTime",
    "Parameter",
    "Parameters",
    "Pricing",
    "Side",
    "Span",
    "StreamInstruction",
    "Trips",
    "Value",
    "estimate",
    "lane_times",
    "overrides_of",
    "read_stream",
    "replay",
    "replay_total",
]
