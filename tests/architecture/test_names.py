"""Names and texts say what they are about; the counts of those that do not can only shrink."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from tests.architecture.imports import ROOT

MEANINGLESS_NAME = re.compile(
    r"(apart|at|both|each|few|found|given|held|kept|known|made|many|mine|one|other|others|own|part"
    r"|rest|seen|some|spent|taken|theirs|them|these|three|two|wanted|whole)$"
)
ADJECTIVE_CONSTANT = re.compile(
    r"_?(MOST|LEAST|FEW|FEWEST|SMALL|SMALLEST|LARGE|LARGEST|LONGEST|SHORT|PLAIN|USUAL|CLEARLY|MOSTLY"
    r"|FIRST|SECOND|CLOSED|NARROW|LATE|OWN|BOTH|KEPT|KNOWN|HERE|AT_ONCE|WORDS|ROWS)$"
)
ELLIPTIC_START = re.compile(r"(Of|What|Those of|Whether)\b")

MAX_MEANINGLESS_NAMES = {
    "nki_lang": 2,
    "hlo_tools": 7,
    "neff": 1,
    "scripts": 1190,
    "tests": 1750,
}
MAX_ADJECTIVE_CONSTANTS = {"nki_lang": 0, "hlo_tools": 0, "neff": 0, "scripts": 11, "tests": 40}
MAX_ELLIPTIC_TEXTS = {"nki_lang": 0, "hlo_tools": 0, "neff": 0, "scripts": 127, "tests": 77}
"""The recorded counts of each package: lower a number when its package has fewer."""


@cache
def trees(package: str) -> tuple[ast.Module, ...]:
    """The syntax trees of all files of a package."""
    return tuple(ast.parse(path.read_text()) for path in sorted((ROOT / package).rglob("*.py")))


def bindings(tree: ast.Module) -> Iterator[str]:
    """The names of assigned variables and of parameters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def texts(tree: ast.Module) -> Iterator[str]:
    """Docstrings, and the first texts of raised errors."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            text = first_text(node.value)
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            text = first_text(node.exc.args[0])
        else:
            continue
        if text:
            yield text


def first_text(node: ast.expr) -> str:
    """The text with which a string or an f-string starts, else ""."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def meaningless_names(tree: ast.Module) -> int:
    """How many bindings have a name that does not say what is bound."""
    return sum(MEANINGLESS_NAME.match(name) is not None for name in bindings(tree))


def adjective_constants(tree: ast.Module) -> int:
    """How many constants are named with an adjective, without a noun."""
    return sum(ADJECTIVE_CONSTANT.match(name) is not None for name in bindings(tree))


def elliptic_texts(tree: ast.Module) -> int:
    """How many docstrings and messages start as an incomplete statement."""
    return sum(ELLIPTIC_START.match(text) is not None for text in texts(tree))


RECORDS = {
    meaningless_names: MAX_MEANINGLESS_NAMES,
    adjective_constants: MAX_ADJECTIVE_CONSTANTS,
    elliptic_texts: MAX_ELLIPTIC_TEXTS,
}


@pytest.mark.parametrize("package", MAX_MEANINGLESS_NAMES)
@pytest.mark.parametrize("count", RECORDS, ids=lambda count: count.__name__)
def test_count_does_not_grow(count: Callable[[ast.Module], int], package: str) -> None:
    number = sum(map(count, trees(package)))
    assert number <= RECORDS[count][package], (
        f"{package} has {number} {count.__name__}; name the value, or write a complete statement"
    )


def test_counted_names_and_texts() -> None:
    tree = ast.parse('''
"""What a module has."""
_MOST = _PLAIN = MAX_NODES = 3
def f(part, operand):
    """Return the operand."""
    found = [at for at in operand]
    raise ValueError(f"Whether {part} counts")
''')
    counts = meaningless_names(tree), adjective_constants(tree), elliptic_texts(tree)
    assert counts == (3, 2, 2)
