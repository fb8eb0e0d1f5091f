"""A module as HTML for a notebook: its entry's instructions, shortened."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from hlo_tools._messages import counted

if TYPE_CHECKING:
    from hlo_tools.ir.instruction import Instruction
    from hlo_tools.ir.module import Module

__all__ = ["module_html"]

_MOST_ROWS = 60
_MAX_CELL_CHARACTERS = 80
_COLUMNS = ("name", "shape", "opcode", "operands", "source")


def module_html(module: Module) -> str:
    """A table of the first instructions of the entry, with a line that says what else there is."""
    if not module.computations:
        return f"<p><code>{escape(module.name)}</code>: no computations</p>"
    views = module.entry.instructions
    count = sum(len(computation) for computation in module.computations)
    facts = (
        f"<b>{escape(module.name)}</b>: {counted(len(module.computations), 'computation')}, "
        f"{counted(count, 'instruction')}; entry <code>%{escape(module.entry.name)}</code>"
    )
    head = "".join(f"<th style='text-align:left'>{name}</th>" for name in _COLUMNS)
    rows = "".join(_row(view) for view in views[:_MOST_ROWS])
    left = len(views) - _MOST_ROWS
    more = f"<p>{counted(left, 'instruction')} more</p>" if left > 0 else ""
    return f"<div><p>{facts}</p><table><tr>{head}</tr>{rows}</table>{more}</div>"


def _row(view: Instruction) -> str:
    operands = ", ".join(f"%{operand.name}" for operand in view.operands)
    name = f"{'ROOT ' if view.is_root else ''}%{view.name}"
    kind = view.custom_call_target or view.opcode
    cells = (name, str(view.shape), kind, operands, str(view.source or ""))
    return "<tr>" + "".join(f"<td><code>{escape(_short(cell))}</code></td>" for cell in cells) + "</tr>"  # fmt: skip


def _short(text: str) -> str:
    return text if len(text) <= _MAX_CELL_CHARACTERS else f"{text[: _MAX_CELL_CHARACTERS - 1]}…"
