"""Sources that a path names: modules in files, entries and caches, and kernel files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hlo_tools.errors import HloError, HloFileError
from neff.errors import NeffCompileError

__all__ = ["KERNEL_SUFFIX", "MODULE_FILE", "Source", "output_names", "sources_of"]

MODULE_FILE: Final = "model.hlo_module.pb"
KERNEL_SUFFIX: Final = ".klir"
_UNFIT: Final = re.compile(r"[^\w.+-]+")
_KEY_DIGITS: Final = 8


@dataclass(frozen=True, slots=True)
class Source:
    """One module or kernel file to build.

    Attributes:
        file: the file; ``-`` for a module on standard input.
        folder: where the paths of its kernel files start.
    """

    file: Path
    folder: Path

    @property
    def is_kernel(self) -> bool:
        """Return whether the source is a kernel file."""
        return self.file.suffix == KERNEL_SUFFIX

    @property
    def is_entry(self) -> bool:
        """Return whether the source is a module in the folder that an extraction wrote."""
        return self.file.name == MODULE_FILE


def sources_of(path: Path) -> list[Source]:
    """The sources under a path: a file, the folder of one module, or a cache with many.

    Raises:
        NeffCompileError: code ``NEFF-KIND``: a file of another kind.
        HloFileError: nothing is there (``HLO-READ``); a folder without a module
            (``HLO-NO-MODULE``).
    """
    if not path.is_dir():
        _check_kind(path)
        if str(path) != "-" and not path.exists():
            raise HloFileError(
                "cannot be read: No such file or directory",
                code="HLO-READ",
                place=str(path),
                remedy="pass a module, its folder, a whole cache, a .klir file or a script",
            )
        return [Source(path, path.parent)]
    usual = path / MODULE_FILE
    if usual.is_file():
        return [Source(usual, path)]
    from hlo_tools.cli.shared.inputs import module_files

    files = [Path(file) for file in module_files(str(path))]
    return [Source(file, file.parent) for file in files]


def output_names(sources: Sequence[Source]) -> list[str]:
    """A file name for the NEFF of each source: its module's name; its key too where two are alike.

    The names depend on the sources alone, not on their order.
    """
    names = [_UNFIT.sub("_", _name_of(source)) or "module" for source in sources]
    counts = Counter(names)
    paths = [
        name if counts[name] == 1 else f"{name}-{_key_of(source)}"
        for name, source in zip(names, sources, strict=True)
    ]
    return [f"{name}.neff" for name in paths]


def _name_of(source: Source) -> str:
    if source.is_kernel or str(source.file) == "-":
        return source.file.stem
    from hlo_tools.ir.loading import load_outline

    try:
        return load_outline(str(source.file)).name
    except HloError:
        return source.folder.name if source.is_entry else source.file.stem


def _key_of(source: Source) -> str:
    if source.is_entry:
        return source.folder.name.removeprefix("MODULE_")[:_KEY_DIGITS]
    return _UNFIT.sub("_", str(source.file.with_suffix("")))


def _check_kind(path: Path) -> None:
    """Refuse what is certainly not to be built, and say what it is."""
    what, remedy = _OTHER_KINDS.get(path.suffix.lower(), ("", ""))
    if what:
        raise NeffCompileError(
            f"this is {what}, not an HLO module", code="NEFF-KIND", place=str(path), remedy=remedy
        )


_OTHER_KINDS: Final = {
    ".neff": ("a NEFF", "it is built already: nki-neff info and run take it"),
    ".ntff": ("a profile", "the vendor's viewer reads it"),
    ".npy": ("an array", "nki-neff run -i NAME=FILE.npy takes it as an input"),
}
