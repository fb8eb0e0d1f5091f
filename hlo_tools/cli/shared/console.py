"""Output of commands: data on stdout, messages on stderr, color only for terminals that show it."""

from __future__ import annotations

import json
import os
import sys
from codecs import register_error
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from hlo_tools._messages import counted
from hlo_tools.cli.shared.text_table import MIN_TEXT_WIDTH, fit_columns, shortened

__all__ = [
    "COLORS",
    "SCHEMA",
    "Settings",
    "configure",
    "counted",
    "fields",
    "installed_version",
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
    wide: bool = False


def installed_version() -> str:
    """The version of nki-hlo, or ``(checkout)`` where it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("nki-hlo")
    except PackageNotFoundError:
        return "(checkout)"


_settings: ContextVar[Settings] = ContextVar("nki_hlo_settings")


def settings() -> Settings:
    """The options of this run."""
    return _settings.get(Settings())


def configure(**changes: object) -> None:
    """Change options of this run; ``debug`` stays on once it is."""
    current = settings() if "color" in changes else Settings()
    changes["debug"] = bool(changes.get("debug")) or ("color" in changes and current.debug)
    _settings.set(replace(current, **changes))


def open_streams() -> None:
    """Python has None for a stream that was closed before it began: nothing, instead."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors=_NEAREST)


_NEAREST = "nki-hlo-nearest"
_NEAREST_ASCII = {
    "…": "...", "µ": "u", "×": "x", "–": "-", "−": "-", "—": "-", "→": "->", "±": "+-", "≤": "<=",
    "≥": ">=", "²": "^2", "³": "^3", "·": "*", "≈": "~", "“": '"', "”": '"', "’": "'",
}  # fmt: skip


def _nearest(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that a stream's encoding lacks by similar ones."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    characters = error.object[error.start : error.end]
    return "".join(_NEAREST_ASCII.get(character, "?") for character in characters), error.end


register_error(_NEAREST, _nearest)


def line(text: str = "") -> None:
    """One line of data."""
    sys.stdout.write(text + "\n")


def note(text: str, *, verbose: bool = False) -> None:
    """One line for the user at the terminal; left out when quiet, or not verbose enough."""
    chosen = settings()
    if chosen.quiet or (verbose and not chosen.verbose):
        return
    sys.stderr.write(text + "\n")


def write_json(command: str, **content: object) -> None:
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


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    indent: str = "",
    is_complete: bool = False,
) -> None:
    """Rows in columns; numbers to the right.

    On a terminal that is too narrow, long texts lose their middle and columns at the end are left
    out, with a note. Pipes, ``--wide`` and ``is_complete`` get everything.
    """
    texts = [[str(cell) for cell in row] for row in rows]
    right = [bool(texts) and all(_is_number(row[i]) for row in texts) for i in range(len(columns))]
    widths = [max([len(name), *(len(row[i]) for row in texts)]) for i, name in enumerate(columns)]
    limit = sys.maxsize if is_complete else _width() - len(indent)
    layout = fit_columns(widths, [not numeric for numeric in right], limit)
    bold, plain = marks("1", sys.stdout)
    out: list[str] = []
    for number, row in enumerate([list(columns), *texts]):
        cells = [
            _cell(shortened(row[i], width), width, right[i])
            for i, width in enumerate(layout.widths)
        ]
        text = "  ".join(cells).rstrip()
        out.append(f"{indent}{text if number else bold + text + plain}\n")
    sys.stdout.write("".join(out))
    if layout.hidden:
        names = ", ".join(name or "(no title)" for name in columns[-layout.hidden :])
        note(f"{indent}not shown: {names}; use --wide or a wider terminal")


def fields(
    rows: Iterable[tuple[str, object]], name_width: int, *, is_complete: bool = False
) -> None:
    """Lines of a name and a value; on a terminal that is too narrow, values lose their middle."""
    limit = sys.maxsize if is_complete else _width()
    for name, value in rows:
        start = f"{name:<{name_width}} "
        line(start + shortened(str(value), max(limit - len(start), MIN_TEXT_WIDTH)))


def _cell(text: str, width: int, to_right: bool) -> str:
    return text.rjust(width) if to_right else text.ljust(width)


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "").isdigit() or text in ("", "-")


def _width() -> int:
    if settings().wide or not sys.stdout.isatty():
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
