"""``nki-hlo diff DUMP-A DUMP-B``: two folders of modules, one line for each pair."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import typer

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.failures import report
from hlo_tools.cli.shared.inputs import is_text, module_files, open_module
from hlo_tools.cli.shared.progress import step
from hlo_tools.diff import diff_modules
from hlo_tools.diff.folders import fingerprint, pair_files
from hlo_tools.diff.text_form import lost_in_text, through_text
from hlo_tools.errors import HloError
from hlo_tools.ir.module import Module

__all__ = ["are_folders", "diff_folders", "opened_alike"]

_UNREAD_EXIT_CODE = 3
_COUNTS = ("alike", "changed", "removed", "added")


@dataclass(frozen=True, slots=True)
class FolderRow:
    """One pair of files.

    Attributes:
        left, right: the files.
        equal: True if nothing differs.
        counts: instructions by what became of them.
    """

    left: str
    right: str
    equal: bool
    counts: dict[str, int]


def are_folders(left: str, right: str) -> bool:
    """Return True if both inputs are folders with several modules, or one that has.

    Raises:
        typer.BadParameter: a folder with several modules and a file.
        HloFileError: a folder has no module (HLO-NO-MODULE).
    """
    several = [Path(name).is_dir() and len(module_files(name)) > 1 for name in (left, right)]
    if not any(several):
        return False
    if not all(Path(name).is_dir() for name in (left, right)):
        raise typer.BadParameter("a folder of modules is compared with a folder")
    return True


def diff_folders(
    left: str, right: str, ignored: set[str], *, names: bool, as_json: bool, exit_zero: bool
) -> int:
    """Compare the modules of two folders pair by pair, in one table."""
    paired = pair_files(_files(left), _files(right), _fingerprint)
    rows: list[FolderRow] = []
    unread: list[HloError] = []
    for number, (before, after) in enumerate(paired.pairs):
        step(before, number, len(paired.pairs))
        try:
            difference = diff_modules(*opened_alike(before, after), ignore=ignored, names=names)
        except HloError as error:
            unread.append(error)
            continue
        rows.append(FolderRow(before, after, difference.is_equal, difference.counts))
    if as_json:
        console.write_json(
            "diff",
            modules=[asdict(row) for row in rows],
            removed_files=list(paired.removed),
            added_files=list(paired.added),
        )
    else:
        _print(rows, paired.removed, paired.added)
    for error in unread:
        report(error)
    if unread:
        return _UNREAD_EXIT_CODE
    is_equal = all(row.equal for row in rows) and not (paired.removed or paired.added)
    return 0 if is_equal or exit_zero else 1


def opened_alike(left: str, right: str) -> tuple[Module, Module]:
    """Both modules; a message beside a text as its own text would hold it, with a note."""
    modules = open_module(left, to_inspect=True), open_module(right, to_inspect=True)
    text_sides = is_text(left), is_text(right)
    if text_sides[0] == text_sides[1]:
        return modules
    message, text = modules if text_sides[1] else reversed(modules)
    if message.holds_unknown_fields:  # it has no text
        return modules
    copy = through_text(message, text)
    if lost := lost_in_text(message, copy):
        console.note(f"not compared, since text does not hold it: {', '.join(lost)}")
    if text.configuration:
        names = ", ".join(text.configuration)
        console.note(f"not compared, since a message does not hold it: {names}")
        copy.configuration = text.configuration
    return (copy, text) if text_sides[1] else (text, copy)


def _files(folder: str) -> list[tuple[str, str]]:
    return [(Path(file).relative_to(folder).as_posix(), file) for file in module_files(folder)]


def _fingerprint(file: str) -> str:
    """A file that cannot be read has its own name; the comparison reports the error."""
    try:
        return fingerprint(open_module(file, to_inspect=True))
    except HloError:
        return file


def _print(rows: list[FolderRow], removed: tuple[str, ...], added: tuple[str, ...]) -> None:
    """Pairs that differ and files without a partner; equal pairs are counted."""
    table: list[tuple[object, ...]] = []
    for row in rows:
        if not row.equal:
            table.append((row.left, row.right, *(row.counts[name] for name in _COUNTS)))
    table += [(file, "-", *("" for _ in _COUNTS)) for file in removed]
    table += [("-", file, *("" for _ in _COUNTS)) for file in added]
    if table:
        console.table(("before", "after", *_COUNTS), table)
        console.line()
    equal_count = sum(row.equal for row in rows)
    pairs = console.counted(len(rows), "pair")
    console.line(
        f"{pairs}, {equal_count:,} equal; {len(removed):,} only before, {len(added):,} only after"
    )
