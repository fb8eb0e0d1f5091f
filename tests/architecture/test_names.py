"""Names and texts say what they are about; the counts of those that do not can only shrink."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import pytest

from hlo_tools._gc import no_collection
from tests.architecture.imports import ROOT

MEANINGLESS_NAME = re.compile(
    r"(apart|at|both|each|few|found|given|held|kept|known|made|many|mine|one|other|others|own|part"
    r"|rest|seen|some|spent|taken|theirs|them|these|three|two|wanted|whole)$"
)
ADJECTIVE_CONSTANT = re.compile(
    r"_?(MOST|LEAST|FEW|FEWEST|SMALL|SMALLEST|LARGE|LARGEST|LONGEST|SHORT|PLAIN|USUAL|CLEARLY|MOSTLY"
    r"|FIRST|SECOND|CLOSED|NARROW|LATE|OWN|BOTH|KEPT|KNOWN|HERE|AT_ONCE|WORDS|ROWS)$"
)
COUNTER_WORD = re.compile(
    r"_?(got|kept|mended|mends?|most|places?|told|turns?|want|ways?)$", re.IGNORECASE
)
"""Everyday words where the field says actual, expected, location, position, iteration, or mode."""

ELLIPTIC_START = re.compile(r"(Of|What|Those of|Whether)\b")

MAX_MEANINGLESS_NAMES = {
    "nki_lang": 2,
    "hlo_tools": 8,
    "neff": 1,
    "scripts": 0,
    "tests": 0,
}
MAX_ADJECTIVE_CONSTANTS = {"nki_lang": 0, "hlo_tools": 0, "neff": 0, "scripts": 0, "tests": 0}
MAX_COUNTER_WORDS = {"nki_lang": 8, "hlo_tools": 45, "neff": 58, "scripts": 2, "tests": 88}
MAX_ELLIPTIC_TEXTS = {"nki_lang": 0, "hlo_tools": 0, "neff": 0, "scripts": 0, "tests": 0}
"""The recorded counts of each package: lower a number when its package has fewer."""


class Wording(NamedTuple):
    """The words of a package: names of variables and parameters; docstrings and messages."""

    bindings: list[str]
    texts: list[str]


@cache
def wording(package: str) -> Wording:
    """Return the words of all files of a package.

    The syntax trees are not kept: the garbage collector would visit millions of nodes.
    """
    words = Wording([], [])
    with no_collection():
        for path in sorted((ROOT / package).rglob("*.py")):
            collect(ast.parse(path.read_text()), words)
    return words


def collect(tree: ast.Module, words: Wording) -> None:
    """Add assigned variables, parameters, docstrings, and the first texts of raised errors."""
    for node in ast.walk(tree):
        text = ""
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                words.bindings.append(node.id)
        elif isinstance(node, ast.arg):
            words.bindings.append(node.arg)
        elif isinstance(node, ast.Expr):
            text = first_text(node.value)
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            text = first_text(node.exc.args[0])
        if text:
            words.texts.append(text)


def first_text(node: ast.expr) -> str:
    """The text with which a string or an f-string starts, else ""."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def meaningless_names(words: Wording) -> int:
    """Return how many bindings have a name that does not say what is bound."""
    return sum(MEANINGLESS_NAME.match(name) is not None for name in words.bindings)


def adjective_constants(words: Wording) -> int:
    """Return how many constants are named with an adjective, without a noun."""
    return sum(ADJECTIVE_CONSTANT.match(name) is not None for name in words.bindings)


def counter_words(words: Wording) -> int:
    """Return how many bindings have an everyday word where the field has a noun."""
    return sum(COUNTER_WORD.match(name) is not None for name in words.bindings)


def elliptic_texts(words: Wording) -> int:
    """Return how many docstrings and messages start as an incomplete statement."""
    return sum(ELLIPTIC_START.match(text) is not None for text in words.texts)


RECORDS = {
    meaningless_names: MAX_MEANINGLESS_NAMES,
    adjective_constants: MAX_ADJECTIVE_CONSTANTS,
    counter_words: MAX_COUNTER_WORDS,
    elliptic_texts: MAX_ELLIPTIC_TEXTS,
}


@pytest.mark.parametrize("package", MAX_MEANINGLESS_NAMES)
@pytest.mark.parametrize("count", RECORDS, ids=lambda count: count.__name__)
def test_count_does_not_grow(count: Callable[[Wording], int], package: str) -> None:
    number = count(wording(package))
    assert number <= RECORDS[count][package], (
        f"{package} has {number} {count.__name__}; name the value, or write a complete statement"
    )


def test_counted_names_and_texts() -> None:
    words = Wording([], [])
    tree = ast.parse('''
"""What a module has."""
_MOST = _PLAIN = MAX_NODES = 3
def f(part, operand, place):
    """Return the operand."""
    found = [at for at in operand]
    ways = rows_of_most = found
    raise ValueError(f"Whether {part} counts")
''')
    collect(tree, words)
    assert [count(words) for count in RECORDS] == [3, 2, 3, 2]
