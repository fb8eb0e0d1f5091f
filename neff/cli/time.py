"""``nki-neff time``: how long a NEFF takes on its target."""

from __future__ import annotations

from typing import Any

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.fills import Fill
from hlo_tools.cli.shared.options import AsJson
from neff.cli.estimates import EstimateOptions
from neff.cli.options import Descriptors, File, Inputs, Settings, Statistic, Trips

__all__ = ["command"]


def command(
    file: File,
    statistic: Statistic = "body",
    dma: Descriptors = "",
    settings: Settings = None,
    trips: Trips = None,
    inputs: Inputs = None,
    fill: Fill = None,
    as_json: AsJson = False,
) -> int:
    """Estimate how long a NEFF built here takes on its target, from documented and measured costs.

    Example: nki-neff time matmul.neff --statistic nc-latency
    """
    from neff.container import read
    from neff.timing import estimate

    options = EstimateOptions.given(statistic, dma, settings, trips, inputs, fill)
    program = read(file)
    total = estimate(program, **options.keywords(program, file))
    document = total.to_json()
    if as_json:
        console.write_json("time", file=str(file), **document)
        return 0
    bound = "" if total.is_complete else "at least "
    console.line(f"{total.target}, {total.statistic}: {bound}{total} (estimated)")
    console.line(total.range_parts)
    for number, core in enumerate(document["cores"]):
        _core(number, core, options.trips)
    console.note("not modelled: " + "; ".join(document["not_modelled"]), verbose=True)
    return 0


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
