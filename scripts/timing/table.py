"""The timing model against what others measured, row by row, as a Markdown table.

python scripts/timing/table.py FACTS [--only PART ...]

FACTS is a folder with ``measured.json`` and ``streams/``; rows marked ``reproducible`` are taken, and
those with a kernel. The kernels of ``kernels.py`` are compiled and estimated, single instructions and packets
run as short streams, and decoded streams are replayed. It ends with how the rows are met.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels import CASES, Case
from singles import SINGLES

from neff.compiler import compile_kernel
from neff.timing import Parameters, Side, estimate, read_stream, replay_total

SUSPECTED = {
    "cs149_trn1_stream_fd2": "transfers merged by the older compiler",
    "tutorial_mm_fully_blocked": "tensor engine of trn1 below its documented clock",
    "labs_mha_loop_S128_H16_d64": "dma.software_strided_ns of a single row",
    "labs_mha_loop_S128_H16_d128": "dma.software_strided_ns of a single row",
    "labs_mm4096_blocked": "tensor.gap_ns",
    "act_copy_128_in_transpose": "how the profile counts what overlaps",
}
"""Presumed causes of missed rows."""

_UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6}


@dataclass(frozen=True, slots=True)
class Row:
    """A measured figure and the model's, in the measured unit."""

    name: str
    kind: str
    unit: str
    measured: float
    value: float
    low: float
    high: float

    @property
    def error(self) -> float:
        return self.value / self.measured - 1

    @property
    def is_inside(self) -> bool:
        return self.low <= self.measured <= self.high

    @property
    def width(self) -> float:
        """Half of the range, as a share of the value."""
        return (self.high - self.low) / 2 / self.value


def rows_of(row: dict[str, Any], folder: Path) -> Iterator[Row]:
    """The model's rows for one measured one; a list of values makes several."""
    name, unit = row["id"], row["unit"].split()[0]
    short = name.removeprefix("trn2_instr_")
    if short in SINGLES:
        figures, kind = [_listed(SINGLES[short](side)) for side in Side], "single"
    elif name in CASES:
        figures, kind = [[figure] for figure in _kernel(CASES[name], unit)], "kernel"
    elif name.startswith(("stream_", "chau_attn_fused")):
        figures, kind = [[figure] for figure in _stream(name, folder)], "stream"
    else:
        print(f"no model of {name}", file=sys.stderr)
        return
    for place, measured in enumerate(_listed(row["value"])):
        value, *ends = (figure[place] for figure in figures)
        label = f"{name} ({place + 1})" if len(figures[0]) > 1 else name
        yield Row(label, kind, unit, measured, value, min(value, *ends), max(value, *ends))


def _listed(value: Any) -> list[float]:
    return value if isinstance(value, list) else [value]


def _kernel(case: Case, unit: str) -> tuple[float, float, float]:
    value, low, high = estimate(compile_kernel(case.trace()), statistic=case.statistic).total
    if case.nbytes:
        return case.nbytes / value, case.nbytes / high, case.nbytes / low
    return value / _UNITS[unit], low / _UNITS[unit], high / _UNITS[unit]


def _stream(name: str, folder: Path) -> tuple[float, ...]:
    """A stream's body; the kernel's own row is body and launch."""
    file_stem = name.removeprefix("stream_").removeprefix("chau_attn_").lower()
    launch = Parameters("trn2")["launch.nc_latency_ns"][:3] if "chau" in name else (0.0, 0.0, 0.0)
    with open(folder / "streams" / f"{file_stem}.txt", encoding="utf-8") as lines:
        body = replay_total(read_stream(lines))
    return tuple((body_ns + more) / 1e3 for body_ns, more in zip(body, launch, strict=True))


def _line(row: Row) -> str:
    limit = 0.05 if row.kind == "single" else 0.2
    is_missed = abs(row.error) > limit
    error = f"{row.error:+.1%}"
    name = row.name.split(" ")[0]
    why = SUSPECTED.get(name, "") if is_missed or not row.is_inside else ""
    cells = (
        f"`{row.name}`",
        f"{row.measured:,g} {row.unit}",
        f"{row.value:,.4g} ({row.low:,.4g}–{row.high:,.4g})",
        f"**{error}**" if is_missed else error,
        "yes" if row.is_inside else "**no**",
        why,
    )
    return f"| {' | '.join(cells)} |"


def _summary(rows: list[Row]) -> Iterator[str]:
    for kind, limit in (("single", 0.05), ("stream", 0.1), ("kernel", 0.2)):
        errors = sorted(abs(row.error) for row in rows if row.kind == kind)
        if errors:
            within = sum(error <= limit for error in errors)
            yield (
                f"{kind}: median error {statistics.median(errors):.1%}, largest {errors[-1]:.1%}, "
                f"{within} of {len(errors)} within {limit:.0%}"
            )
    inside = sum(row.is_inside for row in rows)
    width = statistics.median(row.width for row in rows)
    yield f"{inside} of {len(rows)} inside their range, median range ±{width:.0%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("facts", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="Parts of names.")
    options = parser.parse_args()
    measured = json.loads((options.facts / "measured.json").read_text())
    rows: list[Row] = []
    print("| row | measured | model | error | inside | suspected |\n|---|---|---|---|---|---|")
    for measurement in measured:
        named = not options.only or any(fragment in measurement["id"] for fragment in options.only)
        if not (measurement["reproducible"] or measurement["id"] in CASES) or not named:
            continue
        for row in rows_of(measurement, options.facts):
            rows.append(row)
            print(_line(row), flush=True)
    print()
    for line in _summary(rows):
        print(line)


if __name__ == "__main__":
    main()
