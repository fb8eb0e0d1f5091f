"""``nki-neff calibrate``: parameters of the timing model from captures of a device."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.options import AsJson
from neff.cli.options import Descriptors
from neff.errors import NeffError

if TYPE_CHECKING:
    from neff.calibration import Fit, Group
    from neff.program import Program
    from neff.timing import Parameters

__all__ = ["command"]

MAX_SHOWN_FIGURES = 20
"""Figures that are printed, those with the largest error first; JSON has all."""


def command(
    captures: Annotated[
        list[Path],
        typer.Argument(
            help="Decoded streams with times, profiles as JSON, or folders of Parquet tables.",
            metavar="CAPTURE...",
        ),
    ],
    neff: Annotated[
        Path | None,
        typer.Option("--neff", help="The program that was captured.", metavar="FILE"),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The chip's file.", metavar="FILE")
    ] = None,
    target: Annotated[
        str, typer.Option(help="Family of the device, for decoded streams.", metavar="TARGET")
    ] = "trn2",
    toolchain: Annotated[
        str,
        typer.Option(
            help="Compiler of the captured program: current (NKI 0.6 and later), earlier."
        ),
    ] = "",
    dma: Descriptors = "",
    core: Annotated[int, typer.Option(help="Physical core to compare.", min=0)] = 0,
    as_json: AsJson = False,
) -> int:
    """Compare captures of a real device with the estimate, and fit the parameters they determine.

    The file that -o writes is read by --chip of time, profile and budget. Parameters that the captures do
    not determine keep their value.

    Example: nki-neff calibrate profile.json --neff matmul.neff -o my-chip.toml
    """
    from neff.calibration import fitted, read_capture, subject_of
    from neff.container import read
    from neff.timing import Parameters
    from neff.timing.chip import Chip, chip_text

    program: Program | None = read(neff) if neff is not None else None
    opened = [read_capture(path, core=core) for path in captures]
    chosen = toolchain or ("current" if program is not None else "earlier")
    family = program.target if program is not None else target
    parameters = Parameters(family, toolchain=chosen)
    subjects = [subject_of(capture, program, parameters, dma=dma, core=core) for capture in opened]
    fit = fitted(subjects, parameters)
    skipped = {
        f"{capture.file}: {engine}": reason
        for capture, subject in zip(opened, subjects, strict=True)
        for engine, reason in subject.skipped.items()
    }
    if output is not None:
        _require_values(fit)
        names = tuple(capture.file for capture in opened)
        _write(output, chip_text(Chip(family, chosen, names, fit.values)))
    if as_json:
        console.write_json(
            "calibrate", target=family, toolchain=chosen, skipped=skipped, **_document(fit)
        )
        return 0
    _print(fit, parameters, skipped)
    if output is not None:
        console.line(f"\n{output}: {console.counted(len(fit.values), 'parameter')} of {family}")
    return 0


def _require_values(fit: Fit) -> None:
    if not fit.values:
        raise NeffError(
            "the captures determine no parameter",
            code="NEFF-CAPTURE",
            remedy="capture a kernel with instructions of several sizes, or leave -o away",
        )


def _write(output: Path, text: str) -> None:
    from nki_lang.base.atomic import atomic_file
    from nki_lang.base.plain_files import check_path, shown

    try:
        check_path(output)
        with atomic_file(output, user_path=True) as file:
            file.write(text.encode())
    except OSError as error:
        raise NeffError(
            f"cannot be written: {error.strerror}",
            code="NEFF-WRITE",
            place=shown(output),
            remedy="give a file that can be written",
        ) from error


def _document(fit: Fit) -> dict[str, object]:
    figures = [
        {
            "kind": group.kind,
            "lane": group.lane,
            "opcode": group.opcode,
            "count": len(group.spans),
            "measured_ns": round(group.measured, 1),
            "estimated_ns": round(before, 1),
            "calibrated_ns": round(after, 1),
        }
        for group, before, after in fit.groups
    ]
    values = {
        name: {"value": value.value, "low": value.low, "high": value.high}
        for name, value in sorted(fit.values.items())
    }
    unfitted = {row.parameter: row.reason for row in fit.unfitted}
    return {"parameters": values, "kept": unfitted, "figures": figures}


def _print(fit: Fit, parameters: Parameters, skipped: dict[str, str]) -> None:
    for engine, reason in skipped.items():
        console.line(f"not compared: {engine}: {reason}")
    rows = sorted(fit.groups, key=lambda row: -abs(row[0].measured - row[1]))
    console.table(
        ("figure", "count", "measured ns", "estimated ns", "calibrated ns"),
        [_figure(*row) for row in rows[:MAX_SHOWN_FIGURES]],
    )
    if len(rows) > MAX_SHOWN_FIGURES:
        console.line(f"and {len(rows) - MAX_SHOWN_FIGURES} figures with smaller errors (--json)")
    console.line()
    console.table(
        ("parameter", "table", "captures", "range"),
        [
            (
                name,
                f"{parameters[name].value:.4g}",
                f"{value.value:.4g}",
                f"{value.low:.4g}–{value.high:.4g}",
            )
            for name, value in sorted(fit.values.items())
        ],
    )
    unclear = [row for row in fit.unfitted if row.reason != "is not in the capture"]
    for row in unclear:
        console.line(f"kept: {row.parameter} {row.reason}")
    absent = len(fit.unfitted) - len(unclear)
    console.line(f"kept: {console.counted(absent, 'parameter')} without an effect on these figures")


def _figure(group: Group, before: float, after: float) -> tuple[str, int, str, str, str]:
    name = f"{group.kind} {group.lane} {group.opcode}"
    return (
        name, len(group.spans), f"{group.measured:.0f}", f"{before:.0f}", f"{after:.0f}",
    )  # fmt: skip
