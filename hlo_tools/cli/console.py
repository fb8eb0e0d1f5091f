"""What commands print: data on stdout, messages on stderr, colour only where it is wanted."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from hlo_tools._messages import counted

__all__ = [
    "COLORS",
    "SCHEMA",
    "Settings",
    "configure",
    "counted",
    "line",
    "marks",
    "note",
    "open_streams",
    "settings",
    "table",
    "write_binary",
    "write_json",
]

SCHEMA = "nki-hlo/1"
COLORS = ("auto", "always", "never")


@dataclass(frozen=True, slots=True)
class Settings:
    """Options that hold for every command."""

    debug: bool = False
    color: str = "auto"
    quiet: bool = False
    verbose: bool = False


_settings: ContextVar[Settings] = ContextVar("nki_hlo_settings")


def settings() -> Settings:
    """The options of this run."""
    return _settings.get(Settings())


def configure(**changes: Any) -> None:
    """Change options of this run; ``debug`` stays on once it is."""
    current = settings() if "color" in changes else Settings()
    changes["debug"] = bool(changes.get("debug")) or ("color" in changes and current.debug)
    _settings.set(replace(current, **changes))


def open_streams() -> None:
    """Python has None for a stream that was closed before it began: nothing, instead."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115


def line(text: str = "") -> None:
    """One line of data."""
    sys.stdout.write(text + "\n")


def note(text: str, *, verbose: bool = False) -> None:
    """One line for the user at the terminal; left out when quiet, or not verbose enough."""
    chosen = settings()
    if chosen.quiet or (verbose and not chosen.verbose):
        return
    sys.stderr.write(text + "\n")


def write_json(command: str, **content: Any) -> None:
    """The one document of ``--json``: our schema, the command, and what it found."""
    document = {"schema": SCHEMA, "command": command, **content}
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def write_binary(data: bytes, target: str | Path, *, force: bool = False) -> None:
    """Bytes to a file (beside it, then renamed), or to stdout for ``-``.

    Raises:
        typer.BadParameter: stdout is a terminal and ``force`` is not set.
        HloFileError: the file cannot be written.
    """
    if str(target) != "-":
        from hlo_tools.files.writing import write_bytes

        write_bytes(data, target)
        return
    if sys.stdout.isatty() and not force:
        import typer

        raise typer.BadParameter(
            "binary data is not written to a terminal; use -o FILE (text for .hlo) or --force"
        )
    sys.stdout.buffer.write(data)


def marks(code: str, stream: TextIO | None = None) -> tuple[str, str]:
    """The codes of an ANSI style on and off for ``stream`` (stderr): nothing where unwanted."""
    return (f"\x1b[{code}m", "\x1b[0m") if _colored(stream or sys.stderr) else ("", "")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, indent: str = "") -> None:
    """Rows in columns; numbers to the right. Cut to the terminal's width on a terminal only."""
    texts = [[str(cell) for cell in row] for row in rows]
    right = [bool(texts) and all(_is_number(row[i]) for row in texts) for i in range(len(columns))]
    widths = [max([len(name), *(len(row[i]) for row in texts)]) for i, name in enumerate(columns)]
    bold, plain = marks("1", sys.stdout)
    limit = _width() - len(indent)
    out = [f"{indent}{bold}{_row(columns, widths, right)[:limit]}{plain}\n"]
    out += [f"{indent}{_cut(_row(row, widths, right), limit)}\n" for row in texts]
    sys.stdout.write("".join(out))


def _row(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    parts = [
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    ]
    return "  ".join(parts).rstrip()


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: max(limit - 1, 0)] + "…"


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "").isdigit() or text in ("", "-")


def _width() -> int:
    if not sys.stdout.isatty():
        return sys.maxsize
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or sys.maxsize
    except OSError:
        return sys.maxsize


def _colored(stream: TextIO) -> bool:
    color = settings().color
    if color != "auto":
        return color == "always"
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()
