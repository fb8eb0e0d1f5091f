"""Which modules of a folder a command takes: options that all commands on modules have.

``--latest``, ``--kernels-only``, ``--name GLOB``, ``--stale`` and ``--target`` are added to a
command's own options by :func:`with_selection`; :func:`chosen` applies them to the files of a folder.
A command that has a ``--target`` of its own selects by it too.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer

from hlo_tools.cli.shared import completion, console
from hlo_tools.cli.shared.added_options import Command, with_options
from hlo_tools.cli.shared.targets import TargetName, checked_target, extracted_target
from hlo_tools.errors import HloError
from hlo_tools.schema.unknown import ALLOW
from nki_lang.base.errors import NkiError
from nki_lang.base.targets import TARGETS, target_of

__all__ = [
    "Selection",
    "chosen",
    "in_effect",
    "module_target",
    "of_selected_target",
    "options_to_choose",
    "with_selection",
]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which modules of a folder are taken; the options of all commands on modules.

    Attributes:
        latest: those of the cache's latest extraction.
        kernels_only: those that call a kernel.
        name: those whose name matches, "" for all.
        stale: also those that a later extraction of their script no longer compiled.
        target: those that were extracted for this target, "" for all. Modules that name no target
            are taken too, and all modules if none was extracted for it.
        target_only: no module of another target is taken, even if none was extracted for ``target``:
            the command has no other use for ``--target``.
        allow_unknown_fields: modules with fields that this version does not know are not refused.
    """

    latest: bool = False
    kernels_only: bool = False
    name: str = ""
    stale: bool = False
    target: str = ""
    target_only: bool = False
    allow_unknown_fields: bool = False


Latest = Annotated[
    bool, typer.Option("--latest", help="Of a folder: the modules of its latest extraction.")
]
KernelsOnly = Annotated[
    bool, typer.Option("--kernels-only", help="Of a folder: the modules that call kernels.")
]
Name = Annotated[
    str,
    typer.Option("--name", help="Of a folder: the modules of this name.", metavar="GLOB"),
]
Stale = Annotated[
    bool,
    typer.Option("--stale", help="Of a folder: also what its script no longer compiles."),
]
TargetOption = Annotated[
    str,
    typer.Option(
        "--target",
        help="Of a folder: the modules that were extracted for trn1, trn2 or trn3.",
        metavar="TARGET",
        autocompletion=completion.words(*TARGETS),
    ),
]
AllowUnknownFields = Annotated[
    bool,
    typer.Option(
        "--allow-unknown-fields",
        help="Pass over fields of modules that this version does not know.",
    ),
]
_OPTIONS = {
    "latest": Latest, "kernels_only": KernelsOnly, "name": Name, "stale": Stale,
    "target": TargetOption, "allow_unknown_fields": AllowUnknownFields,
}  # fmt: skip

_current: ContextVar[Selection] = ContextVar("nki_hlo_selection")


def with_selection(function: Command) -> Command:
    """Return a command with the options of a :class:`Selection` behind its own."""
    target = inspect.signature(function, eval_str=True).parameters.get("target")
    defaults = Selection()
    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=getattr(defaults, name),
            annotation=annotation,
        )
        for name, annotation in _OPTIONS.items()
    ]

    def context(values: Mapping[str, Any]) -> AbstractContextManager[None]:
        selection = Selection(**values, target_only=target is None)
        if target is None or target.annotation == TargetName:  # neff checks its own option
            checked_target(selection.target)
        return in_effect(selection)

    return with_options(function, options, context)


@contextmanager
def in_effect(selection: Selection) -> Generator[None]:
    """Let :func:`chosen` follow a selection, and unknown fields be passed over where it says so.

    Processes that the command starts follow it too.
    """
    token = _current.set(selection)
    before = os.environ.get(ALLOW)
    if selection.allow_unknown_fields:
        os.environ[ALLOW] = "1"
    try:
        yield
    finally:
        _current.reset(token)
        if selection.allow_unknown_fields:
            os.environ.pop(ALLOW)
            if before is not None:
                os.environ[ALLOW] = before


def chosen(folder: str, files: Sequence[str]) -> list[str]:
    """Return the modules of a folder that the selection takes.

    Stale modules of a compile cache are left out, with a note, unless they are asked for; one
    that is named itself is always taken.
    """
    from hlo_tools.extract.record import latest_entries, stale_entries

    selection = _current.get(Selection())
    selected = list(files)
    if not selection.stale:
        stale = _members(files, stale_entries)
        selected = [file for file in selected if file not in stale or _is_named(folder, file)]
        if left_out := len(files) - len(selected):
            what = console.counted(left_out, "stale module is", "stale modules are")
            console.note(
                f"{folder}: {what} left out (--stale takes them, "
                "nki-hlo extract --prune removes them)"
            )
    if selection.latest:
        latest = _members(selected, latest_entries)
        selected = [file for file in selected if file in latest or _entry_of(file) is None]
    if selection.target:
        selected = _for_target(selected, _family(selection.target), selection.target_only)
    if selection.kernels_only or selection.name:
        selected = [file for file in selected if _fits(file, selection)]
    _note_earlier(folder, selected)
    return selected


def of_selected_target(files: Sequence[str]) -> list[str]:
    """Return those of several named modules that the selection's target takes; a note names the rest.

    A shell's ``modules/*/MODULE_*`` names modules of several targets, as their folder has them.
    """
    target = _family(_current.get(Selection()).target)
    if not target or len(files) < 2:
        return list(files)
    selected = _for_target(list(files), target, target_only=False)
    if left_out := len(files) - len(selected):
        what = console.counted(left_out, "module is", "modules are")
        console.note(f"{what} left out: extracted for another target than {target}")
    return selected


def _note_earlier(folder: str, files: Sequence[str]) -> None:
    """Name the modules that are older than an extraction that failed."""
    from hlo_tools.extract.record import failed_extractions

    entries = dict.fromkeys(place for file in files if (place := _entry_of(file)) is not None)
    for cache in dict.fromkeys(cache for cache, _ in entries):
        for record in failed_extractions(cache):
            count = sum((cache, entry) in entries for entry in record.earlier)
            if count:
                what = console.counted(count, "module is", "modules are")
                console.note(
                    f"{folder}: {what} from an earlier run: the last extraction of "
                    f"{Path(record.script).name} ended with exit code {record.exit_code}"
                )


def _for_target(files: list[str], target: str, target_only: bool) -> list[str]:
    """Return the files that were extracted for a target; unless ``target_only``, all if none was."""
    targets = {file: module_target(file) for file in files}
    if target not in targets.values() and not target_only:
        return files
    return [file for file, extracted in targets.items() if extracted in (target, "")]


def module_target(file: str) -> str:
    """Return the target that a module was extracted for, "" if nothing names it."""
    return _family(extracted_target(Path(file).parent))


def _family(name: str) -> str:
    """Return the family that a target or an alias names; a name of no target as it is."""
    try:
        return target_of(name).name if name else ""
    except NkiError:
        return name


def options_to_choose(files: Sequence[str]) -> str:
    """Return the options that choose one of several modules; ``--target`` where targets differ."""
    targets = sorted({target for file in files if (target := module_target(file))})
    if len(targets) < 2:
        return "choose one with --latest, --kernels-only or --name GLOB"
    return f"they are for {' and '.join(targets)}: choose with --target {targets[-1]}"


def _members(files: Sequence[str], entries_in: Callable[[Path], frozenset[str]]) -> frozenset[str]:
    """The files whose entry is among those that a function finds in their cache."""
    entries_by_file = {file: place for file in files if (place := _entry_of(file)) is not None}
    entries = {
        cache: entries_in(cache) for cache in {cache for cache, _ in entries_by_file.values()}
    }
    return frozenset(
        file for file, (cache, entry) in entries_by_file.items() if entry in entries[cache]
    )


def _entry_of(file: str) -> tuple[Path, str] | None:
    """(cache, entry) of a module in a compile cache."""
    entry = Path(file).absolute().parent
    if not entry.name.startswith("MODULE_"):
        return None
    cache = entry.parent.parent
    return cache, str(entry.relative_to(cache))


def _is_named(folder: str, file: str) -> bool:
    """Return True if the folder that a command received is the module's own."""
    return Path(folder).absolute() == Path(file).absolute().parent


def _fits(file: str, selection: Selection) -> bool:
    from hlo_tools.ir.loading import load_outline
    from hlo_tools.ir.module import KERNEL_TARGET

    try:
        outline = load_outline(file)
    except HloError:
        return True  # the command reports it
    if selection.kernels_only and not outline.custom_calls(KERNEL_TARGET):
        return False
    return not selection.name or fnmatchcase(outline.name, selection.name)
