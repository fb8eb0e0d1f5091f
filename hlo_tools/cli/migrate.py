"""``nki-hlo migrate``: kernels of an earlier version of NKI, rewritten for the current one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.kernel_call import parse_arguments
from hlo_tools.migrate.migration import migrate_file
from nki_lang.strict import VERSIONS

if TYPE_CHECKING:
    from hlo_tools.migrate.migration import Migration
    from hlo_tools.migrate.proof import Proof

__all__ = ["command"]


def command(
    file: Annotated[str, typer.Argument(help="A Python file with kernels of an earlier version.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="The script's own arguments, after --.")
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", help="Output file; - is stdout.", metavar="FILE")
    ] = "-",
    kernel: Annotated[
        str, typer.Option("--kernel", "-k", help="Call only this kernel.", metavar="NAME")
    ] = "",
    values: Annotated[
        list[str] | None,
        typer.Option("--arg", "-a", help="Its arguments: x=float32[128,512], n=4.", metavar="A=V"),
    ] = None,
    grid: Annotated[str, typer.Option("--grid", help="Its launch grid: 4,2.", metavar="N,N")] = "",
    version: Annotated[
        str, typer.Option("--to", help="Version of the result.", metavar="0.6|0.7")
    ] = VERSIONS[-1],
    proof: Annotated[
        bool, typer.Option("--proof/--no-proof", help="Run both files and compare every bit.")
    ] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Report as one JSON document; requires -o.")
    ] = False,
) -> int:
    """Rewrite a file of an earlier version of NKI for the current one, and prove the result.

    A file of NKI beta 1 (neuronxcc.nki) is run first, as a script, or its unit tests, or one kernel on generated arguments: the
    rewrite uses the shapes, types and memories of that run. In a file of NKI 0.2 to 0.6 the names
    and loops that the version of --to has removed or deprecated are replaced. Comments and layout stay. A statement
    without a mechanical rewrite stays too, under a comment "MIGRATE NKI-M...". The proof runs both
    files on the recorded and on random arguments, simulated and as NEFFs. Exit code 1 if statements
    stay, the results differ, or no call of a kernel was recorded that could prove them equal.

    Example: nki-hlo migrate old.py -o new.py
    Example: nki-hlo migrate kernels.py --to 0.7 --kernel softmax --arg x=bfloat16[128,512]
    Example: nki-hlo migrate old.py -o new.py -- --steps 2
    Example: nki-hlo migrate old.py -o new.py --kernel softmax --arg x=bfloat16[128,512]
    """
    if values and not kernel:
        raise typer.BadParameter("--arg is for --kernel")
    if as_json and output == "-":
        raise typer.BadParameter("--json writes to stdout; write the file with -o")
    if output != "-" and Path(output).resolve() == Path(file).resolve():
        raise typer.BadParameter("the output is the input, which would be lost; name another file")
    if version not in VERSIONS:
        raise typer.BadParameter(f"--to takes {' or '.join(VERSIONS)}, not {version!r}")
    migration = migrate_file(
        Path(file),
        kernel,
        parse_arguments(values or []),
        _extents(grid, kernel),
        version,
        arguments or [],
    )
    if output == "-":
        console.line(migration.text.rstrip("\n"))
    else:
        Path(output).write_text(migration.text)
    proven = migration.prove(Path(file)) if proof and not migration.markers else None
    if as_json:
        _write_json(file, output, migration, proven)
    else:
        _report(file, migration, proven)
    is_unproven = proof and (proven is None or not proven.is_equal)
    return 1 if migration.markers or is_unproven else 0


def _extents(text: str, kernel: str) -> tuple[int, ...]:
    if not text:
        return ()
    if not kernel:
        raise typer.BadParameter("--grid is for --kernel")
    try:
        return tuple(int(extent) for extent in text.split(","))
    except ValueError as error:
        raise typer.BadParameter(f"--grid takes numbers such as 4,2, not {text!r}") from error


def _report(file: str, migration: Migration, proof: Proof | None) -> None:
    for marker in migration.markers:
        console.note(f"{file}:{marker.line}: [{marker.code}] {marker.what}: {marker.why}")
        console.note(f"  help: {marker.how}")
    for line in migration.literals:
        console.note(f"{file}:{line}: note: the result has numbers of the recorded shapes")
    if proof is None:
        reason = "statements stay" if migration.markers else "--no-proof"
        console.note(
            f"{console.counted(len(migration.markers), 'statement')} to rewrite by hand; not proven: {reason}"
        )
        return
    for row in proof.comparisons:
        told = "equal" if row.is_equal else f"DIFFERENT: {row.difference}"
        times = ""
        if row.old_ns is not None and row.new_ns is not None:
            times = f"; estimated {row.old_ns / 1e3:.1f} us before, {row.new_ns / 1e3:.1f} us now"
        console.note(f"{row.kernel}({', '.join(row.shapes)}): {told}{times}")
    if not proof.comparisons:
        console.note("not proven: no call of a kernel was recorded")
    elif proof.is_equal:
        console.note("proven: the same bits in simulate and as NEFFs")


def _write_json(file: str, output: str, migration: Migration, proof: Proof | None) -> None:
    console.write_json(
        "migrate", file=file, output=output,
        markers=[asdict(marker) for marker in migration.markers],
        lines_with_recorded_numbers=list(migration.literals),
        proof=None if proof is None else [asdict(row) for row in proof.comparisons],
        proven=proof is not None and proof.is_equal,
    )  # fmt: skip
