"""``nki-neff diff``."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from hlo_tools.cli import console

__all__ = ["diff"]

EQUAL, DIFFERENT = 0, 1


def diff(one: Path, two: Path, *, check_hash: bool = True, as_json: bool) -> int:
    """Print where two NEFFs differ; 1 when they do.

    ``check_hash=False`` reads payloads too that do not match their hash.

    Raises:
        NeffFileError: one of them cannot be read.
    """
    from neff.container import open_package
    from neff.container.compare import compare

    found = compare(*(open_package(file, check_hash=check_hash) for file in (one, two)))
    if as_json:
        rows = [{**row, "one": _plain(row["one"]), "two": _plain(row["two"])} for row in found]
        console.write_json("diff", files=[str(one), str(two)], differences=rows)
    for row in found if not as_json else ():
        console.line(row["what"])
        console.line(f"  - {row['one']}")
        console.line(f"  + {row['two']}")
    return DIFFERENT if found else EQUAL


def _plain(value: object) -> object:
    return list(cast("tuple[object, ...]", value)) if isinstance(value, tuple) else value
