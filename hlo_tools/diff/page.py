"""Differences as one HTML page that needs nothing else."""

from __future__ import annotations

from html import escape

from hlo_tools._messages import counted
from hlo_tools.diff.result import Change, ComputationDiff, InstructionDiff, ModuleDiff

__all__ = ["render_page"]

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --gone: #d73a4922; --new: #2ea04326; --dim: #666; }
@media (prefers-color-scheme: dark) { :root { --dim: #a0a0a0; } }
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.2rem; } h2 { font-size: 1rem; margin-top: 2rem; }
code, td { font-family: ui-monospace, monospace; font-size: 12.5px; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
td { border-top: 1px solid var(--line); padding: .15rem .5rem; vertical-align: top; width: 40%; }
td:first-child { color: var(--dim); width: 20%; }
.gone { background: var(--gone); } .new { background: var(--new); }
li { list-style: none; padding: .1rem .5rem; } ul { padding: 0; }
caption { text-align: left; font-weight: 600; padding: .8rem 0 .2rem; }
"""


def render_page(diff: ModuleDiff) -> str:
    """The page."""
    verdict = "equal" if diff.is_equal else "different"
    counts = ", ".join(f"{number} {what}" for what, number in diff.counts.items())
    parts = [
        "<!doctype html>\n<html lang=en><meta charset=utf-8>",
        f"<title>{escape(diff.left)} / {escape(diff.right)}</title>",
        f"<style>{_STYLE}</style>",
        f"<h1><code>{escape(diff.left)}</code> and <code>{escape(diff.right)}</code>: {verdict}</h1>",
        f"<p>Instructions: {counts}.</p>",
        _table("Module", diff.changes),
        *(
            _computation(computation)
            for computation in diff.computations
            if not computation.is_equal
        ),
        _list("Computations of the first only", diff.removed, "gone"),
        _list("Computations of the second only", diff.added, "new"),
    ]
    return "\n".join(section for section in parts if section) + "\n</html>\n"


def _computation(computation: ComputationDiff) -> str:
    name = (
        f"%{computation.left}"
        if computation.left == computation.right
        else f"%{computation.left} and %{computation.right}"
    )
    parts = [
        f"<h2><code>{escape(name)}</code>: {counted(computation.alike, 'instruction')} alike</h2>",
        _table("Computation", computation.changes),
        _list("Removed", computation.removed, "gone"),
        _list("Added", computation.added, "new"),
        *(_instruction(change) for change in computation.changed),
    ]
    return "\n".join(section for section in parts if section)


def _instruction(inst: InstructionDiff) -> str:
    name = f"%{inst.left}" if inst.left == inst.right else f"%{inst.left} / %{inst.right}"
    source = f" · {inst.source}" if inst.source else ""
    return _table(f"{name} {inst.opcode}{source}", inst.changes)


def _table(title: str, changes: tuple[Change, ...]) -> str:
    if not changes:
        return ""
    rows = "".join(
        f"<tr><td>{escape(c.field)}</td><td class=gone>{escape(c.before)}</td>"
        f"<td class=new>{escape(c.after)}</td></tr>"
        for c in changes
    )
    return f"<table><caption>{escape(title)}</caption>{rows}</table>"


def _list(title: str, lines: tuple[str, ...], kind: str) -> str:
    if not lines:
        return ""
    rows = "".join(f"<li class={kind}><code>{escape(line)}</code></li>" for line in lines)
    return f"<h2>{title}</h2><ul>{rows}</ul>"
