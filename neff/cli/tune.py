"""``nki-hlo tune``: which parameters of a kernel the timing model finds fastest."""

from __future__ import annotations

import ast
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.options import AsJson
from hlo_tools.cli.shared.targets import TargetName, checked_target
from neff.cli.agreement import Reference, judge
from neff.cli.candidates import Candidate, Parameters, Search, Status, Value, combinations, tried
from neff.cli.options import Cores, Jobs

__all__ = ["command"]

FINE, NONE_FITS = 0, 1

MAX_COMBINATIONS = 4096
"""More are refused before anything runs."""

_ORDER: tuple[Status, ...] = ("correct", "fits", "disagrees", "differs", "unwritten", "failed")
_REMARKS: dict[Status, str] = {
    "correct": "",
    "fits": "",
    "disagrees": "DISAGREES",
    "differs": "DIFFERS",
    "unwritten": "UNWRITTEN",
}


def command(
    file: Annotated[str, typer.Argument(help="A Python file with the kernel.")],
    kernel: Annotated[str, typer.Option("--kernel", "-k", help="The kernel.", metavar="NAME")],
    parameters: Annotated[
        list[str],
        typer.Option(
            "--param", help="An argument or a constant of the file: TILE=128,256.", metavar="P=V,V"
        ),
    ],
    values: Annotated[
        list[str] | None,
        typer.Option("--arg", "-a", help="Its arguments: x=bf16[128,512], n=4.", metavar="A=V"),
    ] = None,
    cores: Cores = 1,
    platform: TargetName = "",
    jobs: Jobs = 0,
    run: Annotated[
        bool, typer.Option("--run/--no-run", help="Run each candidate and compare the results.")
    ] = True,
    reference: Annotated[
        str,
        typer.Option(
            "--reference",
            help="A function that computes the results with NumPy.",
            metavar="FILE.py:NAME",
        ),
    ] = "",
    as_json: AsJson = False,
) -> int:
    """Estimate a kernel with every combination of parameters, the fastest first.

    Each candidate is traced, compiled, estimated, and run on generated inputs. Its results must be
    those of --reference; without it those of all candidates must agree, and when they do not, none
    counts as right. A candidate that leaves a part of its results unwritten is never right. A
    parameter is an argument of the kernel, or a constant of its file that the kernel reads. Exit
    code 1 when no candidate can be used.

    Example: nki-hlo tune kernels.py --kernel softmax --arg x=f32[128,512] --param rows=64,128
    """
    asked = _parameters(parameters)
    combined = combinations(asked)
    if len(combined) > MAX_COMBINATIONS:
        raise typer.BadParameter(f"{len(combined)} combinations are more than {MAX_COMBINATIONS}")
    if reference and not run:
        raise typer.BadParameter("--reference compares results, --no-run has none")
    target = checked_target(platform) or ""
    search = Search(file, kernel, tuple(values or ()), cores, target, run, reference)
    candidates = _judged(search, combined, jobs or os.cpu_count() or 1)
    if as_json:
        console.write_json(
            "tune", file=file, kernel=kernel, target=candidates[0].target, estimated=True,
            reference=reference or None, candidates=[_row(candidate) for candidate in candidates],
        )  # fmt: skip
    else:
        _print(list(asked), candidates, search)
    return FINE if any(candidate.usable for candidate in candidates) else NONE_FITS


def _judged(search: Search, combined: Sequence[Parameters], jobs: int) -> list[Candidate]:
    """Every candidate with its status; those that can be used first, the fastest in front."""
    reference = Reference(search) if search.reference else None
    with TemporaryDirectory(prefix="nki-hlo-") as folder:
        candidates = tried(search, combined, jobs, Path(folder))
        if search.runs:
            judge(candidates, reference)
    return sorted(candidates, key=lambda item: (_ORDER.index(item.status), item.total_us))


def _parameters(words: list[str]) -> dict[str, list[Value]]:
    values_by_name: dict[str, list[Value]] = {}
    for word in words:
        name, equals, texts = word.partition("=")
        if not equals or not name.isidentifier() or not texts:
            raise typer.BadParameter(f"{word!r} is not NAME=VALUE,VALUE, such as TILE=128,256")
        if name in values_by_name:
            raise typer.BadParameter(f"--param {name} is given twice")
        values_by_name[name] = [_value(text.strip()) for text in texts.split(",")]
    return values_by_name


def _value(text: str) -> Value:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return value if isinstance(value, int | float | bool | str | None) else text


def _row(candidate: Candidate) -> dict[str, object]:
    row: dict[str, object] = {
        "parameters": dict(candidate.parameters), "status": candidate.status,
    }  # fmt: skip
    if candidate.error:
        return row | {"error": candidate.error}
    return row | {
        "total_us": round(candidate.total_us, 3),
        "low_us": round(candidate.low_us, 3),
        "high_us": round(candidate.high_us, 3),
        "sbuf_bytes_per_partition": candidate.sbuf_bytes,
        "unwritten_elements": candidate.unwritten,
        "difference": candidate.difference,
    }


def _print(names: list[str], candidates: list[Candidate], search: Search) -> None:
    rows = [_cells(candidate) for candidate in candidates if not candidate.error]
    if rows:
        columns = (
            f"µs on {candidates[0].target} (estimated)",
            "range",
            "SBUF KiB a partition",
            "difference",
            "",
        )
        console.table((*names, *columns), rows)
    failed = [candidate for candidate in candidates if candidate.error]
    if failed and rows:
        console.line()
    for candidate in failed:
        console.line(f"{candidate.name}: {candidate.error}")
    for sentence in _sentences(candidates, search):
        console.note(sentence)


def _cells(candidate: Candidate) -> tuple[str, ...]:
    return (
        *(str(value) for _, value in candidate.parameters),
        f"{candidate.total_us:,.1f}",
        f"{candidate.low_us:,.1f}–{candidate.high_us:,.1f}",
        f"{candidate.sbuf_bytes / 1024:,.1f}",
        "-" if candidate.difference is None else f"{candidate.difference:.2g}",
        _REMARKS[candidate.status],
    )


def _sentences(candidates: list[Candidate], search: Search) -> list[str]:
    """Explain the remarks in the table, and which results were not compared."""
    sentences = [
        f"{candidate.name} leaves {candidate.unwritten} elements of its results unwritten"
        for candidate in candidates
        if candidate.status == "unwritten"
    ]
    statuses = [candidate.status for candidate in candidates]
    if "disagrees" in statuses:
        sentences.append(
            "the candidates disagree: without --reference nothing tells which of them are right"
        )
    elif search.runs and "fits" in statuses:
        agreeing = statuses.count("fits")
        compared = f"{agreeing} candidates agree" if agreeing > 1 else "1 candidate has results"
        sentences.append(f"{compared}; --reference FILE.py:NAME compares with a function")
    return sentences
