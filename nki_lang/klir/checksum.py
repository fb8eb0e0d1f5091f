"""The checksum of a kernel file, which is part of the name of its format.

KLIR has no field for a checksum and ends with the kernel. Its second item is the name of the format,
"NKI" or "KLR" from the public writers. Our writer uses "NKI" and the first half of the SHA-256 of all
bytes before and after the name, in hexadecimal.
"""

from __future__ import annotations

import hashlib

from nki_lang.base.errors import NkiFileError

__all__ = ["name_of", "require"]

PLAIN_FORMAT_NAMES = frozenset({"NKI", "KLR"})
"""Names in files without a checksum, from other writers."""


def name_of(before: bytes, after: bytes) -> str:
    """Return the name of the format in a file that consists of these bytes around the name."""
    return "NKI " + hashlib.sha256(before + after).hexdigest()[:32]


def require(name: str, before: bytes, after: bytes) -> None:
    """Refuse a file whose content does not match its checksum.

    Raises:
        NkiFileError: ``NKI-FILE-CHECKSUM``; ``name`` has another checksum.
    """
    if name not in PLAIN_FORMAT_NAMES and name != name_of(before, after):
        raise NkiFileError(
            f"the kernel file does not match its checksum (format name {name[:40]!r})",
            code="NKI-FILE-CHECKSUM",
            remedy="write or copy the file again",
        )
