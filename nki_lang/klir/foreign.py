"""Keeps the original bytes of files from other writers, so that writing restores them.

After reading a kernel file without a companion record, the reader compares it with our own
encoding of the kernel. If the bytes differ, ``metadata["klir"]`` keeps the original together with a
hash of our encoding. Writing the unchanged kernel then restores the original bytes; a changed
kernel is written in our encoding.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable

from nki_lang.ir.types import KernelIR
from nki_lang.klir.companion import is_record

__all__ = ["KEY", "keep", "restored"]

KEY = "klir"


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def keep(kernel_ir: KernelIR, data: bytes, canonical: Callable[[], bytes]) -> None:
    """Record the original ``data`` in the kernel's metadata if our encoding differs."""
    ours = canonical()
    if ours == data:
        return
    original = base64.b64encode(data).decode()
    kernel_ir.metadata[KEY] = {"written_as": _hash(ours), "original": original}


def restored(ours: bytes, metadata: dict[str, object]) -> bytes:
    """Return the original bytes of a kernel that was read and not changed, else ``ours``."""
    original = metadata.get(KEY)
    if not is_record(original) or original.get("written_as") != _hash(ours):
        return ours
    try:
        return base64.b64decode(original["original"], validate=True)
    except (KeyError, TypeError, ValueError):
        return ours
