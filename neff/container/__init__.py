"""The NEFF container: header, archive, members (``docs/neff-format.md``)."""

from __future__ import annotations

from neff.container.archive import Limits
from neff.container.header import HEADER_SIZE, Header
from neff.container.read import Package, open_package, program_of, read
from neff.container.write import members_of, write

__all__ = [
    "HEADER_SIZE",
    "Header",
    "Limits",
    "Package",
    "members_of",
    "open_package",
    "program_of",
    "read",
    "write",
]
