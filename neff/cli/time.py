"""``nki-neff time``: how long a NEFF takes on its target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.fills import Fill
from hlo_tools.cli.shared.options import AsJson
from neff.cli.estimates import EstimateOptions
from neff.cli.options import Descriptors, File, Inputs, Order, Settings, Statistic, Trips

if TYPE_CHECKING:
    from neff.timing import Estimate

__all__ = ["command"]

MAX_SCHEDULED_INSTRUCTIONS = 20_000
"""The second order of larger programs takes seconds: it is only estimated on request."""

SHOWN_DIFFERENCE = 0.1
"""A smaller difference of the two orders is not printed."""


def command(
    file: File,
    statistic: Statistic = "body",
    dma: Descriptors = "",
    settings: Settings = None,
    order: Order = "",
    trips: Trips = None,
    inputs: Inputs = None,
    fill: Fill = None,
    as_json: AsJson = False,
) -> int:
    """Estimate how long a NEFF built here takes on its target, from documented and measured costs.

    Example: nki-neff time matmul.neff --statistic nc-latency
    """
    from neff.container import read
    from neff.profile.scheduled import estimate_in_order

    options = EstimateOptions.given(statistic, dma, settings, trips, inputs, fill)
    program = read(file)
    keywords = options.keywords(program, file)
    total = estimate_in_order(program, order or "source", **keywords)
    scheduled = None
    if not order and _instruction_count(total) <= MAX_SCHEDULED_INSTRUCTIONS:
        scheduled = estimate_in_order(program, "scheduled", **keywords)
    document = total.to_json()
    if as_json:
        second: dict[str, object] = {}
        if scheduled is not None:
            second["scheduled"] = _totals(scheduled)
        second["order"] = order or "source"
        console.write_json("time", file=str(file), **document, **second)
        return 0
    bound = "" if total.is_complete else "at least "
    console.line(f"{total.target}, {total.statistic}: {bound}{total} (estimated)")
    if scheduled is not None and _differ(total.total.value, scheduled.total.value):
        console.line(f"in the order of a list scheduler (--order scheduled): {bound}{scheduled}")
    console.line(total.range_parts)
    console.line(f"most uncertain: {_contributions(total)}")
    console.line("not modelled: " + "; ".join(total.left_out))
    for number, core in enumerate(document["cores"]):
        _core(number, core, options.trips)
    return 0


def _contributions(total: Estimate) -> str:
    from neff.timing import MAIN_PARAMETER_COUNT

    rows = total.contributions()[:MAIN_PARAMETER_COUNT]
    ends = (f"{name} ({low / 1e3:+.1f} {high / 1e3:+.1f} µs)" for name, low, high in rows)
    return ", ".join(ends) or "no parameter has a range"


def _instruction_count(total: Estimate) -> int:
    return sum(lane.events for core in total.cores for lane in core.engines.values())


def _differ(source_ns: float, scheduled_ns: float) -> bool:
    return abs(scheduled_ns - source_ns) > SHOWN_DIFFERENCE * source_ns


def _totals(total: Estimate) -> dict[str, float]:
    document = total.to_json()
    return {name: document[name] for name in ("total_us", "low_us", "high_us")}


def _core(number: int, core: dict[str, Any], trips: int | None) -> None:
    console.line()
    rows = [
        (name, row["instructions"], f"{row['busy_us']:.1f}", f"{row['busy_share']:.1%}")
        for name, row in core["engines"].items()
    ]
    dma = core["dma"]
    rows.append(("DMA", dma["transfers"], f"{dma['bytes']:,} B", f"{dma['busy_share']:.1%}"))
    console.table((f"core {number}", "instructions", "busy µs", "share"), rows)
    if core["loops_of_unknown_length"]:
        loops = console.counted(core["loops_of_unknown_length"], "loop")
        counted = console.counted(1 if trips is None else trips, "iteration")
        console.line(f"{loops} of unknown trip count: {counted} counted (--trips, --input)")
