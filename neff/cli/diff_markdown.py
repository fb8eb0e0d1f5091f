"""The changes of NEFFs as Markdown: a table, and under it what changed in each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from neff.cli.diff_figures import OVERVIEW, overview, quantity, share

if TYPE_CHECKING:
    from neff.container.compare import Difference
    from neff.profile.changes import Change, Figures

__all__ = ["render"]

_MAX_ROWS = 20
"""Differences of one NEFF that are shown."""
_MAX_CELL_CHARACTERS = 400
"""Characters of one value."""


def render(changes: Sequence[Change]) -> str:
    """A table of all, and a block that opens for each that changed.

    Job summaries of GitHub's and comments on merge requests show it; times are estimates.
    """
    lines = [
        f"| NEFF | | {' | '.join(OVERVIEW)} |",
        f"|---|---|{'--:|' * len(OVERVIEW)}",
        *(_row(f"`{change.name}`", change.status, *overview(change)) for change in changes),
        "",
    ]
    for change in changes:
        if change.before is not None and change.after is not None and change.status != "equal":
            lines += _details(change.name, change.before, change.after, change.differences)
    return "\n".join(lines)


def _details(
    name: str, before: Figures, after: Figures, differences: Sequence[Difference]
) -> Iterator[str]:
    from neff.profile.changes import FIGURES

    yield from (f"<details><summary>{_escaped(name)}</summary>", "")
    yield from ("| | before | after | change |", "|---|--:|--:|--:|")
    for figure, unit in FIGURES.items():
        old, new = before.values[figure], after.values[figure]
        if old or new:
            yield _row(figure, quantity(old, unit), quantity(new, unit), share(old, new))
    yield from ("", "```diff")
    for row in differences[:_MAX_ROWS]:
        yield f"@@ {_one_line(row['what'])} @@"
        yield f"- {_one_line(row['one'])}"
        yield f"+ {_one_line(row['two'])}"
    yield "```"
    if left := len(differences) - _MAX_ROWS:
        yield from ([f"and {left} more"] if left > 0 else [])
    yield from ("", "</details>", "")


def _one_line(value: object) -> str:
    """A value in a fenced block: no line breaks, nothing that ends the block, not too long."""
    text = " ".join(str(value).split()).replace("```", "'''")
    return text if len(text) <= _MAX_CELL_CHARACTERS else f"{text[: _MAX_CELL_CHARACTERS - 1]}…"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
