"""``nki-hlo profile``: estimated time of the programs that a script runs."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.targets import TargetName, checked_target
from hlo_tools.extract import run_script
from hlo_tools.extract.protocol import PROFILE
from hlo_tools.extract.script import no_program
from neff.device.executors.profiled import ProgramRun, programs_run
from neff.profile import Analysis, Profile, by, profile_of, summary, write_files
from neff.profile.page import render_page
from neff.profile.text import headline, share_table
from neff.timing import Parameters, overrides_of
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
    grouping: Annotated[
        str,
        typer.Option("--by", help="line, op, kernel, engine, opcode or scope.", metavar="WHAT"),
    ] = "line",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for each program's NEFF and documents."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A parameter of the model: dma.issue_ns=550.", metavar="NAME=X"),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document; the script prints to stderr.")
    ] = False,
) -> int:
    """Run a script and estimate where the time of each program that it runs would go.

    Programs are listed in the order in which they first run, all runs of one together. One that the
    compiler does not take runs on XLA:CPU and is not estimated; a note on stderr names it. The
    exit code is the script's own; 3 when nothing ran.

    Example: nki-hlo profile train.py --platform trn2 -o profile -- --steps 10
    """
    overrides = overrides_of(settings or [], Path.cwd())
    with tempfile.TemporaryDirectory(prefix="nki-hlo-") as folder:
        done = run_script(
            script,
            arguments or [],
            platform=checked_target(platform),
            executor="neff,cpu",
            environment=os.environ | {PROFILE: folder},
            stdout_to_stderr=as_json,
        )
        ran = programs_run(Path(folder))
    estimates = [_estimated(run, overrides) for run in ran]
    root = Path(script).parent
    folders = [
        _written(program, number, output, root) for number, program in enumerate(estimates, 1)
    ]
    if output is not None and len(estimates) > 1:
        page = render_page(
            [program.profile for program in estimates[:_MAX_PAGE_PROGRAMS]], root=root
        )
        with atomic_file(output / "profile.html") as file:
            file.write(page.encode())
    if as_json:
        console.write_json("profile", **_document(script, estimates, folders))
    else:
        _print(estimates, grouping)
    if not estimates and not done.exit_code:
        raise no_program(script, "ran")
    if not estimates:
        console.note(f"{script} ended with exit code {done.exit_code}; nothing was estimated")
    return done.exit_code


@dataclass(frozen=True, slots=True)
class _Estimated:
    """A program that ran, and its profile."""

    run: ProgramRun
    profile: Profile

    @property
    def total_ns(self) -> float:
        """Return the time of all runs."""
        return self.profile.estimate.total.value * self.run.runs


def _estimated(run: ProgramRun, overrides: dict[str, float]) -> _Estimated:
    parameters = Parameters(run.program.target, overrides)
    return _Estimated(run, profile_of(run.program, parameters=parameters, trips=run.trips))


def _written(program: _Estimated, number: int, output: Path | None, root: Path) -> str:
    """Write a program's documents into a folder of their own; its name."""
    if output is None:
        return ""
    name = f"{number:02d}-{re.sub(r'[^A-Za-z0-9_.-]', '_', program.profile.name)}"
    analysis = Analysis(program.profile)
    write_files(analysis, summary(analysis), output / name, root=root)
    with atomic_file(output / name / "program.neff") as file:
        file.write(program.run.data)
    return name


def _document(script: str, estimates: list[_Estimated], folders: list[str]) -> dict[str, object]:
    return {
        "script": script,
        "estimated": True,
        "total_us": round(sum(program.total_ns for program in estimates) / 1e3, 3),
        "programs": [
            {
                "runs": program.run.runs,
                "folder": estimate_folder,
                "profile": summary(program.profile),
            }
            for program, estimate_folder in zip(estimates, folders, strict=True)
        ],
    }


def _print(estimates: list[_Estimated], grouping: str) -> None:
    total = sum(program.total_ns for program in estimates) or 1.0
    rows = [
        (
            program.profile.name,
            f"{program.run.runs:,}",
            f"{program.profile.estimate.total.value / 1e3:,.1f}",
            f"{program.total_ns / 1e3:,.1f}",
            f"{program.total_ns / total:.1%}",
        )
        for program in estimates
    ]
    if rows:
        console.table(("program (estimated)", "runs", "µs each", "µs", "share"), rows)
    for program in estimates:
        shares = by(program.profile, grouping)
        table = share_table(grouping, shares)
        console.line()
        console.line(headline(program.profile))
        console.table(table.columns, table.rows[:_MAX_TABLE_ROWS])
        if len(table.rows) > _MAX_TABLE_ROWS:
            console.line(f"and {console.counted(len(table.rows) - _MAX_TABLE_ROWS, 'more row')}")
        if table.note:
            console.line(table.note)
