"""Changes between two NEFFs, or two folders of them: size, memory, time, and where.

The steps: files are paired, each is measured (:class:`Figures`), each pair is one
:class:`Change`. :mod:`neff.cli.diff` prints them.

One way through: files are paired, each is measured (:class:`Figures`), each pair is one
:class:`Change`. :mod:`neff.cli.diff` prints them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from neff.container import Package, open_package, program_of
from neff.container.compare import Difference, compare
from neff.container.inspect import describe
from neff.errors import NeffError
from neff.profile.budgets import sbuf_peak
from nki_lang.base.targets import target_of

__all__ = ["FIGURES", "Change", "Figures", "changes"]

Status = Literal["equal", "changed", "added", "removed"]

FIGURES: Final = {
    "file size": "B", "code": "B", "constants": "B", "inputs": "B", "outputs": "B",
    "scratchpad": "B", "rings io": "B", "rings spill": "B", "device memory": "B",
    "SBUF peak": "B", "instructions": "", "estimated time": "us",
}  # fmt: skip
"""Name of a figure -> its unit; ``device memory`` is the sum of those from ``code`` on."""

_MEMORY: Final = tuple(FIGURES)[1:8]


@dataclass(frozen=True, slots=True)
class Figures:
    """The size, memory and time of one NEFF.

    Attributes:
        target: its family, "unknown" for a NEFF of the vendor's.
        values: name of :data:`FIGURES` -> value, None where it is not known; SBUF's peak is that of
            all partitions of the core that uses most.
    """

    target: str
    values: dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Change:
    """One NEFF before and after.

    Attributes:
        name: of the file; of the later one where they differ.
        status: ``equal`` when no difference is found.
        before, after: their figures; None for a file that is not there.
        differences: as :func:`neff.container.compare.compare` lists them.
    """

    name: str
    status: Status
    before: Figures | None
    after: Figures | None
    differences: tuple[Difference, ...] = ()


def changes(
    before_path: Path,
    after_path: Path,
    *,
    check_hash: bool = True,
    overrides: Mapping[str, float] | None = None,
) -> list[Change]:
    """Compare two files, or the NEFFs of two folders.

    Files of folders are paired by name; of those left over, two that have the same program name,
    inputs and outputs, and no third one, are a pair too (a build names alike modules by their key).

    Args:
        before_path, after_path: files or folders.
        check_hash: reject files whose payload does not match their hash.
        overrides: parameters of the timing model that have other values.

    Raises:
        NeffError: ``NEFF-USAGE`` for a file and a folder.
        NeffFileError: a file cannot be read.
    """
    if before_path.is_dir() != after_path.is_dir():
        raise NeffError(
            "a file and a folder cannot be compared",
            code="NEFF-USAGE",
            place=f"{before_path} and {after_path}",
            remedy="give two NEFFs, or two folders of them",
        )
    rates = overrides or {}
    if not before_path.is_dir():
        packages = [open_package(file, check_hash=check_hash) for file in (before_path, after_path)]
        return [_change(after_path.name, packages[0], packages[1], rates)]
    before, after = (
        {
            file.relative_to(folder).as_posix(): open_package(file, check_hash=check_hash)
            for file in sorted(folder.rglob("*.neff"))
        }
        for folder in (before_path, after_path)
    )
    pairs = {name: name for name in before if name in after}
    pairs |= _renamed(before, after, pairs)
    old = {later: name for name, later in pairs.items()}
    current = [
        _change(name, before.get(old.get(name, "")), package, rates)
        for name, package in after.items()
    ]
    removed = [
        _change(name, package, None, rates) for name, package in before.items() if name not in pairs
    ]
    return sorted([*current, *removed], key=lambda change: change.name)


def _renamed(
    before: Mapping[str, Package], after: Mapping[str, Package], pairs: Mapping[str, str]
) -> dict[str, str]:
    """Return names before -> after of files with equal interfaces and different names."""
    old: dict[object, list[str]] = {}
    new: dict[object, list[str]] = {}
    for into, packages, paired in ((old, before, pairs), (new, after, set(pairs.values()))):
        for name, package in packages.items():
            if name not in paired and package.is_ours:
                into.setdefault(_interface(package), []).append(name)
    return {
        names[0]: new[key][0]
        for key, names in old.items()
        if len(names) == 1 and len(new.get(key, ())) == 1
    }


def _interface(package: Package) -> object:
    program = program_of(package)
    tensors = (*program.inputs, *program.outputs)
    shapes = [(program.variables[name].dtype, program.variables[name].shape) for name in tensors]
    return program.name, program.target, tuple(shapes)


def _change(
    name: str, old: Package | None, new: Package | None, overrides: Mapping[str, float]
) -> Change:
    before, after = (_figures(package, overrides) if package else None for package in (old, new))
    if old is None or new is None:
        return Change(name, "removed" if new is None else "added", before, after)
    differences = tuple(compare(old, new))
    return Change(name, "changed" if differences else "equal", before, after, differences)


def _figures(package: Package, overrides: Mapping[str, float]) -> Figures:
    document = describe(package, overrides)
    memory = {name: _sum(document["memory"], name.replace(" ", "_")) for name in _MEMORY}
    values: dict[str, float | None] = dict.fromkeys(FIGURES)
    values |= {"file size": len(package.raw_header) + len(package.payload)}
    values |= memory | {"device memory": sum(memory.values())}
    if not package.is_ours:
        return Figures("unknown", values)
    program = program_of(package)
    values["SBUF peak"] = sbuf_peak(program)[0] * target_of(program.target).partitions
    values["instructions"] = _sum(document["engines"], "instructions")
    values["estimated time"] = document["estimate"].get("total_us")
    return Figures(program.target, values)


def _sum(rows: Sequence[Mapping[str, int]], name: str) -> int:
    return sum(row[name] for row in rows)
