"""Kernel files: ``.klir`` with a companion record and constants next to it.

``write`` and ``read`` work on files, ``dumps`` and ``loads`` on bytes. The format is described
in ``docs/klir.md``.
"""

from __future__ import annotations

from nki_lang.klir.file import KernelFile, dumps, loads, read, write

__all__ = ["KernelFile", "dumps", "loads", "read", "write"]
