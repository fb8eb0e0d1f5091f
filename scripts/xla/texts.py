"""HLO texts inside C++ tests: each test with its strings, and the modules that it parses.

No C++ is run: strings that a test puts together by ``StrReplaceAll``, ``StrFormat`` with ``%s`` or
``StrCat`` of literals are put together here; others are reported as not read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Parsed", "Test", "is_held_out", "modules_in", "read_tests", "strings_in"]

_TEST = re.compile(r"(?m)^(?=(?:TEST_F|TEST_P|TEST)\()")
_HEAD = re.compile(r"(?:TEST_F|TEST_P|TEST)\(\s*(\w+),\s*(\w+)\)")
_LITERAL = r'(?:R"(\w*)\((.*?)\)\1"|"((?:[^"\\\n]|\\.)*)")'
_STRING = re.compile(_LITERAL, re.S)
_NAMED = re.compile(
    r"(\w+)(?:\[\])?\s*(?:=|\()\s*((?:" + _LITERAL.replace("\\1", "\\3") + r"\s*)+)[;)]", re.S
)
_PARSE = re.compile(
    r"(?:ParseAndReturn(Unverified|Verified)Module|ParseHloString|GetModuleFromHLO|GetHloModule)\("
)


@dataclass(frozen=True, slots=True)
class Test:
    """One test of a C++ file.

    Attributes:
        fixture, name: as in ``TEST_F(fixture, name)``.
        body: its C++ text.
        strings: variable -> text, of the file and of the test.
    """

    fixture: str
    name: str
    body: str
    strings: Mapping[str, str] = field(repr=False)

    @property
    def full_name(self) -> str:
        """``Fixture.Name``, as the test runner shows it."""
        return f"{self.fixture}.{self.name}"


@dataclass(frozen=True, slots=True)
class Parsed:
    """A module that a test parses.

    Attributes:
        text: its HLO text, or "" where it is put together in a way that is not followed.
        verified: the test expects it to be valid by the way in which it parses it.
        end: where in the test's body the call ends.
        arguments: the C++ text of the call's arguments.
    """

    text: str
    verified: bool
    end: int
    arguments: str


def is_held_out(name: str) -> bool:
    """Whether a test is for the report only: the SHA-256 of its name starts with 0, 1 or 2."""
    return hashlib.sha256(name.encode()).hexdigest()[0] in "012"


def read_tests(path: Path) -> list[Test]:
    """The tests of a C++ file, in their order."""
    head, *parts = _TEST.split(path.read_text(errors="replace"))
    shared = strings_in(head)
    found: list[Test] = []
    for part in parts:
        names = _HEAD.match(part)
        if names is None:
            continue
        end = re.search(r"(?m)^}$", part)
        body = part[: end.end()] if end else part
        found.append(Test(names[1], names[2], body, {**shared, **strings_in(body)}))
        shared |= strings_in(part[len(body) :]) | _templates(part[len(body) :])
    return found


def _templates(text: str) -> dict[str, str]:
    """Strings inside helper functions, as ``Function.variable``."""
    found: dict[str, str] = {}
    for one in re.finditer(r"(?ms)^[\w:<>]+\s+(\w+)\([^;{]*\)\s*\{$(.*?)^}", text):
        found |= {f"{one[1]}.{name}": value for name, value in strings_in(one[2]).items()}
    return found


def strings_in(text: str) -> dict[str, str]:
    """Variables that hold a string literal, by name."""
    return {one[1]: _joined(one[2]) for one in _NAMED.finditer(text)}


def _joined(literals: str) -> str:
    return "".join(
        one[2] if one[2] is not None else _unescaped(one[3]) for one in _STRING.finditer(literals)
    )


def _unescaped(text: str) -> str:
    return text.replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")


def modules_in(test: Test) -> Iterator[Parsed]:
    """The modules that a test parses, in its order."""
    for call in _PARSE.finditer(test.body):
        arguments = _arguments(test.body, call.end())
        first = _split(arguments)[0].strip() if arguments.strip() else ""
        text = _evaluated(first, test.strings)
        yield Parsed(text, call[1] == "Verified", call.end() + len(arguments), arguments)


def _arguments(text: str, start: int) -> str:
    """The text between a call's parentheses."""
    depth, at = 1, start
    while at < len(text) and depth:
        literal = _STRING.match(text, at)
        if literal:
            at = literal.end()
            continue
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return text[start : at - 1]


def _split(arguments: str) -> list[str]:
    """Arguments at their top-level commas."""
    parts, depth, at, start = [], 0, 0, 0
    while at < len(arguments):
        literal = _STRING.match(arguments, at)
        if literal:
            at = literal.end()
            continue
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(arguments[at], 0)
        if arguments[at] == "," and depth == 0:
            parts.append(arguments[start:at])
            start = at + 1
        at += 1
    return [*parts, arguments[start:]]


def _evaluated(expression: str, strings: Mapping[str, str]) -> str:
    """The string of an expression, or ""."""
    expression = expression.strip()
    if expression in strings:
        return strings[expression]
    if re.fullmatch(rf"(?:{_LITERAL}\s*)+", expression, re.S):
        return _joined(expression)
    call = re.match(r"(?:absl::)?(StrReplaceAll|StrFormat|StrCat|Substitute)\(", expression)
    if call is None or not expression.endswith(")"):
        return ""
    arguments = _split(expression[call.end() : -1])
    if call[1] == "StrReplaceAll" and len(arguments) == 2:
        return _replaced(_evaluated(arguments[0], strings), arguments[1], strings)
    values = [_evaluated(one, strings) for one in arguments]
    if not all(values):
        return ""
    if call[1] == "StrCat":
        return "".join(values)
    return _filled(values[0], values[1:])


def _replaced(text: str, pairs: str, strings: Mapping[str, str]) -> str:
    for pair in _split(pairs.strip()[1:-1]):
        sides = _split(pair.strip()[1:-1])
        if len(sides) != 2:
            return ""
        old, new = (_evaluated(side, strings) for side in sides)
        text = text.replace(old, new) if old else ""
    return text


def _filled(text: str, values: list[str]) -> str:
    for at, value in enumerate(values):
        text = text.replace(f"${at}", value)
        text = text.replace("%s", value, 1)
    return text
