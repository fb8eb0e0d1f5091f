"""``nki-hlo profile``: estimated time of the programs that a script runs."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.targets import TargetName, checked_target
from hlo_tools.extract import run_script
from hlo_tools.extract.protocol import PROFILE
from hlo_tools.extract.script import no_program
from neff.cli.advice import print_advice
from neff.cli.estimates import EstimateOptions
from neff.cli.program_report import ProgramReport, ReportOptions, print_source
from neff.cli.vendor_formats import write_format
from neff.device.executors.profiled import ProgramRun, programs_run
from neff.errors import NeffError
from neff.profile import Profile, by, profile_of
from neff.profile.page import render_page
from neff.profile.text import headline, share_table
from neff.program import Program
from nki_lang.base.atomic import atomic_file

__all__ = ["command"]

_MAX_PAGE_PROGRAMS = 16
"""Programs on the page of all of them, the first ones that ran; each has a page of its own too."""

_MAX_TABLE_ROWS = 8
"""Rows of each program's table; the documents hold all."""


def command(
    script: Annotated[str, typer.Argument(help="A Python script.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="The script's own arguments, after --.")
    ] = None,
    platform: TargetName = "",
    *,
    report: ReportOptions,
    estimate: EstimateOptions,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document; the script prints to stderr.")
    ] = False,
) -> int:
    """Run a script and estimate where the time of each program that it runs would go.

    Programs are listed in the order in which they first run, all runs of one together. One that the
    compiler does not take runs on XLA:CPU and is not estimated; a note on stderr names it. Options
    are those of nki-neff profile: -o writes a folder for each program, with its NEFF. The exit code
    is the script's own; 3 when nothing ran.

    Example: nki-hlo profile train.py --platform trn2 -o profile -- --steps 10
    """
    report.check()
    estimate.check()
    with tempfile.TemporaryDirectory(prefix="nki-hlo-") as folder:
        done = run_script(
            script,
            arguments or [],
            platform=checked_target(platform),
            executor="neff,cpu",
            environment=os.environ | {PROFILE: folder},
            stdout_to_stderr=as_json or bool(report.advice or report.output_format),
        )
        ran = programs_run(Path(folder))
    if not ran and not done.exit_code:
        raise no_program(script, "ran")
    if not ran:
        console.note(f"{script} ended with exit code {done.exit_code}; nothing was estimated")
    if report.output_format and not report.advice:
        _write_formats(ran, report, estimate)
        return done.exit_code
    programs = _reports(ran, report, estimate)
    root = report.root or Path(script).parent
    folders = [_written(program, report.output, root) for program in programs]
    if report.output is not None and len(programs) > 1:
        _write_page(programs, report.output, root)
    if report.advice:
        print_advice(
            [(program.label, program.report.profile) for program in programs], report.advice
        )
    elif as_json:
        console.write_json("profile", **_document(script, programs, folders))
    else:
        _print(programs, report, root)
    return done.exit_code


@dataclass(frozen=True, slots=True)
class _Reported:
    """A program that ran, its number in the order of first runs, and its report."""

    number: int
    run: ProgramRun
    report: ProgramReport

    @property
    def total_ns(self) -> float:
        """Return the time of all runs."""
        return self.report.profile.estimate.total.value * self.run.runs

    @property
    def label(self) -> str:
        """Return the name of the program's folder."""
        return _label(self.number, self.report.profile.name)


def _label(number: int, name: str) -> str:
    return f"{number:02d}-{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}"


def _profile(run: ProgramRun, estimate: EstimateOptions) -> Profile:
    return profile_of(run.program, **estimate.keywords_of_run(run.program, run.trips))


def _reports(
    runs: Sequence[ProgramRun], options: ReportOptions, estimate: EstimateOptions
) -> list[_Reported]:
    compared = None if options.compare is None else _compared(options.compare, runs)
    reports: list[_Reported] = []
    for number, run in enumerate(runs, 1):
        before = None
        if compared is not None and compared[1] is run:
            older = compared[0]
            before = profile_of(older, **estimate.keywords_of_run(older, run.trips))
        keywords = estimate.keywords_of_run(run.program, run.trips)
        reports.append(
            _Reported(number, run, ProgramReport(run.program, options, keywords, before))
        )
    return reports


def _compared(file: Path, runs: Sequence[ProgramRun]) -> tuple[Program, ProgramRun]:
    """Return an older program, and the program of the same name that ran, or the only one.

    Raises:
        NeffError: ``NEFF-USAGE``; no program or several ones fit.
    """
    from neff.container import read

    older = read(file)
    fitting = [run for run in runs if run.program.name == older.name] or list(runs)
    if len(fitting) == 1:
        return older, fitting[0]
    names = ", ".join(run.program.name for run in runs)
    raise NeffError(
        f"it holds {older.name}, and the script ran {names or 'nothing'}",
        code="NEFF-USAGE",
        place=str(file),
        remedy="compare NEFFs: nki-hlo profile -o FOLDER writes them, nki-neff profile --compare takes two",
    )


def _write_formats(
    runs: Sequence[ProgramRun], options: ReportOptions, estimate: EstimateOptions
) -> None:
    """Write or print each program in the vendor's form; tables go to a folder for each.

    Raises:
        NeffError: ``NEFF-USAGE``; several programs would give several JSON documents.
    """
    if options.output_format == "summary-json" and len(runs) > 1:
        raise NeffError(
            f"summary-json is one program's, and the script ran {len(runs)}",
            code="NEFF-USAGE",
            remedy="write the NEFFs with -o FOLDER, and pass one to nki-neff profile",
        )
    for number, run in enumerate(runs, 1):
        profile = _profile(run, estimate)
        folder = None if options.output is None else options.output / _label(number, profile.name)
        write_format(profile, options.output_format, folder)


def _written(program: _Reported, output: Path | None, root: Path) -> str:
    """Write a program's documents into a folder of their own; its name."""
    if output is None:
        return ""
    program.report.write(output / program.label, root)
    with atomic_file(output / program.label / "program.neff") as file:
        file.write(program.run.data)
    return program.label


def _write_page(programs: Sequence[_Reported], output: Path, root: Path) -> None:
    profiles = [program.report.profile for program in programs[:_MAX_PAGE_PROGRAMS]]
    page = render_page(profiles, root=root)
    with atomic_file(output / "profile.html") as file:
        file.write(page.encode())


def _document(script: str, programs: list[_Reported], folders: list[str]) -> dict[str, object]:
    return {
        "script": script,
        "estimated": True,
        "total_us": round(sum(program.total_ns for program in programs) / 1e3, 3),
        "programs": [
            {
                "runs": program.run.runs,
                "folder": folder,
                "profile": program.report.printed_document(),
            }
            for program, folder in zip(programs, folders, strict=True)
        ],
    }


def _print(programs: list[_Reported], options: ReportOptions, root: Path) -> None:
    total = sum(program.total_ns for program in programs) or 1.0
    rows = [
        (
            program.report.profile.name,
            f"{program.run.runs:,}",
            f"{program.report.profile.estimate.total.value / 1e3:,.1f}",
            f"{program.total_ns / 1e3:,.1f}",
            f"{program.total_ns / total:.1%}",
        )
        for program in programs
    ]
    if rows:
        console.table(("program (estimated)", "runs", "µs each", "µs", "share"), rows)
    for program in programs:
        _print_program(program.report, options, root)


def _print_program(report: ProgramReport, options: ReportOptions, root: Path) -> None:
    table = share_table(options.by, report.shares)
    console.line()
    console.line(headline(report.profile))
    console.table(table.columns, table.rows[:_MAX_TABLE_ROWS])
    if len(table.rows) > _MAX_TABLE_ROWS:
        console.line(f"and {console.counted(len(table.rows) - _MAX_TABLE_ROWS, 'more row')}")
    if table.note:
        console.line(table.note)
    if options.source:
        print_source(by(report.analysis, "line"), root)
    report.print_sections()
