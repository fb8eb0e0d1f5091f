"""``nki-neff verify``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.options import AsJson
from neff.cli.options import File
from neff.errors import NeffError

__all__ = ["command", "findings"]

FINE, FOUND = 0, 1


def command(
    file: File,
    source: Annotated[
        Path | None,
        typer.Option(help="Check that it was made of this module or kernel.", metavar="PATH"),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Check a NEFF in full: hash, members, instructions, order; its provenance, if it is there.

    Exit code 1 when the program has faults; 3, as for all commands, when the file is damaged.

    Example: nki-neff verify matmul.neff --source MODULE_DIR
    """
    all_findings = [*findings(file), *_provenance(file, source)]
    if as_json:
        console.write_json("verify", file=str(file), findings=all_findings)
    else:
        for row in all_findings:
            location = f"{row['place']}: " if row["place"] else ""
            console.line(f"{location}[{row['code']}] {row['message']}\n  help: {row['remedy']}")
        console.note(
            "nothing found" if not all_findings else console.counted(len(all_findings), "finding")
        )
    return FOUND if all_findings else FINE


def _provenance(file: Path, source: Path | None) -> Iterator[dict[str, str]]:
    from neff.builds.provenance import mismatches
    from neff.builds.sources import sources_of

    sources = sources_of(source) if source is not None else [None]
    if len(sources) != 1:
        raise NeffError(
            f"{source} has {console.counted(len(sources), 'module')}; a NEFF is made of one",
            code="NEFF-MODULES",
            place=str(source),
            remedy="name the folder of one module",
        )
    for location, message in mismatches(file, sources[0]):
        yield _row(
            "NEFF-PROVENANCE", location, message, _AGAIN if source is None else _OTHER_INPUTS
        )


def findings(file: Path) -> list[dict[str, str]]:
    """Return the problems of a file: code, place, message and remedy of each.

    Raises:
        NeffFileError: it cannot be read, or is damaged; then there is no program to check.
    """
    from neff.compiler.assembly.verify import verify as prove
    from neff.container import members_of, open_package, program_of
    from neff.container.read import require_known_descriptors
    from neff.runtime.model import UNWRITTEN_REMEDY, LoadedModel
    from neff.runtime.order import order_of
    from neff.runtime.placement import UNWRITTEN, clashes
    from nki_lang.analysis.unwritten import REMEDY

    package = open_package(file)
    if not package.is_ours:
        return []
    require_known_descriptors(package)
    program = program_of(package)
    try:
        model = LoadedModel(program, file.stem, str(file))  # what members_of relies on is checked
        again = {member.name: b"".join(member.pieces) for member in members_of(program)}
        prove(program)
        clashing = [
            clash
            for graph in program.subgraphs
            for clash in islice(clashes(order_of(graph), program), _MAX_FINDINGS)
        ]
    except NeffError as error:
        return [_row(error.code, error.place, error.message, error.remedy)]
    problems = [
        _row("NEFF-DIFFERS", f"{file}: {name}", "does not match the rest of the file", _AGAIN)
        for name, data in package.members.items()
        if bytes(data) != again.get(name)
    ]
    unwritten = {read.tensor.name for read in model.unwritten_reads}
    problems += [
        _row(
            "NEFF-PLACEMENT",
            str(clash.instruction.location or file),
            f"tensor {clash.first!r} shares bytes with {clash.second} while both are used",
            _AGAIN,
        )
        for clash in clashing
        if not (clash.second == UNWRITTEN and clash.first in unwritten)
    ]
    return (
        problems
        + [
            _row("NEFF-UNWRITTEN", str(gap.location or file), gap.message, UNWRITTEN_REMEDY)
            for gap in model.gaps
        ]
        + [
            _row("NEFF-UNINITIALISED", str(read.location or file), read.message, REMEDY)
            for read in model.unwritten_reads
        ]
    )


_MAX_FINDINGS = 100
"""Clashes of one core that are listed."""

_AGAIN = "the file was changed, or written by a faulty program; build it again"
_OTHER_INPUTS = "build the NEFF again, or name the module that it was built from"


def _row(code: str, location: str, message: str, remedy: str) -> dict[str, str]:
    return {"code": code, "place": location, "message": message, "remedy": remedy}
