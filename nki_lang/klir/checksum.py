"""The checksum of a kernel file, which stands in the name of its format.

KLIR has no field for one and ends with the kernel. Its second item is the name of the format,
"NKI" or "KLR" from the public writers; ours is "NKI" and the first half of the SHA-256 of all that
stands before and behind it, in hexadecimal.
"""

from __future__ import annotations

import hashlib

from nki_lang.errors import NkiFileError

__all__ = ["name_of", "require"]

PLAIN = frozenset({"NKI", "KLR"})
"""Names in files without a checksum, which others write."""


def name_of(before: bytes, behind: bytes) -> str:
    """The name of the format in a file that consists of these bytes and the name between them."""
    return "NKI " + hashlib.sha256(before + behind).hexdigest()[:32]


def require(name: str, before: bytes, behind: bytes) -> None:
    """Refuse a file whose bytes are not those that it was written with.

    Raises:
        NkiFileError: ``NKI-FILE-CHECKSUM``; ``name`` is not that of the bytes, nor a plain one.
    """
    if name not in PLAIN and name != name_of(before, behind):
        raise NkiFileError(
            f"the checksum of the kernel file is not that of its content (it says {name[:40]!r})",
            code="NKI-FILE-CHECKSUM",
            remedy="write or copy the file again",
        )
