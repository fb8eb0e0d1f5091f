"""Which file of a package imports which, and the circles among them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

__all__ = ["ROOT", "circles", "edges", "modules", "top_module"]

ROOT = Path(__file__).resolve().parents[2]
Edge = tuple[str, str]
STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)
"""Nodes that may contain an import; expressions contain none."""


def modules(package: str) -> dict[str, Path]:
    """Dotted name -> file, ``__init__`` files under the name of their folder."""
    paths = {}
    for path in sorted(ROOT.joinpath(*package.split(".")).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return paths


def top_module(module: str, package: str) -> str:
    """``hlo_tools.text.parser`` in ``hlo_tools`` -> ``text``."""
    return module.removeprefix(f"{package}.").split(".")[0]


@cache
def edges(package: str, *, typing: bool) -> list[Edge]:
    """(importer, imported) among the files of a package, imports inside functions included.

    ``__init__`` files hand on names and are no importers; a name that one of them hands on counts
    as an import of the folder, and of the file that has the name where it is a file.

    Args:
        package: dotted name, ``neff`` or ``neff.compiler``.
        typing: whether imports under ``if TYPE_CHECKING:`` count.
    """
    paths = modules(package)
    pairs = {
        (name, imported)
        for name, path in paths.items()
        if path.name != "__init__.py"
        for imported in _imported(ast.parse(path.read_text()), paths, typing)
        if imported not in (name, package)
    }
    return sorted(pairs)


def _imported(tree: ast.AST, paths: dict[str, Path], typing: bool) -> Iterator[str]:
    for node in _statements(tree, typing):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in paths)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if name in paths:
                    yield name
                elif node.module in paths:
                    yield node.module


def _statements(tree: ast.AST, typing: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, STATEMENTS):
            continue
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING" and not typing:
            for statement in child.orelse:
                yield from _statements(statement, typing)
            continue
        yield child
        yield from _statements(child, typing)


def circles(arrows: Iterable[Edge]) -> list[tuple[str, ...]]:
    """The strongly connected components of more than one node, each sorted (Tarjan, 1972)."""
    after: dict[str, list[str]] = {}
    for importer, imported in arrows:
        after.setdefault(importer, []).append(imported)
        after.setdefault(imported, [])
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    open_: list[str] = []
    cycles: list[tuple[str, ...]] = []

    def visit(node: str) -> None:
        number[node] = low[node] = len(number)
        open_.append(node)
        for successor in after[node]:
            if successor not in number:
                visit(successor)
                low[node] = min(low[node], low[successor])
            elif successor in open_:
                low[node] = min(low[node], number[successor])
        if low[node] == number[node]:
            start = open_.index(node)
            if len(open_) - start > 1:
                cycles.append(tuple(sorted(open_[start:])))
            del open_[start:]

    for node in after:
        if node not in number:
            visit(node)
    return sorted(cycles)
