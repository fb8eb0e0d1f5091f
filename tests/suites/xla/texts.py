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
    """Return True for a test that is only reported: the SHA-256 of its name starts with 0, 1 or 2."""
    return hashlib.sha256(name.encode()).hexdigest()[0] in "012"


def read_tests(path: Path) -> list[Test]:
    """The tests of a C++ file, in their order."""
    head, *parts = _TEST.split(path.read_text(errors="replace"))
    shared = strings_in(head)
    tests: list[Test] = []
    for section in parts:
        names = _HEAD.match(section)
        if names is None:
            continue
        end = re.search(r"(?m)^}$", section)
        body = section[: end.end()] if end else section
        tests.append(Test(names[1], names[2], body, {**shared, **strings_in(body)}))
        shared |= strings_in(section[len(body) :]) | _templates(section[len(body) :])
    return tests


def _templates(text: str) -> dict[str, str]:
    """Strings inside helper functions, as ``Function.variable``."""
    templates: dict[str, str] = {}
    for match in re.finditer(r"(?ms)^[\w:<>]+\s+(\w+)\([^;{]*\)\s*\{$(.*?)^}", text):
        templates |= {f"{match[1]}.{name}": value for name, value in strings_in(match[2]).items()}
    return templates


def strings_in(text: str) -> dict[str, str]:
    """Variables that hold a string literal, by name."""
    return {match[1]: _joined(match[2]) for match in _NAMED.finditer(text)}


def _joined(literals: str) -> str:
    return "".join(
        match[2] if match[2] is not None else _unescaped(match[3])
        for match in _STRING.finditer(literals)
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
    depth, position = 1, start
    while position < len(text) and depth:
        literal = _STRING.match(text, position)
        if literal:
            position = literal.end()
            continue
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        position += 1
    return text[start : position - 1]


def _split(arguments: str) -> list[str]:
    """Arguments at their top-level commas."""
    parts, depth, position, start = [], 0, 0, 0
    while position < len(arguments):
        literal = _STRING.match(arguments, position)
        if literal:
            position = literal.end()
            continue
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(arguments[position], 0)
        if arguments[position] == "," and depth == 0:
            parts.append(arguments[start:position])
            start = position + 1
        position += 1
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
    values = [_evaluated(argument, strings) for argument in arguments]
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
    for index, value in enumerate(values):
        text = text.replace(f"${index}", value)
        text = text.replace("%s", value, 1)
    return text
