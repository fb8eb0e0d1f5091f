"""``nki-neff diff``."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, cast

import typer

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.options import FindingsJson
from neff.cli.diff_figures import OVERVIEW, overview, quantity, share
from neff.cli.options import IgnoreHash

if TYPE_CHECKING:
    from neff.container.compare import Difference
    from neff.profile.changes import Change, Figures

__all__ = ["command"]

EQUAL, DIFFERENT = 0, 1
FORMATS = ("text", "json", "markdown")


def command(
    before: Annotated[Path, typer.Argument(help="A NEFF, or a folder of them.", metavar="BEFORE")],
    after: Annotated[Path, typer.Argument(help="Another.", metavar="AFTER")],
    ignore_hash: IgnoreHash = False,
    form: Annotated[
        str, typer.Option("--format", help=f"{', '.join(FORMATS)}.", metavar="FORMAT")
    ] = "text",
    as_json: FindingsJson = False,
    exit_zero: Annotated[
        bool, typer.Option("--exit-zero", help="Exit with code 0 despite differences.")
    ] = False,
) -> int:
    """Compare NEFFs: size, memory, estimated time, tensors, first other instruction of each engine.

    Exit code 1 if they differ. Of two folders, NEFFs of one name are compared.

    Example: nki-neff diff before.neff after.neff
    Example: nki-neff diff main_neffs neffs --format markdown >> $GITHUB_STEP_SUMMARY
    """
    if form not in FORMATS:
        raise typer.BadParameter(f"{form!r} is not one of {', '.join(FORMATS)}")
    form = "json" if as_json else form
    return _compare(before, after, check_hash=not ignore_hash, form=form) * (not exit_zero)


def _compare(before: Path, after: Path, *, check_hash: bool, form: str) -> int:
    """Print what changed between two NEFFs or folders of them; 1 when something did."""
    from neff.profile.changes import changes
    from neff.timing import overrides_of

    changed = changes(before, after, check_hash=check_hash, overrides=overrides_of((), Path.cwd()))
    if form == "json":
        rows = [_as_json(change) for change in changed]
        console.write_json("diff", files=[str(before), str(after)], estimated=True, neffs=rows)
    elif form == "markdown":
        from neff.cli.diff_markdown import render

        sys.stdout.write(render(changed))
    else:
        _print(changed, is_folder=after.is_dir())
    return DIFFERENT if any(change.status != "equal" for change in changed) else EQUAL


# ---------------------------------------------------------------------------------------- text


def _print(changed: Sequence[Change], *, is_folder: bool) -> None:
    if is_folder:
        rows = [(change.name, change.status, *overview(change)) for change in changed]
        console.table(("NEFF", "", *OVERVIEW), rows)
    for change in changed:
        if change.status != "changed":
            continue
        if is_folder:
            console.line(f"\n{change.name}")
        assert change.before is not None and change.after is not None
        _figures(change.before, change.after)
        console.line()
        for row in change.differences:
            _difference(row)
    counts = {status: sum(change.status == status for change in changed)
              for status in ("equal", "changed", "added", "removed")}  # fmt: skip
    console.note(", ".join(f"{count} {name}" for name, count in counts.items() if count))


def _figures(before: Figures, after: Figures) -> None:
    from neff.profile.changes import FIGURES

    rows = [
        (name, quantity(old, unit), quantity(new, unit), share(old, new))
        for name, unit in FIGURES.items()
        if (old := before.values[name]) or after.values[name]
        for new in (after.values[name],)
    ]
    targets = f"{before.target} to {after.target}" if before.target != after.target else ""
    console.table((targets or after.target, "before", "after", "change"), rows)


def _difference(row: Difference) -> None:
    """Print a difference with both values, wrapped."""
    console.line(str(row["what"]))
    for mark, value in (("-", row["one"]), ("+", row["two"])):
        for number, text in enumerate(wrap(str(value), _width() - 4) or [""]):
            console.line(f"  {mark if not number else ' '} {text}".rstrip())


def _width() -> int:
    """Return the width of the terminal; 80 without one."""
    return max(shutil.get_terminal_size((80, 24)).columns if _is_terminal() else 80, 20)


def _is_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


# ---------------------------------------------------------------------------------------- JSON


def _as_json(change: Change) -> dict[str, object]:
    return {
        "name": change.name,
        "status": change.status,
        "before": _side(change.before),
        "after": _side(change.after),
        "differences": [
            {**row, "one": _plain(row["one"]), "two": _plain(row["two"])}
            for row in change.differences
        ],
    }


def _side(figures: Figures | None) -> dict[str, object] | None:
    from neff.profile.changes import FIGURES

    if figures is None:
        return None
    values = {_key(name, FIGURES[name]): value for name, value in figures.values.items()}
    return {"target": figures.target, **values}


def _key(name: str, unit: str) -> str:
    """``SBUF peak`` in bytes is ``sbuf_peak_bytes``."""
    return "_".join(filter(None, (name.lower().replace(" ", "_"), {"B": "bytes"}.get(unit, unit))))


def _plain(value: object) -> object:
    return list(cast("tuple[object, ...]", value)) if isinstance(value, tuple) else value
