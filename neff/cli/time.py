"""``nki-neff time``."""

from __future__ import annotations

from pathlib import Path

from hlo_tools.cli import console

__all__ = ["time_file"]


def time_file(file: Path, *, as_json: bool) -> int:
    """Print how long a NEFF would take on its target.

    Raises:
        NeffError: it cannot be read, or is not ours.
    """
    from neff.container import read
    from neff.timing import estimate

    document = estimate(read(file)).to_json()
    if as_json:
        console.write_json("time", file=str(file), **document)
        return 0
    bound = "about" if document["complete"] else "at least"
    console.line(f"{document['target']}: {bound} {document['total_us']:,.1f} µs (estimated)")
    for number, core in enumerate(document["cores"]):
        console.line()
        rows = [
            (name, row["instructions"], f"{row['busy_us']:.1f}", f"{row['busy_share']:.1%}")
            for name, row in core["engines"].items()
        ]
        dma = core["dma"]
        rows.append(("DMA", dma["transfers"], f"{dma['bytes']:,} B", f"{dma['busy_share']:.1%}"))
        console.table((f"core {number}", "instructions", "busy µs", "share"), rows)
        for name, count in core["unknown_cost"].items():
            console.line(f"{count} {name}: cost unknown, counted as no time")
        if core["loops_of_unknown_length"]:
            loops = console.counted(core["loops_of_unknown_length"], "loop")
            console.line(f"{loops} of unknown length: one turn counted")
    console.note("not modelled: " + "; ".join(document["not_modelled"]), verbose=True)
    return 0
