"""The timing model against what others measured, row by row, as a Markdown table.

python -m scripts.timing.table FACTS [--only PART ...]

FACTS is a folder with ``measured.json``, ``measured-2.json`` and ``streams/``; rows marked
``reproducible`` are taken, and those with a kernel. The kernels of ``kernels.py`` are compiled and
estimated, single instructions and packets run as short streams, and decoded streams are replayed. It ends
with how the rows are met: errors, ranges, and the error of the model by target and bottleneck
(``neff.timing.model_error``). A row's range has the model error of the other rows, never its own.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

from neff.compiler import compile_kernel
from neff.profile.scheduled import estimate_in_order
from neff.timing import BOTTLENECKS, Parameters, Side, read_stream, replay_total
from neff.timing.model_error import MODEL_ERRORS, widened
from scripts.timing.kernels import CASES, Case
from scripts.timing.singles import SINGLES

SUSPECTED = {
    "cs149_trn1_stream_fd2": "transfers merged by the older compiler",
    "tutorial_mm_fully_blocked": "tensor engine of trn1 below its documented clock",
    "labs_mha_loop_S128_H16_d64": "dma.software_strided_ns of a single row",
    "labs_mha_loop_S128_H16_d128": "dma.software_strided_ns of a single row",
    "labs_mm4096_blocked": "tensor.gap_ns",
    "kt_2048_1_1_1": "loads of single tiles wait for something that is not modeled",
    "kt_2048_1_1_2": "loads of single tiles wait for something that is not modeled",
    "kt_2048_1_2_1": "loads of single tiles wait for something that is not modeled",
    "nkis_attn_v4_512": "launch and fixed costs of trn1, or a longer look-ahead",
    "doc_dma_32KiB_4_partitions": "documented for 23 B/ns, packets show 27",
    "act_copy_128_in_transpose": "how the profile counts what overlaps",
}
"""Presumed causes of missed rows."""

_MIN_MODEL_ERROR = 0.06
"""Some rows were used to fit parameters, so their errors are too small."""

_MIN_PEERS = 4
"""Fewer rows with the same bottleneck say little: all rows count then."""

Ends = tuple[float, ...]
"""A figure of the model, and the ends of its range by the parameters alone."""

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
    bottleneck: str = ""
    body_share: float = 1.0
    target: str = "trn2"
    launch: Ends = (0.0, 0.0, 0.0)

    @property
    def body_error(self) -> float:
        """Error of the body, as a share of it, besides what the range of the launch explains."""
        launch, low, high = self.launch
        explained = high - launch if self.measured > self.value else launch - low
        missing = abs(self.measured - self.value) - explained
        return max(0.0, missing) / (self.value * self.body_share)

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
    bottleneck, body_share, target, launch = "", 1.0, "trn2", (0.0, 0.0, 0.0)
    if short in SINGLES:
        figures, kind = [_listed(SINGLES[short](side)) for side in Side], "single"
    elif name in CASES:
        target = CASES[name].target
        ends, bottleneck, body_share, launch = _kernel(CASES[name], unit)
        figures, kind = [[figure] for figure in ends], "kernel"
    elif name.startswith(("stream_", "chau_attn_fused")):
        ends, body_share, launch = _stream(name, folder)
        bottleneck, figures, kind = "latency", [[figure] for figure in ends], "stream"
    else:
        print(f"no model of {name}", file=sys.stderr)
        return
    for position, measured in enumerate(_listed(row["value"])):
        value, *ends = (figure[position] for figure in figures)
        label = f"{name} ({position + 1})" if len(figures[0]) > 1 else name
        low, high = min(value, *ends), max(value, *ends)
        yield Row(
            label, kind, unit, measured, value, low, high, bottleneck, body_share, target, launch
        )


def _listed(value: Any) -> list[float]:
    return value if isinstance(value, list) else [value]


def _kernel(case: Case, unit: str) -> tuple[Ends, str, float, Ends]:
    """Return the figure of a kernel, its bottleneck, the share of the body in it, and the launch."""
    total = estimate_in_order(
        compile_kernel(case.trace()),
        case.order,
        parameters=Parameters(case.target, toolchain=case.toolchain),
        statistic=case.statistic,
        dma="",
        trips=None,
    )
    value, low, high = total.parameter_range
    share = max(core.total.value for core in total.cores) / value
    if case.nbytes:
        ends = (case.nbytes / value, case.nbytes / high, case.nbytes / low)
        return ends, total.bottleneck, share, (0.0, 0.0, 0.0)
    ends = (value / _UNITS[unit], low / _UNITS[unit], high / _UNITS[unit])
    launch = tuple(launch_ns / _UNITS[unit] for launch_ns in total.launch)
    return ends, total.bottleneck, share, launch


def _stream(name: str, folder: Path) -> tuple[Ends, float, Ends]:
    """Return a stream's body (the kernel's own row is body and launch), its share, and the launch."""
    file_stem = name.removeprefix("stream_").removeprefix("chau_attn_").lower()
    launch = Parameters("trn2")["launch.nc_latency_ns"][:3] if "chau" in name else (0.0, 0.0, 0.0)
    with open(folder / "streams" / f"{file_stem}.txt", encoding="utf-8") as lines:
        body = replay_total(read_stream(lines))
    ends = tuple((body_ns + more) / 1e3 for body_ns, more in zip(body, launch, strict=True))
    return ends, body.value / 1e3 / ends[0], tuple(launch_ns / 1e3 for launch_ns in launch)


def _model_error(rows: Sequence[Row]) -> float:
    """Return the relative error of bodies that four of five of these rows stay within."""
    errors = sorted(row.body_error for row in rows)
    return errors[min(len(errors) - 1, ceil(0.8 * (len(errors) + 1)) - 1)] if errors else 0.0


def _with_model_error(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with ranges that include the model error of the other rows of their kind."""
    widened_rows: list[Row] = []
    for row in rows:
        if not row.bottleneck:
            widened_rows.append(row)
            continue
        peers = [peer for peer in rows if peer.bottleneck and peer.name != row.name]
        alike = [peer for peer in peers if peer.bottleneck == row.bottleneck]
        same_target = [peer for peer in alike if peer.target == row.target]
        groups = [group for group in (same_target, alike) if len(group) >= _MIN_PEERS]
        error = max(_MIN_MODEL_ERROR, _model_error(groups[0] if groups else peers))
        low, high = widened(row.value, row.low, row.high, error * row.value * row.body_share)
        widened_rows.append(replace(row, low=low, high=high))
    return widened_rows


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
    for name, kinds in (("single instructions", ("single",)), ("others", ("stream", "kernel"))):
        chosen = [row for row in rows if row.kind in kinds]
        if chosen:
            inside = sum(row.is_inside for row in chosen)
            width = statistics.median(row.width for row in chosen)
            yield f"{name}: {inside} of {len(chosen)} inside their range, median range ±{width:.0%}"
    for target, errors in MODEL_ERRORS.items():
        for bottleneck in BOTTLENECKS:
            alike = [row for row in rows if (row.target, row.bottleneck) == (target, bottleneck)]
            if alike:
                yield (
                    f"{target}, {bottleneck}: {len(alike)} rows, model error "
                    f"±{_model_error(alike):.1%} (the model has ±{errors[bottleneck]:.0%})"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("facts", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="Parts of names.")
    options = parser.parse_args()
    files = [options.facts / name for name in ("measured.json", "measured-2.json")]
    measured = [row for file in files if file.exists() for row in json.loads(file.read_text())]
    rows: list[Row] = []
    print("| row | measured | model | error | inside | suspected |\n|---|---|---|---|---|---|")
    for measurement in measured:
        named = not options.only or any(fragment in measurement["id"] for fragment in options.only)
        is_modeled = measurement["id"] in CASES or measurement["id"] in SINGLES
        if not (measurement.get("reproducible") or is_modeled) or not named:
            continue
        rows += rows_of(measurement, options.facts)
        print(measurement["id"], file=sys.stderr)
    rows = _with_model_error(rows)
    for row in rows:
        print(_line(row))
    print()
    for line in _summary(rows):
        print(line)


if __name__ == "__main__":
    main()
