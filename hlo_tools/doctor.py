"""Who provides each import name that a script with NKI kernels uses, and what therefore works.

Nothing is imported to find out: import specs and installed metadata are enough, so a broken or
hostile package cannot disturb the report.
"""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import importlib.util
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from hlo_tools.errors import HloError

__all__ = [
    "NAMES",
    "Ability",
    "Command",
    "Provider",
    "abilities",
    "commands",
    "examine",
    "examine_all",
]

NAMES = (
    "nki",
    "nkipy",
    "spike",
    "nrtpy",
    "neuronxcc",
    "libneuronxla",
    "torch_neuronx",
    "jax",
    "torch",
    "torch_xla",
)
"""Import names in the order of the report."""

_VENDOR = frozenset(NAMES) - {"jax", "torch", "torch_xla"}
_COMMANDS = {"neuronx-cc": "neuronxcc", "spike-run": "spike"}
"""Commands of the vendor -> the package that they start."""
_COMMAND_ADVICE = defaultdict(
    str,
    ours="pip install ./scripts/packaging/vendor-commands in the checkout",
    vendor="pip install --force-reinstall the package that it belongs to: uninstalling another "
    "distribution of this command removed it",
)
_PLACEHOLDER_MARK = "WRONG PACKAGE"
_PLACEHOLDER_VERSIONS = {
    "nki": "0.0.1",
    "neuronx-cc": "1.0.post1",
    "libneuronxla": "1.0",
    "nkipy": "0.0.2",
}
"""Releases on PyPI that only raise ImportError (looked up 2026-08)."""


@dataclass(frozen=True, slots=True)
class Provider:
    """The package behind one import name.

    Attributes:
        name: the import name.
        kind: ``ours``, ``vendor``, ``framework``, ``placeholder``, ``broken`` or ``missing``.
        distribution: the installed distribution, or "".
        version: its version, or "".
        path: the file or folder that Python would import, or "".
        advice: what to do, or "".
    """

    name: str
    kind: str
    distribution: str = ""
    version: str = ""
    path: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """A command that the vendor's packages bring.

    Attributes:
        name: the command.
        path: the file that a shell would start, or "".
        starts: the import name of the package that the command belongs to.
        kind: of that package's provider, ``missing`` without a file.
        advice: what to do, or "".
    """

    name: str
    path: str
    starts: str
    kind: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Ability:
    """One thing a person may want to do, whether it works here, and why not."""

    what: str
    works: bool
    reason: str = ""


def examine(name: str) -> Provider:
    """Find out who provides ``name``."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError) as error:
        return Provider(name, "broken", advice=f"its import is broken: {error}")
    if spec is None:
        return Provider(name, "missing", advice=_advice_for_missing(name))
    path = _path_of(spec)
    distribution, version = _distribution_of(name, path)
    if _is_ours(path):
        return Provider(name, "ours", "nki-hlo", _own_version(), str(path))
    if _is_placeholder(path, distribution, version):
        return Provider(
            name, "placeholder", distribution, version, str(path),
            f"this is an empty package that only raises ImportError; run: pip uninstall {distribution or name}",
        )  # fmt: skip
    kind = "vendor" if name in _VENDOR else "framework"
    return Provider(name, kind, distribution, version, str(path))


def examine_all() -> list[Provider]:
    """Every name of :data:`NAMES`, in order."""
    return [examine(name) for name in NAMES]


def commands(providers: list[Provider]) -> list[Command]:
    """The vendor's commands: where they are and whose package they start."""
    kinds = {provider.name: provider.kind for provider in providers}
    vendor_commands: list[Command] = []
    for name, package in _COMMANDS.items():
        path = shutil.which(name) or ""
        kind, advice = (
            (kinds[package], "") if path else ("missing", _COMMAND_ADVICE[kinds[package]])
        )
        vendor_commands.append(Command(name, path, package, kind, advice))
    return vendor_commands


def abilities(providers: list[Provider]) -> list[Ability]:
    """Return the abilities of an installation with these providers."""
    by_name = {provider.name: provider for provider in providers}
    return [rule(by_name) for rule in _RULES]


def _path_of(spec: importlib.machinery.ModuleSpec) -> Path:
    if spec.origin and spec.origin not in ("namespace", "built-in", "frozen"):
        return Path(spec.origin)
    locations = list(spec.submodule_search_locations or [])
    return Path(locations[0]) if locations else Path()


def _is_ours(path: Path) -> bool:
    """Ours is in the folder that our one-line path file adds: installed or in a checkout."""
    package = Path(__file__).resolve().parent.parent
    return any(
        folder in path.resolve().parents
        for folder in (package / "nki_hlo_compat", package / "compat")
    )


def _is_placeholder(path: Path, distribution: str, version: str) -> bool:
    if distribution and _PLACEHOLDER_VERSIONS.get(distribution) == version:
        return True
    if path.suffix != ".py" or not path.is_file() or path.stat().st_size > 20_000:
        return False
    return _PLACEHOLDER_MARK in path.read_text(errors="replace")


def _distribution_of(name: str, path: Path) -> tuple[str, str]:
    owners = importlib.metadata.packages_distributions().get(name, [])
    for owner in owners:
        if owner == "nki-hlo":
            continue
        return owner, importlib.metadata.version(owner)
    return ("", "") if not path.name else ("", _version_file(path))


def _version_file(path: Path) -> str:
    """A version written in the package itself, when no metadata is installed (a bare copy)."""
    source = path.parent / "version.py"
    if not source.is_file():
        return ""
    for line in source.read_text(errors="replace").splitlines():
        if line.startswith("__version__"):
            return line.partition("=")[2].strip().strip("'\"")
    return ""


def _own_version() -> str:
    try:
        return importlib.metadata.version("nki-hlo")
    except importlib.metadata.PackageNotFoundError:
        return "checkout"


def _advice_for_missing(name: str) -> str:
    if name in _VENDOR:
        return (
            "our own stands in a folder at the end of the import path; "
            "pip install --force-reinstall . in the checkout"
        )
    return f"pip install '.[{name.replace('_', '-')}]' in the checkout"


def _usable(provider: Provider) -> bool:
    return provider.kind in ("ours", "vendor", "framework")


def _needs(what: str, *names: str) -> Callable[[dict[str, Provider]], Ability]:
    def rule(by_name: dict[str, Provider]) -> Ability:
        lacking = [name for name in names if not _usable(by_name[name])]
        if not lacking:
            return Ability(what, True)
        first = by_name[lacking[0]]
        return Ability(what, False, f"{first.name} is {first.kind}: {first.advice}")

    return rule


def _jax_scripts(by_name: dict[str, Provider]) -> Ability:
    from hlo_tools.frameworks.jax_versions import check_version, is_untested

    ability = _needs("kernels in JAX scripts", "nki", "jax")(by_name)
    if not ability.works:
        return ability
    version = by_name["jax"].version
    if is_untested(version):
        return replace(
            ability, what=f"{ability.what} (JAX {version} is newer than the tested ones)"
        )
    try:
        check_version(version)
    except HloError as error:
        return replace(ability, works=False, reason=f"{error.message}; {error.remedy}")
    return ability


def _torch_pair(by_name: dict[str, Provider]) -> Ability:
    what = "kernels in PyTorch/XLA scripts"
    ability = _needs(what, "nki", "torch", "torch_xla", "jax", "libneuronxla")(by_name)
    if not ability.works:
        return ability
    torch, torch_xla = by_name["torch"].version, by_name["torch_xla"].version
    if torch.split("+")[0].split(".")[:2] != torch_xla.split("+")[0].split(".")[:2]:
        return Ability(
            what, False,
            f"torch {torch} and torch_xla {torch_xla} do not fit together; "
            "pip install '.[torch-xla]' in the checkout",
        )  # fmt: skip
    return ability


def _own_device(by_name: dict[str, Provider]) -> Ability:
    what = "the simulated device for PyTorch/XLA"
    if by_name["libneuronxla"].kind == "vendor":
        return Ability(what, False, "the vendor's libneuronxla is installed and keeps precedence")
    return replace(_torch_pair(by_name), what=what)


_RULES: tuple[Callable[[dict[str, Provider]], Ability], ...] = (
    _needs("kernels with NumPy arrays", "nki"),
    _jax_scripts,
    _torch_pair,
    _own_device,
    _needs("kernels on PyTorch CPU tensors", "nki", "torch"),
    _needs("NumPy functions to HLO (nkipy)", "nkipy"),
    _needs("running a NEFF (spike)", "spike"),
)


def python_version() -> str:
    """Version of the running Python."""
    return ".".join(str(number) for number in sys.version_info[:3])
