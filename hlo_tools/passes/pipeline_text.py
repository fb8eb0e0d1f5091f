"""Pipelines as text: ``dce,cse,auto-cast{which=matmult type=bf16}``.

Passes are separated by commas. Arguments follow the name in braces, separated by blanks:
``key=value``, or ``key`` alone for ``key=true``. A value is a word, or a text in double quotes in
which a backslash takes the next character as it is. ``FILE.py:CLASS`` names a pass of a Python file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hlo_tools.extract.python_file import names_python
from hlo_tools.passes.arguments import arguments_of
from hlo_tools.passes.base import Pass
from hlo_tools.passes.registry import find_pass, pass_of_file
from hlo_tools.rewrite.errors import PassError

__all__ = ["parse_passes"]

_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
_PASS = _NAME | frozenset("/:+@~\\")
"""Letters of a pass: of its name, or of FILE.py:CLASS."""
_VALUE_ENDS = frozenset(" \t\r\n{}=\"'")
_END = ""


@dataclass(slots=True)
class _Reader:
    """A place in the text."""

    text: str
    position: int = 0

    @property
    def next(self) -> str:
        return self.text[self.position] if self.position < len(self.text) else _END

    def skip_blanks(self) -> None:
        while self.next and self.next.isspace():
            self.position += 1

    def word(self, allowed: Callable[[str], bool]) -> str:
        start = self.position
        while self.next and allowed(self.next):
            self.position += 1
        return self.text[start : self.position]

    def fail(
        self,
        message: str,
        position: int | None = None,
        code: str = "HLO-PIPELINE",
        remedy: str = "",
    ) -> PassError:
        index = self.position if position is None else position
        line = self.text.count("\n", 0, index) + 1
        start = self.text.rfind("\n", 0, index) + 1
        end = self.text.find("\n", index)
        shown = self.text[start : end if end >= 0 else None]
        column = index - start
        return PassError(
            f"{message}\n  {shown}\n  {' ' * column}^",
            code=code,
            place=f"pipeline:{line}:{column + 1}",
            remedy=remedy or "a pipeline reads: dce,cse,auto-cast{which=matmult type=bf16}",
        )


def parse_passes(text: str) -> tuple[Pass, ...]:
    """The passes of a pipeline's text, in order; none for a blank text.

    Raises:
        PassError: text that is not a pipeline (HLO-PIPELINE), no such pass (HLO-NO-PASS), no such
            argument or value (HLO-PASS-ARGUMENT), a class that is not a pass (HLO-PASS-BROKEN); the
            place is line and column of the text.
        HloError: a Python file cannot be imported (HLO-NO-FILE, HLO-IMPORT), or lacks the class
            (HLO-NO-NAME).
    """
    reader = _Reader(text)
    passes: list[Pass] = []
    reader.skip_blanks()
    while reader.next:
        passes.append(_read_pass(reader))
        reader.skip_blanks()
        if not reader.next:
            break
        if reader.next != ",":
            raise reader.fail(f"expected a comma before the next pass, not {reader.next!r}")
        comma = reader.position
        reader.position += 1
        reader.skip_blanks()
        if not reader.next:
            raise reader.fail("expected a pass after the comma", comma)
    return tuple(passes)


def _read_pass(reader: _Reader) -> Pass:
    start = reader.position
    name = reader.word(_PASS.__contains__)
    if not name:
        raise reader.fail(f"expected the name of a pass, not {reader.next!r}")
    try:
        kind = pass_of_file(name) if names_python(name) else find_pass(name)
    except PassError as error:
        raise reader.fail(error.message, start, error.code, error.remedy) from error
    reader.skip_blanks()
    arguments = _read_arguments(reader, kind) if reader.next == "{" else {}
    try:
        return kind(**arguments)
    except PassError as error:
        raise reader.fail(error.message, start, error.code, error.remedy) from error


def _read_arguments(reader: _Reader, kind: type[Pass]) -> dict[str, object]:
    opened = reader.position
    reader.position += 1
    arguments: dict[str, object] = {}
    while True:
        reader.skip_blanks()
        if reader.next == "}":
            reader.position += 1
            return arguments
        if not reader.next:
            raise reader.fail("this brace is never closed", opened)
        name, value = _read_argument(reader, kind, arguments)
        arguments[name] = value


def _read_argument(
    reader: _Reader, kind: type[Pass], arguments: dict[str, object]
) -> tuple[str, object]:
    start = reader.position
    name = reader.word(_NAME.__contains__)
    if not name:
        raise reader.fail(f"expected an argument or a closing brace, not {reader.next!r}")
    key = name.replace("-", "_")
    argument = arguments_of(kind).get(key)
    if argument is None or key in arguments:
        wrong = "is passed twice" if argument else "is not an argument of it"
        raise reader.fail(
            f"{kind.name}: {name} {wrong}", start, "HLO-PASS-ARGUMENT", _arguments_help(kind)
        )
    text = "true"
    if reader.next == "=":
        reader.position += 1
        start = reader.position
        text = _read_value(reader)
    try:
        return key, argument.parse(text)
    except ValueError as error:
        raise reader.fail(
            f"{kind.name}: {name}: {error}", start, "HLO-PASS-ARGUMENT", _arguments_help(kind)
        ) from None


def _read_value(reader: _Reader) -> str:
    if reader.next != '"':
        value = reader.word(lambda letter: letter not in _VALUE_ENDS)
        if not value:
            raise reader.fail("expected a value after the =")
        return value
    start = reader.position
    reader.position += 1
    letters: list[str] = []
    while reader.next != '"':
        if reader.next == "\\":
            reader.position += 1
        if not reader.next:
            raise reader.fail("this quoted text is never closed", start)
        letters.append(reader.next)
        reader.position += 1
    reader.position += 1
    return "".join(letters)


def _arguments_help(kind: type[Pass]) -> str:
    arguments = arguments_of(kind).values()
    if not arguments:
        return f"{kind.name} takes no arguments"
    return "it takes " + ", ".join(f"{argument.name}={argument.kind}" for argument in arguments)
