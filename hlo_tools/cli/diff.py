"""``nki-hlo diff``: what differs between two modules."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from hlo_tools.cli.diff_folders import are_folders, diff_folders, opened_alike
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
    left: Annotated[str, typer.Argument(help="A module, a folder, or - for standard input.")],
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

    Two folders are compared module by module, in one table. Modules are paired by their path, then
    by their name without XLA's number and by what they hold.

    A message and a text are compared by what text holds; a note names the fields that are left out.

    Example: nki-hlo diff before.pb after.pb --ignore layout

    Example: nki-hlo diff before.pb after.pb --by source
    """
    form = "json" if as_json else format
    if form not in _FORMATS:
        raise typer.BadParameter(f"{form!r} is not one of {', '.join(_FORMATS)}")
    if left == right == "-":
        raise typer.BadParameter("standard input holds one module; pass a file for the other")
    if are_folders(left, right):
        if by or form == "html" or output != "-":
            raise typer.BadParameter("folders are compared as text or JSON on standard output")
        ignored = {*(ignore or ()), *(() if metadata else ("metadata",))}
        return diff_folders(
            left, right, ignored, names=names, as_json=form == "json", exit_zero=exit_zero
        )
    if by:
        return _by_place(left, right, by, form, output, exit_zero)
    ignored = {*(ignore or ()), *(() if metadata else ("metadata",))}
    difference = diff_modules(*opened_alike(left, right), ignore=ignored, names=names)
    _write(difference, form, output)
    return 0 if difference.is_equal or exit_zero else 1


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


def _counts(counts: dict[str, int], other_counts: dict[str, int]) -> str:
    """The kinds whose numbers differ."""
    return ", ".join(
        f"{opcode} {counts.get(opcode, 0)}"
        for opcode in sorted({*counts, *other_counts})
        if counts.get(opcode, 0) != other_counts.get(opcode, 0)
    )


def _write(difference: ModuleDiff, form: str, output: str) -> None:
    if form == "json" and output == "-":
        console.write_json("diff", **difference.as_dict())
        return
    text = _rendered(difference, form)
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


def _rendered(difference: ModuleDiff, form: str) -> str:
    if form == "html":
        from hlo_tools.diff.page import render_page

        return render_page(difference)
    if form == "json":
        import json

        document = {"schema": console.SCHEMA, "command": "diff", **difference.as_dict()}
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return "\n".join(_lines(difference)) + "\n" if not difference.is_equal else ""


def _lines(difference: ModuleDiff) -> list[str]:
    lines = [f"--- {difference.left}", f"+++ {difference.right}"]
    lines += [
        f"! {c.field}: {c.before or 'none'} -> {c.after or 'none'}" for c in difference.changes
    ]
    for computation in difference.computations:
        if not computation.is_equal:
            lines += ["", *_computation(computation)]
    lines += [f"- computation %{name}" for name in difference.removed]
    lines += [f"+ computation %{name}" for name in difference.added]
    counts = ", ".join(f"{number} {what}" for what, number in difference.counts.items())
    return [*lines, "", f"instructions: {counts}"]


def _computation(computation: ComputationDiff) -> list[str]:
    right_name = "" if computation.left == computation.right else f" / %{computation.right}"
    lines = [f"@@ %{computation.left}{right_name} @@"]
    lines += [f"! {c.field}: {c.before} -> {c.after}" for c in computation.changes]
    lines += [f"- {text}" for text in computation.removed]
    lines += [f"+ {text}" for text in computation.added]
    for change in computation.changed:
        lines += _instruction(change)
    return lines


def _instruction(inst: InstructionDiff) -> list[str]:
    right_name = "" if inst.left == inst.right else f" / %{inst.right}"
    source = f"  ({inst.source})" if inst.source else ""
    rows = [f"    {c.field}: {c.before or 'none'} -> {c.after or 'none'}" for c in inst.changes]
    return [f"! %{inst.left}{right_name} {inst.opcode}{source}", *rows]
