"""``nki-neff profile``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.option_groups import OptionGroup
from hlo_tools.cli.shared.options import AsJson
from neff.cli.advice import print_advice
from neff.cli.estimates import EstimateOptions
from neff.cli.options import File
from neff.cli.vendor_formats import write_format
from neff.profile import (
    Analysis,
    Profile,
    Share,
    by,
    changes_of,
    profile_of,
    summary,
    what_if,
    write_files,
)
from neff.profile.compared import comparison_document, comparison_table
from neff.profile.memory import memory_document
from neff.profile.roofline import roofline_document
from neff.profile.text import (
    Table,
    engine_table,
    headline,
    memory_tables,
    path_table,
    roofline_tables,
    share_table,
)
from nki_lang.base.plain_files import MAX_SOURCE_BYTES, read_plain

__all__ = ["command"]

_CONTEXT = 6
"""Lines of the source that are shown around one that costs something."""


Grouping = Annotated[
    str, typer.Option("--by", help="line, op, kernel, engine, opcode or scope.", metavar="WHAT")
]
WithSource = Annotated[
    bool, typer.Option("--source", help="The source files with the cost of each line.")
]
Root = Annotated[
    Path, typer.Option("--source-root", help="Where the source files are searched for.")
]
WhatIf = Annotated[
    str, typer.Option(help="Estimate again: dma=2x,tensor=free.", metavar="PART=FACTOR,...")
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", help="Folder for summary.json, events.json, a trace and a page."
    ),
]
Advice = Annotated[
    str,
    typer.Option(
        help="Only what makes it slow, and what it would gain: text, json, github or sarif.",
        metavar="FORMAT",
    ),
]
WithMemory = Annotated[
    bool, typer.Option("--memory", help="Who holds SBUF, PSUM and HBM when most is held.")
]
WithRoofline = Annotated[
    bool, typer.Option("--roofline", help="What each kernel and HLO op reaches of the roof.")
]
Older = Annotated[
    Path | None,
    typer.Option(help="An older NEFF; prints the changes, and the page shows both.", metavar="OLD"),
]
VendorFormat = Annotated[
    str,
    typer.Option(help="As the vendor's: parquet, summary-text, summary-json.", metavar="FORMAT"),
]


@dataclass(frozen=True, slots=True)
class ReportOptions(OptionGroup):
    """The contents and the form of the report; see ``nki-neff profile --help``."""

    by: Grouping = "line"
    source: WithSource = False
    root: Root = Path(".")
    what_if: WhatIf = ""
    output: Folder = None
    advice: Advice = ""
    memory: WithMemory = False
    roofline: WithRoofline = False
    compare: Older = None
    output_format: VendorFormat = ""


def command(
    file: File,
    *,
    report: ReportOptions,
    estimate: EstimateOptions,
    as_json: AsJson = False,
) -> int:
    """Show where the time of a NEFF built here would go on its target; all of it is estimated.

    Example: nki-neff profile matmul.neff --by line -o profile
    """
    return _profile(file, report, estimate, as_json)


def _profile(file: Path, report: ReportOptions, options: EstimateOptions, as_json: bool) -> int:
    """Print where a NEFF's time goes by the timing model, and write the documents.

    Raises:
        NeffError: it cannot be read, is not ours, or an option names nothing.
    """
    from neff.container import read

    program = read(file)
    keywords = options.keywords(program, file)
    changes = changes_of(report.what_if) if report.what_if else None
    profile = profile_of(program, **keywords)
    if report.output_format and not report.advice:
        return write_format(profile, report.output_format, report.output)
    analysis = Analysis(profile)
    shares = by(analysis, report.by)
    document = summary(analysis) if as_json or report.output else {}
    before = None if report.compare is None else _other(report.compare, options)
    older = None if before is None else by(Analysis(before), report.by)
    if older is not None and (as_json or report.output):
        document["comparison"] = comparison_document(report.by, older, shares)
    faster = None if changes is None else what_if(program, changes, **keywords).total.value
    if faster is not None:
        document["what_if"] = {"changes": report.what_if, "total_us": round(faster / 1e3, 3)}
    if report.output is not None:
        names = write_files(analysis, document, report.output, root=report.root, before=before)
        console.note(f"wrote {', '.join(names[:-1])} and {names[-1]} to {report.output}")
    if report.advice:
        print_advice(file, profile, report.advice)
        return 0
    if report.memory:
        document["memory"] = memory_document(profile, analysis.held)
    if report.roofline:
        document["roofline"] = roofline_document(analysis)
    if as_json:
        console.write_json("profile", file=str(file), profile=document)
        return 0
    _text(analysis, shares, report)
    if older is not None:
        _tables([comparison_table(report.by, older, shares)])
    if report.memory:
        _tables(memory_tables(analysis))
    if report.roofline:
        _tables(roofline_tables(analysis))
    if faster is not None:
        _what_if(profile, report.what_if, faster)
    return 0


def _text(analysis: Analysis, shares: list[Share], report: ReportOptions) -> None:
    console.line(headline(analysis.profile))
    console.line()
    _table(share_table(report.by, shares))
    if report.source:
        _source(by(analysis, "line"), report.root)
    for core in range(len(analysis.profile.estimate.cores)):
        console.line()
        _table(engine_table(analysis, core))
        console.line()
        _table(path_table(analysis, core))


def _other(file: Path, options: EstimateOptions) -> Profile:
    """The profile of the NEFF that is compared with, with the same options."""
    from neff.container import read

    program = read(file)
    return profile_of(program, **options.keywords(program, file))


def _tables(tables: Iterable[Table]) -> None:
    for table in tables:
        console.line()
        _table(table)


def _table(table: Table) -> None:
    console.table(table.columns, table.rows)
    if table.note:
        console.line(table.note)


def _what_if(profile: Profile, changes: str, faster: float) -> None:
    before = profile.estimate.total.value
    gain = (before - faster) / before if before else 0.0
    console.line()
    console.line(f"with {changes}: {_us(faster)} µs instead of {_us(before)}, {gain:.1%} less")


def _source(lines: list[Share], root: Path) -> None:
    """Each source file with what its lines cost; one that is not found is named."""
    files: dict[str, dict[int, Share]] = {}
    has_calls = any(share.cumulative_ns != share.self_ns for share in lines)
    for share in lines:
        file, _, number = share.name.rpartition(":")
        if file and number.isdigit():
            files.setdefault(file, {})[int(number)] = share
    for name, costs in sorted(files.items()):
        texts = _lines(root, name)
        if texts is None:
            console.note(f"{name} is not below {root}; --source-root names another folder")
            continue
        console.line()
        calls = ", the same with calls" if has_calls else ""
        console.line(f"{name}: self µs, µs of the critical path{calls}")
        _annotated(texts, costs, has_calls)


def _lines(root: Path, name: str) -> list[str] | None:
    """The lines of a file below ``root``; the name comes from the NEFF and is not trusted."""
    path = (root / name).resolve()
    if not path.is_relative_to(root.resolve()):
        return None
    try:
        return read_plain(path, MAX_SOURCE_BYTES).decode().splitlines()
    except (OSError, UnicodeDecodeError):
        return None


def _annotated(texts: list[str], costs: dict[int, Share], has_calls: bool) -> None:
    shown = {line for number in costs for line in range(number - _CONTEXT, number + _CONTEXT + 1)}
    last = 0
    for number, text in enumerate(texts, 1):
        if number not in shown:
            continue
        if number != last + 1:
            console.line("…")
        last, cost = number, costs.get(number)
        figures = [cost.self_ns, cost.path_ns] if cost else []
        if cost and has_calls:
            figures += [cost.cumulative_ns, cost.cumulative_path_ns]
        cells = " ".join(f"{_us(nanoseconds):>9}" for nanoseconds in figures).ljust(
            39 if has_calls else 19
        )
        console.line(f"{cells} {number:>5} | {text}".rstrip())


def _us(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e3:.1f}"
