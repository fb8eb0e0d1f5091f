"""The modules of two folders, paired: by their path, or by name and fingerprint."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hlo_tools.ir.module import Module
from hlo_tools.text.options import PRESETS

__all__ = ["PairedFiles", "fingerprint", "pair_files"]

_NUMBER = re.compile(r"(?<=module_)\d+|(?<=MODULE_)[^/]+")
"""The number of a module in a dump of XLA's, the key of one in a compile cache: they depend on
what else the process compiled, and on what the module holds."""


@dataclass(frozen=True, slots=True)
class PairedFiles:
    """Files of two folders.

    Attributes:
        pairs: (left, right), in the order of the left folder.
        removed, added: files of one folder only.
    """

    pairs: tuple[tuple[str, str], ...]
    removed: tuple[str, ...]
    added: tuple[str, ...]


def fingerprint(module: Module) -> str:
    """A hash of the module's text without names, numbers of names, metadata and header."""
    return hashlib.sha256(module.to_text(PRESETS["fingerprint"]).encode()).hexdigest()


def pair_files(
    left: Sequence[tuple[str, str]],
    right: Sequence[tuple[str, str]],
    print_of: Callable[[str], str],
) -> PairedFiles:
    """Pair the files of two folders.

    Files with one path are a pair. The others are paired by their paths without the numbers that
    XLA and compile caches give to modules: equal fingerprints first, then in order.

    Args:
        left, right: (path below the folder, file).
        print_of: the fingerprint of a file; called only where several files share a path.
    """
    partners: dict[str, str] = {}
    right_by_path = dict(right)
    for path, file in left:
        if path in right_by_path:
            partners[file] = right_by_path[path]
    used = set(partners.values())
    candidates_by_name: dict[str, list[str]] = {}
    for path, file in right:
        if file not in used:
            candidates_by_name.setdefault(_unnumbered(path), []).append(file)
    files_by_name: dict[str, list[str]] = {}
    for path, file in left:
        if file not in partners:
            files_by_name.setdefault(_unnumbered(path), []).append(file)
    for name, files in files_by_name.items():
        partners |= _paired(files, candidates_by_name.get(name, []), print_of)
    used = set(partners.values())
    return PairedFiles(
        tuple((file, partners[file]) for _, file in left if file in partners),
        tuple(file for _, file in left if file not in partners),
        tuple(file for _, file in right if file not in used),
    )


def _unnumbered(path: str) -> str:
    return _NUMBER.sub("", Path(path).as_posix())


def _paired(
    files: Sequence[str], candidates: Sequence[str], print_of: Callable[[str], str]
) -> dict[str, str]:
    """Pairs among files of one name."""
    if len(files) == len(candidates) == 1:
        return {files[0]: candidates[0]}
    if not files or not candidates:
        return {}
    unpaired: dict[str, list[str]] = {}
    for candidate in candidates:
        unpaired.setdefault(print_of(candidate), []).append(candidate)
    partners: dict[str, str] = {}
    for file in files:
        equal_candidates = unpaired.get(print_of(file))
        if equal_candidates:
            partners[file] = equal_candidates.pop(0)
    used = set(partners.values())
    later_files = (file for file in files if file not in partners)
    later_candidates = (candidate for candidate in candidates if candidate not in used)
    return partners | dict(zip(later_files, later_candidates, strict=False))
