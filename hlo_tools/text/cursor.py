"""A place in a text, and the small readers that move it forward.

Reading is scannerless: every reader is one compiled pattern at the current position, which in
Python is several times faster than making token objects. White space and comments (``//``, and
``/* */`` as XLA writes into long tuples) are skipped before each reader.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from re import Match, Pattern
from typing import TypeVar

from hlo_tools.errors import HloTextError

__all__ = ["MAX_DEPTH", "Cursor", "with_comments"]

Item = TypeVar("Item")

MAX_DEPTH = 200
"""Deeper nesting of shapes, literals and instructions is refused, to bound recursion."""

_SPACE = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_COMMENT = re.compile(
    r"""(//[^\n]*|/\*.*?\*/)|/\*.*|"(?:[^"\\]|\\.)*+(?:"|\Z)|'(?:[^'\\]|\\.)*+(?:'|\Z)""",
    re.DOTALL,
)
"""Comments (the group) and strings. No group within what is possessive: Python 3.11.2 gets it wrong."""
_INTEGER = re.compile(r"[-+]?\d+")
_NAME = re.compile(r"%?([A-Za-z_][\w.\-]*)")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"' + r"|'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ATTRIBUTE = re.compile(r"([A-Za-z_][\w.\-]*)=")
_ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_SHOWN_LINE = 160


class Cursor:
    """A position in a text."""

    __slots__ = ("depth", "name", "pos", "text")

    def __init__(self, text: str, name: str = "<text>") -> None:
        self.text = text
        self.name = name
        self.pos = 0
        self.depth = 0

    # -- where --------------------------------------------------------------------------------

    def line_and_column(self, pos: int) -> tuple[int, int]:
        """1-based line and column of a position."""
        line = self.text.count("\n", 0, pos) + 1
        return line, pos - (self.text.rfind("\n", 0, pos) + 1) + 1

    def error(
        self, message: str, *, pos: int | None = None, code: str = "HLO-TEXT", hint: str = ""
    ) -> HloTextError:
        """An error at a position: the place, the message, the line, a caret below it.

        Args:
            hint: what stands before the remedy, as ``did you mean add? ``.
        """
        pos = self.pos if pos is None else pos
        line, column = self.line_and_column(pos)
        start = self.text.rfind("\n", 0, pos) + 1
        end = self.text.find("\n", pos)
        shown = self.text[start : end if end >= 0 else len(self.text)].replace("\t", " ")
        caret = column - 1
        if len(shown) > _SHOWN_LINE:
            cut = max(0, caret - _SHOWN_LINE // 2)
            shown, caret = shown[cut : cut + _SHOWN_LINE], caret - cut
        text = f"{message}\n    {shown}\n    {' ' * caret}^"
        location = f"{self.name}:{line}:{column}"
        return HloTextError(text, code=code, place=location, remedy=hint + self._remedy())

    def _remedy(self) -> str:
        if "HloModule" in self.text or "ENTRY" in self.text:
            return "correct the text, or write the module again: nki-hlo convert --to text"
        return (
            "HLO text begins with 'HloModule'; the modules of a script come from: "
            "nki-hlo extract SCRIPT"
        )

    def next_token(self) -> str:
        """Return the token at the position, for messages."""
        self.skip()
        match = re.match(r"[\w.%\-]+|\S", self.text[self.pos : self.pos + 40])
        return f"'{match.group()}'" if match else "the end of the text"

    # -- readers ------------------------------------------------------------------------------

    def skip(self) -> None:
        """Move over white space and comments."""
        self.pos = _SPACE.match(self.text, self.pos).end()  # type: ignore[union-attr]

    def at_end(self) -> bool:
        """True when only white space and comments are left."""
        self.skip()
        return self.pos >= len(self.text)

    def peek(self, literal: str) -> bool:
        """True when ``literal`` comes next."""
        self.skip()
        return self.text.startswith(literal, self.pos)

    def accept(self, literal: str) -> bool:
        """Move over ``literal`` if it comes next."""
        if not self.peek(literal):
            return False
        self.pos += len(literal)
        return True

    def expect(self, literal: str, what: str) -> None:
        """Move over ``literal``, which must come next."""
        if not self.accept(literal):
            raise self.error(f"expected '{literal}' {what}, found {self.next_token()}")

    def match(self, pattern: Pattern[str]) -> Match[str] | None:
        """Move over ``pattern`` if it comes next."""
        self.skip()
        match = pattern.match(self.text, self.pos)
        if match is not None:
            self.pos = match.end()
        return match

    def word(self, keyword: str) -> bool:
        """Move over a whole keyword if it comes next."""
        self.skip()
        end = self.pos + len(keyword)
        if not self.text.startswith(keyword, self.pos):
            return False
        if end < len(self.text) and (self.text[end].isalnum() or self.text[end] in "_.-="):
            return False
        self.pos = end
        return True

    def integer(self, what: str = "an integer") -> int:
        """An integer of 64 bits."""
        match = self.match(_INTEGER)
        if match is None:
            raise self.error(f"expected {what}, found {self.next_token()}")
        value = int(match.group()) if len(match.group()) < 24 else 1 << 70
        if not -(1 << 63) <= value < 1 << 64:
            raise self.error("the integer does not fit 64 bits", pos=match.start())
        return value

    def identifier(self, what: str = "a name") -> str:
        """A name, with or without ``%``."""
        match = self.match(_NAME)
        if match is None:
            raise self.error(f"expected {what}, found {self.next_token()}")
        return match.group(1)

    def attribute_name(self) -> str:
        """``name=``."""
        match = self.match(_ATTRIBUTE)
        if match is None:
            raise self.error(f"expected an attribute (name=...), found {self.next_token()}")
        return match.group(1)

    def string(self, what: str = "a quoted string") -> bytes:
        """A quoted string, C escapes resolved, as bytes."""
        match = self.match(_STRING)
        if match is None:
            raise self.error(f"expected {what}, found {self.next_token()}")
        return unescape(match.group(1) if match.group(1) is not None else match.group(2))

    def text_string(self, what: str = "a quoted string") -> str:
        """A quoted string that must be UTF-8."""
        start = self.pos
        try:
            return self.string(what).decode()
        except UnicodeDecodeError:
            raise self.error("the string is not UTF-8", pos=start) from None

    def boolean(self) -> bool:
        """``true`` or ``false``."""
        if self.word("true"):
            return True
        if self.word("false"):
            return False
        raise self.error(f"expected true or false, found {self.next_token()}")

    def items(
        self, start: str, end: str, read: Callable[[], Item], what: str = "a list"
    ) -> list[Item]:
        """``start item, item, ... end``."""
        self.expect(start, f"to start {what}")
        items: list[Item] = []
        if self.accept(end):
            return items
        while True:
            items.append(read())
            if not self.accept(","):
                break
        self.expect(end, f"to end {what}")
        return items

    def integers(self, start: str = "{", end: str = "}") -> list[int]:
        """A list of integers."""
        return self.items(start, end, self.integer, "a list of integers")

    def deeper(self) -> None:
        """Count a nesting level; too deep is an error and not a crash."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"nested deeper than {MAX_DEPTH} levels", code="HLO-TEXT-DEPTH")

    def json_dict(self) -> bytes:
        """A JSON dictionary in balanced braces, as it stands."""
        self.skip()
        start = self.pos
        depth, inside, pos, text = 0, False, self.pos, self.text
        while pos < len(text):
            char = text[pos]
            if inside:
                if char == "\\":
                    pos += 1
                elif char == '"':
                    inside = False
            elif char == '"':
                inside = True
            elif char == "{":
                depth += 1
            elif char == "}":
                depth -= 1
                if depth == 0:
                    self.pos = pos + 1
                    return text[start : self.pos].encode()
            pos += 1
        raise self.error("this '{' is never closed", pos=start)


def with_comments(text: str, read: Callable[[str], Item]) -> Item:
    """Apply ``read`` to a text that may hold comments anywhere.

    The readers know those that XLA writes; for others they get a text with blanks instead, in
    which every place is the same.
    """
    try:
        return read(text)
    except HloTextError:
        bare = _COMMENT.sub(lambda comment: _blank(comment[1]) if comment[1] else comment[0], text)
        if bare == text:
            raise
    return read(bare)


def _blank(comment: str) -> str:
    return "\n".join(" " * len(line) for line in comment.split("\n"))


def unescape(text: str) -> bytes:
    """Bytes of a string with C escapes (octal escapes are bytes, the rest is UTF-8)."""
    if "\\" not in text:
        return text.encode("utf-8", "surrogateescape")
    parts: list[bytes] = []
    last = 0
    for match in _ESCAPE.finditer(text):
        parts.append(text[last : match.start()].encode("utf-8", "surrogateescape"))
        body = match.group(1)
        if body[0] in "01234567":
            parts.append(bytes([int(body, 8) & 255]))
        elif body[0] == "x" and len(body) > 1:
            parts.append(bytes([int(body[1:], 16)]))
        else:
            parts.append(_ESCAPES.get(body, body).encode())
        last = match.end()
    parts.append(text[last:].encode("utf-8", "surrogateescape"))
    return b"".join(parts)
