"""NEFFs kept in a store: what one is made from, and fetching instead of building."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from hlo_tools.cli.shared.targets import target_for
from hlo_tools.files.plain import read_beside
from hlo_tools.store import Action, Store
from neff.builds.flags import FLAGS_FILE
from neff.builds.one import build_one, replaced_in
from neff.builds.sources import Source
from neff.errors import NeffError
from neff.options import Flags
from neff.version import __version__, toolchain_digest
from nki_lang.base.unknown_fields import unknown_key

if TYPE_CHECKING:
    from neff.profile.explanation import Explanation

__all__ = ["Made", "action_of", "fetch", "keep", "make", "source_files"]

_NEFF: Final = "module.neff"
_REPORT: Final = "report.json"
_REPORT_KEYS: Final = frozenset({"target", "warnings"})
_SOURCE_FOLDER_MARK: Final = "{folder}"
"""Stands for the module's folder in what is kept: other machines have other folders."""


@dataclass(frozen=True, slots=True)
class Made:
    """A NEFF that was built or fetched.

    Attributes:
        target: its family.
        warnings: one line each.
        fetched: whether it came from the store.
        explanation: what the compiler did, when it was asked for and the NEFF was built.
    """

    target: str
    warnings: tuple[str, ...]
    fetched: bool
    explanation: Explanation | None = None


def make(
    source: Source,
    flags: Flags,
    output: Path,
    *,
    action: Action,
    store: Store | None = None,
    report: Callable[[str], None] = lambda _: None,
    explain: bool = False,
    jobs: int = 1,
) -> Made:
    """Fetch a NEFF, or build it and keep it.

    Args:
        source, flags, output, report, explain, jobs: as for :func:`neff.builds.build_one`.
        action: of these, from :func:`action_of`.
        store: None builds.

    Raises:
        NeffError, HloError, NkiError: what is wrong, with its place.
    """
    if store is not None and (stored := fetch(store, action, source, output)) is not None:
        report(f"{output} fetched from {store.place.url}")
        return stored
    built = build_one(source, flags, output, report=report, explain=explain, jobs=jobs)
    build = Made(built.program.target, built.warnings, False, built.explanation)
    if store is not None:
        keep(store, action, source, output, build)
    return build


def keep(store: Store, action: Action, source: Source, output: Path, build: Made) -> None:
    """Put a NEFF that was built into a store."""
    warnings = [text.replace(str(source.folder), _SOURCE_FOLDER_MARK) for text in build.warnings]
    report = json.dumps({"target": build.target, "warnings": warnings}).encode()
    store.put(action, {_NEFF: output.read_bytes(), _REPORT: report})


def fetch(store: Store, action: Action, source: Source, output: Path) -> Made | None:
    """Write the NEFF that a store has for an action; None when it has none."""
    from hlo_tools.files.writing import write_bytes

    files = store.get(action)
    if files is None:
        return None
    try:
        content = files[_NEFF]
        report = cast("dict[str, list[str]]", json.loads(files[_REPORT]))
        warnings = tuple(
            str(warning).replace(_SOURCE_FOLDER_MARK, str(source.folder))
            for warning in report["warnings"]
        )
        target = str(report["target"])
        if unknown_key(report, _REPORT_KEYS) is not None:
            return None  # a newer version stored more: build
    except (ValueError, KeyError, TypeError):
        return None
    write_bytes(content, output)
    return Made(target, warnings, True)


def action_of(source: Source, flags: Flags) -> Action:
    """Everything that a NEFF is made from; no path of this machine is part of it.

    Args:
        source: the module or kernel that is built.
        flags: what it is built with.
    """
    from hlo_tools.kernels.files import KernelFile

    options = {name: str(value) for name, value in asdict(flags.options).items()}
    parts: dict[str, str] = {
        "version": __version__,
        "toolchain": toolchain_digest(),
        "target": flags.target or f"default {target_for().target.name}",
        "fast_loading": str(flags.fast_loading),
        **{f"option {name}": value for name, value in options.items()},
    }
    for name, content in _inputs(source):
        parts[f"input {name}"] = hashlib.sha256(content).hexdigest()
    for replacement in replaced_in(source, flags) if flags.kernels else ():
        parts[f"option kernel for {replacement.name}"] = KernelFile(
            replacement.binary, replacement.kernel
        ).digest
    return Action("neff", cast("Mapping[str, str]", parts))


def _inputs(source: Source) -> Iterable[tuple[str, bytes]]:
    """The files that a source consists of, by names without its folder."""
    from hlo_tools.cli.shared.inputs import open_module
    from hlo_tools.kernels.files import KernelFile, kernel_files

    if source.is_kernel:
        yield from KernelFile(source.file, source.file.stem).parts.items()
        return
    yield "module", source.file.read_bytes()
    for kernel in kernel_files(open_module(str(source.file)), source.folder):
        yield from kernel.parts.items()


def source_files(source: Source) -> dict[str, bytes]:
    """Everything that a build of a source reads, by names in its folder.

    Raises:
        NeffError: ``NEFF-CLUSTER``: a kernel file is not in the folder.
        HloError, OSError: the module or a kernel file cannot be read.
    """
    from hlo_tools.cli.shared.inputs import open_module
    from hlo_tools.kernels.files import KernelFile, kernel_files

    folder = source.folder.resolve()
    contents = {source.file.name: source.file.read_bytes()}
    if (flags := source.folder / FLAGS_FILE).exists():
        contents[FLAGS_FILE] = read_beside(flags)
    if source.is_kernel:
        kernels = [KernelFile(source.file, source.file.stem)]
    else:
        kernels = kernel_files(open_module(str(source.file)), source.folder)
    for kernel in kernels:
        home = kernel.path.resolve().parent
        if not home.is_relative_to(folder):
            raise NeffError(
                f"the kernel file {kernel.path} is not in the module's folder",
                code="NEFF-CLUSTER",
                place=str(source.file),
                remedy="nki-hlo extract writes folders with their kernels",
            )
        inside = home.relative_to(folder)
        contents |= {(inside / name).as_posix(): content for name, content in kernel.parts.items()}
    return contents
