"""``nki-hlo tune``: which parameters of a kernel the timing model finds fastest."""

from __future__ import annotations

import ast
import os
from typing import Annotated

import typer

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.options import AsJson
from hlo_tools.cli.shared.targets import TargetName, checked_target
from neff.cli.candidates import Candidate, Search, Value, combinations, search

__all__ = ["command"]

FINE, NONE_FITS = 0, 1

_MOST = 4096
"""Combinations that are tried; more are refused before anything runs."""


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
    cores: Annotated[
        int, typer.Option("--cores", help="Number of cores that it is launched on.", min=1)
    ] = 1,
    platform: TargetName = "",
    jobs: Annotated[
        int,
        typer.Option("--jobs", "-j", help="Processes; as many as processors by default.", min=0),
    ] = 0,
    run: Annotated[
        bool, typer.Option("--run/--no-run", help="Run each candidate and compare the results.")
    ] = True,
    as_json: AsJson = False,
) -> int:
    """Estimate a kernel with every combination of parameters, the fastest first.

    Each candidate is traced, compiled, estimated, and run on generated inputs; its results are
    compared with those of the first one. What does not fit or differs is listed at the end. A
    parameter is an argument of the kernel, or a constant of its file that the kernel reads. Exit
    code 1 when no candidate can be used.

    Example: nki-hlo tune kernels.py --kernel softmax --arg x=f32[128,512] --param rows=64,128
    """
    asked = _parameters(parameters)
    combined = combinations(asked)
    if len(combined) > _MOST:
        raise typer.BadParameter(f"{len(combined)} combinations are more than {_MOST}")
    target = checked_target(platform) or ""
    given = Search(file, kernel, tuple(values or ()), cores, target, run)
    found = search(given, combined, jobs or os.cpu_count() or 1)
    if as_json:
        rows = [_row(one) for one in found]
        console.write_json(
            "tune", file=file, kernel=kernel, target=found[0].target, estimated=True,
            candidates=rows,
        )  # fmt: skip
    else:
        _print(list(asked), found)
    return FINE if any(not one.error and not one.differs for one in found) else NONE_FITS


def _parameters(words: list[str]) -> dict[str, list[Value]]:
    found: dict[str, list[Value]] = {}
    for word in words:
        name, equals, texts = word.partition("=")
        if not equals or not name.isidentifier() or not texts:
            raise typer.BadParameter(f"{word!r} is not NAME=VALUE,VALUE, such as TILE=128,256")
        if name in found:
            raise typer.BadParameter(f"--param {name} is given twice")
        found[name] = [_value(text.strip()) for text in texts.split(",")]
    return found


def _value(text: str) -> Value:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return value if isinstance(value, int | float | bool | str | None) else text


def _row(one: Candidate) -> dict[str, object]:
    status = "failed" if one.error else "differs" if one.differs else "fits"
    row: dict[str, object] = {"parameters": dict(one.parameters), "status": status}
    if one.error:
        return row | {"error": one.error}
    return row | {
        "total_us": round(one.total_us, 3),
        "low_us": round(one.low_us, 3),
        "high_us": round(one.high_us, 3),
        "sbuf_bytes_per_partition": one.sbuf_bytes,
        "difference": one.difference,
    }


def _print(names: list[str], found: list[Candidate]) -> None:
    rows = [
        (
            *(str(value) for _, value in one.parameters),
            f"{one.total_us:,.1f}",
            f"{one.low_us:,.1f}–{one.high_us:,.1f}",
            f"{one.sbuf_bytes / 1024:,.1f}",
            "-" if one.difference is None else f"{one.difference:.2g}",
            "DIFFERS" if one.differs else "",
        )
        for one in found
        if not one.error
    ]
    if rows:
        columns = (
            f"µs on {found[0].target} (estimated)",
            "range",
            "SBUF KiB a partition",
            "difference",
            "",
        )
        console.table((*names, *columns), rows)
    failed = [one for one in found if one.error]
    if failed and rows:
        console.line()
    for one in failed:
        console.line(f"{one.name}: {one.error}")
