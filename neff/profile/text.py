"""The tables of a profile as rows of text: for the command line, a prompt and a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from neff.profile.analysis import Analysis, analysis_of
from neff.profile.attribution import Share, by_line_and_opcode
from neff.profile.memory import MEMORIES, peak
from neff.profile.roofline import roof_of, roofline
from neff.profile.stalls import critical_path, engine_splits
from neff.profile.table import Profile

__all__ = [
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

_MAX_HOLDER_ROWS = 12
"""Tensors of a memory's peak that the text shows; the documents hold all."""

_MAX_NAME_CHARACTERS = 60
"""Longer names of the framework lose their middle in tables; the documents hold them whole."""

_MAX_PATH_ROWS = 12
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
    total = profile.estimate
    bound = "" if total.is_complete else "at least "
    return f"{profile.name}, {total.target}, {total.statistic}: {bound}{total} (estimated)"


def shortened(name: str) -> str:
    """Return a name without its middle if it is too long for a table."""
    if len(name) <= _MAX_NAME_CHARACTERS:
        return name
    remaining = _MAX_NAME_CHARACTERS - 1
    return f"{name[: remaining - remaining // 2]}…{name[-(remaining // 2) :]}"


def share_table(name: str, shares: Sequence[Share]) -> Table:
    """Return the costs of each group of a grouping; with calls, if any line calls functions."""
    has_calls = any(share.cumulative_ns != share.self_ns for share in shares)
    total = sum(share.path_ns for share in shares) or 1.0
    rows = [
        (
            shortened(share.name),
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
    return Table((name, *columns, *calls), rows)


def cost_table(profile: Profile) -> Table:
    """Return the engine time of each line's instructions, equal ones in one row."""
    texts = [
        (
            location, lane, opcode, f"{row.events:,}", f"{row.self_ns / max(1, row.events):,.0f}",
            _us(row.self_ns), f"{row.nbytes:,}", f"{row.flops:,}",
        )
        for (location, lane, opcode), row in by_line_and_opcode(Analysis(profile).cells).items()
    ]  # fmt: skip
    columns = ("line", "engine", "opcode", "count", "ns each", "µs", "bytes", "FLOPs")
    return Table(columns, texts)


def engine_table(profile: Profile | Analysis, core: int) -> Table:
    """Return how each engine of a core spent the time."""
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
    shown = sorted(range(len(steps)), key=lambda index: -steps[index].path_ns)[:_MAX_PATH_ROWS]
    rows = [
        (
            steps[index].lane,
            steps[index].opcode,
            str(steps[index].count),
            _us(steps[index].path_ns),
            shortened(sites[steps[index].site].place),
        )
        for index in sorted(shown)
    ]
    hidden_ns = sum(step.path_ns for step in steps) - sum(steps[index].path_ns for index in shown)
    hidden = len(steps) - len(rows)
    steps_left = f"{hidden} shorter step{'s' if hidden != 1 else ''}"
    note = f"and {steps_left}: {_us(hidden_ns)}" if hidden else ""
    return Table(("critical path", "opcode", "events", "µs", "line"), rows, note)


def memory_tables(source: Profile | Analysis) -> Iterator[Table]:
    """For each memory of each core its peak, and what is held then."""
    profile, holdings = analysis_of(source).profile, analysis_of(source).held
    for core in range(len(profile.estimate.cores)):
        for memory in MEMORIES:
            memory_peak = peak(profile, holdings, memory, core)
            share = memory_peak.used / memory_peak.capacity if memory_peak.capacity else 0.0
            rows = [
                (
                    holding.name,
                    f"{holding.nbytes:,}",
                    str(holding.partitions),
                    str(holding.address),
                    holding.place,
                )
                for holding in memory_peak.holders[:_MAX_HOLDER_ROWS]
            ]
            note = (
                f"{memory_peak.used:,} of {memory_peak.capacity:,} bytes ({share:.1%}) at {_us(memory_peak.at_ns)} µs; "
                f"{len(memory_peak.holders)} tensors are held then"
            )
            title = f"core {core}, {memory.upper()}"
            yield Table((title, "bytes", "partitions", "address", "line"), rows, note)


def roofline_tables(source: Profile | Analysis) -> Iterator[Table]:
    """Yield the share of the roof that each kernel and HLO instruction reaches on one core."""
    analysis = analysis_of(source)
    profile = analysis.profile
    roof = roof_of(profile.parameters, len(profile.estimate.cores))
    for grouping in ("kernel", "op"):
        rows = [
            (
                shortened(row.name),
                _us(row.time_ns),
                _us(row.active_ns),
                f"{row.flops:,}",
                f"{row.nbytes:,}",
                f"{row.intensity:.1f}",
                row.bound,
                f"{row.share(roof):.1%}",
            )
            for row in roofline(analysis, grouping)
        ]
        note = (
            f"roof: {roof.half / 1e3:.1f} TFLOP/s ({roof.full / 1e3:.1f} in fp32), "
            f"{roof.bandwidth:.0f} GB/s, ridge {roof.ridge:.0f} FLOPs a byte"
        )
        columns = (
            grouping,
            "path µs",
            "active µs",
            "FLOPs",
            "bytes",
            "FLOPs/byte",
            "bound by",
            "of the roof",
        )
        yield Table(columns, rows, note)


def as_text(table: Table) -> str:
    """Rows in columns, numbers to the right."""
    lines = [table.columns, *table.rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.columns))]
    right = [
        all(_is_number(row[column]) for row in table.rows) for column in range(len(table.columns))
    ]
    texts = [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    ]
    return "\n".join([*texts, table.note] if table.note else texts)


def as_html(table: Table) -> str:
    """Return the table as HTML for a notebook."""
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    rows = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in table.rows]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "").removesuffix("%").isdigit()


def _us(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e3:.1f}"
