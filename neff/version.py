"""The version of this project, as its files and its commands report it."""

from __future__ import annotations

from functools import cache
from typing import Final

__all__ = ["__version__", "toolchain_digest"]

__version__: Final = "0.1.0"


@cache
def toolchain_digest() -> str:
    """Digest of our own sources: a checkout changes without a new version."""
    import hashlib
    from pathlib import Path

    import hlo_tools
    import neff
    import nki_lang

    digest = hashlib.sha256()
    for package in (nki_lang, hlo_tools, neff):
        root = Path(str(package.__file__)).parent
        for path in sorted(root.rglob("*.py")):
            digest.update(path.relative_to(root.parent).as_posix().encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
