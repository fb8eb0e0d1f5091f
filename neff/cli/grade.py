"""``nki-hlo grade``: whole files as candidates, each judged against a reference."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import typer

from hlo_tools.cli.shared.console import SCHEMA
from hlo_tools.cli.shared.targets import TargetName, checked_target
from neff.cli.agreement import Reference
from neff.cli.candidates import Candidate, Search
from neff.cli.grading import PRELOADED, Case, Grading, Record, cases_of, graded
from neff.cli.limited import Limits, called
from neff.cli.options import Cores, Jobs

__all__ = ["command"]

ALL_CORRECT, SOME_WRONG = 0, 1

CANDIDATE_SECONDS, CANDIDATE_MIB = 60.0, 4096
"""Default limits of a candidate."""


def command(
    candidates: Annotated[
        list[str], typer.Argument(help="Python files, or FILE.py:KERNEL.", metavar="CANDIDATE...")
    ],
    reference: Annotated[
        str,
        typer.Option(
            "--reference",
            help="A function in NumPy or JAX, or another kernel, that computes the right results.",
            metavar="FILE.py:NAME",
        ),
    ],
    cases: Annotated[
        str,
        typer.Option(
            "--cases",
            help='Arguments to run with: a JSON list of {"x": "f32[128,512]"}.',
            metavar="FILE",
        ),
    ],
    kernel: Annotated[
        str,
        typer.Option("--kernel", "-k", help="The kernel of each file; its only one by default."),
    ] = "",
    cores: Cores = 1,
    platform: TargetName = "",
    jobs: Jobs = 0,
    timeout: Annotated[
        float, typer.Option("--timeout", help="Seconds that a candidate may take.", min=0.1)
    ] = CANDIDATE_SECONDS,
    memory: Annotated[
        int, typer.Option("--memory", help="MiB that a candidate may allocate.", min=16)
    ] = CANDIDATE_MIB,
    checks: Annotated[
        bool, typer.Option("--checks/--no-checks", help="Run the checks of nki-hlo check.")
    ] = True,
    advice: Annotated[
        bool, typer.Option("--advice/--no-advice", help="Say what makes each candidate slow.")
    ] = True,
) -> int:
    """Compile, check, compare and estimate kernels; one JSON record a line for each candidate.

    Every candidate runs in a process of its own, with limits of time and memory, on generated inputs of every
    case. It is correct if all results are written and equal those of the reference up to rounding. Exit code 1
    when a candidate is not.

    Example: nki-hlo grade kernels.py:softmax --reference references.py:softmax --cases cases.json
    """
    target = checked_target(platform) or ""
    limits = Limits(timeout, memory << 20)
    all_cases = cases_of(cases)
    is_correct = True
    with TemporaryDirectory(prefix="nki-hlo-") as folder:
        expected = _reference_files(reference, all_cases, Path(folder))
        gradings = [
            Grading(candidate, kernel, cores, target, all_cases, expected, checks, advice)
            for candidate in candidates
        ]
        for record in _records(gradings, jobs or os.cpu_count() or 1, limits):
            is_correct = is_correct and record["correct"] is True
            sys.stdout.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")
            sys.stdout.flush()
    return ALL_CORRECT if is_correct else SOME_WRONG


def _reference_files(
    reference: str, cases: tuple[Case, ...], folder: Path
) -> tuple[tuple[Path, ...], ...]:
    """Save the results of the reference for each case, in a folder of its own."""
    return tuple(
        _expected(reference, case, folder / str(number)) for number, case in enumerate(cases)
    )


def _expected(reference: str, case: Case, folder: Path) -> tuple[Path, ...]:
    """Save the results of the reference and return their files."""
    search = Search("", "", case.words, reference=reference, seed=case.seed)
    folder.mkdir()
    paths: list[Path] = []
    for number, array in enumerate(Reference(search).results(Candidate(()))):
        wide = array if array.dtype.kind in "biufc" else array.astype(np.float32)
        paths.append(folder / f"{number}.npy")
        np.save(paths[-1], wide, allow_pickle=False)
    return tuple(paths)


def _records(gradings: list[Grading], jobs: int, limits: Limits) -> Iterator[Record]:
    outcomes = called(graded, gradings, jobs=jobs, limits=limits, preload=PRELOADED)
    for grading, outcome in zip(gradings, outcomes, strict=True):
        record: Record = {"schema": SCHEMA, "command": "grade"}
        if outcome.result is None:
            error = {"code": "NEFF-LIMIT", "message": outcome.error, "place": grading.candidate}
            record |= {"candidate": grading.candidate, "compiled": False, "correct": False}
            record["error"] = error
        else:
            record |= outcome.result
        yield record | {"seconds": round(outcome.seconds, 3)}
