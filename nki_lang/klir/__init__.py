"""Kernel files: ``.klir`` with the companion record and the constants beside it.

``write`` and ``read`` work on files, ``dumps`` and ``loads`` on bytes. The format is described
in ``docs/klir.md``.
"""

from __future__ import annotations

from nki_lang.klir.file import KernelFile, dumps, loads, read, write

__all__ = ["KernelFile", "dumps", "loads", "read", "write"]
