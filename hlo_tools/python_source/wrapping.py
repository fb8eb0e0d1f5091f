"""Long expressions over several lines."""

from __future__ import annotations

__all__ = ["MAX_COLUMNS", "wrapped"]

MAX_COLUMNS = 99
"""The width of generated lines; a longer one without parentheses stays."""

OPENING_BRACKETS, CLOSING_BRACKETS = "([{", ")]}"
_MAX_DEPTH = 8
"""Nested parentheses that are opened over lines."""


def wrapped(line: str, depth: int = 0) -> list[str]:
    """A line of source, with the arguments of its last parentheses on lines of their own if needed."""
    tail = "," if line.endswith("),") else ""
    body = line[: len(line) - len(tail)]
    start = _matching_start(body) if body.endswith(")") else -1
    arguments = _divided(body[start + 1 : -1]) if start >= 0 else []
    if len(line) <= MAX_COLUMNS or depth == _MAX_DEPTH or not arguments:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    lines = [body[: start + 1]]
    for argument in arguments:
        lines += wrapped(f"{indent}{argument},", depth + 1)
    return [*lines, f"{indent[4:]}){tail}"]


def _divided(text: str) -> list[str]:
    """The arguments between commas; a comma in parentheses or a string divides nothing."""
    depth, start, quote = 0, 0, ""
    arguments: list[str] = []
    for position, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter == "," and not depth:
            arguments.append(text[start:position].strip())
            start = position + 1
        else:
            depth += (letter in OPENING_BRACKETS) - (letter in CLOSING_BRACKETS)
    last_argument = text[start:].strip()
    return [*arguments, last_argument] if last_argument else arguments


def _matching_start(text: str) -> int:
    """The position of the parenthesis that the last letter closes; -1 if there is none."""
    stack: list[int] = []
    quote = ""
    start = -1
    for position, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in OPENING_BRACKETS:
            stack.append(position)
        elif letter in CLOSING_BRACKETS and stack:
            start = stack.pop()
    return start
