"""``nki-neff profile --output-format``: a profile as the vendor's tools write it."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from hlo_tools.cli.shared import console
from neff.profile import Profile
from neff.profile.vendor import summary_json, summary_text, write_parquet

__all__ = ["FORMATS", "check_format", "write_format"]

FORMATS = ("parquet", "summary-text", "summary-json")


def write_format(profile: Profile, name: str, output: Path | None) -> int:
    """Write tables below ``output``, or print a summary.

    Raises:
        typer.BadParameter: no such format, or no folder for the tables.
        NeffError: ``NEFF-PYARROW``, ``NEFF-WRITE``.
    """
    check_format(name, output)
    if name == "summary-text":
        console.line(summary_text(profile))
    elif name == "summary-json":
        console.line(json.dumps(summary_json(profile), indent=2))
    else:
        assert output is not None  # checked
        paths = write_parquet(profile, output)
        console.note(f"wrote {console.counted(len(paths), 'table')} to {paths[0].parent}")
    return 0


def check_format(name: str, output: Path | None) -> None:
    """Refuse a format that does not exist, or tables without a folder.

    Raises:
        typer.BadParameter: as said.
    """
    if name not in FORMATS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(FORMATS)}")
    if name == "parquet" and output is None:
        raise typer.BadParameter("parquet needs a folder: -o FOLDER")
