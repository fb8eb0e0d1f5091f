"""Files made elsewhere: what our IR cannot express is kept, so that writing restores the bytes.

A kernel file without a companion record is read, and what we would write for the kernel is
compared with it. Where the bytes differ, the original is kept in ``metadata["klir"]`` together
with a hash of what we would write. Writing the kernel unchanged then restores the original bytes;
a kernel that was changed since is written in our way.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Any

from nki_lang.ir.types import KernelIR
from nki_lang.klir.companion import is_record

__all__ = ["KEY", "keep", "restored"]

KEY = "klir"


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def keep(kernel_ir: KernelIR, data: bytes, canonical: Callable[[], bytes]) -> None:
    """Record in the kernel's metadata how ``data`` differs from what we would write."""
    ours = canonical()
    if ours == data:
        return
    original = base64.b64encode(data).decode()
    kernel_ir.metadata[KEY] = {"written_as": _hash(ours), "original": original}


def restored(ours: bytes, metadata: dict[str, Any]) -> bytes:
    """The original bytes of a kernel that was read and not changed, else ``ours``."""
    kept = metadata.get(KEY)
    if not is_record(kept) or kept.get("written_as") != _hash(ours):
        return ours
    try:
        return base64.b64decode(kept["original"], validate=True)
    except (KeyError, TypeError, ValueError):
        return ours
