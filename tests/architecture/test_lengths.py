"""Files and functions stay short enough to be read in one piece."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from hlo_tools._gc import no_collection
from tests.architecture.imports import ROOT

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 60
"""Lines without the docstring: signatures count, as a reader has to know them."""

LONGER_FILES: dict[str, int] = {}
"""Files above the limit, which may only become shorter."""

FOLDERS = ("nki_lang", "hlo_tools", "neff", "compat", "scripts", "tests")


def sources(folder: str) -> Iterator[Path]:
    """Yield the Python files of a folder; scripts without an ending start with ``#!``."""
    for path in sorted((ROOT / folder).rglob("*")):
        if path.suffix == ".py":
            yield path
        elif folder == "scripts" and not path.suffix and path.is_file():
            with path.open("rb") as stream:
                if b"python" in stream.readline():
                    yield path


def long_functions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield name and length of each function above the limit."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = node.end_lineno - node.lineno + 1
            if ast.get_docstring(node, clean=False) is not None:
                lines -= node.body[0].end_lineno - node.body[0].lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield node.name, lines


@pytest.mark.parametrize("folder", FOLDERS)
def test_files_and_functions_are_short(folder: str) -> None:
    longer = []
    with no_collection():
        for path in sources(folder):
            name = str(path.relative_to(ROOT))
            text = path.read_text()
            lines = text.count("\n")
            if lines > LONGER_FILES.get(name, MAX_FILE_LINES):
                longer.append(f"{name} has {lines} lines")
            functions = long_functions(ast.parse(text))
            longer += [f"{name}: {function} has {length} lines" for function, length in functions]
    assert longer == [], "split these by task"


def test_files_that_became_short_are_not_listed() -> None:
    listed = {name: (ROOT / name).read_text().count("\n") for name in LONGER_FILES}
    assert all(lines > MAX_FILE_LINES for lines in listed.values()), "remove it from LONGER_FILES"


def test_docstrings_do_not_count() -> None:
    body = "\n".join("    x = 1" for _ in range(MAX_FUNCTION_LINES - 1))
    docstring = '    """First.\n\n    Second.\n    """'
    assert list(long_functions(ast.parse(f"def f():\n{docstring}\n{body}"))) == []
    assert list(long_functions(ast.parse(f"def f():\n{body}\n    return x"))) == [("f", 61)]
