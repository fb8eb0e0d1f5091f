"""The tables of a profile as rows of text: for the command line, a prompt and a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from neff.profile.analysis import Analysis, analysis_of
from neff.profile.attribution import Share, by_line_and_opcode
from neff.profile.memory import MEMORIES, peak
from neff.profile.roofline import roof_of, roofline
from neff.profile.sites import APPROXIMATE
from neff.profile.stalls import critical_path, engine_splits
from neff.profile.table import Profile

__all__ = [
    "APPROXIMATE_LINES",
    "Table",
    "as_html",
    "as_text",
    "cost_table",
    "engine_table",
    "headline",
    "memory_tables",
    "path_table",
    "roofline_tables",
    "share_table",
]  # fmt: skip

_HOLDERS = 12
"""Tensors of a memory's peak that the text shows; the documents hold all."""

APPROXIMATE_LINES = (
    "approximate: the compiler fused instructions of several lines; the time of all of them is here"
)
APPROXIMATE_POINTS = (
    "approximate: above the roof, or with the work of other instructions that are fused with it"
)

_PATH_ROWS = 12
"""Steps of the critical path that the text shows; the documents hold all."""


class Table(NamedTuple):
    """A table of text.

    Attributes:
        columns: their names.
        rows: as many cells each.
        note: what was left out, or "".
    """

    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    note: str = ""


def headline(profile: Profile) -> str:
    """One line: the total with its range, marked as estimated."""
    found = profile.estimate
    bound = "" if found.is_complete else "at least "
    return f"{profile.name}, {found.target}, {found.statistic}: {bound}{found} (estimated)"


def share_table(name: str, shares: Sequence[Share]) -> Table:
    """What each group of a grouping takes; with calls, if any line calls functions."""
    has_calls = any(share.cumulative_ns != share.self_ns for share in shares)
    total = sum(share.path_ns for share in shares) or 1.0
    rows = [
        (
            share.name + APPROXIMATE * share.is_approximate,
            str(share.events),
            _us(share.self_ns),
            _us(share.path_ns),
            f"{share.path_ns / total:.1%}",
            _us(share.waiting_ns),
            f"{share.nbytes:,}",
            f"{share.flops:,}",
            *((_us(share.cumulative_ns), _us(share.cumulative_path_ns)) if has_calls else ()),
        )
        for share in shares
    ]
    columns = ("events", "self µs", "path µs", "share", "waiting µs", "bytes", "FLOPs")
    calls = ("with calls µs", "path with calls µs") if has_calls else ()
    note = APPROXIMATE_LINES if any(share.is_approximate for share in shares) else ""
    return Table((name, *columns, *calls), rows, note)


def cost_table(profile: Profile) -> Table:
    """What the instructions of each line keep their engines, those that are alike in one row."""
    texts = [
        (
            place + APPROXIMATE * row.is_approximate, lane, opcode, f"{row.events:,}", f"{row.self_ns / max(1, row.events):,.0f}",
            _us(row.self_ns), f"{row.nbytes:,}", f"{row.flops:,}",
        )
        for (place, lane, opcode), row in by_line_and_opcode(Analysis(profile).cells).items()
    ]  # fmt: skip
    columns = ("line", "engine", "opcode", "count", "ns each", "µs", "bytes", "FLOPs")
    return Table(columns, texts)


def engine_table(profile: Profile | Analysis, core: int) -> Table:
    """How each engine of a core spent the time."""
    analysis = analysis_of(profile)
    splits = engine_splits(analysis.profile, core, analysis.gaps[core])
    causes = sorted({cause for split in splits for cause in split.waiting_ns})
    rows = [
        (
            split.engine,
            _us(split.busy_ns),
            *(_us(split.waiting_ns.get(cause, 0.0)) for cause in causes),
            _us(split.issue_ns),
            _us(split.idle_ns),
        )
        for split in splits
    ]
    waits = (f"waits for {cause}" for cause in causes)
    return Table((f"core {core}, µs", "busy", *waits, "issue", "idle"), rows)


def path_table(profile: Profile | Analysis, core: int) -> Table:
    """The longest steps of a core's critical path, in their order."""
    analysis = analysis_of(profile)
    steps = critical_path(analysis.profile, core, analysis.paths[core])
    sites = analysis.profile.sites
    shown = sorted(range(len(steps)), key=lambda one: -steps[one].path_ns)[:_PATH_ROWS]
    rows = [
        (
            steps[index].lane,
            steps[index].opcode,
            str(steps[index].count),
            _us(steps[index].path_ns),
            sites[steps[index].site].place + APPROXIMATE * sites[steps[index].site].is_fused,
        )
        for index in sorted(shown)
    ]
    rest = sum(step.path_ns for step in steps) - sum(steps[index].path_ns for index in shown)
    hidden = len(steps) - len(rows)
    steps_left = f"{hidden} shorter step{'s' if hidden != 1 else ''}"
    note = f"and {steps_left}: {_us(rest)}" if hidden else ""
    return Table(("critical path", "opcode", "events", "µs", "line"), rows, note)


def memory_tables(given: Profile | Analysis) -> Iterator[Table]:
    """For each memory of each core its peak, and what is held then."""
    profile, held = analysis_of(given).profile, analysis_of(given).held
    for core in range(len(profile.estimate.cores)):
        for memory in MEMORIES:
            found = peak(profile, held, memory, core)
            share = found.used / found.capacity if found.capacity else 0.0
            rows = [
                (one.name, f"{one.nbytes:,}", str(one.partitions), str(one.address), one.place)
                for one in found.holders[:_HOLDERS]
            ]
            note = (
                f"{found.used:,} of {found.capacity:,} bytes ({share:.1%}) at {_us(found.at_ns)} µs; "
                f"{len(found.holders)} tensors are held then"
            )
            title = f"core {core}, {memory.upper()}"
            yield Table((title, "bytes", "partitions", "address", "line"), rows, note)


def roofline_tables(given: Profile | Analysis) -> Iterator[Table]:
    """What each kernel, and each HLO instruction, reaches of the roof of one core."""
    analysis = analysis_of(given)
    profile = analysis.profile
    roof = roof_of(profile.parameters, len(profile.estimate.cores))
    for grouping in ("kernel", "op"):
        rows = [
            (
                row.name,
                _us(row.time_ns),
                f"{row.flops:,}",
                f"{row.nbytes:,}",
                f"{row.intensity:.1f}",
                row.bound,
                f"{row.share(roof):.1%}" + APPROXIMATE * row.is_approximate(roof),
            )
            for row in roofline(analysis, grouping)
        ]
        approximate = any(row[-1].endswith(APPROXIMATE) for row in rows)
        note = (
            f"roof: {roof.half / 1e3:.1f} TFLOP/s ({roof.full / 1e3:.1f} in fp32), "
            f"{roof.bandwidth:.0f} GB/s, ridge {roof.ridge:.0f} FLOPs a byte"
            + f"\n{APPROXIMATE_POINTS}"
            * approximate
        )
        columns = (grouping, "µs", "FLOPs", "bytes", "FLOPs/byte", "bound by", "of the roof")
        yield Table(columns, rows, note)


def as_text(table: Table) -> str:
    """Rows in columns, numbers to the right."""
    lines = [table.columns, *table.rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(table.columns))]
    right = [all(_is_number(row[at]) for row in table.rows) for at in range(len(table.columns))]
    texts = [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    ]
    return "\n".join([*texts, table.note] if table.note else texts)


def as_html(table: Table) -> str:
    """The same for a notebook."""
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    rows = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in table.rows]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "").removesuffix("%").isdigit()


def _us(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e3:.1f}"
