"""``Any`` is for the edges to protobuf and NumPy; how often it is written can only shrink."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.imports import modules

MAX_ANYS = {"hlo_tools": 810, "nki_lang": 665, "neff": 290}
"""Lower the number of a package where there are fewer."""


@pytest.mark.parametrize("package", MAX_ANYS)
def test_any_is_not_written_more_often(package: str) -> None:
    count = sum(written(path.read_text()) for path in modules(package).values())
    assert count <= MAX_ANYS[package], f"{count} times Any in {package}; name the type instead"


def written(source: str) -> int:
    """How often a file's code names ``Any``; imports do not count."""
    return sum(
        isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(ast.parse(source))
    )


def test_what_counts() -> None:
    assert written("from typing import Any\nx: list[Any] = []\ndef f(a: Any) -> 'Any': ...") == 2
