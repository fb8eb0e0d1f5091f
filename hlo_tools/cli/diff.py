"""``nki-hlo diff``: what differs between two modules."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from hlo_tools.cli.shared import completion, console
from hlo_tools.cli.shared.inputs import open_module
from hlo_tools.diff import IGNORABLE, ComputationDiff, InstructionDiff, ModuleDiff, diff_modules
from hlo_tools.diff.by_place import PLACES, diff_places

__all__ = ["command"]

_FORMATS = ("text", "json", "html")


Format = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        help="text, json or html.",
        metavar="FORMAT",
        autocompletion=completion.words(*_FORMATS),
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore",
        "-i",
        help=f"Ignore: {', '.join(IGNORABLE)}.",
        metavar="WHAT",
        autocompletion=completion.words(*IGNORABLE),
    ),
]
Metadata = Annotated[
    bool, typer.Option("--metadata", help="Compare source lines and op names too.")
]
By = Annotated[
    str,
    typer.Option(
        "--by",
        help="source or scope: compare the operations of each line or scope.",
        metavar="WHAT",
        autocompletion=completion.words(*PLACES),
    ),
]
ExitZero = Annotated[
    bool, typer.Option("--exit-zero", help="Exit with code 0 despite differences.")
]


def command(
    left: Annotated[str, typer.Argument(help="A module, or - for standard input.")],
    right: Annotated[str, typer.Argument(help="The one to compare it with.")],
    format: Format = "text",
    ignore: Ignore = None,
    metadata: Metadata = False,
    names: Annotated[bool, typer.Option("--names", help="Compare names too.")] = False,
    by: By = "",
    output: Annotated[str, typer.Option("--output", "-o", help="Output file, or -.")] = "-",
    as_json: Annotated[bool, typer.Option("--json", help="Same as --format json.")] = False,
    exit_zero: ExitZero = False,
) -> int:
    """Compare two modules by structure: names, ids and order make no difference.

    Shows instructions that were added, removed or changed, and what changed in them. Exit code 1
    when the modules differ. --by compares an optimised module with the one before: for each source
    line or scope, how many operations of each kind there are, inside of fusions too.

    Example: nki-hlo diff before.pb after.pb --ignore layout

    Example: nki-hlo diff before.pb after.pb --by source
    """
    form = "json" if as_json else format
    if form not in _FORMATS:
        raise typer.BadParameter(f"{form!r} is not one of {', '.join(_FORMATS)}")
    if left == right == "-":
        raise typer.BadParameter("standard input holds one module; pass a file for the other")
    if by:
        return _by_place(left, right, by, form, output, exit_zero)
    ignored = {*(ignore or ()), *(() if metadata else ("metadata",))}
    found = diff_modules(
        open_module(left, to_inspect=True),
        open_module(right, to_inspect=True),
        ignore=ignored,
        names=names,
    )
    _write(found, form, output)
    return 0 if found.is_equal or exit_zero else 1


def _by_place(left: str, right: str, by: str, form: str, output: str, exit_zero: bool) -> int:
    if by not in PLACES:
        raise typer.BadParameter(f"{by!r} is not one of {', '.join(PLACES)}")
    if form == "html" or output != "-":
        raise typer.BadParameter("--by prints text or JSON to standard output")
    rows = diff_places(open_module(left, to_inspect=True), open_module(right, to_inspect=True), by)
    changed = [row for row in rows if row.before != row.after]
    if form == "json":
        console.write_json("diff", by=by, places=[asdict(row) for row in rows])
    elif changed:
        table = [
            (row.place or "(none)", _counts(row.before, row.after), _counts(row.after, row.before))
            for row in changed
        ]
        console.table((by, left, right), table)
        alike = len(rows) - len(changed)
        console.line(
            f"\n{console.counted(len(changed), f'{by} differs', f'{by}s differ')}, {alike:,} alike"
        )
    return 1 if changed and not exit_zero else 0


def _counts(mine: dict[str, int], other: dict[str, int]) -> str:
    """The kinds whose numbers differ."""
    return ", ".join(
        f"{opcode} {mine.get(opcode, 0)}"
        for opcode in sorted({*mine, *other})
        if mine.get(opcode, 0) != other.get(opcode, 0)
    )


def _write(found: ModuleDiff, form: str, output: str) -> None:
    if form == "json" and output == "-":
        console.write_json("diff", **found.as_dict())
        return
    text = _rendered(found, form)
    if output == "-":
        if text:
            shown = text.rstrip("\n")
            console.line(_colored(shown) if form == "text" else shown)
    else:
        console.write_binary(text.encode(), output)


_COLORS = {"-": "31", "+": "32", "!": "33", "@": "36"}


def _colored(text: str) -> str:
    """Lines in the colours of their first letters, on a terminal."""
    lines: list[str] = []
    for line in text.split("\n"):
        on, off = console.marks(_COLORS[line[0]], sys.stdout) if line[:1] in _COLORS else ("", "")
        lines.append(f"{on}{line}{off}")
    return "\n".join(lines)


def _rendered(found: ModuleDiff, form: str) -> str:
    if form == "html":
        from hlo_tools.diff.page import render_page

        return render_page(found)
    if form == "json":
        import json

        document = {"schema": console.SCHEMA, "command": "diff", **found.as_dict()}
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return "\n".join(_lines(found)) + "\n" if not found.is_equal else ""


def _lines(found: ModuleDiff) -> list[str]:
    lines = [f"--- {found.left}", f"+++ {found.right}"]
    lines += [f"! {c.field}: {c.before or 'none'} -> {c.after or 'none'}" for c in found.changes]
    for one in found.computations:
        if not one.is_equal:
            lines += ["", *_computation(one)]
    lines += [f"- computation %{name}" for name in found.removed]
    lines += [f"+ computation %{name}" for name in found.added]
    counts = ", ".join(f"{number} {what}" for what, number in found.counts.items())
    return [*lines, "", f"instructions: {counts}"]


def _computation(one: ComputationDiff) -> list[str]:
    other = "" if one.left == one.right else f" / %{one.right}"
    lines = [f"@@ %{one.left}{other} @@"]
    lines += [f"! {c.field}: {c.before} -> {c.after}" for c in one.changes]
    lines += [f"- {text}" for text in one.removed]
    lines += [f"+ {text}" for text in one.added]
    for change in one.changed:
        lines += _instruction(change)
    return lines


def _instruction(one: InstructionDiff) -> list[str]:
    other = "" if one.left == one.right else f" / %{one.right}"
    source = f"  ({one.source})" if one.source else ""
    rows = [f"    {c.field}: {c.before or 'none'} -> {c.after or 'none'}" for c in one.changes]
    return [f"! %{one.left}{other} {one.opcode}{source}", *rows]
