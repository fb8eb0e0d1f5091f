"""``nki-neff time``: how long a NEFF takes on its target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.fills import Fill
from hlo_tools.cli.shared.options import AsJson
from neff.cli.estimates import EstimateOptions
from neff.cli.options import ChipFile, Descriptors, File, Inputs, Order, Settings, Statistic, Trips

if TYPE_CHECKING:
    from neff.timing import Estimate

__all__ = ["command"]

MAX_SCHEDULED_INSTRUCTIONS = 20_000
"""The second order of larger programs takes seconds: it is only estimated on request."""

_ORDER_NAMES = {
    "source": "in the order of the source",
    "scheduled": "in the order of a list scheduler",
}

SHOWN_DIFFERENCE = 0.1
"""A smaller difference of the two orders is not printed."""


def command(
    file: File,
    statistic: Statistic = "body",
    dma: Descriptors = "",
    settings: Settings = None,
    chip: ChipFile = None,
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
    from neff.profile.scheduled import ORDERS, default_order, estimate_in_order

    options = EstimateOptions(statistic, dma, settings, trips, inputs, fill, chip)
    program = read(file)
    keywords = options.keywords(program, file)
    first_order = order or default_order(program)
    (second_order,) = {*ORDERS} - {first_order} if first_order in ORDERS else {"source"}
    total = estimate_in_order(program, first_order, **keywords)
    second = None
    if not order and _instruction_count(total) <= MAX_SCHEDULED_INSTRUCTIONS:
        second = estimate_in_order(program, second_order, **keywords)
    document = total.to_json()
    if as_json:
        orders: dict[str, object] = {"order": first_order}
        if second is not None:
            orders[second_order] = _totals(second)
        console.write_json("time", file=str(file), **document, **orders)
        return 0
    bound = "" if total.is_complete else "at least "
    ordered = f", {_ORDER_NAMES[first_order]}" if first_order == "scheduled" else ""
    console.line(f"{total.target}, {total.statistic}{ordered}: {bound}{total} (estimated)")
    if second is not None and _differ(total.total.value, second.total.value):
        console.line(f"{_ORDER_NAMES[second_order]} (--order {second_order}): {bound}{second}")
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


def _differ(first_ns: float, second_ns: float) -> bool:
    return abs(second_ns - first_ns) > SHOWN_DIFFERENCE * first_ns


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
