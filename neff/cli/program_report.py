"""The report on one program's profile, as ``nki-neff profile`` and ``nki-hlo profile`` print it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

import typer

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.findings import FORMATS
from hlo_tools.cli.shared.option_groups import OptionGroup
from neff.cli.estimates import Keywords
from neff.cli.vendor_formats import check_format
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
from neff.profile.attribution import grouped
from neff.profile.compared import comparison_document, comparison_table
from neff.profile.memory import memory_document
from neff.profile.roofline import roofline_document
from neff.profile.text import Table, memory_tables, roofline_tables
from neff.program import Program
from nki_lang.base.plain_files import MAX_SOURCE_BYTES, read_plain

__all__ = ["ProgramReport", "ReportOptions", "print_source", "print_table"]

_CONTEXT = 6
"""Lines of the source that are shown around one that costs something."""


Grouping = Annotated[
    str, typer.Option("--by", help="line, op, kernel, engine, opcode or scope.", metavar="WHAT")
]
WithSource = Annotated[
    bool, typer.Option("--source", help="The source files with the cost of each line.")
]
Root = Annotated[
    Path | None,
    typer.Option(
        "--source-root",
        help="Where the source files are searched for; by default here, or beside the script.",
    ),
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
    root: Root = None
    what_if: WhatIf = ""
    output: Folder = None
    advice: Advice = ""
    memory: WithMemory = False
    roofline: WithRoofline = False
    compare: Older = None
    output_format: VendorFormat = ""

    def check(self) -> None:
        """Refuse values that do not exist, before anything runs.

        Raises:
            NeffError: ``NEFF-GROUPING``, ``NEFF-WHAT-IF``.
            typer.BadParameter: there is no such format.
        """
        grouped({}, self.by)
        if self.what_if:
            changes_of(self.what_if)
        if self.output_format:
            check_format(self.output_format, self.output)
        if self.advice not in ("", *FORMATS):
            raise typer.BadParameter(f"{self.advice!r} is not one of {', '.join(FORMATS)}")


class ProgramReport:
    """One program's profile with what the options request beside it.

    Args:
        program: that is estimated.
        options: contents of the report.
        keywords: of the estimate.
        before: the profile that this one is compared with.
    """

    def __init__(
        self,
        program: Program,
        options: ReportOptions,
        keywords: Keywords,
        before: Profile | None = None,
    ) -> None:
        self._program, self._options, self._keywords = program, options, keywords
        self._before = before
        self.profile = profile_of(program, **keywords)
        self.analysis = Analysis(self.profile)

    @cached_property
    def shares(self) -> list[Share]:
        """Return the groups of ``--by``."""
        return by(self.analysis, self._options.by)

    @cached_property
    def _older(self) -> list[Share] | None:
        return None if self._before is None else by(Analysis(self._before), self._options.by)

    @cached_property
    def _faster_ns(self) -> float | None:
        """Time of the program on the machine of ``--what-if``."""
        if not self._options.what_if:
            return None
        changes = changes_of(self._options.what_if)
        return what_if(self._program, changes, **self._keywords).total.value

    def document(self) -> dict[str, object]:
        """Return the summary, with the comparison and the faster machine."""
        document = summary(self.analysis)
        if self._older is not None:
            document["comparison"] = comparison_document(self._options.by, self._older, self.shares)
        if self._faster_ns is not None:
            total = round(self._faster_ns / 1e3, 3)
            document["what_if"] = {"changes": self._options.what_if, "total_us": total}
        return document

    def printed_document(self) -> dict[str, object]:
        """Return the document of ``--json``: memory and roofline too, where requested."""
        document = self.document()
        if self._options.memory:
            document["memory"] = memory_document(self.profile, self.analysis.held)
        if self._options.roofline:
            document["roofline"] = roofline_document(self.analysis)
        return document

    def write(self, folder: Path, root: Path) -> list[str]:
        """Write the documents and the page; return their names.

        Raises:
            NeffError: ``NEFF-WRITE``; the folder cannot be written.
        """
        return write_files(self.analysis, self.document(), folder, root=root, before=self._before)

    def print_sections(self) -> None:
        """Print the comparison, memory, roofline and faster machine, where requested."""
        if self._older is not None:
            _print_tables([comparison_table(self._options.by, self._older, self.shares)])
        if self._options.memory:
            _print_tables(memory_tables(self.analysis))
        if self._options.roofline:
            _print_tables(roofline_tables(self.analysis))
        if self._faster_ns is not None:
            before = self.profile.estimate.total.value
            gain = (before - self._faster_ns) / before if before else 0.0
            console.line()
            console.line(
                f"with {self._options.what_if}: {_us(self._faster_ns)} µs instead of "
                f"{_us(before)}, {gain:.1%} less"
            )


def _print_tables(tables: Iterable[Table]) -> None:
    for table in tables:
        console.line()
        print_table(table)


def print_table(table: Table) -> None:
    console.table(table.columns, table.rows)
    if table.note:
        console.line(table.note)


def print_source(lines: list[Share], root: Path) -> None:
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
