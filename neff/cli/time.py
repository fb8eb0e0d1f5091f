"""``nki-neff time``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hlo_tools.cli import console
from neff.cli.estimates import EstimateOptions

__all__ = ["time_file"]


def time_file(file: Path, options: EstimateOptions, *, as_json: bool) -> int:
    """Print the timing model's estimate for a NEFF on its target.

    Raises:
        NeffError: it cannot be read, is not ours, or an option is unknown.
    """
    from neff.container import read
    from neff.timing import estimate

    program = read(file)
    found = estimate(program, **options.keywords(program, file))
    document = found.to_json()
    if as_json:
        console.write_json("time", file=str(file), **document)
        return 0
    bound = "" if found.is_complete else "at least "
    console.line(f"{found.target}, {found.statistic}: {bound}{found} (estimated)")
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
        turns = console.counted(1 if trips is None else trips, "turn")
        console.line(f"{loops} of unknown length: {turns} counted (--trips, --input)")
