"""The functions of a target's support file that a generated file needs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import lru_cache
from importlib import resources

__all__ = ["called_functions", "needed_functions", "support_functions"]

_WORD = re.compile(r"[A-Za-z_]\w*")


@lru_cache
def support_functions(files: tuple[str, ...]) -> dict[str, str]:
    """The functions of support files: name -> source, in the order of the files."""
    functions: dict[str, str] = {}
    for file in files:
        text = resources.files("hlo_tools.python_source").joinpath(file).read_text(encoding="utf-8")
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                functions[node.name] = ast.get_source_segment(text, node) or ""
    return functions


def needed_functions(files: tuple[str, ...], lines: Iterable[str]) -> list[str]:
    """The sources of the functions that ``lines`` call, and of those that these call."""
    functions = support_functions(files)
    needed: set[str] = set()
    todo = list(lines)
    while todo:
        words = set(_WORD.findall(todo.pop())) & functions.keys() - needed
        needed |= words
        todo += [functions[word] for word in words]
    return [source for name, source in functions.items() if name in needed]


def called_functions(functions: dict[str, list[str]], entry: str) -> list[list[str]]:
    """The functions that the entry needs, in order: a reducer may have become ``lax.add``."""
    needed: set[str] = set()
    todo = [entry]
    while todo:
        name = todo.pop()
        if name in needed:
            continue
        needed.add(name)
        words = {word for line in functions[name] for word in _WORD.findall(line)}
        todo += words & functions.keys()
    return [lines for name, lines in functions.items() if name in needed]
